"""Occupancy counted by Spark, against arrays."""

import numpy as np
import pytest
from dataframes import assert_rows

from das_spark.errors import InputError
from das_spark.studies.occupancy import level_occupancy
from das_spark.studies.run_occupancy import geounits, occupancy_of_level

pytestmark = pytest.mark.spark

TYPES = "geocode string, parent string, cells array<int>, counts array<long>"


def frame(spark, dense):
    rows = []
    for number, histogram in enumerate(dense):
        cells = np.flatnonzero(histogram)
        rows.append((f"{number:04d}", "0", cells.tolist(), histogram[cells].tolist()))
    return spark.createDataFrame(rows, TYPES)


def same(found, expected):
    assert found.parts == expected.parts
    for mine, theirs in zip(found.quintiles, expected.quintiles, strict=True):
        assert (mine.number, mine.least, mine.most) == (theirs.number, theirs.least, theirs.most)
        assert mine.differences.values.tolist() == theirs.differences.values.tolist()
        assert mine.differences.counts.tolist() == theirs.differences.counts.tolist()


@pytest.fixture(scope="module")
def sides():
    """Vacant and occupied units of 300 blocks, a tenth without any unit; the release moves units between the two."""
    random = np.random.default_rng(8)
    units = random.poisson(12, 300) * (random.random(300) < 0.9)
    occupied, moved = random.binomial(units, 0.9), random.integers(-3, 4, 300)
    released = np.clip(occupied + moved, 0, units)
    return np.stack([units - occupied, occupied], axis=1), np.stack([units - released, released], axis=1)


def test_occupancy_equals_that_of_arrays_however_the_rows_are_dealt(spark, sides):
    truth, released = sides
    expected = level_occupancy("Block", truth.sum(axis=1), truth[:, 1], released[:, 1])
    assert expected.occupancy.filled > 20
    assert expected.occupancy.full_in_truth > 20
    for parts in (1, 5):
        found = occupancy_of_level("Block", frame(spark, truth).repartition(parts), frame(spark, released), [1])
        same(found, expected)


def test_several_cells_may_be_occupied_and_a_release_over_the_units_is_counted(spark):
    truth = np.array([[2, 3, 4], [0, 1, 1], [5, 0, 0]])
    released = np.array([[0, 5, 6], [0, 1, 1], [5, 0, 0]])
    found = occupancy_of_level("Block", frame(spark, truth), frame(spark, released), [1, 2])
    units = truth.sum(axis=1)
    same(found, level_occupancy("Block", units, truth[:, 1:].sum(axis=1), released[:, 1:].sum(axis=1)))
    assert found.occupancy.overfull == 1


def test_a_geounit_that_was_not_released_counts_as_empty(spark):
    truth = np.array([[1, 4], [2, 5]])
    assert_rows(geounits(frame(spark, truth), frame(spark, truth[:1]), [1]), [(5, 4, 4), (7, 5, 0)])


def test_geounits_without_housing_units_are_left_out_and_none_left_is_an_error(spark, sides):
    truth, released = sides
    kept = geounits(frame(spark, truth), frame(spark, released), [1])
    assert kept.count() == np.count_nonzero(truth.sum(axis=1))
    empty = frame(spark, np.zeros((3, 2), dtype=int))
    with pytest.raises(InputError, match="Tract: no geounit has a housing unit"):
        occupancy_of_level("Tract", empty, empty, [1])
