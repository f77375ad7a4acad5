import pytest
from dataframes import assert_frames, assert_rows
from levels_by_sql import all_geounits

from das_spark.geography import Geolevel, Spine
from das_spark.products import product_from
from das_spark.spark import ingest, tables
from das_spark.spark.leaves import pooled
from das_spark.spark.readers._passes import LeafPass
from das_spark.spark.readers._resolved import Kind

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPINE = Spine((Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 5)))
PRODUCT = product_from(
    {
        "name": "own",
        "geolevels": [{"name": level.name, "length": level.length} for level in SPINE.levels],
        "unit_classes": ["home", "prison"],
        "attributes": [{"name": "kind", "levels": ["a", "b", "c", "d"]}],
        "strategies": [
            {
                "name": "main",
                "framework": "zcdp",
                "total": "1",
                "geolevels": {level.name: "1/3" for level in SPINE.levels},
                "queries": {"detailed": "1"},
            }
        ],
    }
)


def leaves_of(spark, counts, geounits):
    """One sparse histogram a leaf, of counts (geocode, cell, count) and geounits (geocode, units by class, vacant)."""
    rows = [(geocode, int(Kind.COUNTED), cell, count, None) for geocode, cell, count in counts]
    for geocode, units, vacant in geounits:
        rows += [(geocode, int(Kind.GEOGRAPHY), 0, 1, None), (geocode, int(Kind.VACANT), 0, vacant, None)]
        rows += [(geocode, int(Kind.UNITS), level, number, None) for level, number in enumerate(units)]
    frame = spark.createDataFrame(rows, "geocode string, kind tinyint, cell int, count long, told string")
    found = LeafPass(2, (Kind.GEOGRAPHY,), {}, {}, {}, frozenset(), units=True, made=None).of(frame)
    return found.where("told is null").drop("told")


@pytest.fixture
def leaves(spark):
    counts = [("01001", 3, 2), ("01001", 1, 5), ("01003", 1, 1), ("02001", 1, 4), ("01001", 3, 1)]
    geounits = [("01001", [1, 0], 2), ("01003", [1, 0], 0), ("02001", [1, 1], 0), ("02003", [0, 0], 0)]
    return leaves_of(spark, counts, geounits)


def test_repeated_cells_are_summed_and_empty_geounits_kept(spark, leaves):
    expected = spark.createDataFrame(
        [
            ("01001", [1, 3], [5, 3], [1, 0], 2),
            ("01003", [1], [1], [1, 0], 0),
            ("02001", [1], [4], [1, 1], 0),
            ("02003", [], [], [0, 0], 0),
        ],
        tables.LEAVES,
    )
    assert_frames(leaves, expected, ignore_row_order=True, ignore_nullable=True)


def test_vacant_units_may_be_counted_in_the_first_class_and_are_then_not_told_apart(spark):
    leaves = spark.createDataFrame(
        [("01001", [3], [2], [1, 5, 6], 2), ("01003", [], [], [1, 0, 0], None), ("02001", [], [], None, 3)],
        tables.LEAVES,
    )
    found = pooled(leaves)
    assert found.dtypes == [(field.name, field.dataType.simpleString()) for field in tables.LEAVES]
    expected = [("01001", [3, 5, 6], None), ("01003", [1, 0, 0], None), ("02001", None, None)]
    assert_rows(found.select("geocode", "units", "vacant"), expected)


def test_every_level_is_the_sum_of_its_leaves(spark, leaves):
    expected = spark.createDataFrame(
        [
            ("National", "0", "", [1, 3], [10, 3]),
            ("State", "01", "0", [1, 3], [6, 3]),
            ("State", "02", "0", [1], [4]),
            ("County", "01001", "01", [1, 3], [5, 3]),
            ("County", "01003", "01", [1], [1]),
            ("County", "02001", "02", [1], [4]),
            ("County", "02003", "02", [], []),
        ],
        "level string, geocode string, parent string, cells array<int>, counts array<long>",
    )
    assert_frames(ingest.all_levels(leaves, SPINE), expected, ignore_row_order=True, ignore_nullable=True)


def test_geounits_are_those_of_the_declared_geography_with_their_children(spark, leaves):
    expected = spark.createDataFrame(
        [
            ("National", "0", "", 2),
            ("State", "01", "0", 2),
            ("State", "02", "0", 2),
            ("County", "01001", "01", 0),
            ("County", "01003", "01", 0),
            ("County", "02001", "02", 0),
            ("County", "02003", "02", 0),
        ],
        "level string, geocode string, parent string, children long",
    )
    assert_frames(all_geounits(leaves, SPINE), expected, ignore_row_order=True, ignore_nullable=True)


def test_counts_beyond_32_bits_are_kept(spark):
    found = leaves_of(spark, [("01001", 0, 2**40), ("01001", 0, 2**40)], [("01001", [1, 0], 0)])
    assert_rows(found, [("01001", [0], [2**41], [1, 0], 0)])
