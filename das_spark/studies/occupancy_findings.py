"""The checks VR1 to VR8: every published phenomenon of the demonstration of 2019 beside what a study shows.

Source of the phenomena: Van Riper, Kugler and Ruggles (2020), sections 1.3, 2 and 3, table 2, figures 1 and 2.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem, estimate_family
from das_spark.evaluation.quintiles import Quintile
from das_spark.evaluation.uncertainty import Interval, over_runs
from das_spark.histogram import Attribute, Schema
from das_spark.studies import published_demonstration as published
from das_spark.studies.allocation import Allocation, drawn_noise
from das_spark.studies.finding import Finding
from das_spark.studies.occupancy import OccupancyStudy
from das_spark.studies.occupancy_arms import AS_PUBLISHED, RICH, UNBOUNDED
from das_spark.studies.occupancy_measures import LevelOccupancy

_DRAWS: Final = 400_000
#: How far a percentile of the draws may be from the published number, in people.
_AROUND: Final = 1
#: A bias of the unconstrained arm would be reported falsely in one study of a hundred, over all five quintiles.
_FALSE_ALARM: Final = 0.01
#: Counties that may be full by chance where nothing makes them so.
_BY_CHANCE: Final = 0.01
_COUNTY: Final = "County"


def occupancy_findings(study: OccupancyStudy, allocation: tuple[Allocation, ...]) -> tuple[Finding, ...]:
    """All checks on a study.

    Args:
        study: What was simulated.
        allocation: The allocation table.
    """
    return (
        _scales(allocation),
        _noise(study.settings.seed),
        *_phenomena(study),
        *_ablations(study),
        _people(study),
        _rules(study),
        _toy(),
    )


def _scales(allocation: tuple[Allocation, ...]) -> Finding:
    agree = sum(line.agrees for line in allocation)
    return Finding(
        "VR1",
        "scales 2 / epsilon of 13 queries in 2 groups of geolevels, to 2 decimals",
        f"{len(allocation)} scales in table 2",
        f"{agree} of {len(allocation)} agree",
        agree == len(allocation),
    )


def _noise(seed: int) -> Finding:
    narrow = np.abs(drawn_noise(published.FIGURE_1_SCALE, _DRAWS, seed))
    wide = np.abs(drawn_noise(published.WIDE_SCALE, _DRAWS, seed))
    found = (np.median(narrow), np.quantile(narrow, 0.95), np.median(wide))
    wanted = (published.FIGURE_1_HALF, published.FIGURE_1_MOST, published.WIDE_HALF)
    return Finding(
        "VR2",
        f"of {_DRAWS:,} exact draws: median and 95th percentile of |x| at scale 41.67, median at 83.33 "
        f"(within {_AROUND})",
        ", ".join(map(str, wanted)),
        ", ".join(f"{value:g}" for value in found),
        all(abs(mine - theirs) <= _AROUND for mine, theirs in zip(found, wanted, strict=True)),
    )


def _phenomena(study: OccupancyStudy) -> tuple[Finding, Finding]:
    county = study.report(AS_PUBLISHED).level(_COUNTY)
    whole, filled = county.occupancy, [part.filled for part in county.parts]
    share = Fraction(published.FULL_COUNTIES, published.COUNTIES)
    medians = _medians(county.quintiles)
    raised = published.RAISED_QUINTILES
    return (
        Finding(
            "VR3",
            "counties that had vacant units are full in the release; none is in truth; half of them or more are in the "
            "two lowest quintiles",
            f"{published.FULL_COUNTIES} of {published.COUNTIES:,} counties ({float(share):.1%}); "
            f"{published.FULL_COUNTIES_IN_TRUTH} in Summary File 1",
            f"{_share(county)}; {whole.full_in_truth} in truth; by quintile {', '.join(map(str, filled))}",
            whole.filled > 0 and whole.full_in_truth == 0 and 2 * sum(filled[:2]) >= whole.filled,
        ),
        Finding(
            "VR4",
            "median difference of households above 0 in the three lowest quintiles of counties, below 0 in the highest",
            "three lowest above 0 (figure 2)",
            _signed(medians),
            bool((medians[:raised] > 0).all() and medians[-1] < 0),
        ),
    )


def _ablations(study: OccupancyStudy) -> tuple[Finding, Finding, Finding]:
    base, unbounded, rich = (study.report(arm).level(_COUNTY) for arm in (AS_PUBLISHED, UNBOUNDED, RICH))
    intervals, holds = unbiased(study.unconstrained)
    more, less = (np.abs(_means(each.quintiles))[[0, -1]] for each in (base, rich))
    chance = max(1.0, _BY_CHANCE * unbounded.occupancy.had_vacancies)
    return (
        Finding(
            "VR5 a",
            f"without nonnegativity (and bound) the bias by quintile vanishes: mean over {len(study.unconstrained)} "
            f"draws of the noise, Student's t, false alarm {_FALSE_ALARM:.0%} over all quintiles",
            "",
            f"{'; '.join(f'{each.low:+,.0f} to {each.high:+,.0f}' for each in intervals)}; as published "
            f"{_signed(_means(base.quintiles))}",
            holds,
        ),
        Finding(
            "VR5 b",
            f"without the housing units as upper bound full counties vanish (but {_BY_CHANCE:.0%} or one, by chance)",
            "",
            f"{_share(unbounded)}; as published {_share(base)}; {unbounded.occupancy.overfull} have more households "
            "than housing units",
            unbounded.occupancy.filled <= chance,
        ),
        Finding(
            "VR5 c",
            "with ten times the budget there are fewer full counties, and less bias in the lowest and highest quintile",
            "",
            f"{_share(rich)} instead of {_share(base)}; mean differences {_signed(_means(rich.quintiles))} instead of "
            f"{_signed(_means(base.quintiles))}",
            bool((less < more).all() and rich.occupancy.filled < max(1, base.occupancy.filled)),
        ),
    )


def unbiased(means: NDArray[np.float64]) -> tuple[tuple[Interval, ...], bool]:
    """Whether means over independent draws are compatible with no bias in any quintile.

    Args:
        means: Mean difference by draw (rows, two at least) and quintile (columns); an empty quintile has NaN.

    Returns:
        The interval of each quintile that is not empty (Student's t), and whether all of them hold 0. Their level
        shares the false alarm out over the quintiles (Bonferroni).
    """
    columns = means[:, ~np.isnan(means).any(axis=0)].T
    level = 1 - _FALSE_ALARM / len(columns)
    found = tuple(over_runs(column.tolist(), level) for column in columns)
    return found, all(each.low <= 0 <= each.high for each in found)


def _people(study: OccupancyStudy) -> Finding:
    people = study.people
    ends = [_means(each)[[0, -1]] for each in (people.by_size, people.by_diversity)]
    wrong = int(np.count_nonzero(people.state_errors))
    return Finding(
        "VR6",
        "people: totals of states unchanged; mean error of counties above 0 in the smallest and the most homogeneous "
        "quintile, below 0 in the largest and the most diverse",
        "state totals invariant; small subgroups and places gain",
        f"{wrong} states changed; by size {_signed(_means(people.by_size))}; by number of occupied cells "
        f"{_signed(_means(people.by_diversity))}",
        wrong == 0 and all(first > 0 > last for first, last in ends),
    )


def _rules(study: OccupancyStudy) -> Finding:
    return Finding(
        "VR7",
        "households at most the housing units in every geounit, whole numbers from 0, children sum to their parent "
        "cell by cell",
        "constraints of the release",
        "; ".join(study.broken) or "no rule is broken, down to the block",
        not study.broken,
    )


def _toy() -> Finding:
    table, noise = (np.array(each, dtype=np.int64) for each in (published.TOY_TABLE, published.TOY_NOISE))
    noisy = table + noise
    held = _held_total(noisy, int(table.sum()))
    return Finding(
        "VR8",
        "independent noise on the 3 x 2 example moves its total, unless the total is imposed",
        f"total 100 becomes {published.TOY_NOISY_TOTAL}",
        f"total {table.sum()} becomes {noisy.sum()}; {held.sum()} where it is imposed",
        noisy.sum() == published.TOY_NOISY_TOTAL and held.sum() == table.sum() and bool((held >= 0).all()),
    )


def _held_total(noisy: NDArray[np.int64], total: int) -> NDArray[np.int64]:
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
