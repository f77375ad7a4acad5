"""Lines of the accuracy report by query and by population of the geounits, and what is computed from them.

A line is kept in parts, one a class of population, with nothing but integers that add up; whole lines, lines above a
size, and several runs together are sums of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.bins import Bins
from das_spark.evaluation.metrics import Frequencies, absolute_quantiles, figures, pooled
from das_spark.evaluation.shares import PARTS
from das_spark.evaluation.tally import COUNTED, EMPTY, GEOUNITS, SUM, UNDEFINED, WITHIN, Comparison, Line, Tally

#: What stands for all classes of population together.
ALL: Final = "all"
#: The criteria are told of all geounits, and of those with at least so many people: the size from which the Census
#: Bureau, when it announced the criterion in spring 2021, wanted it met (`das_spark.evaluation.figures.AIM`).
LEAST_POPULATIONS: Final = (500,)

CriterionName = Literal["largest group", "total"]


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """The errors of a query in the geounits of one class of population.

    Attributes:
        bin: Class of population; -1 for several together.
        geounits: How many geounits.
        counted: What they hold, in confidential counts.
        frequencies: Residuals of the answers.
    """

    bin: int
    geounits: int
    counted: int
    frequencies: Frequencies

    @property
    def one_minus_tvd(self) -> float:
        """One minus the total variation distance: 1 - L1 / (2 counted); NaN where nothing is counted."""
        return 1 - self.frequencies.absolute_sum / (2 * self.counted) if self.counted else nan

    def numbers(self) -> dict[str, float]:
        """Every figure that is one number, by name; NaN where there is none."""
        shown, l1 = figures(self.frequencies), self.frequencies.absolute_sum
        return {
            "geounits": self.geounits,
            "counted": self.counted,
            "n": shown.n,
            "double_zero": shown.double_zero,
            "exact": self.frequencies.exact,
            "l1": l1,
            "l1_per_geounit": l1 / self.geounits if self.geounits else nan,
            "one_minus_tvd": self.one_minus_tvd,
            "mean_absolute": shown.mean_absolute,
            "median_absolute": shown.median_absolute,
            "p95_absolute": shown.p95_absolute,
            "bias": shown.bias,
            "rmse": shown.rmse,
            "largest": shown.largest,
        }

    def lists(self) -> dict[str, tuple[float, ...]]:
        """Every figure that is a list of quantiles, by name."""
        return {
            "absolute_quantiles": absolute_quantiles(self.frequencies),
            "absolute_quantiles_of_wrong": absolute_quantiles(self.frequencies, wrong_only=True),
        }


@dataclass(frozen=True, slots=True)
class CriterionPart:
    """In how many geounits of one class of population a criterion is met.

    Attributes:
        bin: Class of population; -1 for several together.
        geounits: How many geounits.
        within: In how many of them the difference is at most 5/100.
        undefined: How many of them have no difference; they are not within.
        parts: Sum of the differences, in billionths.
    """

    bin: int
    geounits: int
    within: int
    undefined: int
    parts: int

    def numbers(self) -> dict[str, float]:
        """Every figure by name; NaN where there is none."""
        defined = self.geounits - self.undefined
        return {
            "geounits": self.geounits,
            "within": self.within,
            "undefined": self.undefined,
            "share_within": self.within / self.geounits if self.geounits else nan,
            "mean_difference": self.parts / PARTS / defined if defined else nan,
        }


@dataclass(frozen=True, slots=True)
class QueryErrors:
    """Errors of one query in one geolevel.

    Attributes:
        place: The geolevel.
        query: Name of the query; `total` counts every geounit, other queries answers that are not zero in both.
        answers: How many answers the query has.
        bins: Classes of population.
        parts: Ascending by class; classes without geounits are missing.
    """

    place: str
    query: str
    answers: int
    bins: Bins
    parts: tuple[ErrorPart, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What tells lines apart."""
        return (self.place, self.query, self.bins.name)

    @property
    def whole(self) -> ErrorPart:
        """All classes together."""
        return _joined(self.parts)

    def rows(self) -> Iterator[tuple[str, ErrorPart]]:
        """All classes together, then each, with its label."""
        yield ALL, self.whole
        yield from ((self.bins.label(part.bin), part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Criterion:
    """How often a difference of shares, or a relative error, is small in one geolevel.

    Attributes:
        place: The geolevel.
        name: `largest group`: difference of the share of the largest group; `total`: relative error of the total.
        query: The groups, or `total`.
        bins: Classes of population.
        parts: Ascending by class; classes without geounits are missing.
    """

    place: str
    name: CriterionName
    query: str
    bins: Bins
    parts: tuple[CriterionPart, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What tells lines apart."""
        return (self.place, self.name, self.query, self.bins.name)

    @property
    def measure(self) -> str:
        """Name and groups, as a spread calls the line."""
        return f"{self.name}: {self.query}"

    @property
    def whole(self) -> CriterionPart:
        """All classes together."""
        return _met(self.parts)

    def at_least(self, population: int) -> CriterionPart:
        """The geounits with at least so many people.

        Args:
            population: People: the smallest population of a class.

        Raises:
            InputError: No class begins there.
        """
        if population not in map(self.bins.least, range(self.bins.number)):
            raise InputError(f"no class of {self.bins.name} begins at {population}")
        return _met([part for part in self.parts if self.bins.least(part.bin) >= population])

    def overall(self) -> Iterator[tuple[str, CriterionPart]]:
        """All classes together, and those above some sizes, with labels."""
        yield ALL, self.whole
        begins = set(map(self.bins.least, range(self.bins.number)))
        for least in LEAST_POPULATIONS:
            if least in begins:
                yield f"{ALL} with {least:,} or more", self.at_least(least)

    def rows(self) -> Iterator[tuple[str, CriterionPart]]:
        """What `overall` gives, then each class, with labels."""
        yield from self.overall()
        yield from ((self.bins.label(part.bin), part) for part in self.parts)


def lines_of(place: str, comparison: Comparison, summed: Tally) -> tuple[list[QueryErrors], list[Criterion]]:
    """The lines of a geolevel.

    Args:
        place: The geolevel.
        comparison: What was compared.
        summed: Tallies of all geounits; each line, class and value once, values ascending in a class.
    """
    lines = comparison.lines()
    geounits = {line.bins: _sums(summed.of(at)) for at, line in enumerate(lines) if line.subject == "geounits"}
    errors, criteria = [], []
    for at, line in enumerate(lines):
        query, found = comparison.queries[line.query], summed.of(at)
        if line.subject == "errors":
            parts = _error_parts(line, found, geounits[line.bins], query.rows)
            errors.append(QueryErrors(place, query.name, query.rows, line.bins, parts))
        elif line.subject == "criterion":
            name: CriterionName = "largest group" if line.query else "total"
            sums = _sums(found)
            some = tuple(
                CriterionPart(bin_, of[GEOUNITS], *(sums[bin_][each] for each in (WITHIN, UNDEFINED, SUM)))
                for bin_, of in geounits[line.bins].items()
            )
            criteria.append(Criterion(place, name, query.name, line.bins, some))
    return errors, criteria


def _sums(found: Tally) -> dict[int, dict[int, int]]:
    """Class -> which sum -> the sum."""
    sums: dict[int, dict[int, int]] = {}
    for bin_, value, frequency in zip(*map(list, (found.bin, found.value, found.frequency)), strict=True):
        sums.setdefault(int(bin_), {})[int(value)] = int(frequency)
    return dict(sorted(sums.items()))


def _error_parts(
    line: Line, found: Tally, geounits: Mapping[int, Mapping[int, int]], answers: int
) -> tuple[ErrorPart, ...]:
    parts = []
    for bin_, of in geounits.items():
        here = found.bin == bin_
        values, counts = found.value[here], found.frequency[here]
        # The total counts everywhere, and tells how often it is zero in both; other answers are left out there.
        double_zero = of[EMPTY] if line.query == 0 else of[GEOUNITS] * answers - int(counts.sum())
        parts.append(ErrorPart(bin_, of[GEOUNITS], of[COUNTED], Frequencies(values, counts, double_zero)))
    return tuple(parts)


def _joined(parts: Sequence[ErrorPart]) -> ErrorPart:
    """Parts together, of several classes or of several runs."""
    return ErrorPart(
        parts[0].bin if len({part.bin for part in parts}) == 1 else -1,
        sum(part.geounits for part in parts),
        sum(part.counted for part in parts),
        pooled([part.frequencies for part in parts]),
    )


def _met(parts: Sequence[CriterionPart]) -> CriterionPart:
    """Parts together, of several classes or of several runs."""
    return CriterionPart(
        parts[0].bin if len({part.bin for part in parts}) == 1 else -1,
        sum(part.geounits for part in parts),
        sum(part.within for part in parts),
        sum(part.undefined for part in parts),
        sum(part.parts for part in parts),
    )


def pooled_errors(lines: Sequence[QueryErrors]) -> QueryErrors:
    """One line of several runs together: geounits and counts of each run count.

    Args:
        lines: Of one key and number of answers, at least one.
    """
    first = lines[0]
    return QueryErrors(first.place, first.query, first.answers, first.bins, _by_bin(lines, _joined))


def pooled_criterion(lines: Sequence[Criterion]) -> Criterion:
    """One line of several runs together: geounits of each run count.

    Args:
        lines: Of one key, at least one.
    """
    first = lines[0]
    return Criterion(first.place, first.name, first.query, first.bins, _by_bin(lines, _met))


def _by_bin(lines: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> tuple[Any, ...]:
    """The parts of one class of all lines together, class by class."""
    parts: dict[int, list[Any]] = {}
    for line in lines:
        for part in line.parts:
            parts.setdefault(part.bin, []).append(part)
    return tuple(join(parts[bin_]) for bin_ in sorted(parts))
