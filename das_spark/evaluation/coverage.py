"""How often published intervals cover the confidential counts, by geolevel, table and population. RESTRICTED."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.report import PAGE, PEOPLE, Axis, Curve, Figure, Panel, ReportSection, ReportTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Least people of each class of geounits; the last class is open.
CLASSES: Final = (0, 1, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000)
ALL: Final = "all"
#: What intervals are made of: the noisy measurements alone, or replicates of the run, about its published counts.
MEASUREMENTS: Final = "measurements"
REPLICATES_OF_RUN: Final = "replicates"
_HEADINGS: Final = {
    MEASUREMENTS: "Coverage of intervals by the measurements",
    REPLICATES_OF_RUN: "Coverage of intervals of published counts",
}
_KINDS: Final = {
    MEASUREMENTS: (
        "Intervals are of the noisy measurements alone and unbiased whatever the size of a geounit; ends below 0 are "
        "0, so that small counts are covered more often than {level:g} %."
    ),
    REPLICATES_OF_RUN: (
        "Intervals are about the published counts, from replicates of the run. They hold on average over counts of "
        "about one size, and know the noise better than the bias: where keeping counts nonnegative moves them most, "
        "such as totals of blocks and people in group quarters, the output has lost what the truth had, a run on it "
        "errs less than the run did, and they cover less."
    ),
}
_NOTE: Final = (
    "How often the interval of a column of a table covers the confidential count, and its mean width (greatest minus "
    "least count). {kind} Columns of one geounit depend on each other: a share has a larger standard error than that "
    "of so many independent intervals, which is shown. Counts that are exact are left out."
)
_WIDTHS: Final = (
    "Mean width of the interval of the first column of each table against the population of the geounit, by classes of "
    "population; what is exact is left out."
)


def class_name(place: int) -> str:
    """What a class of geounits is called, by its place."""
    ends = [*CLASSES[1:], None]
    least, end = CLASSES[place], ends[place]
    if end is None:
        return f"{least:,} and more"
    return f"{least:,}" if end == least + 1 else f"{least:,} to {end - 1:,}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The intervals of the columns of one table at one geolevel, in geounits of one class of population.

    Attributes:
        place: The geolevel.
        table: Name of the table; with " (total)" behind it its first column alone.
        population: Place of the class in `CLASSES`.
        intervals: How many there are, exact counts left out.
        covered: How many of them cover the confidential count.
        width: Sum of their widths, greatest minus least count.
        exact: Counts that are exact.
        level: Probability that the intervals are made for.
        of: What they are made of, `MEASUREMENTS` or `REPLICATES_OF_RUN`.
    """

    place: str
    table: str
    population: int
    intervals: int
    covered: int
    width: int
    exact: int
    level: float
    of: str = MEASUREMENTS

    @property
    def key(self) -> tuple[str, str, str, int, float]:
        """Which line it is."""
        return self.of, self.place, self.table, self.population, self.level

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the figures that follow."""
        numbers = {name: None if isnan(value) else value for name, value in _numbers(self).items()}
        return {**asdict(self), **numbers}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Coverage:
        """The reverse of `to_json`."""
        return cls(**{name: content[name] for name in cls.__dataclass_fields__})


def tally_coverage(
    truth: NDArray[np.int64],
    standard_error: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    population: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Counts of intervals by class of population.

    Args:
        truth: Confidential counts of K geounits in c columns, shape ``(K, c)``; likewise the following.
        standard_error: Of the estimates; 0 of what is exact.
        low: Least count of each interval.
        high: Greatest count of each interval.
        population: Confidential number of people of each geounit, shape ``(K,)``.

    Returns:
        Intervals, covered ones, their widths and exact counts by class, shape ``(classes, 4)``.
    """
    place = np.searchsorted(CLASSES, population, side="right") - 1
    covered = (low <= truth) & (truth <= high)
    uncertain = (standard_error > _EXACT) | ~covered  # what is said to be exact and is not counts, too
    parts = (
        uncertain,
        uncertain & covered,
        np.where(uncertain, high - low, 0),
        ~uncertain,
    )
    found = np.zeros((len(CLASSES), len(parts)), dtype=np.int64)
    for number, part in enumerate(parts):
        np.add.at(found[:, number], place, part.sum(axis=1, dtype=np.int64))
    return found


#: Standard errors below it are rounding errors of exact counts.
_EXACT: Final = 1e-4


def pooled_coverage(rows: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Several runs as one: sums, line by line, in the order of the first."""
    found: dict[tuple[str, str, str, int, float], Coverage] = {}
    for row in rows:
        found[row.key] = _sum(found[row.key], row) if row.key in found else row
    return tuple(found.values())


def _sum(one: Coverage, other: Coverage, population: int | None = None) -> Coverage:
    return replace(
        one,
        population=one.population if population is None else population,
        intervals=one.intervals + other.intervals,
        covered=one.covered + other.covered,
        width=one.width + other.width,
        exact=one.exact + other.exact,
    )


def _numbers(row: Coverage) -> dict[str, float]:
    if not row.intervals:
        return {"share": nan, "standard_error": nan, "mean_width": nan}
    share = row.covered / row.intervals
    return {
        "share": share,
        "standard_error": sqrt(share * (1 - share) / row.intervals),
        "mean_width": row.width / row.intervals,
    }


def present_coverage(rows: Sequence[Coverage], counted: str) -> Iterator[ReportSection]:
    """The sections of a report, one for each kind of intervals that there are."""
    for of in _HEADINGS:
        chosen = [row for row in rows if row.of == of]
        if chosen:
            yield _section(chosen, of, counted)


def _section(rows: Sequence[Coverage], of: str, counted: str) -> ReportSection:
    columns = (
        *("place", "table", "population", "intervals", "exact"),
        *(("share", "covered", ".2%"), ("standard_error", "", ".2%"), ("mean_width", "mean width", ",.1f")),
    )
    overall: dict[tuple[str, str, float], Coverage] = {}
    for row in rows:
        key = (row.place, row.table, row.level)
        overall[key] = _sum(overall[key], row, -1) if key in overall else row
    level = 100 * rows[0].level
    name = "coverage" if of == MEASUREMENTS else f"coverage_of_{of}"
    whole = ReportTable.of(
        name, f"Intervals of {level:g} %", columns, [_row(row, ALL) for row in overall.values()], media=PEOPLE
    )
    classes = [_row(row, class_name(row.population)) for row in rows]
    by_size = ReportTable.of(
        f"{name}_by_population", "By population of the geounit", columns, classes, media=PAGE, folded=True
    )
    note = _NOTE.format(kind=_KINDS[of].format(level=level))
    return ReportSection(_HEADINGS[of], (note, whole, by_size, *_figure(rows, counted)))


def _row(row: Coverage, population: str) -> dict[str, Any]:
    return {**asdict(row), **_numbers(row), "population": population}


def _figure(rows: Sequence[Coverage], counted: str) -> Iterator[Figure]:
    """Mean widths of totals, a line a geolevel, a panel a table."""
    panels = []
    for table in dict.fromkeys(row.table for row in rows if row.table.endswith(TOTAL_OF)):
        curves = []
        for at, place in enumerate(dict.fromkeys(row.place for row in rows)):
            chosen = [row for row in rows if (row.table, row.place) == (table, place) and row.intervals]
            points = [(max(CLASSES[row.population], 1), row.width / row.intervals) for row in chosen]
            if points:
                across, up = zip(*points, strict=True)
                curves.append(Curve(across, up, place, at, "solid", at))
        if curves:
            axis = Axis(f"{counted} in the geounit, from (the last class is open)", "decades")
            panels.append(Panel(tuple(curves), axis, Axis(f"width, {counted}", low=0.0), table))
    if panels:
        yield Figure(_WIDTHS, tuple(panels), legend="above", title="Width of intervals by population")


#: What stands behind the name of a table whose first column alone is meant.
TOTAL_OF: Final = " (total)"
