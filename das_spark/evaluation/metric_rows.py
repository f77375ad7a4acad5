"""Rows of the accuracy report by query and by population of the geounits, and what is computed from them.

Each is kept in parts, one a class of population or index of homogeneity, with nothing but integers that add up; all
classes together, classes above a size, and several runs together are sums of parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isnan, nan
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation.metrics import FIGURES, ErrorFigures, Frequencies, pooled
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
#: The criteria are reported of all geounits, and of those with at least so many people: the size from which the Census
#: Bureau, when it announced the criterion in spring 2021, wanted it met (`das_spark.evaluation.present.AIM`).
LEAST_POPULATIONS: Final = (500,)

CriterionName = Literal["largest group", "total"]


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """The errors of a query in the geounits of one class of population."""

    bin: int  # class of population; -1 for several together
    geounits: int  # how many geounits
    counted: int  # what they hold, in confidential counts
    frequencies: Frequencies  # residuals of the answers

    @property
    def one_minus_tvd(self) -> float:
        """One minus the total variation distance: 1 - L1 / (2 counted); NaN where nothing is counted."""
        return 1 - self.frequencies.absolute_sum / (2 * self.counted) if self.counted else nan

    def numbers(self) -> dict[str, float]:
        """Every figure that is one number, by name; NaN where there is none."""
        shown, l1 = self.frequencies.figures, self.frequencies.absolute_sum
        names = ("mean_absolute", "median_absolute", "p95_absolute", "bias", "rmse", "largest")
        return {
            "geounits": self.geounits,
            "counted": self.counted,
            "n": shown.n,
            "double_zero": shown.double_zero,
            "exact": self.frequencies.exact,
            "l1": l1,
            "l1_per_geounit": l1 / self.geounits if self.geounits else nan,
            "one_minus_tvd": self.one_minus_tvd,
            **{name: getattr(shown, name) for name in names},
        }

    def lists(self) -> dict[str, tuple[float, ...]]:
        """Every figure that is a list of quantiles, by name."""
        return {
            "absolute_quantiles": self.frequencies.absolute_quantiles(),
            "absolute_quantiles_of_wrong": self.frequencies.absolute_quantiles(wrong_only=True),
        }


@dataclass(frozen=True, slots=True)
class CriterionPart:
    """In how many geounits of one class of population a criterion is met."""

    bin: int  # class of population; -1 for several together
    geounits: int  # how many geounits
    within: int  # in how many of them the difference is at most 5/100
    undefined: int  # how many of them have no difference; they are not within
    parts: int  # sum of the differences, in billionths

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


_Part = TypeVar("_Part", ErrorPart, CriterionPart)


class _ByPopulation(Generic[_Part]):
    """Rows in parts, ascending by class of population; classes without geounits are missing."""

    _kind: ClassVar[type[Any]]
    bins: Bins
    parts: tuple[_Part, ...]

    @property
    def all_classes(self) -> _Part:
        """All classes together."""
        found: _Part = _together(self._kind, self.parts)
        return found

    def overall(self) -> Iterator[tuple[str, _Part]]:
        """All classes together, with its label."""
        yield ALL, self.all_classes

    def rows(self) -> Iterator[tuple[str, _Part]]:
        """What `overall` gives, then each class, with labels."""
        yield from self.overall()
        yield from ((self.bins.label(part.bin), part) for part in self.parts)


def _together(kind: type[_Part], parts: Sequence[_Part]) -> _Part:
    """Parts together, of several classes or of several runs: all but the class adds up."""
    bin_ = parts[0].bin if len({part.bin for part in parts}) == 1 else -1
    columns = ((of.name, [getattr(part, of.name) for part in parts]) for of in fields(kind) if of.name != "bin")
    sums: list[Any] = [pooled(each) if name == "frequencies" else sum(each) for name, each in columns]
    return kind(bin_, *sums)


@dataclass(frozen=True, slots=True)
class QueryErrors(_ByPopulation[ErrorPart]):
    """Errors of one query in one geolevel."""

    place: str  #: the geolevel
    query: str  #: name of the query; `total` counts every geounit, other queries answers that are not zero in both
    answers: int  #: how many answers the query has
    bins: Bins  #: classes of population
    parts: tuple[ErrorPart, ...]  #: ascending by class; classes without geounits are missing
    _kind = ErrorPart

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the line."""
        return (self.place, self.query, self.bins.name)


@dataclass(frozen=True, slots=True)
class Criterion(_ByPopulation[CriterionPart]):
    """How often a difference of shares, or a relative error, is small in one geolevel."""

    place: str  #: the geolevel
    #: `largest group`: difference of the share of the largest group; `total`: relative error of the total.
    name: CriterionName
    query: str  #: the groups, or `total`
    bins: Bins  #: classes of population
    parts: tuple[CriterionPart, ...]  #: ascending by class; classes without geounits are missing
    _kind = CriterionPart

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the line."""
        return (self.place, self.name, self.query, self.bins.name)

    @property
    def measure(self) -> str:
        """Name and groups, as a spread calls the line."""
        return f"{self.name}: {self.query}"

    def at_least(self, population: int) -> CriterionPart:
        """The geounits with at least so many people.

        Raises:
            InputError: No class begins there.
        """
        if population not in self._beginnings:
            raise InputError(f"no class of {self.bins.name} begins at {population}")
        return _together(CriterionPart, [part for part in self.parts if self.bins.least(part.bin) >= population])

    def overall(self) -> Iterator[tuple[str, CriterionPart]]:
        """All classes together, and those above some sizes, with labels."""
        yield ALL, self.all_classes
        for least in LEAST_POPULATIONS:
            if least in self._beginnings:
                yield f"{ALL} with {least:,} or more", self.at_least(least)

    @property
    def _beginnings(self) -> set[int]:
        return set(map(self.bins.least, range(self.bins.number)))


def by_sizes(errors: Sequence[QueryErrors]) -> list[QueryErrors]:
    """One line a geolevel and query: by the classes of the geolevel, which come before others."""
    return list({(line.place, line.query): line for line in reversed(errors)}.values())[::-1]


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


_Row = TypeVar("_Row", QueryErrors, Criterion)


def pooled_rows(lines: Sequence[_Row]) -> _Row:
    """One line of several runs together: geounits and counts of each run count."""
    parts: dict[int, list[Any]] = {}
    for line in lines:
        for part in line.parts:
            parts.setdefault(part.bin, []).append(part)
    return replace(lines[0], parts=tuple(_together(lines[0]._kind, parts[bin_]) for bin_ in sorted(parts)))


def numbers_json(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name; JSON knows no NaN."""
    return {name: None if isnan(value) else value for name, value in numbers.items()}


def figures_json(of: ErrorFigures) -> dict[str, float | None]:
    """The figures that are one number."""
    return numbers_json({name: getattr(of, name) for name in ("n", "double_zero", *FIGURES)})


def residuals_json(frequencies: Frequencies) -> dict[str, list[int]]:
    """How often each residual occurs."""
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


#: Figures of the residuals of each index, beside the bias and its intervals.
_FIGURES = ("rmse", "median_absolute", "p95_absolute")


@dataclass(frozen=True, slots=True)
class HomogeneityRow:
    """Residuals of totals in one geolevel by the homogeneity index of the geounit."""

    place: str  #: the geolevel
    definition: Definition  #: which index
    strata: str  #: name of the query of stratified counts
    cells: int  #: how many strata it has
    #: Index and residuals, ascending; an index that no geounit has is missing.
    parts: tuple[tuple[int, Frequencies], ...]
    #: Where runs are pooled: index and the bias of each run, people, of indices that every run has.
    of_runs: tuple[tuple[int, tuple[float, ...]], ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the line."""
        return (self.place, self.definition, self.strata)

    def numbers(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        """Of every index how many residuals, the bias in people, and further figures.

        `low` and `high` are the ends of the 95 % interval of the bias over residuals (Student's t, as if they were
        independent), NaN for a single one; `low_over_runs` and `high_over_runs` those over the biases of the runs, NaN
        for a single run.
        """
        biases = dict(self.of_runs)
        for index, residuals in self.parts:
            shown, runs = residuals.figures, biases.get(index, ())
            low, high = _ends(interval_of_mean(residuals, LEVEL))
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
        (index, tuple(each.mean for each in parts[index]))
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
