"""Occupancy counted by Spark, against arrays."""

import numpy as np
import pytest
from dataframes import assert_rows

from das_spark.errors import InputError
from das_spark.spark.finished_runs import Pair
from das_spark.studies.occupancy import level_occupancy
from das_spark.studies.run_occupancy import geounits, occupancy_of_level, persons_per_household

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
        households = geounits(frame(spark, truth).repartition(parts), frame(spark, released), [1])
        found = occupancy_of_level("Block", households)
        same(found, expected)


def test_several_cells_may_be_occupied_and_a_release_over_the_units_is_counted(spark):
    truth = np.array([[2, 3, 4], [0, 1, 1], [5, 0, 0]])
    released = np.array([[0, 5, 6], [0, 1, 1], [5, 0, 0]])
    found = occupancy_of_level("Block", geounits(frame(spark, truth), frame(spark, released), [1, 2]))
    units = truth.sum(axis=1)
    same(found, level_occupancy("Block", units, truth[:, 1:].sum(axis=1), released[:, 1:].sum(axis=1)))
    assert found.occupancy.overfull == 1


def test_a_geounit_that_was_not_released_counts_as_empty(spark):
    truth = np.array([[1, 4], [2, 5]])
    found = geounits(frame(spark, truth), frame(spark, truth[:1]), [1])
    assert_rows(found, [("0000", 5, 4, 4), ("0001", 7, 5, 0)])


def test_households_are_counted_beside_the_housing_units_that_were_declared(spark):
    truth, released = np.array([[1, 4], [0, 0], [2, 0]]), np.array([[3, 3], [1, 0], [0, 0]])
    declared = spark.createDataFrame([("0000", 6), ("0001", 1), ("0002", 2)], "geocode string, units long")
    found = geounits(frame(spark, truth), frame(spark, released), None, declared)
    assert_rows(found, [("0000", 6, 5, 6), ("0001", 1, 0, 1), ("0002", 2, 2, 0)])
    assert occupancy_of_level("Block", found).occupancy.filled == 2


def test_persons_per_household_are_those_of_arrays_and_contradictions_are_counted(spark):
    random = np.random.default_rng(5)
    households, kept = random.poisson(3, (2, 200))
    people, shown = random.poisson(8, (2, 200, 3))
    dense = np.stack([households, kept], axis=1)
    of_households = spark.createDataFrame(
        [(f"{place:04d}", 9, *pair) for place, pair in enumerate(dense.tolist())],
        "geocode string, units long, truth long, released long",
    )
    of_people = Pair("Tract", frame(spark, people), frame(spark, shown))
    found = persons_per_household(of_people, of_households, "cell BETWEEN 0 AND 1")
    inside, released = people[:, :2].sum(axis=1), shown[:, :2].sum(axis=1)
    together = found.together
    assert (together.true_people, together.true_households) == (inside.sum(), households.sum())
    assert (together.released_people, together.released_households) == (released.sum(), kept.sum())
    assert together.geounits == np.count_nonzero(inside + households + released + kept)
    assert together.fewer_people == np.count_nonzero(released < kept)
    assert together.without_people == np.count_nonzero((released == 0) & (kept > 0))
    assert together.without_households == np.count_nonzero((released > 0) & (kept == 0))
    for ratios, over, under in ((found.true_ratios, inside, households), (found.released_ratios, released, kept)):
        some = under > 0
        assert ratios == pytest.approx(np.quantile(over[some] / under[some], [0.05, 0.5, 0.95]))


def test_geounits_without_housing_units_are_left_out_and_none_left_is_an_error(spark, sides):
    truth, released = sides
    found = occupancy_of_level("Block", geounits(frame(spark, truth), frame(spark, released), [1]))
    assert found.occupancy.geounits == np.count_nonzero(truth.sum(axis=1))
    empty = frame(spark, np.zeros((3, 2), dtype=int))
    with pytest.raises(InputError, match="Tract: no geounit has a housing unit"):
        occupancy_of_level("Tract", geounits(empty, empty, [1]))
