"""The rule on arrays of geounits: the same ones for every geounit of a level, or one that says that none is known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from das_spark.spark.checks import judge
from das_spark.spark.verify_columns import array_columns

pytestmark = pytest.mark.spark

GEOUNITS = [("Tract", "11", "1"), ("Tract", "12", "1"), ("Tract", "13", "1")]
ROWS = [
    ("Tract", "11", "1", "mean", [1.0, 2.0]),
    ("Tract", "11", "1", "exact", [0.0]),
    ("Tract", "12", "1", "mean", [3.0]),
    ("Tract", "12", "1", "exact", [0.0]),
    ("Tract", "13", "1", "unknown", []),
]


def failing(spark, rows):
    geounits = spark.createDataFrame(GEOUNITS, "level string, geocode string, parent string")
    frame = spark.createDataFrame(
        rows, "level string, geocode string, parent string, name string, values array<double>"
    )
    rule = array_columns(frame, "upward", SimpleNamespace(geounits=geounits), ["Tract"])
    (check,) = judge([rule])
    return check.failing


def test_a_geounit_of_which_nothing_is_known_says_so_in_the_place_of_all_arrays(spark):
    assert failing(spark, ROWS) == ()
    assert failing(spark, [(*row[:3], "unknown", []) for row in ROWS[::2]]) == ()


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (ROWS[:-1], "13"),
        ([*ROWS, ("Tract", "13", "1", "mean", [1.0])], "13"),
        ([*ROWS, ("Tract", "11", "1", "unknown", [])], "11"),
        (ROWS[1:], "11"),
        ([*ROWS, ROWS[0]], "11"),
        ([*ROWS[1:], ("Tract", "11", "2", "mean", [1.0])], "11"),
        ([*ROWS[1:], ("Tract", "11", "1", "mean", [float("nan")])], "11"),
        ([*ROWS, ("Tract", "14", "1", "mean", [1.0])], "14"),
    ],
    ids=["no row", "known and not", "not and known", "one less", "twice", "another parent", "no number", "no geounit"],
)
def test_what_is_missing_too_much_or_wrong_is_named(spark, rows, named):
    assert any(name.startswith(named) for name in failing(spark, rows))
