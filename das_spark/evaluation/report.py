"""The accuracy report as data: one entry a level (or kind of area) and measure, kept with its residual frequencies.

RESTRICTED: residuals tell the confidential counts. A report is written under the restricted root only and spends no
budget, since it is not published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation.metrics import FIGURES, PROBABILITIES, ErrorFigures, Frequencies, figures, pooled

SCHEMA_VERSION = 1
RESTRICTED = "RESTRICTED: compares with confidential counts; not part of the protected release"
TOTAL = "total"

DEFINITIONS: Mapping[str, str] = {
    "residual": "protected minus confidential count, in people",
    TOTAL: "people of each geounit (or area); all of them, empty ones too",
    "stratified": "people of each geounit (or area) in each stratum; strata that are zero in both histograms are "
    "left out of the figures and counted as double_zero",
    "median_absolute": "median of absolute residuals",
    "mean_absolute": "mean of absolute residuals",
    "p95_absolute": "95th percentile of absolute residuals (linear interpolation)",
    "bias": "mean of signed residuals",
    "rmse": "root of the mean squared residual",
    "largest": "largest absolute residual",
    "quantiles": "of signed residuals, at probabilities " + ", ".join(map(str, PROBABILITIES)),
    "spread": "over runs: the value of each, their mean, and their standard deviation with divisor runs - 1",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the report.

    Attributes:
        place: A geolevel, or the name of a kind of area such as `precinct`.
        measure: `total`, or the query of the strata.
        frequencies: How often each residual occurs.
    """

    place: str
    measure: str
    frequencies: Frequencies

    @property
    def figures(self) -> ErrorFigures:
        """The error figures."""
        return figures(self.frequencies)


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """Accuracy of one run, or of several pooled.

    Attributes:
        product: Name of the product.
        runs: Names of the runs.
        entries: Lines in the order of the spine, then areas.
        notes: Sentences that a reader must know, such as how many leaf geounits lie in no area.
    """

    product: str
    runs: tuple[str, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    def entry(self, place: str, measure: str) -> Entry:
        """The line of a place and measure.

        Raises:
            InputError: There is none.
        """
        for entry in self.entries:
            if (entry.place, entry.measure) == (place, measure):
                return entry
        raise InputError(f"the accuracy report has no line {place}, {measure}")

    def to_json(self) -> str:
        """The report as text, frequencies included, so that runs can be pooled later."""
        content = {
            "schema_version": SCHEMA_VERSION,
            "classification": RESTRICTED,
            "product": self.product,
            "runs": list(self.runs),
            "definitions": dict(DEFINITIONS),
            "notes": list(self.notes),
            "entries": [_entry_json(entry) for entry in self.entries],
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several runs.

    Attributes:
        place: As in `Entry`.
        measure: As in `Entry`.
        figure: Name of the figure.
        values: Its value in each run.
        mean: Their mean.
        standard_deviation: Their standard deviation, divisor runs - 1; 0 for one run.
    """

    place: str
    measure: str
    figure: str
    values: tuple[float, ...]
    mean: float
    standard_deviation: float


def report_from_json(text: str) -> AccuracyReport:
    """Read a report.

    Raises:
        InputError: It is no report of this version.
    """
    try:
        content = json.loads(text)
        if content["schema_version"] != SCHEMA_VERSION:
            raise InputError(f"accuracy report of version {content['schema_version']}, expected {SCHEMA_VERSION}")
        entries = tuple(_entry_of(entry) for entry in content["entries"])
        return AccuracyReport(content["product"], tuple(content["runs"]), entries, tuple(content["notes"]))
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not readable as an accuracy report") from error


def pool(reports: Sequence[AccuracyReport]) -> AccuracyReport:
    """Several runs as one: the residuals of all of them together.

    Raises:
        InputError: There is no report, or they are not about the same places and measures.
    """
    _check_alike(reports)
    entries = tuple(
        Entry(entry.place, entry.measure, pooled([report.entries[row].frequencies for report in reports]))
        for row, entry in enumerate(reports[0].entries)
    )
    runs = tuple(run for report in reports for run in report.runs)
    return AccuracyReport(reports[0].product, runs, entries, _union(report.notes for report in reports))


def spread(reports: Sequence[AccuracyReport]) -> tuple[Spread, ...]:
    """Every figure with its spread over the runs.

    Raises:
        InputError: There is no report, or they are not about the same places and measures.
    """
    _check_alike(reports)
    result = []
    for row, entry in enumerate(reports[0].entries):
        each = [report.entries[row].figures for report in reports]
        for name in FIGURES:
            values = tuple(float(getattr(run, name)) for run in each)
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            result.append(Spread(entry.place, entry.measure, name, values, float(np.mean(values)), deviation))
    return tuple(result)


def spread_json(spreads: Iterable[Spread]) -> list[dict[str, Any]]:
    """Spreads as JSON values."""
    return [asdict(one) for one in spreads]


def _check_alike(reports: Sequence[AccuracyReport]) -> None:
    if not reports:
        raise InputError("no accuracy report to pool")
    keys = [[(entry.place, entry.measure) for entry in report.entries] for report in reports]
    if any(key != keys[0] for key in keys) or len({report.product for report in reports}) > 1:
        raise InputError("accuracy reports of different products or levels cannot be pooled")


def _union(notes: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for some in notes for note in some))


def _entry_json(entry: Entry) -> dict[str, Any]:
    shown = {name: None if value != value else value for name, value in _flat(entry.figures).items()}  # noqa: PLR0124 - NaN
    shown["quantiles"] = [] if entry.frequencies.total == 0 else list(entry.figures.quantiles)
    kept = {"values": entry.frequencies.values.tolist(), "counts": entry.frequencies.counts.tolist()}
    return {"place": entry.place, "measure": entry.measure, "figures": shown, "residuals": kept}


def _flat(shown: ErrorFigures) -> dict[str, Any]:
    return {name: getattr(shown, name) for name in ("n", "double_zero", *FIGURES)}


def _entry_of(content: Mapping[str, Any]) -> Entry:
    values, counts = (np.array(content["residuals"][name], dtype=np.int64) for name in ("values", "counts"))
    return Entry(content["place"], content["measure"], Frequencies(values, counts, content["figures"]["double_zero"]))
