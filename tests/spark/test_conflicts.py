import numpy as np
import pytest
from dataframes import assert_frames, assert_rows
from hypothesis import given
from hypothesis import strategies as st

from das_spark.constraints import UnitBounds
from das_spark.histogram import Attribute, Schema
from das_spark.spark import tables
from das_spark.spark.leaves import LeafRules, UnitRule, resolve_conflicts, write_leaves
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.store.tables import TABLES

pytestmark = pytest.mark.slow

SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
RULE = UnitRule(SCHEMA.query("hhgq"), UnitBounds((1, 1, 0), (4, 100, 100), cap_when_total_known=False))


@pytest.fixture
def leaves(spark):
    rows = [
        ("01", [0, 1], [2, 2], [1, 0, 0], 0),  # four people in one household: as many as it takes
        ("02", [0], [5], [1, 0, 0], 0),  # one too many
        ("03", [2], [1], [0, 2, 0], 0),  # two facilities, one person
        ("04", [5], [3], [0, 0, 0], 0),  # people and no unit
        ("05", [], [], [0, 0, 3], 1),  # empty units of a class that may be empty
    ]
    return spark.createDataFrame(rows, tables.LEAVES)


def written(leaves, folder, **rules):
    writer = ParquetTables({"leaves": TableFolder(folder, TABLES["leaves"].schema)})
    return write_leaves(leaves, writer, LeafRules(**{"named": 2, "units": True, "bounds": RULE} | rules))


@pytest.mark.spark
def test_geounits_are_named_with_the_class_that_breaks_a_bound(leaves, tmp_path):
    found = written(leaves, tmp_path)
    assert (found.conflicts, found.conflicting) == (3, [("02", 0), ("03", 1)])
    assert written(leaves, tmp_path / "more", named=9).conflicting == [("02", 0), ("03", 1), ("04", 2)]
    assert found.rows() == {"geounits": 5, "occupied cells": 5, "people": 13}
    assert (found.twice, found.without_units, found.uncounted) == ([], [], [])
    names = [file.name for file in found.files]
    assert sorted(path.name for path in tmp_path.glob("part-*")) == names
    rows = leaves.sparkSession.read.parquet(*(str(tmp_path / name) for name in names))
    assert_frames(rows, leaves, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.spark
def test_without_exact_units_nothing_is_asked_of_them(spark, tmp_path):
    leaves = spark.createDataFrame([("01", [0], [7], None, None)], tables.LEAVES)
    found = written(leaves, tmp_path, units=False)
    assert (found.conflicts, found.without_units, found.people) == (0, [], 7)


@pytest.mark.spark
def test_geounits_without_units_that_stand_twice_or_are_not_what_is_counted_are_named(spark, tmp_path):
    rows = [
        ("03", [0], [2], [2, 0, 0], 0),
        ("01", [0], [2], None, None),
        ("04", [0], [2], [1, 0, 0], 0),
        ("03", [0], [1], [1, 0, 0], 0),
        ("02", [], [], None, None),
    ]
    found = written(spark.createDataFrame(rows, tables.LEAVES).repartition(3), tmp_path, counted=True, bounds=None)
    assert found.twice == ["03"]
    assert found.without_units == ["01", "02"]
    assert found.uncounted == ["04"]


@pytest.mark.spark
def test_leaves_none_of_which_has_units_are_named(spark, tmp_path):
    rows = [(code, [0], [2], None, None) for code in ("01", "02", "03")]
    found = written(spark.createDataFrame(rows, tables.LEAVES), tmp_path, counted=True)
    assert (found.without_units, found.conflicts, found.uncounted) == (["01", "02"], 0, [])


@pytest.mark.spark
def test_resolved_units_are_the_nearest_that_people_allow_and_nothing_else_changes(leaves, tmp_path):
    nearest = {"01": [1, 0, 0], "02": [2, 0, 0], "03": [0, 1, 0], "04": [0, 0, 1], "05": [0, 0, 3]}
    assert_rows(resolve_conflicts(leaves, RULE).select("geocode", "units"), nearest.items())
    assert_frames(resolve_conflicts(leaves, RULE).drop("units"), leaves.drop("units"), ignore_row_order=True)
    assert written(resolve_conflicts(leaves, RULE), tmp_path).conflicts == 0


@given(
    people=st.lists(st.integers(0, 300), min_size=3, max_size=3),
    units=st.lists(st.integers(0, 300), min_size=3, max_size=3),
)
def test_resolved_units_always_fit_and_fitting_units_stay(people, units):
    bounds = UnitBounds((1, 1, 1), (4, 100, 100), cap_when_total_known=False)
    rule = UnitRule(SCHEMA.query("hhgq"), bounds)
    persons, given_units = np.array([people]), np.array([units])
    resolved = rule.nearest_units(persons, given_units)
    least, most = np.array(bounds.least), np.array(bounds.most)
    assert ((least * resolved <= persons) & (persons <= most * resolved)).all()
    fits = (least * given_units <= persons) & (persons <= most * given_units)
    assert np.array_equal(resolved[fits], given_units[fits])
