"""Rows of the accuracy report by query and by population of the geounits, and what is computed from them.

Each is kept in parts, one a class of population or index of homogeneity, with nothing but integers that add up; all
classes together, classes above a size, and several runs together are sums of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any, Final, Literal

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation.metrics import Frequencies, absolute_quantiles, figures, pooled
from das_spark.evaluation.tallies import (
    BINS,
    COUNTED,
    DEFINITIONS,
    EMPTY,
    GEOUNITS,
    PARTS,
    SUM,
    UNDEFINED,
    WITHIN,
    Bins,
    Comparison,
    Definition,
    ErrorTally,
    TallyLine,
)
from das_spark.evaluation.uncertainty import LEVEL, Interval, interval_of_mean, over_runs

#: What stands for all classes of population together.
ALL: Final = "all"
#: The criteria are told of all geounits, and of those with at least so many people: the size from which the Census
#: Bureau, when it announced the criterion in spring 2021, wanted it met (`das_spark.evaluation.present.AIM`).
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
    def all_classes(self) -> ErrorPart:
        """All classes together."""
        return _joined(self.parts)

    def rows(self) -> Iterator[tuple[str, ErrorPart]]:
        """All classes together, then each, with its label."""
        yield ALL, self.all_classes
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
    def all_classes(self) -> CriterionPart:
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
        yield ALL, self.all_classes
        begins = set(map(self.bins.least, range(self.bins.number)))
        for least in LEAST_POPULATIONS:
            if least in begins:
                yield f"{ALL} with {least:,} or more", self.at_least(least)

    def rows(self) -> Iterator[tuple[str, CriterionPart]]:
        """What `overall` gives, then each class, with labels."""
        yield from self.overall()
        yield from ((self.bins.label(part.bin), part) for part in self.parts)


def metric_rows_of(place: str, comparison: Comparison, summed: ErrorTally) -> tuple[list[QueryErrors], list[Criterion]]:
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


def _sums(found: ErrorTally) -> dict[int, dict[int, int]]:
    """Class -> which sum -> the sum."""
    sums: dict[int, dict[int, int]] = {}
    for bin_, value, frequency in zip(*map(list, (found.bin, found.value, found.frequency)), strict=True):
        sums.setdefault(int(bin_), {})[int(value)] = int(frequency)
    return dict(sorted(sums.items()))


def _error_parts(
    line: TallyLine, found: ErrorTally, geounits: Mapping[int, Mapping[int, int]], answers: int
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
    """One line of several runs together: geounits and counts of each run count."""
    first = lines[0]
    return QueryErrors(first.place, first.query, first.answers, first.bins, _by_bin(lines, _joined))


def pooled_criterion(lines: Sequence[Criterion]) -> Criterion:
    """One line of several runs together: geounits of each run count."""
    first = lines[0]
    return Criterion(first.place, first.name, first.query, first.bins, _by_bin(lines, _met))


def _by_bin(lines: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> tuple[Any, ...]:
    """The parts of one class of all lines together, class by class."""
    parts: dict[int, list[Any]] = {}
    for line in lines:
        for part in line.parts:
            parts.setdefault(part.bin, []).append(part)
    return tuple(join(parts[bin_]) for bin_ in sorted(parts))


def _number_json(value: float) -> float | None:
    """JSON knows no NaN.

    Returns:
        The number, or None for NaN.
    """
    return None if value != value else value  # noqa: PLR0124 - NaN


def numbers_json(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name, without NaN.

    Returns:
        The same, with None for NaN.
    """
    return {name: _number_json(value) for name, value in numbers.items()}


def residuals_json(frequencies: Frequencies) -> dict[str, list[int]]:
    """How often each residual occurs.

    Returns:
        Distinct residuals (`values`) and how often each occurs (`counts`).
    """
    return {"values": frequencies.values.tolist(), "counts": frequencies.counts.tolist()}


def frequencies_of_json(content: Mapping[str, Any], double_zero: int) -> Frequencies:
    """The same, read again."""
    values, counts = (np.array(content[name], dtype=np.int64) for name in ("values", "counts"))
    return Frequencies(values, counts, double_zero)


def errors_json(line: QueryErrors) -> dict[str, Any]:
    """The errors of a query with their figures; residuals by class, so that runs can be pooled later."""
    return {
        "place": line.place,
        "query": line.query,
        "answers": line.answers,
        "bins": line.bins.name,
        "figures": _figures(line.all_classes),
        "by_population": [
            {
                "population": line.bins.label(part.bin),
                "bin": part.bin,
                "figures": _figures(part),
                "residuals": residuals_json(part.frequencies),
            }
            for part in line.parts
        ],
    }


def errors_of_json(content: Mapping[str, Any]) -> QueryErrors:
    """The same, read again; figures are computed anew."""
    parts = []
    for part in content["by_population"]:
        shown = part["figures"]
        frequencies = frequencies_of_json(part["residuals"], shown["double_zero"])
        parts.append(ErrorPart(part["bin"], shown["geounits"], shown["counted"], frequencies))
    bins = BINS[content["bins"]]
    return QueryErrors(content["place"], content["query"], content["answers"], bins, tuple(parts))


def criterion_json(line: Criterion) -> dict[str, Any]:
    """A criterion with its figures and the sums that they are made of."""
    return {
        "place": line.place,
        "criterion": line.name,
        "query": line.query,
        "bins": line.bins.name,
        "figures": [{"population": label} | numbers_json(part.numbers()) for label, part in line.rows()],
        "sums": [asdict(part) for part in line.parts],
    }


def criterion_of_json(content: Mapping[str, Any]) -> Criterion:
    """The same, read again; figures are computed anew."""
    parts = tuple(CriterionPart(**part) for part in content["sums"])
    return Criterion(content["place"], content["criterion"], content["query"], BINS[content["bins"]], parts)


def _figures(part: ErrorPart) -> dict[str, Any]:
    return numbers_json(part.numbers()) | {name: list(values) for name, values in part.lists().items()}


#: What is told of the residuals of each index, beside the bias and its intervals.
_FIGURES = ("rmse", "median_absolute", "p95_absolute")


@dataclass(frozen=True, slots=True)
class HomogeneityRow:
    """Residuals of totals in one geolevel by the homogeneity index of the geounit.

    Attributes:
        place: The geolevel.
        definition: Which index.
        strata: Name of the query of stratified counts.
        cells: How many strata it has.
        parts: Index and residuals, ascending; an index that no geounit has is missing.
        of_runs: Where runs are pooled: index and the bias of each run, people, of indices that every run has.
    """

    place: str
    definition: Definition
    strata: str
    cells: int
    parts: tuple[tuple[int, Frequencies], ...]
    of_runs: tuple[tuple[int, tuple[float, ...]], ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells lines apart."""
        return (self.place, self.definition, self.strata)

    def numbers(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        """Of every index how many residuals, the bias in people, and what is told of residuals elsewhere.

        `low` and `high` are the ends of the 95 % interval of the bias over residuals (Student's t, as if they were
        independent), NaN for a single one; `low_over_runs` and `high_over_runs` those over the biases of the runs, NaN
        for a single run.
        """
        biases = dict(self.of_runs)
        for index, residuals in self.parts:
            shown, runs = figures(residuals), biases.get(index, ())
            low, high = _ends(interval_of_mean(residuals.values, residuals.counts, LEVEL))
            found = {"n": shown.n, "bias": shown.bias, "low": low, "high": high}
            found["low_over_runs"], found["high_over_runs"] = _ends(over_runs(runs, LEVEL) if len(runs) > 1 else None)
            yield index, found | {name: getattr(shown, name) for name in _FIGURES}


def homogeneity_rows_of(place: str, comparison: Comparison, summed: ErrorTally) -> list[HomogeneityRow]:
    """The lines of a geolevel, one a definition of the index; none where the comparison has no strata.

    Args:
        place: The geolevel.
        comparison: What was compared.
        summed: Tallies of all geounits; each line, index and residual once, residuals ascending in an index.
    """
    found = []
    for at, line in enumerate(comparison.lines()):
        if line.subject in DEFINITIONS:
            strata, rows = comparison.queries[line.query], summed.of(at)
            parts = [
                (int(index), Frequencies(rows.value[rows.bin == index], rows.frequency[rows.bin == index]))
                for index in np.unique(rows.bin)
            ]
            found.append(HomogeneityRow(place, line.subject, strata.name, strata.rows, tuple(parts)))
    return found


def pooled_homogeneity(lines: Sequence[HomogeneityRow]) -> HomogeneityRow:
    """One line of several runs together."""
    parts: dict[int, list[Frequencies]] = {}
    for line in lines:
        for index, residuals in line.parts:
            parts.setdefault(index, []).append(residuals)
    whole = tuple((index, pooled(parts[index])) for index in sorted(parts))
    biases = tuple(
        (index, tuple(figures(each).bias for each in parts[index]))
        for index in sorted(parts)
        if len(parts[index]) == len(lines) > 1
    )
    first = lines[0]
    return HomogeneityRow(first.place, first.definition, first.strata, first.cells, whole, biases)


def _ends(interval: Interval | None) -> tuple[float, float]:
    return (nan, nan) if interval is None else (interval.low, interval.high)


def homogeneity_json(line: HomogeneityRow) -> dict[str, Any]:
    """A line as JSON values, with its residuals, so that runs can be pooled later."""
    parts = [
        {"index": index, "figures": numbers_json(numbers), "residuals": residuals_json(residuals)}
        for (index, numbers), (_, residuals) in zip(line.numbers(), line.parts, strict=True)
    ]
    return {
        "place": line.place,
        "definition": line.definition,
        "strata": line.strata,
        "cells": line.cells,
        "by_index": parts,
    }


def homogeneity_of_json(content: Mapping[str, Any]) -> HomogeneityRow:
    """The same, read again; figures are computed anew, but those over runs: residuals are kept of all runs together."""
    parts = tuple((part["index"], frequencies_of_json(part["residuals"], 0)) for part in content["by_index"])
    return HomogeneityRow(content["place"], content["definition"], content["strata"], content["cells"], parts)
