"""Several runs: as one, and the spread of their figures."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan
from typing import Final, NamedTuple, TypeVar

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation.bins import FIFTIES
from das_spark.evaluation.homogeneity_lines import pooled_homogeneity
from das_spark.evaluation.lines import pooled_criterion, pooled_errors
from das_spark.evaluation.metrics import FIGURES, pooled
from das_spark.evaluation.report import AccuracyReport, Entry

#: Figures of queries and criteria that have a spread.
_QUERY_FIGURES: Final = ("l1", "one_minus_tvd", "mean_absolute", "median_absolute", "p95_absolute", "bias", "rmse")
_CRITERION_FIGURES: Final = ("share_within", "mean_difference")

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several runs.

    Attributes:
        place: As in `Entry`.
        measure: As in `Entry`; or a query; or a criterion, with the query of its groups.
        figure: Name of the figure.
        values: Its value in each run.
        mean: Their mean.
        standard_deviation: Their standard deviation, divisor runs - 1; 0 for one run.
        population: Class of population; empty in the spread of an entry.
        bins: Name of the classes of population; empty in the spread of an entry.
    """

    place: str
    measure: str
    figure: str
    values: tuple[float, ...]
    mean: float
    standard_deviation: float
    population: str = ""
    bins: str = ""


class _Key(NamedTuple):
    """Which figure of which line, as in `Spread`."""

    place: str
    measure: str
    figure: str
    population: str = ""
    bins: str = ""


def pool(reports: Sequence[AccuracyReport]) -> AccuracyReport:
    """Several runs as one: the residuals of all of them together; queries that not every run has are left out.

    Args:
        reports: One a run, about the same places.

    Raises:
        InputError: There is no report, or they are not about the same places and measures.
    """
    _check_alike(reports)
    first = reports[0]
    entries = tuple(
        Entry(entry.place, entry.measure, pooled([report.entries[row].frequencies for report in reports]))
        for row, entry in enumerate(first.entries)
    )
    errors = [{(*line.key, line.answers): line for line in report.errors} for report in reports]
    criteria = [{line.key: line for line in report.criteria} for report in reports]
    homogeneity = [{line.key: line for line in report.homogeneity} for report in reports]
    notes = [report.notes for report in reports]
    if any(each.keys() != errors[0].keys() for each in errors):
        notes.append(("queries that not every run compares are left out of what is pooled",))
    return AccuracyReport(
        first.product,
        tuple(run for report in reports for run in report.runs),
        entries,
        tuple(dict.fromkeys(chain.from_iterable(notes))),
        tuple(pooled_errors([each[key] for each in errors]) for key in _in_all(errors)),
        tuple(pooled_criterion([each[key] for each in criteria]) for key in _in_all(criteria)),
        first.groups,
        first.counted,
        tuple(pooled_homogeneity([each[key] for each in homogeneity]) for key in _in_all(homogeneity)),
    )


def spread(reports: Sequence[AccuracyReport]) -> tuple[Spread, ...]:
    """Every figure with its spread over the runs; what not every run has, or no run has a number of, is left out.

    Args:
        reports: One a run, about the same places.

    Returns:
        In the order of the first report; over one run with a standard deviation of 0.

    Raises:
        InputError: There is no report, or they are not about the same places and measures.
    """
    _check_alike(reports)
    each = [dict(_figures(report)) for report in reports]
    result = []
    for key in _in_all(each):
        values = tuple(run[key] for run in each)
        if all(map(isnan, values)):
            continue
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        mean = float(np.mean(values))
        result.append(Spread(*key[:3], values, mean, deviation, population=key.population, bins=key.bins))
    return tuple(result)


def headline_spreads(report: AccuracyReport, spreads: Iterable[Spread]) -> list[Spread]:
    """What is shown first: totals and strata, and how often the share of the largest group is close.

    Args:
        report: One of the runs.
        spreads: All figures.
    """
    overall = {(line.place, label) for line in report.headlines("largest group") for label, _ in line.overall()}
    measure = {line.measure for line in report.headlines("largest group")}
    return [
        one
        for one in spreads
        if not one.bins
        or (
            (one.figure, one.bins) == ("share_within", FIFTIES.name)
            and one.measure in measure
            and (one.place, one.population) in overall
        )
    ]


def _figures(report: AccuracyReport) -> Iterator[tuple[_Key, float]]:
    """Every figure that has a spread, with its value."""
    for entry in report.entries:
        for name in FIGURES:
            yield _Key(entry.place, entry.measure, name), float(getattr(entry.figures, name))
    for line in report.errors:
        for label, part in line.rows():
            numbers = part.numbers()
            for name in _QUERY_FIGURES:
                yield _Key(line.place, line.query, name, label, line.bins.name), float(numbers[name])
    for criterion in report.criteria:
        for label, met in criterion.rows():
            numbers = met.numbers()
            for name in _CRITERION_FIGURES:
                key = _Key(criterion.place, criterion.measure, name, label, criterion.bins.name)
                yield key, float(numbers[name])


def _check_alike(reports: Sequence[AccuracyReport]) -> None:
    if not reports:
        raise InputError("no accuracy report to pool")
    keys = [[(entry.place, entry.measure) for entry in report.entries] for report in reports]
    if any(key != keys[0] for key in keys) or len({report.product for report in reports}) > 1:
        raise InputError("accuracy reports of different products or levels cannot be pooled")


def _in_all(lines: Sequence[Mapping[_K, object]]) -> list[_K]:
    """Keys that all have, in the order of the first."""
    return [key for key in lines[0] if all(key in each for each in lines)]
