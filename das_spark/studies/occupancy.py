"""Why a tenth of the counties had no vacant housing unit in the demonstration of 2019: simulated, and taken apart.

Invented counties are measured with the published budget and estimated by the project's estimator; then one cause at a
time is taken away (`occupancy_arms`).

Source: Van Riper, Kugler and Ruggles (2020), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.quintiles import quintiles
from das_spark.privacy import RunKey
from das_spark.studies.housing import COUNTY, HousingLevel, simulate_housing
from das_spark.studies.occupancy_arms import (
    ARMS,
    AS_PUBLISHED,
    UNCONSTRAINED,
    Arm,
    broken_rules,
    release_households,
    release_totals,
)
from das_spark.studies.occupancy_measures import OccupancyReport, level_occupancy
from das_spark.studies.people_release import PeopleRelease, release_people

Counts = NDArray[np.int64]
Tell = Callable[[str], None]

#: Independent draws of the noise by which the bias of the unconstrained arm is examined: they cost next to nothing.
REPEATS: Final = 20


@dataclass(frozen=True, slots=True)
class OccupancySettings:
    """The size of a study.

    Attributes:
        seed: Of the invented nation and of the key of the noise.
        states: How many states.
        counties: Counties of each; the United States and Puerto Rico have 62 on average.
        follow_up_to: Counties of at most so many housing units are followed down to the block.
    """

    seed: int = 2010
    states: int = 5
    counties: int = 62
    follow_up_to: int = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class CountyRelease:
    """Households of every county, in truth and in every arm.

    Attributes:
        units: Housing units, (counties,).
        truth: True households, (counties,).
        released: Released households by arm, (counties,) each.
    """

    units: Counts
    truth: Counts
    released: Mapping[str, Counts]


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyStudy:
    """All that one simulation shows.

    Attributes:
        settings: Its size.
        reports: A report an arm, in the order of `ARMS`.
        counties: The counties one by one.
        people: The person side.
        broken: Rules that the release as published breaks, in words; none if the estimator is right.
        unconstrained: Mean difference by quintile of the counties (columns) in the unconstrained arm, in each of
            `REPEATS` independent draws of the noise (rows).
    """

    settings: OccupancySettings
    reports: tuple[OccupancyReport, ...]
    counties: CountyRelease
    people: PeopleRelease
    broken: tuple[str, ...]
    unconstrained: NDArray[np.float64]

    def report(self, arm: Arm) -> OccupancyReport:
        """The report of an arm.

        Args:
            arm: One of `ARMS`.
        """
        return self.reports[ARMS.index(arm)]


def study_occupancy(settings: OccupancySettings, tell: Tell = lambda _: None) -> OccupancyStudy:
    """Invent a nation, release it in every arm, and compare.

    Args:
        settings: Size and seed; the same settings give the same study.
        tell: Called with a line of progress when a part begins.

    Raises:
        ConfigurationError: There is no state or no county.
        EstimationError: A family could not be estimated.
    """
    tell(f"inventing {settings.states * settings.counties:,} counties")
    housing = simulate_housing(settings.seed, settings.states, settings.counties, settings.follow_up_to)
    key = RunKey.insecure(f"occupancy {settings.seed}")
    above = housing.levels[: COUNTY + 1]
    tell(f"releasing: {AS_PUBLISHED.name}")
    cells = release_households(housing.levels, AS_PUBLISHED, key)
    totals = {AS_PUBLISHED: tuple(each.sum(axis=1) for each in cells)}
    for arm in ARMS[1:]:
        tell(f"releasing: {arm.name}")
        totals[arm] = release_totals(above, arm, key)
    tell("releasing: people")
    county = housing.levels[COUNTY]
    return OccupancyStudy(
        settings,
        tuple(_report(arm, housing.levels, found) for arm, found in totals.items()),
        CountyRelease(county.units, county.totals, {arm.name: found[COUNTY] for arm, found in totals.items()}),
        release_people(housing, key),
        broken_rules(housing.levels, cells),
        _repeated(above, settings.seed),
    )


def _report(arm: Arm, levels: Sequence[HousingLevel], totals: Sequence[Counts]) -> OccupancyReport:
    """The arm's counties, and what lies below them where it goes on."""
    shown = list(zip(levels, totals, strict=False))[COUNTY:]
    lines = tuple(level_occupancy(level.name, level.units, level.totals, found) for level, found in shown if found.size)
    return OccupancyReport(arm.name, arm.title, lines)


def _repeated(levels: Sequence[HousingLevel], seed: int) -> NDArray[np.float64]:
    """Mean difference by quintile of the counties in the unconstrained arm, one row a draw of the noise."""
    truth = levels[COUNTY].totals
    rows = []
    for repeat in range(REPEATS):
        key = RunKey.insecure(f"occupancy {seed}, again {repeat}")
        differences = release_totals(levels, UNCONSTRAINED, key)[COUNTY] - truth
        rows.append([np.nan if one.box is None else one.box.mean for one in quintiles(truth, differences)])
    return np.array(rows)
