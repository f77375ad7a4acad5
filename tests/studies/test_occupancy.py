"""VR3 to VR8: the published phenomena in a simulated nation, what takes them away, and faults that must be found.

The study has one seed and the estimator is deterministic: nothing here is drawn anew, and there are no false alarms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.evaluation.uncertainty import over_runs
from das_spark.studies.demonstration import allocation_table
from das_spark.studies.housing import HousingLevel
from das_spark.studies.occupancy import (
    OccupancyReport,
    OccupancySettings,
    level_occupancy,
    occupancy_findings,
    study_occupancy,
    unbiased,
)
from das_spark.studies.occupancy_releases import (
    ARMS,
    AS_PUBLISHED,
    HOUSEHOLDS,
    PEOPLE,
    RICH,
    SIGNED,
    UNBOUNDED,
    UNCONSTRAINED,
    broken_rules,
    household_mechanism,
    person_mechanism,
)

SMALLEST, LARGEST = 0, -1


@pytest.fixture(scope="module")
def study(occupancy_result):
    return occupancy_result.study


def county(study, arm):
    return study.report(arm).level("County")


def verdicts(study):
    return {finding.key: finding.holds for finding in occupancy_findings(study, allocation_table())}


def with_counties(study, arm, released):
    """The study with other counts released in an arm."""
    level = level_occupancy("County", study.counties.units, study.counties.truth, released)
    planted = OccupancyReport(arm.name, arm.title, (level,))
    return replace(study, reports=tuple(planted if one is arm else study.report(one) for one in ARMS))


def test_the_schemas_are_large_enough_and_the_scales_as_published():
    assert HOUSEHOLDS.size == 672
    assert PEOPLE.size == 504
    spent = household_mechanism()
    assert sum(query.share for query in spent.queries) == 1
    scales = [f"{float(spent.noise('County', query).scale):.2f}" for query in spent.queries]
    assert scales == ["41.67", "33.33", "33.33", "83.33", "83.33", "83.33"]
    assert [f"{float(person_mechanism().noise('State', query).scale):.2f}" for query in person_mechanism().queries] == [
        "25.00",
        "5.00",
    ]
    with pytest.raises(ConfigurationError, match="above 0"):
        household_mechanism(0 * spent.total)


def test_counties_that_had_vacancies_are_full_in_the_release(study):  # VR3
    found = county(study, AS_PUBLISHED)
    assert found.occupancy.full_in_truth == 0
    # Published: 9.6 %. How many depends on how full small counties are in truth, so only the order of size is the same.
    assert 0.05 < found.occupancy.interval.low < found.occupancy.share_filled < 0.25
    by_quintile = [part.filled for part in found.parts]
    assert by_quintile[0] > by_quintile[1] > sum(by_quintile[2:])


def test_more_geounits_are_full_the_smaller_they_are(study):
    shares = [level.occupancy.share_filled for level in study.report(AS_PUBLISHED).levels]
    assert len(shares) == 5
    assert shares[0] < min(shares[1:])
    assert shares[-1] > 0.9


def test_small_counties_gain_households_and_large_ones_lose_them(study):  # VR4
    boxes = [one.box for one in county(study, AS_PUBLISHED).quintiles]
    assert boxes[0].median > 100
    assert boxes[1].median > 100
    assert boxes[2].mean > 0
    assert boxes[4].median < -100


def test_without_nonnegativity_the_bias_vanishes(study):  # VR5 a
    intervals, holds = unbiased(study.unconstrained)
    assert holds
    assert len(intervals) == 5
    # Not for want of power: the interval is many times narrower than the bias that it rules out.
    biased = [one.box.mean for one in county(study, AS_PUBLISHED).quintiles]
    assert all(abs(biased[place]) > 2 * (intervals[place].high - intervals[place].low) for place in (SMALLEST, LARGEST))


def test_means_that_are_biased_are_found(study):
    assert not unbiased(study.unconstrained + np.array([60, 0, 0, 0, 0]))[1]
    assert over_runs(study.unconstrained[:, 0].tolist(), 0.99).high < 60


def test_noise_and_the_bound_alone_fill_counties_but_do_not_favour_small_ones(study):
    found = county(study, SIGNED)
    assert 0 < found.occupancy.filled < county(study, AS_PUBLISHED).occupancy.filled
    assert found.quintiles[0].box.mean < 50


def test_without_the_upper_bound_no_county_is_full_and_some_have_too_many_households(study):  # VR5 b
    for arm in (UNBOUNDED, UNCONSTRAINED):
        found = county(study, arm).occupancy
        assert found.filled <= 1
        assert found.overfull > 5


def test_with_ten_times_the_budget_both_shrink(study):  # VR5 c
    found, base = county(study, RICH), county(study, AS_PUBLISHED)
    assert found.occupancy.filled < base.occupancy.filled / 2
    for place in (SMALLEST, LARGEST):
        assert abs(found.quintiles[place].box.mean) < abs(base.quintiles[place].box.mean) / 2


def test_people_of_states_are_exact_and_small_or_homogeneous_counties_gain_people(study):  # VR6
    assert (study.people.state_errors == 0).all()
    for five in (study.people.by_size, study.people.by_diversity):
        assert five[SMALLEST].box.mean > 50
        assert five[LARGEST].box.mean < -50


def test_all_findings_hold(study):
    found = verdicts(study)
    assert list(found) == ["VR1", "VR2", "VR3", "VR4", "VR5 a", "VR5 b", "VR5 c", "VR6", "VR7", "VR8"]
    assert all(found.values()), found


def test_a_release_without_error_shows_none_of_the_phenomena(study):
    found = verdicts(with_counties(study, AS_PUBLISHED, study.counties.truth))
    assert not found["VR3"]
    assert not found["VR4"]
    assert not found["VR5 c"]


def test_a_truth_without_vacancies_does_not_pass_for_the_phenomenon(study):
    counties = study.counties
    level = level_occupancy("County", counties.units, counties.units, counties.units)
    planted = OccupancyReport(AS_PUBLISHED.name, AS_PUBLISHED.title, (level,))
    assert level.occupancy.share_filled is None
    found = verdicts(replace(study, reports=(planted, *study.reports[1:])))
    assert not found["VR3"]


def test_planted_faults_turn_their_check_alone(study):
    base = verdicts(study)
    planted = {
        "VR5 a": replace(study, unconstrained=study.unconstrained + 100),
        "VR5 b": with_counties(study, UNBOUNDED, study.counties.units),
        "VR6": replace(study, people=replace(study.people, state_errors=np.array([0, 1]))),
        "VR7": replace(study, broken=("Block: more households than housing units",)),
    }
    for key, wrong in planted.items():
        assert [name for name, holds in verdicts(wrong).items() if holds != base[name]] == [key]


def test_every_broken_rule_is_found_and_named():
    cells = np.array([[3, 1], [2, 2]])
    levels = (
        HousingLevel("Top", np.zeros(1, int), np.array([9]), cells.sum(axis=0, keepdims=True)),
        HousingLevel("Leaf", np.zeros(2, int), np.array([5, 4]), cells),
    )
    sound = (cells.sum(axis=0, keepdims=True), cells)
    assert broken_rules(levels, sound) == ()
    assert broken_rules(levels, (sound[0], cells + np.array([[1, 0], [0, -1]]))) == (
        "Leaf: children do not sum to their parent",
    )
    assert broken_rules(levels, (sound[0], np.array([[5, 1], [0, 2]]))) == ("Leaf: more households than housing units",)
    assert (
        broken_rules(levels, (sound[0], np.array([[6, -2], [-1, 5]])))[0] == "Leaf: a count is no whole number from 0"
    )
    assert broken_rules(levels, (sound[0] * 1.0, cells)) == ("Top: a count is no whole number from 0",)


def test_the_same_settings_give_the_same_study():
    settings = OccupancySettings(seed=3, states=1, counties=6, follow_up_to=0)
    first, again = (study_occupancy(settings) for _ in range(2))
    assert all(np.array_equal(one, again.counties.released[arm]) for arm, one in first.counties.released.items())
    assert np.array_equal(first.unconstrained, again.unconstrained, equal_nan=True)
    told: list[str] = []
    other = study_occupancy(replace(settings, seed=4), told.append)
    assert len(told) == len(ARMS) + 2
    assert not np.array_equal(first.counties.units, other.counties.units)
