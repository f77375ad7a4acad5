"""The accuracy report as numbers: errors of totals and strata, of every query by population, and two criteria.

All rows are kept with the integers that their figures are computed from, so that runs can be pooled at any time; what
the words mean stands in `definitions`, and goes with every report.

RESTRICTED: residuals tell the confidential counts. A report is written under the restricted root only and spends no
budget, since it is not published.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from math import isnan
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation.coverage import Coverage, pooled_coverage
from das_spark.evaluation.metric_rows import (
    Criterion,
    CriterionName,
    HomogeneityRow,
    QueryErrors,
    criterion_json,
    criterion_of_json,
    errors_json,
    errors_of_json,
    figures_json,
    frequencies_of_json,
    homogeneity_json,
    homogeneity_of_json,
    pooled_homogeneity,
    pooled_rows,
    residuals_json,
)
from das_spark.evaluation.metrics import (
    ABSOLUTE_PROBABILITIES,
    FIGURES,
    PROBABILITIES,
    ErrorFigures,
    Frequencies,
    pooled,
)
from das_spark.evaluation.statistics import STATISTICS
from das_spark.evaluation.tallies import FIFTIES
from das_spark.report import RESTRICTED, json_text

TOTAL: Final = "total"


def definitions(counted: str) -> Mapping[str, str]:
    """Every term of a report with its meaning."""
    return {
        "residual": f"protected minus confidential count, in {counted}",
        TOTAL: f"{counted} of each geounit (or area); all of them, empty ones too",
        "stratified": f"{counted} of each geounit (or area) in each stratum; strata that are zero in both histograms "
        "are left out of the figures and counted as double_zero",
        "query": f"{counted} of each geounit in each answer of a query; answers that are zero in both histograms are "
        "left out of the figures and counted as double_zero, but for the total, where every geounit counts",
        "population": f"classes of geounits by their confidential number of {counted}",
        "n": "how many counts are compared",
        "double_zero": "counts that are zero in both histograms",
        "exact": "how many of the n residuals are zero",
        "geounits": "how many geounits, over all runs that are pooled",
        "counted": f"{counted} in these geounits by the confidential counts, over all runs that are pooled",
        "l1": f"sum of absolute residuals over answers and geounits, in {counted}",
        "l1_per_geounit": f"l1 divided by geounits, in {counted}",
        "one_minus_tvd": "1 - l1 / (2 counted): one minus the total variation distance where a query counts everybody "
        "once; over all geounits of a geolevel, counted is the whole, so that geolevels can be compared; none where "
        "counted is zero; below zero where residuals exceed the counts",
        **{kind.name: kind.meaning.format(counted=counted) for kind in STATISTICS.values()},
        "quantiles": "of signed residuals, at probabilities " + ", ".join(map(str, PROBABILITIES)),
        "absolute_quantiles": "of absolute residuals, at probabilities "
        + ", ".join(map(str, ABSOLUTE_PROBABILITIES))
        + " (linear interpolation)",
        "absolute_quantiles_of_wrong": "the same over the residuals that are not zero (n - exact of them), as in the "
        "metrics released with the redistricting data of 2020",
        "largest group": "the group is the answer of the query that is largest in the protected counts (the first of "
        "several); the difference is that of its share in the protected and in the confidential counts of the "
        "geounit, absolute, as a share of 1; shares are of all that the query counts there; 0 where both counts are "
        "empty, undefined where one is",
        "relative error of the total": "absolute residual of the total divided by the confidential total, or by 1 "
        "where that is 0",
        "within": "how many geounits have a difference that is defined and at most 0.05 (5 percentage points), "
        "decided in integers",
        "undefined": "how many geounits have no difference, for they are empty in one histogram only",
        "share_within": "within / geounits",
        "mean_difference": "mean of the differences that are defined",
        "spread": "over runs: the value of each, their mean, and their standard deviation with divisor runs - 1",
        **_of_study(counted),
    }


def _of_study(counted: str) -> dict[str, str]:
    """Terms of the study of the 1940 runs."""
    return {
        "homogeneity index": f"how uniform the {counted} of a geounit are, by the confidential counts. empty strata: "
        "the number of strata without any; marginal product: the number of strata minus the product of how many levels "
        "of each attribute occur, as the program of the study of the 1940 runs computes it",
        "interval": "95 %, of the figure of the pooled residuals, as if they were independent: Student's t for the "
        "bias, by resampling for the others; for the largest of a curve it tells what samples of this size give; none "
        "for a single residual",
        "mean_of_runs": "mean of the figures of the runs, each of its own residuals, n / runs of them; no estimate of "
        "the figure of the pooled residuals where it depends on their number, as the largest of a curve does",
        "over_runs": "95 %, of mean_of_runs: Student's t on the figure of each run",
        "closest sample": "the simple random sample without replacement, each of it counting 1 / share, whose "
        "median absolute residual, empirical privacy loss (as coded), or both are closest to those of the release; of "
        "both: the least sum of squares of relative differences |a - b| / max(a, b)",
    }


#: Version 2 added queries and criteria, version 3 lines by homogeneity index; older ones are still read.
_SCHEMA_VERSION = 3
_READ = (1, 2, _SCHEMA_VERSION)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line on a whole geolevel or kind of area."""

    place: str  #: a geolevel, or the name of a kind of area such as `precinct`
    measure: str  #: `total`, or the query of the strata
    frequencies: Frequencies  #: how often each residual occurs

    @property
    def figures(self) -> ErrorFigures:
        """The error figures."""
        return self.frequencies.figures


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """Accuracy of one run, or of several pooled."""

    product: str
    runs: tuple[str, ...]  #: names of the runs
    entries: tuple[Entry, ...]  #: totals and strata in the order of the spine, then of areas
    notes: tuple[str, ...] = ()  #: sentences that a reader must know, such as how many leaf geounits lie in no area
    errors: tuple[QueryErrors, ...] = ()  #: errors by query and population, in the order of the spine
    criteria: tuple[Criterion, ...] = ()  #: shares of the largest group and relative errors of totals, by population
    groups: str = ""  #: name of the query whose largest group is shown first; empty where there is none
    counted: str = "people"  #: what is counted, in the plural
    homogeneity: tuple[HomogeneityRow, ...] = ()  #: residuals of totals by homogeneity index, in the order of the spine
    coverage: tuple[Coverage, ...] = ()  #: of published intervals; none where none are published
    #: Of the run by name: run, product, date, software, budget; of several runs, what differs side by side.
    facts: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)  #: query -> what people read in its place

    def said(self, name: str) -> str:
        """A query or a geolevel as people read it."""
        return self.words.get(name, name.replace("_", " "))

    def entry(self, place: str, measure: str) -> Entry:
        """The line of a place and measure.

        Raises:
            InputError: There is none.
        """
        for entry in self.entries:
            if (entry.place, entry.measure) == (place, measure):
                return entry
        raise InputError(f"the accuracy report has no line {place}, {measure}")

    def headlines(self, name: CriterionName) -> tuple[Criterion, ...]:
        """One line a geolevel, by steps of 50: of the groups that are shown first, or of the total."""
        query = self.groups if name == "largest group" else TOTAL
        chosen = [line for line in self.criteria if (line.name, line.query) == (name, query)]
        return tuple(line for line in chosen if line.bins == FIFTIES)

    def to_json(self, more: Mapping[str, Iterable[Mapping[str, Any]]] = MappingProxyType({"spread": ()})) -> str:
        """The report as text, frequencies included, so that runs can be pooled later; one line a line of the report."""
        head = {
            "schema_version": _SCHEMA_VERSION,
            "classification": RESTRICTED,
            "product": self.product,
            "counted": self.counted,
            "groups": self.groups,
            "runs": list(self.runs),
            "definitions": dict(definitions(self.counted)),
            "notes": list(self.notes),
            **({"facts": dict(self.facts)} if self.facts else {}),
            **({"words": dict(self.words)} if self.words else {}),
        }
        lines = {
            "entries": map(_entry_json, self.entries),
            "queries": map(errors_json, self.errors),
            "criteria": map(criterion_json, self.criteria),
            "homogeneity": map(homogeneity_json, self.homogeneity),
            **({"coverage": [row.to_json() for row in self.coverage]} if self.coverage else {}),
            **more,
        }
        return json_text(head, lines)


@contextmanager
def reading(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Refuse text that is not what it should be.

    Raises:
        InputError: It cannot be read.
    """
    unreadable: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError, AttributeError, *errors)
    try:
        yield
    except InputError:
        raise
    except unreadable as error:
        raise InputError(f"not readable as {what}") from error


def report_from_json(text: str) -> AccuracyReport:
    """Read a report.

    Args:
        text: Result of `AccuracyReport.to_json`, of this version or an older one.

    Raises:
        InputError: It is no report of a known version.
    """
    with reading("an accuracy report"):
        content = json.loads(text)
        if content["schema_version"] not in _READ:
            raise InputError(f"accuracy report of version {content['schema_version']}, expected {_SCHEMA_VERSION}")
        return AccuracyReport(
            content["product"],
            tuple(content["runs"]),
            tuple(map(_entry_of, content["entries"])),
            tuple(content["notes"]),
            tuple(map(errors_of_json, content.get("queries", ()))),
            tuple(map(criterion_of_json, content.get("criteria", ()))),
            content.get("groups", ""),
            content.get("counted", "people"),
            tuple(map(homogeneity_of_json, content.get("homogeneity", ()))),
            tuple(map(Coverage.of_json, content.get("coverage", ()))),
            content.get("facts", {}),
            content.get("words", {}),
        )


def _entry_json(entry: Entry) -> dict[str, Any]:
    quantiles = list(entry.figures.quantiles) if entry.frequencies.total else []
    shown = {**figures_json(entry.figures), "quantiles": quantiles}
    kept = residuals_json(entry.frequencies)
    return {"place": entry.place, "measure": entry.measure, "figures": shown, "residuals": kept}


def _entry_of(content: Mapping[str, Any]) -> Entry:
    frequencies = frequencies_of_json(content["residuals"], content["figures"]["double_zero"])
    return Entry(content["place"], content["measure"], frequencies)


#: Figures of queries and criteria that have a spread.
_QUERY_FIGURES: Final = ("l1", "one_minus_tvd", "mean_absolute", "median_absolute", "p95_absolute", "bias", "rmse")
_CRITERION_FIGURES: Final = ("share_within", "mean_difference")

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RunSpread:
    """One figure over several runs."""

    place: str  # as in `Entry`
    measure: str  # as in `Entry`; or a query; or a criterion, with the query of its groups
    figure: str  # name of the figure
    values: tuple[float, ...]  # its value in each run
    mean: float  # their mean
    standard_deviation: float  # their standard deviation, divisor runs - 1; 0 for one run
    population: str = ""  # class of population; empty in the spread of an entry
    bins: str = ""  # name of the classes of population; empty in the spread of an entry


class _Key(NamedTuple):
    """Which figure of which line, as in `RunSpread`."""

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
    if any(error.keys() != errors[0].keys() for error in errors):
        notes.append(("queries that not every run compares are left out of what is pooled",))
    return AccuracyReport(
        first.product,
        tuple(run for report in reports for run in report.runs),
        entries,
        tuple(dict.fromkeys(chain.from_iterable(notes))),
        tuple(pooled_rows([error[key] for error in errors]) for key in _in_all(errors)),
        tuple(pooled_rows([criterion[key] for criterion in criteria]) for key in _in_all(criteria)),
        first.groups,
        first.counted,
        tuple(pooled_homogeneity([each[key] for each in homogeneity]) for key in _in_all(homogeneity)),
        pooled_coverage(chain.from_iterable(report.coverage for report in reports)),
        facts_together([report.facts for report in reports]),
        {name: word for report in reports for name, word in report.words.items()},
    )


#: Values of a fact that stand side by side; of more, the first and the last do.
_MOST_VALUES: Final = 3


def facts_together(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Facts of several runs: what is the same once, what differs side by side."""
    values: dict[str, dict[str, None]] = {}
    for fact in facts:
        for name, value in fact.items():
            values.setdefault(name, {})[value] = None
    found = {name: list(value) for name, value in values.items()}
    return {
        name: f"{each[0]} to {each[-1]} ({len(each)})" if len(each) > _MOST_VALUES else ", ".join(each)
        for name, each in found.items()
    }


def spread(reports: Sequence[AccuracyReport]) -> tuple[RunSpread, ...]:
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
        result.append(RunSpread(*key[:3], values, mean, deviation, population=key.population, bins=key.bins))
    return tuple(result)


def headline_spreads(report: AccuracyReport, spreads: Iterable[RunSpread]) -> list[RunSpread]:
    """What is shown first: totals and strata, and how often the share of the largest group is close."""
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
    return [key for key in lines[0] if all(key in line for line in lines)]
