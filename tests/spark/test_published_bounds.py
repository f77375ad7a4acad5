"""Bounds read from published constraints: the tighter of own and summed ones at every level, and flows above totals."""

import pytest
from dataframes import assert_rows

from das_spark.geography import Geolevel, Spine
from das_spark.spark import tables
from das_spark.spark.published_bounds import published_class_bounds, published_totals, tightened_class_bounds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPINE = Spine((Geolevel("US", 0), Geolevel("State", 2), Geolevel("County", 5)))
PARENTS = {"0": "", "01": "0", "02": "0", "01001": "01", "01003": "01", "02001": "02"}
LOWER = {"0": [0, 0], "01": [0, 9], "02": [0, 0], "01001": [1, 2], "01003": [3, 4], "02001": [5, 6]}
UPPER = {"0": [99, 99], "01": [99, 99], "02": [7, 99], "01001": [10, 20], "01003": [30, 40], "02001": [50, 60]}
TOTALS = {"0": 70, "01": 40, "02": 30}
# By hand: sums of the counties against the states' own, then sums of those against the nation's own.
TIGHTER = {
    "01001": ([1, 2], [10, 20]),
    "01003": ([3, 4], [30, 40]),
    "02001": ([5, 6], [50, 60]),
    "01": ([4, 9], [40, 60]),
    "02": ([5, 6], [7, 60]),
    "0": ([9, 15], [47, 99]),
}


def level_of(geocode):
    return SPINE.names[(0, 2, 5).index(len(geocode) if geocode != "0" else 0)]


@pytest.fixture
def of_classes(spark):
    constraints = [(level_of(g), g, "c_total_lb_con", v) for g, v in LOWER.items()]
    constraints += [(level_of(g), g, "c_total_ub_con", v) for g, v in UPPER.items()]
    constraints += [(level_of(g), g, "total_con", [v]) for g, v in TOTALS.items()]
    rows = spark.createDataFrame(constraints, "level string, geocode string, query_name string, value array<bigint>")
    units = [(level_of(g), g, parent, 0) for g, parent in PARENTS.items()]
    geounits = spark.createDataFrame(units, "level string, geocode string, parent string, children bigint")
    totals = published_totals(rows, geounits)
    expected = [(g, PARENTS[g], "total", [total]) for g, total in TOTALS.items()]
    assert_rows(totals.select("geocode", "parent", "name", "values"), expected)
    return tightened_class_bounds(rows, geounits, totals, SPINE, "c", 2)


def test_every_bound_is_the_tighter_of_its_own_and_the_sum_of_its_children(of_classes):
    assert_rows(of_classes.select("geocode", "lower", "upper"), [(code, *sides) for code, sides in TIGHTER.items()])


def test_flows_join_the_class_bounds_where_totals_are_exact_below_the_root(of_classes):
    rows = published_class_bounds(of_classes, SPINE, "State")
    assert {field.name for field in tables.BOUNDS.fields} | {"level"} == set(rows.columns)
    flows = [("0", state, *([*side, TOTALS[state]] for side in TIGHTER[state])) for state in ("01", "02")]
    assert_rows(rows.where("name = 'flow'").select("geocode", "member", "lower", "upper"), flows)
    assert_rows(published_class_bounds(of_classes, SPINE, "US").select("name").distinct(), [("class",)])
