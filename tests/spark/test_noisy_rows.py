"""How queries and bounds are written in published columns, and rows compared."""

import pytest
from dataframes import assert_rows

from das_spark.constraints import AddedConstraint, Sense
from das_spark.errors import QueryError
from das_spark.geography import Geolevel, Spine
from das_spark.products import PRODUCTS
from das_spark.spark.noisy_rows import (
    as_constraints,
    binning,
    constraint_rows,
    sides,
    unequal,
    with_root,
    with_zeros,
    zero_sides,
)

SCHEMA = PRODUCTS["pl94_2020_person"].schema
RULE = AddedConstraint("few", "State", "votingage", Sense.AT_MOST, (5, 7))


@pytest.mark.parametrize(
    ("text", "bins", "shape"),
    [
        ("total", ("*", "*", "*", "*"), (1, 1, 1, 1)),
        ("detailed", ("detailed",) * 4, (8, 2, 2, 63)),
        ("hhinstlevels", ("hhinstlevels", "*", "*", "*"), (3, 1, 1, 1)),
        ("cenrace * votingage", ("*", "votingage", "*", "cenrace"), (1, 2, 1, 63)),
        ("hispanic * hhgq", ("hhgq", "*", "hispanic", "*"), (8, 1, 2, 1)),
        ("nonvoting * gqNursingTotal", ("gqNursingTotal", "nonvoting", "*", "*"), (1, 1, 1, 1)),
    ],
)
def test_a_query_is_written_attribute_by_attribute(text, bins, shape):
    found = binning(SCHEMA, text)
    assert (found.bins, found.shape) == (bins, shape)
    assert found.size == found.query.rows


def test_a_name_of_no_query_is_an_error():
    with pytest.raises(QueryError, match="relgq"):
        binning(SCHEMA, "relgq * hispanic")


def test_bounds_have_one_side_where_they_are_exact_or_added_and_two_otherwise():
    found = [(side.query_name, side.sign) for side in sides("hhgq", (RULE,))]
    assert found == [("total", "="), ("hhgq_total_lb", ">="), ("hhgq_total_ub", "<="), ("added:few", "<=")]
    assert [side.query_name for side in sides("", ())] == ["total"]


@pytest.mark.spark
def test_constraints_are_the_bounds_without_flows_and_differences_are_found(spark):
    bounds = [
        ("State", "01", "", "total", "01", [9], [9]),
        ("State", "01", "", "class", "01", [1] * 8, [2] * 8),
        ("State", "01", "", "flow", "01001", [1] * 9, [2] * 9),
        ("State", "01", "", "added:few", "01", [0, 0], [5, 7]),
    ]
    columns = "level string, geocode string, parent string, name string, member string, "
    frame = spark.createDataFrame(bounds, columns + "lower array<bigint>, upper array<bigint>")
    rows = constraint_rows(frame, SCHEMA, sides("hhgq", (RULE,)))
    expected = [
        ("total_con", [9], "=", 0.0),
        ("hhgq_total_lb_con", [1] * 8, ">=", 0.0),
        ("hhgq_total_ub_con", [2] * 8, "<=", 0.0),
        ("added:few_con", [5, 7], "<=", 0.0),
    ]
    assert_rows(rows.select("query_name", "value", "sign", "variance"), expected)
    whole = as_constraints(rows, SCHEMA)
    assert unequal(whole, whole).count() == 0
    assert [row["query_name"] for row in unequal(whole, whole.where("sign <> '='")).collect()] == ["total_con"]


@pytest.mark.spark
def test_structural_zeros_are_a_row_of_every_geounit(spark):
    columns = "level string, geocode string, parent string, children bigint"
    geounits = spark.createDataFrame([("US", "0", "", 1), ("State", "01", "0", 0)], columns)
    zeros = PRODUCTS["pl94_2020_person"].structural_zeros
    bounds = spark.createDataFrame([], columns + ", name string, member string, lower array<long>, upper array<long>")
    rows = constraint_rows(with_zeros(bounds, geounits, zeros), SCHEMA, zero_sides(SCHEMA, zeros))
    zero = ("nurse_nva_0_con", "gqNursingTotal", "nonvoting", "*", "*", [1, 1, 1, 1], [0], 0.0, None, "=")
    assert_rows(rows.select(rows.columns[1:]), [("0", *zero), ("01", *zero)])


@pytest.mark.spark
def test_a_root_is_renamed_where_it_is_one_geounit_by_definition(spark):
    rows = spark.createDataFrame([("US", "0"), ("State", "0")], "level string, geocode string")
    nation = Spine((Geolevel("US", 0), Geolevel("State", 1)))
    assert_rows(with_root(rows, nation, ""), [("US", ""), ("State", "0")], ordered=True)
    assert_rows(with_root(with_root(rows, nation, ""), nation), [("US", "0"), ("State", "0")], ordered=True)
    assert with_root(rows, Spine((Geolevel("State", 1),)), "") is rows
