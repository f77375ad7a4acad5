"""Records and units of leaves: those of estimates and invariants pass, and every change is told of where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from family_streams import tallied

from das_spark.geography import Geolevel, Spine
from das_spark.io.record_weights import RecordWeights
from das_spark.products import PRODUCTS, microdata_codes
from das_spark.verification import POPULATIONS, UNITS_EQUAL, RecordsEqual, UnitsEqual

PRODUCT = PRODUCTS["e2e_2018"]
CODES = microdata_codes(PRODUCT)
WEIGHTS = RecordWeights(CODES, by_kind=True, key=bytes(range(32)))
SPINE = Spine((Geolevel("County", 1), Geolevel("Block", 2)))
FORMATS = ("parquet", "text")
RECORDS = "microdata equal estimates"
ADULT, PRISONER = (int(PRODUCT.schema.ravel([code])[0]) for code in ((0, 1, 0, 0), (1, 1, 0, 1)))
#: geocode -> people by cell, units by class, vacant units.
RIGHT: dict[str, tuple[dict[int, int], list[int], int]] = {
    "11": ({ADULT: 3, PRISONER: 4}, [2, 1, 0, 0, 0, 0, 0, 0], 1),
    "12": ({}, [0] * 8, 3),
}


def histogram(code: str, cells: list[Any] | None, counts: list[Any] | None) -> dict[str, Any]:
    return {"level": "Block", "geocode": code, "parent": code[:1], "cells": cells, "counts": counts}


def tables() -> dict[str, list[dict[str, Any]]]:
    """Rows of the leaves, and of their records in every format."""
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("estimates", "invariants", "records", "record_units")
    }
    for code, (cells, units, vacant) in RIGHT.items():
        key = {"level": "Block", "geocode": code, "parent": code[:1]}
        rows["estimates"].append(histogram(code, list(cells), list(cells.values())))
        rows["invariants"] += [{**key, "name": "units", "values": units}, {**key, "name": "vacant", "values": [vacant]}]
        numbers = np.array(list(cells), dtype=np.int64)
        kinds = CODES.classes_of(numbers)
        named = (CODES.codes_of(numbers), kinds.tolist(), list(cells.values()))
        columns = [
            pa.array(each, kind) for each, kind in zip(named, (pa.string(), pa.int32(), pa.int64()), strict=True)
        ]
        found = WEIGHTS.found(pa.array([code] * len(cells), pa.string()), *columns).to_pylist()
        people = dict(zip(kinds.tolist(), cells.values(), strict=True))
        by_kind = {kind: count for kind, count in enumerate([*units, vacant]) if count}
        for format in FORMATS:
            rows["records"] += [{**key, "format": format, "one": row["one"], "other": row["other"]} for row in found]
            rows["record_units"] += [
                {**key, "format": format, "kind": kind, "count": count, "people": people.get(kind, 0), "odd": 0}
                for kind, count in by_kind.items()
            ]
    return rows


def failing(rows: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, str], list[str]]:
    """Rule and format -> geounits that fail."""
    rules = (RecordsEqual("Block", FORMATS, WEIGHTS, listed=False), UnitsEqual("Block", FORMATS, CODES))
    tallies = {key: tally for rule in rules for key, tally in tallied(rule, rows, SPINE).items()}
    assert {key for rule in rules for key in rule.expected} == set(tallies)
    return {
        (rule, note.split()[0]): sorted(tally.failing) for (rule, _, note), tally in tallies.items() if tally.failing
    }


def test_what_agrees_passes_and_is_all_looked_at():
    rows = tables()
    assert failing(rows) == {}
    (records, *_) = tallied(RecordsEqual("Block", FORMATS, WEIGHTS, listed=False), rows, SPINE).values()
    assert records.checked == 2 + 2  # cells and geounits
    units, populations, *_ = tallied(UnitsEqual("Block", FORMATS, CODES), rows, SPINE).values()
    assert (units.checked, populations.checked) == (4, 2)  # rows of invariants, and geounits


@pytest.mark.parametrize(
    ("cells", "counts"),
    [
        ([ADULT, PRISONER], [4, 3]),
        ([ADULT], [3]),
        ([ADULT + 1, PRISONER], [3, 4]),
        ([-1, ADULT, PRISONER], [1, 3, 4]),
        ([ADULT, PRISONER, PRODUCT.schema.size], [3, 4, 1]),
        ([ADULT, PRISONER], [3 + (1 << 62), 4 - (1 << 62)]),
        ([ADULT, PRISONER], [3]),
        ([ADULT], [3, 4]),
        ([ADULT, None], [3, 4]),
        ([ADULT, PRISONER], [3, None]),
        (None, None),
    ],
)
def test_another_histogram_fails_its_geounit_alone_in_every_format(cells, counts):
    rows = tables()
    rows["estimates"][0] = histogram("11", cells, counts)
    found = failing(rows)
    assert {key: codes for key, codes in found.items() if key[0] == RECORDS} == {
        (RECORDS, each): ["11"] for each in FORMATS
    }
    assert {code for codes in found.values() for code in codes} == {"11"}


def test_a_geounit_that_is_missing_or_stands_twice_fails():
    for estimates in (tables()["estimates"][1:], [*tables()["estimates"], tables()["estimates"][0]]):
        assert failing({**tables(), "estimates": estimates})[RECORDS, "text"] == ["11"]


@pytest.mark.parametrize(
    ("table", "column", "rule"),
    [
        ("records", "one", RECORDS),
        ("records", "other", RECORDS),
        ("record_units", "count", UNITS_EQUAL),
        ("record_units", "people", POPULATIONS),
        ("record_units", "odd", POPULATIONS),
    ],
)
def test_another_number_fails_in_its_format_alone(table, column, rule):
    rows = tables()
    row = next(each for each in rows[table] if each["format"] == "text")
    row[column] += 1
    assert failing(rows) == {(rule, "text"): ["11"]}


def test_units_and_people_that_change_classes_fail_though_their_sums_are_right():
    rows = tables()
    for row in rows["record_units"]:
        row["kind"] += row["kind"] == 1  # the prison becomes another facility
    assert failing(rows) == {(rule, each): ["11"] for rule in (UNITS_EQUAL, POPULATIONS) for each in FORMATS}
    unknown = tables()
    for row in unknown["record_units"]:
        row["kind"] = -1 if row["kind"] == 1 else row["kind"]
    assert failing(unknown) == failing(rows)


def test_records_where_no_geounit_is_fail_there():
    rows = tables()
    rows["records"].append({**rows["records"][0], "geocode": "19"})
    assert failing(rows) == {(RECORDS, "parquet"): ["19"]}
