"""Full geounits counted by hand, and the interval of a share against the equation that defines it."""

import numpy as np
import pytest

from das_spark.errors import InputError
from das_spark.studies.occupancy import OccupancyReport, level_occupancy, occupancy, wilson_interval

#: No unit; full in truth and release; full in truth only; filled; over; neither; neither.
UNITS = np.array([0, 4, 5, 6, 7, 8, 9])
TRUTH = np.array([0, 4, 5, 3, 6, 7, 0])
RELEASED = np.array([0, 4, 2, 6, 9, 7, 0])


def test_full_filled_and_overfull_are_told_apart():
    found = occupancy(UNITS, TRUTH, RELEASED)
    assert (found.geounits, found.full_in_truth, found.full_in_release) == (6, 2, 2)
    assert (found.filled, found.overfull, found.had_vacancies) == (1, 1, 4)
    assert (found.units, found.true_households, found.released_households) == (39, 25, 28)
    assert found.share_filled == 1 / 4


def test_parts_add_up_to_the_whole():
    whole = occupancy(UNITS, TRUTH, RELEASED)
    halves = [occupancy(UNITS[part], TRUTH[part], RELEASED[part]) for part in (slice(0, 3), slice(3, 7))]
    assert halves[0] + halves[1] == whole
    assert level_occupancy("Block", UNITS, TRUTH, RELEASED).occupancy == whole


def test_quintiles_leave_out_geounits_without_housing_units():
    level = level_occupancy("Block", UNITS, TRUTH, RELEASED)
    assert sum(one.geounits for one in level.quintiles) == 6
    assert [one.geounits for one in level.quintiles] == [part.geounits for part in level.parts]
    assert sum(int(one.differences.values @ one.differences.counts) for one in level.quintiles) == 3


def test_a_truth_without_vacancies_has_no_share():
    found = occupancy(UNITS, UNITS, UNITS)
    assert found.had_vacancies == found.filled == 0
    assert found.share_filled is None
    assert found.interval is None
    assert found.to_json()["share_filled"] is None


def test_no_housing_unit_at_all_is_an_error_that_names_the_geolevel():
    nothing = np.zeros(3, dtype=np.int64)
    with pytest.raises(InputError, match="Tract: no geounit has a housing unit"):
        level_occupancy("Tract", nothing, nothing, nothing)


@pytest.mark.parametrize(("hits", "number"), [(1, 4), (310, 3221), (7, 7), (0, 12), (50, 100)])
def test_the_ends_of_the_interval_solve_the_equation_of_wilson(hits, number):
    found = wilson_interval(hits, number, 0.95)
    share, z = hits / number, 1.959963984540054
    for end, fixed in ((found.low, 0.0), (found.high, 1.0)):
        distance = abs(share - end)
        assert distance == pytest.approx(z * (end * (1 - end) / number) ** 0.5, abs=1e-12) or end == fixed
    assert found.low <= share <= found.high
    assert (found.low == 0) is (hits == 0)
    assert (found.high == 1) is (hits == number)


def test_a_report_is_found_by_geolevel():
    level = level_occupancy("Block", UNITS, TRUTH, RELEASED)
    report = OccupancyReport("run", "a run", (level,))
    assert report.level("Block") is level
    with pytest.raises(InputError, match="no geolevel 'County'"):
        report.level("County")
    written = report.to_json()["levels"][0]
    assert written["occupancy"]["filled"] == sum(one["filled"] for one in written["quintiles"]) == 1
