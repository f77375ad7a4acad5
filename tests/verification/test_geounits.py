"""Rules on geounits, and on what solvers say of families: what fails is named, and nothing ends verification."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from family_streams import failing

from das_spark.config import EstimationSettings
from das_spark.geography import Geolevel, Spine
from das_spark.store.tables import DIAGNOSTICS
from das_spark.verification import DiagnosticColumns, GeounitColumns
from das_spark.verification.bounds import sums_above

SPINE = Spine((Geolevel("County", 1), Geolevel("Tract", 2)))
Row = dict[str, Any]


def geounits() -> list[Row]:
    county = {"level": "County", "geocode": "1", "parent": "", "children": 2}
    return [county, *({"level": "Tract", "geocode": code, "parent": "1", "children": 0} for code in ("11", "12"))]


@pytest.mark.parametrize(
    ("place", "changed", "level", "told"),
    [
        (0, {"children": 3}, "County", "1 children"),
        (0, {"geocode": "1x"}, "County", "1x geocode"),
        (0, {"parent": "0"}, "County", "1 parent"),
        (1, {"parent": "2"}, "Tract", "11 parent"),
        (1, {"children": 1}, "Tract", "11 children"),
        (1, {"children": None}, "Tract", "11 children"),
        (1, {"geocode": "13"}, "Tract", None),
    ],
)
def test_another_value_of_a_geounit_is_named(place, changed, level, told):
    rows = geounits()
    rows[place] |= changed
    names = failing(GeounitColumns(SPINE), {"geounits": rows}, SPINE).get(level, [])
    assert names == [] if told is None else told in names


def test_a_geounit_above_the_leaves_in_which_nothing_lies_is_none():
    """Whatever all other tables say of it: nobody was counted there, and its parent knows it as a child."""
    spine = Spine((*SPINE.levels, Geolevel("Block", 3)))
    rows = [
        {"level": "County", "geocode": "1", "parent": "", "children": 2},
        {"level": "Tract", "geocode": "11", "parent": "1", "children": 1},
        {"level": "Tract", "geocode": "12", "parent": "1", "children": 0},
        {"level": "Block", "geocode": "111", "parent": "11", "children": 0},
    ]
    assert failing(GeounitColumns(spine), {"geounits": rows}, spine) == {"Tract": ["12 children"]}


def diagnostics(level: str, family: str, children: int) -> Row:
    numbers = dict.fromkeys(("variables", "passes", "iterations", "attempts"), 1)
    gaps = dict.fromkeys(("primal_residual", "gap", "rounding_gap"), 0.0)
    texts = {"status": "optimal", "solver": "osqp", "rounding": "largest remainder", "message": ""}
    place = {"level": level, "geolevel": level, "family": family, "children": children}
    return {**place, **numbers, **gaps, **texts, "relaxed": False, "problem": None}


@pytest.mark.parametrize("value", [-1, 2**53 + 1, 2**62])
@pytest.mark.parametrize("column", ["variables", "iterations", "attempts", "passes"])
def test_numbers_of_any_size_are_judged(column, value):
    rows = [diagnostics("County", "1", 1), diagnostics("Tract", "1", 2)]
    rule = DiagnosticColumns(SPINE.names, EstimationSettings(solvers=("osqp",)), {}, None)
    assert set(rows[0]) - {"level"} == set(DIAGNOSTICS.schema.names)
    assert failing(rule, {"geounits": geounits(), "diagnostics": rows}, SPINE) == {}
    rows[1][column] = value
    told = failing(rule, {"geounits": geounits(), "diagnostics": rows}, SPINE)
    assert told == ({"Tract": [f"1 {column}"]} if value < 0 else {})


def test_rows_without_a_geocode_are_not_summed():
    codes, values = pa.array(["11", None, "12"]), pa.array([[1, 2]] * 3, pa.list_(pa.int64()))
    sums = {
        (level, code): each
        for level, above, lists in sums_above(codes, values, SPINE.levels)
        for code, each in zip(above.to_pylist(), lists.to_pylist(), strict=True)
    }
    assert sums == {
        ("County", "1"): [2, 4],
        ("Tract", "11"): [1, 2],
        ("Tract", "12"): [1, 2],
    }
