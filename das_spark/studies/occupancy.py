"""Why a tenth of the counties had no vacant housing unit in the demonstration of 2019: simulated, and taken apart.

Simulated counties are measured with the published budget and estimated by the project's estimator; then one cause at a
time is taken away (`occupancy_releases`). A household is an occupied housing unit; what is not occupied is vacant. A
geounit is *full* where it has as many households as housing units. Geounits without housing units count nowhere. Every
published phenomenon stands beside what is found here (VR1 to VR8).

Source: Van Riper, Kugler and Ruggles (2020), sections 1.3, 2 and 3, table 2, figures 1 and 2: 310 of 3,221 counties
were full in the 2010 Demonstration Data Product, none in Summary File 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from das_spark.errors import InputError
from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem, estimate_family
from das_spark.evaluation import Interval, over_runs
from das_spark.histogram import Attribute, Schema
from das_spark.privacy import RunKey
from das_spark.studies import demonstration as published
from das_spark.studies.demonstration import Allocation, drawn_noise
from das_spark.studies.housing import COUNTY, HousingLevel, simulate_housing
from das_spark.studies.occupancy_releases import (
    ARMS,
    AS_PUBLISHED,
    RICH,
    UNBOUNDED,
    UNCONSTRAINED,
    Arm,
    PeopleRelease,
    broken_rules,
    release_households,
    release_people,
    release_totals,
)
from das_spark.studies.quintiles import FIFTHS, Quintile, fifths_of, quintiles

Counts = NDArray[np.int64]
Reported = Callable[[str], None]

_LEVEL: Final = 0.95

DEFINITIONS: Final[Mapping[str, str]] = {
    "household": "an occupied housing unit",
    "full": "a geounit with as many households as housing units, and one housing unit at least",
    "filled": "full in the release, but not in truth",
    "share filled": "filled geounits, of those that had a vacant unit in truth; its interval is that of Wilson at "
    "95 %, as if geounits were independent (those of one parent are not: they share its error)",
    "overfull": "more households than housing units in the release: impossible where the bound is imposed",
    "persons per household": "people in households, of one run, divided by households, of another: nothing holds the "
    "two together in the release, and even a household without people is possible",
    "difference": "released minus true number of households of a geounit",
    "quintile": "fifth of the geounits of a geolevel by true number of households, 1 the smallest; thresholds are "
    "quantiles with linear interpolation, and a count on a threshold belongs below",
    "whisker": "the last difference within 1.5 lengths of the box, which holds the middle half",
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of the geounits of a geolevel; every number is a sum over them, so that those of parts add up."""

    geounits: int  # with one housing unit at least
    full_in_truth: int  # how many are full in truth
    full_in_release: int  # how many are full in the release
    filled: int  # how many are full in the release, but not in truth
    overfull: int  # how many have more households than housing units in the release
    units: int
    true_households: int
    released_households: int  # households in the release

    def __add__(self, other: Occupancy) -> Occupancy:
        """Of both parts together."""
        return Occupancy(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    @property
    def had_vacancies(self) -> int:
        """Geounits with a vacant unit in truth."""
        return self.geounits - self.full_in_truth

    @property
    def share_filled(self) -> float | None:
        """Filled ones of those that had vacancies; None where none had."""
        return self.filled / self.had_vacancies if self.had_vacancies else None

    @property
    def interval(self) -> Interval | None:
        """Of the share, by `wilson_interval` at 95 %; None where no geounit had vacancies."""
        return wilson_interval(self.filled, self.had_vacancies, _LEVEL) if self.had_vacancies else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        interval = None if self.interval is None else [self.interval.low, self.interval.high]
        return asdict(self) | {
            "had_vacancies": self.had_vacancies,
            "share_filled": self.share_filled,
            "interval": interval,
        }


@dataclass(frozen=True, slots=True, eq=False)
class LevelOccupancy:
    """One geolevel of a release."""

    geolevel: str
    # Differences of the number of households by fifths of the geounits with a housing unit.
    quintiles: tuple[Quintile, ...]
    parts: tuple[Occupancy, ...]  # how many geounits of each of these fifths are full

    @property
    def occupancy(self) -> Occupancy:
        """Of the whole geolevel."""
        first, *others = self.parts
        return sum(others, start=first)


@dataclass(frozen=True, slots=True)
class HouseholdPeople:
    """People in households and households of the geounits of a geolevel; those with neither are left out."""

    geounits: int
    true_people: int
    true_households: int
    released_people: int
    released_households: int
    fewer_people: int  # geounits whose households, as released, have less than one person each
    without_people: int  # geounits that have households, but nobody in them
    without_households: int  # geounits that have people in households, but no household


@dataclass(frozen=True, slots=True)
class PersonsPerHousehold:
    """People in households beside households, from two runs that nothing holds together.

    Percentiles, 5th, 50th and 95th, are over geounits with a household; none where there is no such geounit.
    """

    geolevel: str
    together: HouseholdPeople
    true_ratios: tuple[float, ...]
    released_ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyReport:
    """A release beside the truth, geolevel by geolevel."""

    name: str  # what was released: a run, or an arm of an experiment
    title: str  # the same in words
    levels: tuple[LevelOccupancy, ...]  # highest geolevel first

    def level(self, geolevel: str) -> LevelOccupancy:
        """One geolevel."""
        for each in self.levels:
            if each.geolevel == geolevel:
                return each
        raise InputError(
            f"{self.name}: no geolevel {geolevel!r}; there are {[level.geolevel for level in self.levels]}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        levels = [
            {
                "geolevel": level.geolevel,
                "occupancy": level.occupancy.to_json(),
                "quintiles": [
                    one.to_json() | {"had_vacancies": part.had_vacancies, "filled": part.filled}
                    for one, part in zip(level.quintiles, level.parts, strict=True)
                ],
            }
            for level in self.levels
        ]
        return {"name": self.name, "title": self.title, "levels": levels}


def level_occupancy(
    geolevel: str, units: NDArray[np.int64], truth: NDArray[np.int64], released: NDArray[np.int64]
) -> LevelOccupancy:
    """Compare the geounits of a geolevel."""
    exist = units > 0
    if not exist.any():
        raise InputError(f"{geolevel}: no geounit has a housing unit")
    units, truth, released = units[exist], truth[exist], released[exist]
    fifth = fifths_of(truth)
    inside = [fifth == place for place in range(FIFTHS)]
    parts = tuple(occupancy(units[each], truth[each], released[each]) for each in inside)
    return LevelOccupancy(geolevel, quintiles(truth, released - truth), parts)


def occupancy(units: NDArray[np.int64], truth: NDArray[np.int64], released: NDArray[np.int64]) -> Occupancy:
    """Count full geounits; there may be none."""
    exist = units > 0
    full, full_now = exist & (truth == units), exist & (released == units)
    over = exist & (released > units)
    households = (each[exist] for each in (truth, released))
    counts = (exist, full, full_now, full_now & ~full, over, units, *households)
    return Occupancy(*(int(count.sum()) for count in counts))


def wilson_interval(hits: int, number: int, level: float) -> Interval:
    """Interval of a share over geounits (Wilson 1927), which holds at small numbers, and at a share of 0 or 1."""
    z = float(ndtri((1 + level) / 2))
    middle = (hits + z * z / 2) / (number + z * z)
    half = z / (number + z * z) * (hits * (number - hits) / number + z * z / 4) ** 0.5
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if hits == 0 else middle - half
    return Interval(low, 1.0 if hits == number else middle + half, level, "geounits")


#: Independent draws of the noise by which the bias of the unconstrained arm is examined: they cost next to nothing.
_REPEATS: Final = 20


@dataclass(frozen=True, slots=True)
class OccupancySettings:
    """The size of a study."""

    seed: int = 2010  # of the simulated nation and of the key of the noise
    states: int = 5
    counties: int = 62  # counties of each; the United States and Puerto Rico have 62 on average
    follow_up_to: int = 5_000  # counties of at most so many housing units are followed down to the block


@dataclass(frozen=True, slots=True, eq=False)
class CountyRelease:
    """Households of every county, in truth and in every arm."""

    units: Counts  # housing units, (counties,)
    truth: Counts  # true households, (counties,)
    released: Mapping[str, Counts]  # released households by arm, (counties,) each


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyStudy:
    """All that one simulation shows."""

    settings: OccupancySettings  # its size
    reports: tuple[OccupancyReport, ...]  # A report an arm, in the order of `ARMS`
    counties: CountyRelease  # the counties one by one
    people: PeopleRelease  # the person side
    broken: tuple[str, ...]  # rules that the release as published breaks, in words; none if the estimator is right
    # Mean difference by quintile of the counties (columns) in the unconstrained arm, in each of `_REPEATS`
    # independent draws of the noise (rows).
    unconstrained: NDArray[np.float64]

    def report(self, arm: Arm) -> OccupancyReport:
        """The report of an arm."""
        return self.reports[ARMS.index(arm)]


def study_occupancy(settings: OccupancySettings, report: Reported = lambda _: None) -> OccupancyStudy:
    """Simulate a nation, release it in every arm, and compare."""
    report(f"simulating {settings.states * settings.counties:,} counties")
    housing = simulate_housing(settings.seed, settings.states, settings.counties, settings.follow_up_to)
    key = RunKey.insecure(f"occupancy {settings.seed}")
    above = housing.levels[: COUNTY + 1]
    report(f"releasing: {AS_PUBLISHED.name}")
    cells = release_households(housing.levels, AS_PUBLISHED, key)
    totals = {AS_PUBLISHED: tuple(cell.sum(axis=1) for cell in cells)}
    for arm in ARMS[1:]:
        report(f"releasing: {arm.name}")
        totals[arm] = release_totals(above, arm, key)
    report("releasing: people")
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
    for repeat in range(_REPEATS):
        key = RunKey.insecure(f"occupancy {seed}, again {repeat}")
        differences = release_totals(levels, UNCONSTRAINED, key)[COUNTY] - truth
        rows.append([np.nan if one.box is None else one.box.mean for one in quintiles(truth, differences)])
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class StudyFinding:
    """A published phenomenon beside ours."""

    key: str  # short name, such as "VR3"
    what: str  # the phenomenon, in words
    published: str  # what was published of it; empty where it is a rule that must hold
    found: str  # what is found here
    holds: bool  # whether the phenomenon is there, by the criterion that `what` states


_DRAWS: Final = 400_000
#: How far a percentile of the draws may be from the published number, in people.
_AROUND: Final = 1
#: a bias of the unconstrained arm would be reported falsely in one study of a hundred, over all five quintiles.
_FALSE_ALARM: Final = 0.01
#: Counties that may be full by chance where nothing makes them so.
_BY_CHANCE: Final = 0.01
_COUNTY: Final = "County"


def occupancy_findings(study: OccupancyStudy, allocation: tuple[Allocation, ...]) -> tuple[StudyFinding, ...]:
    """All checks on a study."""
    return (
        _scales(allocation),
        _noise(study.settings.seed),
        *_phenomena(study),
        *_ablations(study),
        _people(study),
        _rules(study),
        _toy(),
    )


def _scales(allocation: tuple[Allocation, ...]) -> StudyFinding:
    agree = sum(line.agrees for line in allocation)
    return StudyFinding(
        "VR1",
        "scales 2 / epsilon of 13 queries in 2 groups of geolevels, to 2 decimals",
        f"{len(allocation)} scales in table 2",
        f"{agree} of {len(allocation)} agree",
        agree == len(allocation),
    )


def _noise(seed: int) -> StudyFinding:
    narrow = np.abs(drawn_noise(published.FIGURE_1_SCALE, _DRAWS, seed))
    wide = np.abs(drawn_noise(published.WIDE_SCALE, _DRAWS, seed))
    found = (np.median(narrow), np.quantile(narrow, 0.95), np.median(wide))
    wanted = (published.FIGURE_1_HALF, published.FIGURE_1_MOST, published.WIDE_HALF)
    return StudyFinding(
        "VR2",
        f"of {_DRAWS:,} exact draws: median and 95th percentile of |x| at scale 41.67, median at 83.33 "
        f"(within {_AROUND})",
        ", ".join(map(str, wanted)),
        ", ".join(f"{value:g}" for value in found),
        all(abs(mine - theirs) <= _AROUND for mine, theirs in zip(found, wanted, strict=True)),
    )


def _phenomena(study: OccupancyStudy) -> tuple[StudyFinding, StudyFinding]:
    county = study.report(AS_PUBLISHED).level(_COUNTY)
    whole, filled = county.occupancy, [part.filled for part in county.parts]
    share = Fraction(published.FULL_COUNTIES, published.COUNTIES)
    medians = _medians(county.quintiles)
    raised = published.RAISED_QUINTILES
    return (
        StudyFinding(
            "VR3",
            "counties that had vacant units are full in the release; none is in truth; half of them or more are in the "
            "two lowest quintiles",
            f"{published.FULL_COUNTIES} of {published.COUNTIES:,} counties ({float(share):.1%}); "
            f"{published.FULL_COUNTIES_IN_TRUTH} in Summary File 1",
            f"{_share(county)}; {whole.full_in_truth} in truth; by quintile {', '.join(map(str, filled))}",
            whole.filled > 0 and whole.full_in_truth == 0 and 2 * sum(filled[:2]) >= whole.filled,
        ),
        StudyFinding(
            "VR4",
            "median difference of households above 0 in the three lowest quintiles of counties, below 0 in the highest",
            "three lowest above 0 (figure 2)",
            _signed(medians),
            bool((medians[:raised] > 0).all() and medians[-1] < 0),
        ),
    )


def _ablations(study: OccupancyStudy) -> tuple[StudyFinding, StudyFinding, StudyFinding]:
    base, unbounded, rich = (study.report(arm).level(_COUNTY) for arm in (AS_PUBLISHED, UNBOUNDED, RICH))
    intervals, holds = unbiased(study.unconstrained)
    more, less = (np.abs(_means(each.quintiles))[[0, -1]] for each in (base, rich))
    chance = max(1.0, _BY_CHANCE * unbounded.occupancy.had_vacancies)
    return (
        StudyFinding(
            "VR5 a",
            f"without nonnegativity (and bound) the bias by quintile vanishes: mean over {len(study.unconstrained)} "
            f"draws of the noise, Student's t, false alarm {_FALSE_ALARM:.0%} over all quintiles",
            "",
            f"{'; '.join(f'{interval.low:+,.0f} to {interval.high:+,.0f}' for interval in intervals)}; as published "
            f"{_signed(_means(base.quintiles))}",
            holds,
        ),
        StudyFinding(
            "VR5 b",
            f"without the housing units as upper bound full counties vanish (but {_BY_CHANCE:.0%} or one, by chance)",
            "",
            f"{_share(unbounded)}; as published {_share(base)}; {unbounded.occupancy.overfull} have more households "
            "than housing units",
            unbounded.occupancy.filled <= chance,
        ),
        StudyFinding(
            "VR5 c",
            "with ten times the budget there are fewer full counties, and less bias in the lowest and highest quintile",
            "",
            f"{_share(rich)} instead of {_share(base)}; mean differences {_signed(_means(rich.quintiles))} instead of "
            f"{_signed(_means(base.quintiles))}",
            bool((less < more).all() and rich.occupancy.filled < max(1, base.occupancy.filled)),
        ),
    )


def unbiased(means: NDArray[np.float64]) -> tuple[tuple[Interval, ...], bool]:
    """Whether means over independent draws are compatible with no bias in any quintile."""
    columns = means[:, ~np.isnan(means).any(axis=0)].T
    level = 1 - _FALSE_ALARM / len(columns)  # Bonferroni: quintiles share the false alarm
    found = tuple(over_runs(column.tolist(), level) for column in columns)
    return found, all(each.low <= 0 <= each.high for each in found)


def _people(study: OccupancyStudy) -> StudyFinding:
    people = study.people
    ends = [_means(each)[[0, -1]] for each in (people.by_size, people.by_diversity)]
    wrong = int(np.count_nonzero(people.state_errors))
    return StudyFinding(
        "VR6",
        "people: totals of states unchanged; mean error of counties above 0 in the smallest and the most homogeneous "
        "quintile, below 0 in the largest and the most diverse",
        "state totals invariant; small subgroups and places gain",
        f"{wrong} states changed; by size {_signed(_means(people.by_size))}; by number of occupied cells "
        f"{_signed(_means(people.by_diversity))}",
        wrong == 0 and all(first > 0 > last for first, last in ends),
    )


def _rules(study: OccupancyStudy) -> StudyFinding:
    return StudyFinding(
        "VR7",
        "households at most the housing units in every geounit, whole numbers from 0, children sum to their parent "
        "cell by cell",
        "constraints of the release",
        "; ".join(study.broken) or "no rule is broken, down to the block",
        not study.broken,
    )


def _toy() -> StudyFinding:
    table, noise = (np.array(each, dtype=np.int64) for each in (published.TOY_TABLE, published.TOY_NOISE))
    noisy = table + noise
    imposed = _imposed_total(noisy, int(table.sum()))
    return StudyFinding(
        "VR8",
        "independent noise on the 3 x 2 example moves its total, unless the total is imposed",
        f"total 100 becomes {published.TOY_NOISY_TOTAL}",
        f"total {table.sum()} becomes {noisy.sum()}; {imposed.sum()} where it is imposed",
        noisy.sum() == published.TOY_NOISY_TOTAL and imposed.sum() == table.sum() and bool((imposed >= 0).all()),
    )


def _imposed_total(noisy: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The estimate from noisy cells whose total is exact."""
    schema = Schema("toy", tuple(Attribute(name, tuple("abc"[:size])) for name, size in (("sex", 2), ("attends", 3))))
    detailed = schema.query("detailed")
    measured = FamilyMeasurement(detailed, np.arange(schema.size), noisy.reshape(1, -1), np.ones(1))
    exact = np.array([[total]], dtype=np.int64)
    bound = FamilyBounds("total", schema.query("total"), exact, exact)
    result = estimate_family(FamilyProblem("", None, ("toy",), schema.size, (measured,), (bound,)), FamilyPlan("toy"))
    return result.counts


def _share(level: LevelOccupancy) -> str:
    """Filled counties, of those that had vacancies, with the interval of the share."""
    whole = level.occupancy
    text = f"{whole.filled} of {whole.had_vacancies:,}"
    if whole.interval is None:
        return text
    return f"{text} ({whole.share_filled:.1%}, 95 % interval {whole.interval.low:.1%} to {whole.interval.high:.1%})"


def _medians(quintiles: tuple[Quintile, ...]) -> NDArray[np.float64]:
    return np.array([np.nan if one.box is None else one.box.median for one in quintiles])


def _means(quintiles: tuple[Quintile, ...]) -> NDArray[np.float64]:
    return np.array([np.nan if one.box is None else one.box.mean for one in quintiles])


def _signed(values: NDArray[np.float64]) -> str:
    return ", ".join("-" if np.isnan(value) else f"{value:+,.0f}" for value in values)
