"""Every figure that the studies of the 1940 runs tell of totals and strata, each with sample size and uncertainty.

Source: Petti and Flaxman (2020), "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff": residuals of all runs are pooled before a figure is taken. Two intervals stand beside it:
over the residuals (as if geounits were independent), and, with several runs, of the mean of the runs' own figures.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import UndefinedError
from das_spark.evaluation.lines_json import number_json
from das_spark.evaluation.metrics import Frequencies, Residuals, figures
from das_spark.evaluation.pooling import pool
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, LossSettings, empirical_privacy_loss
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.uncertainty import Interval, bootstrap, over_runs
from das_spark.evaluation.uncertainty import Statistic as Resampled

#: Probability that intervals cover.
LEVEL: Final = 0.95
#: Resamples behind an interval over residuals.
REPLICATES: Final = 200

#: Names of the figures of empirical privacy loss: the largest of the curve, and the median of its absolute values.
LOSS: Final = "empirical_privacy_loss"
PLATEAU: Final = "empirical_privacy_loss_plateau"
_NO_UNIT: Final = "natural logarithm of a ratio"
#: Settings with which losses are told.
_SETTINGS: Final = (AS_CODED, AS_WRITTEN)
#: A figure, or None and why.
_Value = tuple[float | None, str]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One figure of pooled residuals.

    Attributes:
        place: A geolevel, or a kind of area.
        measure: `total`, or the query of the strata.
        name: Which figure.
        settings: Settings of empirical privacy loss by name; empty for other figures.
        unit: What it is counted in.
        n: Residuals it is computed from.
        value: The figure; None where it is undefined.
        why_undefined: Why; empty where it is defined.
        interval: Over residuals; None where the figure is undefined, or an extreme value.
        of_runs: The same figure of each run by itself, in their order; None where it is undefined.
        over_runs: Of the mean of these; None for a single run, or where one is undefined.
    """

    place: str
    measure: str
    name: str
    settings: str
    unit: str
    n: int
    value: float | None
    why_undefined: str
    interval: Interval | None
    of_runs: tuple[float | None, ...]
    over_runs: Interval | None


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a figure is computed.

    Attributes:
        name: Of the figure.
        resample: The figure of resampled residuals; None where resampling tells nothing of its uncertainty.
        settings: Of empirical privacy loss.
    """

    name: str
    resample: Resampled | None
    settings: LossSettings | None = None


def statistics_of(reports: Sequence[AccuracyReport], *, replicates: int = REPLICATES) -> tuple[Statistic, ...]:
    """Every figure of every geolevel and area, of several runs pooled.

    Args:
        reports: One a run, about the same places.
        replicates: Resamples behind an interval over residuals; 0 for no such intervals.

    Returns:
        Total and strata of every place, in the order of the reports; the figures of one in a fixed order.

    Raises:
        InputError: There is no report, or they cannot be pooled.
    """
    whole = pool(reports)
    found = []
    for row, entry in enumerate(whole.entries):
        value, *of_runs = [_values(each) for each in (entry, *(report.entries[row] for report in reports))]
        for kind in _KINDS:
            interval = None
            if replicates and value[kind][0] is not None:
                interval = _interval(kind, entry.frequencies, replicates)
            found.append(_statistic(entry, kind, whole.counted, value[kind], [of[kind][0] for of in of_runs], interval))
    return tuple(found)


def _statistic(
    entry: Entry,
    kind: _Kind,
    counted: str,
    value: _Value,
    of_runs: Sequence[float | None],
    interval: Interval | None,
) -> Statistic:
    defined = [each for each in of_runs if each is not None]
    several = len(of_runs) > 1 and len(defined) == len(of_runs)
    return Statistic(
        entry.place,
        entry.measure,
        kind.name,
        kind.settings.name if kind.settings else "",
        _NO_UNIT if kind.settings else counted,
        entry.frequencies.total,
        *value,
        interval,
        tuple(of_runs),
        over_runs(defined, LEVEL) if several else None,
    )


def _values(entry: Entry) -> dict[_Kind, _Value]:
    """Every figure, or why there is none; what several figures come from is computed once."""
    residuals = entry.frequencies
    if residuals.total == 0:
        return dict.fromkeys(_KINDS, (None, "there are no residuals"))
    shown = figures(residuals)
    losses = {each: empirical_privacy_loss(residuals.values, residuals.counts, each) for each in _SETTINGS}
    found: dict[_Kind, _Value] = {}
    for kind in _KINDS:
        if kind.settings is None:
            found[kind] = (float(getattr(shown, kind.name)), "")
        else:
            loss = losses[kind.settings]
            found[kind] = (loss.value if kind.name == LOSS else loss.plateau, loss.why_undefined)
    return found


def _interval(kind: _Kind, residuals: Frequencies, replicates: int) -> Interval | None:
    if kind.resample is None:
        return None
    try:
        return bootstrap(residuals.values, residuals.counts, kind.resample, replicates, LEVEL, 0)
    except UndefinedError:  # in a resample: nothing can be said
        return None


def _absolute_quantile(probability: float) -> Resampled:
    def of(values: Residuals, counts: NDArray[np.int64]) -> float:
        order = np.argsort(np.abs(values), kind="stable")
        position = probability * (int(counts.sum()) - 1)
        ends = np.cumsum(counts[order])
        low, high = (
            np.abs(values[order[np.searchsorted(ends, at, "right")]]) for at in (floor(position), ceil(position))
        )
        return float(low + (high - low) * (position - floor(position)))

    return of


def _mean(of: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[..., float]:
    return lambda values, counts: float(np.average(of(values.astype(np.float64)), weights=counts))


def _rmse(values: Residuals, counts: NDArray[np.int64]) -> float:
    return sqrt(_mean(np.square)(values, counts))


def _loss(settings: LossSettings, name: str) -> Resampled:
    def of(values: Residuals, counts: NDArray[np.int64]) -> float | None:
        loss = empirical_privacy_loss(values, counts, settings)
        return loss.value if name == LOSS else loss.plateau

    return of


#: Figures in the order in which they are told. Resampling never exceeds the largest residual: it has no interval.
_KINDS: Final = (
    _Kind("median_absolute", _absolute_quantile(0.5)),
    _Kind("mean_absolute", _mean(np.abs)),
    _Kind("p95_absolute", _absolute_quantile(0.95)),
    _Kind("rmse", _rmse),
    _Kind("bias", _mean(np.positive)),
    _Kind("largest", None),
    *(_Kind(name, _loss(settings, name), settings) for settings in _SETTINGS for name in (LOSS, PLATEAU)),
)


def statistics_json(statistics: Iterable[Statistic]) -> list[dict[str, Any]]:
    """Statistics as JSON values."""
    return [
        {
            "place": one.place,
            "measure": one.measure,
            "statistic": one.name,
            "settings": one.settings,
            "unit": one.unit,
            "n": one.n,
            "value": None if one.value is None else number_json(one.value),
            "why_undefined": one.why_undefined,
            "interval": _interval_json(one.interval),
            "of_runs": list(one.of_runs),
            "over_runs": _interval_json(one.over_runs),
        }
        for one in statistics
    ]


def statistics_csv(statistics: Iterable[Statistic]) -> str:
    """Statistics as CSV text with a line of headings; an empty field where there is no number."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(
        (
            *("place", "measure", "statistic", "settings", "unit", "n", "value", "why_undefined"),
            *("low_over_residuals", "high_over_residuals", "runs", "low_over_runs", "high_over_runs", "level"),
        )
    )
    for one in statistics:
        value = "" if one.value is None else one.value
        before = (one.place, one.measure, one.name, one.settings, one.unit, one.n, value, one.why_undefined)
        rows.writerow((*before, *_ends(one.interval), len(one.of_runs), *_ends(one.over_runs), LEVEL))
    return buffer.getvalue()


def _ends(interval: Interval | None) -> tuple[float | str, float | str]:
    return ("", "") if interval is None else (interval.low, interval.high)


def _interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {"low": number_json(interval.low), "high": number_json(interval.high), "level": interval.level}
