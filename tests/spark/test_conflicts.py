import numpy as np
import pytest
from dataframes import assert_frames, assert_rows
from hypothesis import given
from hypothesis import strategies as st

from das_spark.constraints import UnitBounds
from das_spark.histogram import Attribute, Schema
from das_spark.spark import tables
from das_spark.spark.ingest import UnitRule, conflicts, resolve_conflicts

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


@pytest.mark.spark
def test_geounits_are_named_with_the_class_that_breaks_a_bound(leaves):
    assert_rows(conflicts(leaves, RULE).select("geocode", "unit_class"), [("02", 0), ("03", 1), ("04", 2)])


@pytest.mark.spark
def test_resolved_units_are_the_nearest_that_people_allow_and_nothing_else_changes(leaves):
    nearest = {"01": [1, 0, 0], "02": [2, 0, 0], "03": [0, 1, 0], "04": [0, 0, 1], "05": [0, 0, 3]}
    assert_rows(resolve_conflicts(leaves, RULE).select("geocode", "units"), nearest.items())
    assert_frames(resolve_conflicts(leaves, RULE).drop("units"), leaves.drop("units"), ignore_row_order=True)
    assert conflicts(resolve_conflicts(leaves, RULE), RULE).count() == 0


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
