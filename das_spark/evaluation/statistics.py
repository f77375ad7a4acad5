"""Every figure that the studies of the 1940 runs tell of totals and strata, each with sample size and uncertainty.

Source: Petti and Flaxman (2020), "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff": residuals of all runs are pooled before a figure is taken. Beside it stands its interval
over the residuals (as if geounits were independent), and, with several runs, the mean of the runs' own figures with an
interval of this mean: another number, since a figure such as the largest of a curve depends on how many residuals
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.lines_json import number_json
from das_spark.evaluation.metrics import Frequencies, Residuals, figures, quantiles_of
from das_spark.evaluation.pooling import pool
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, LossSettings, empirical_privacy_loss
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.restricted_csv import restricted_csv
from das_spark.evaluation.uncertainty import LEVEL, Interval, bootstrap, interval_of_mean, over_runs

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
        interval: Of the value, over residuals; None where it is undefined, an extreme value, or of one residual.
        of_runs: The same figure of each run by itself, in their order; None where it is undefined.
        over_runs: Of `mean_of_runs`, not of the value; None for a single run, or where one is undefined.
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

    @property
    def mean_of_runs(self) -> float | None:
        """Mean of the figures of the runs, n / runs residuals each; None for one run, or where one is undefined."""
        defined = [each for each in self.of_runs if each is not None]
        return fmean(defined) if len(defined) == len(self.of_runs) > 1 else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a figure is computed.

    Attributes:
        name: Of the figure.
        settings: Of empirical privacy loss.
    """

    name: str
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
        intervals = _intervals(entry.frequencies, replicates) if replicates and entry.frequencies.total else {}
        for kind in _KINDS:
            interval = None if value[kind][0] is None else intervals.get(kind)
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


def _intervals(residuals: Frequencies, replicates: int) -> dict[_Kind, Interval | None]:
    """Over residuals, of all figures from the same resamples; that of the mean is Student's, good for few residuals."""
    found = bootstrap(residuals.values, residuals.counts, _resampled, replicates, LEVEL, 0)
    return found | {_BIAS: interval_of_mean(residuals.values, residuals.counts, LEVEL)}


def _resampled(values: Residuals, counts: NDArray[np.int64]) -> dict[_Kind, float | None]:
    """The figures that resampling tells of; it never exceeds the largest residual."""
    order = np.argsort(np.abs(values), kind="stable")
    absolute, often = np.abs(values[order]), counts[order]
    median, p95 = quantiles_of(absolute, often, (0.5, 0.95))
    weighted = dict(
        median_absolute=median,
        mean_absolute=float(np.average(absolute, weights=often)),
        p95_absolute=p95,
        rmse=sqrt(float(np.average(np.square(absolute.astype(np.float64)), weights=often))),
    )
    found: dict[_Kind, float | None] = {_Kind(name): value for name, value in weighted.items()}
    for settings in _SETTINGS:
        loss = empirical_privacy_loss(values, counts, settings)
        found |= {_Kind(LOSS, settings): loss.value, _Kind(PLATEAU, settings): loss.plateau}
    return found


_BIAS: Final = _Kind("bias")
#: Figures in the order in which they are told.
_KINDS: Final = (
    *map(_Kind, ("median_absolute", "mean_absolute", "p95_absolute", "rmse")),
    _BIAS,
    _Kind("largest"),
    *(_Kind(name, settings) for settings in _SETTINGS for name in (LOSS, PLATEAU)),
)


def statistics_json(statistics: Iterable[Statistic]) -> list[dict[str, Any]]:
    """Statistics as JSON values.

    Args:
        statistics: As `statistics_of` gives them.

    Returns:
        One object a statistic, null where there is no number.
    """
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
            "mean_of_runs": one.mean_of_runs,
            "over_runs": _interval_json(one.over_runs),
        }
        for one in statistics
    ]


def statistics_csv(statistics: Iterable[Statistic]) -> str:
    """Statistics as CSV text; an empty field where there is no number.

    Args:
        statistics: As `statistics_of` gives them.
    """
    columns = (
        *("place", "measure", "statistic", "settings", "unit", "n", "value", "why_undefined"),
        *("low_over_residuals", "high_over_residuals", "runs", "mean_of_runs"),
        *("low_over_runs", "high_over_runs", "level"),
    )
    rows = [
        (
            *(one.place, one.measure, one.name, one.settings, one.unit, one.n, one.value, one.why_undefined),
            *(*_ends(one.interval), len(one.of_runs), one.mean_of_runs, *_ends(one.over_runs), LEVEL),
        )
        for one in statistics
    ]
    return restricted_csv(columns, rows)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {"low": number_json(interval.low), "high": number_json(interval.high), "level": interval.level}
