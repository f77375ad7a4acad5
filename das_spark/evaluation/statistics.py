"""The registry of statistics of residuals.

**A new statistic is one function of a `ResidualTable` and one line in `STATISTICS`**: it then stands on the page, in
the terminal, in CSV and JSON, among the definitions, and in comparisons of configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import UndefinedError
from das_spark.evaluation.metrics import Residuals, quantiles_of
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, LossSettings, PrivacyLoss, empirical_privacy_loss

#: Names of the figures of empirical privacy loss: the largest of the curve, and the median of its absolute values.
LOSS: Final = "empirical_privacy_loss"
PLATEAU: Final = "empirical_privacy_loss_plateau"
_LOGARITHM: Final = "natural logarithm of a ratio"
#: Whole numbers below it add up exactly in 64 bits.
_EXACT: Final = 2**63


class ResidualTable:
    """Distinct residuals and how often each occurs, and what several statistics need of them, computed once."""

    def __init__(self, values: Residuals, counts: NDArray[np.int64]) -> None:
        """Take residuals, one at least, ascending."""
        self.values, self.counts = values, counts
        self._losses: dict[LossSettings, PrivacyLoss] = {}

    @cached_property
    def n(self) -> int:
        """How many residuals."""
        return int(self.counts.sum())

    def loss(self, settings: LossSettings) -> PrivacyLoss:
        """The empirical privacy loss.

        Raises:
            UndefinedError: There is none.
        """
        if settings not in self._losses:
            self._losses[settings] = empirical_privacy_loss(self.values, self.counts, settings)
        if self._losses[settings].value is None:
            raise UndefinedError(self._losses[settings].why_undefined)
        return self._losses[settings]

    def mean(self, of: Literal["absolute", "signed", "squared"]) -> float:
        """A mean; of whole residuals exact but for the last rounding."""
        values = np.abs(self.values) if of == "absolute" else self.values
        power = 2 if of == "squared" else 1
        if values.dtype.kind == "i" and int(np.abs(values).max()) ** power * self.n >= _EXACT:
            pairs = zip(values.tolist(), self.counts.tolist(), strict=True)
            return float(sum(value**power * count for value, count in pairs) / self.n)
        total = (values**power) @ self.counts
        return float(total.item() / self.n)

    def absolute_quantile(self, probability: float) -> float:
        """A quantile of the absolute residuals, with linear interpolation."""
        return quantiles_of(*self._absolute, (probability,))[0]

    @cached_property
    def _absolute(self) -> tuple[Residuals, NDArray[np.int64]]:
        order = np.argsort(np.abs(self.values), kind="stable")
        return np.abs(self.values[order]), self.counts[order]


@dataclass(frozen=True, slots=True)
class StatisticKind:
    """How a statistic is computed.

    Attributes:
        name: Of the statistic.
        of: Its value; it raises `UndefinedError` with the reason where there is none.
        meaning: What it is, for the definitions of reports; "{counted}" stands for what is counted.
        settings: Settings of empirical privacy loss by name; empty for others.
        unit: What it is counted in; empty for what the report counts.
        interval: How its interval over residuals is found; none for an extreme value, which resampling never exceeds.
    """

    name: str
    of: Callable[[ResidualTable], float]
    meaning: str
    settings: str = ""
    unit: str = ""
    interval: Literal["resampling", "student", "none"] = "resampling"


def _privacy_loss(settings: LossSettings) -> tuple[StatisticKind, StatisticKind]:
    """The largest of the curve and its plateau."""

    def largest(table: ResidualTable) -> float:
        return table.loss(settings).value or 0.0

    def plateau(table: ResidualTable) -> float:
        return table.loss(settings).plateau or 0.0

    loss = (
        "the largest absolute value of ln f(x) - ln f(x + 1), f being a Gaussian kernel density of the residuals, over "
        "x one apart between minus and plus the larger of the absolute 5th and 95th percentiles. as coded: the "
        "kernel's standard deviation is a tenth of that of the residuals; as written: it is a tenth of one. Undefined "
        "where residuals do not vary or the density vanishes. A figure of the data as well as of the mechanism, no "
        "bound; it grows as residuals get fewer, so compare at equal n only"
    )
    return (
        StatisticKind(LOSS, largest, loss, settings.name, _LOGARITHM),
        StatisticKind(PLATEAU, plateau, "the median of the same absolute values", settings.name, _LOGARITHM),
    )


#: In the order in which reports have them.
_ALL: Final = (
    StatisticKind(
        "median_absolute", lambda table: table.absolute_quantile(0.5), "median of absolute residuals, in {counted}"
    ),
    StatisticKind("mean_absolute", lambda table: table.mean("absolute"), "mean of absolute residuals, in {counted}"),
    StatisticKind(
        "p95_absolute",
        lambda table: table.absolute_quantile(0.95),
        "95th percentile of absolute residuals (linear interpolation), in {counted}",
    ),
    StatisticKind("rmse", lambda table: sqrt(table.mean("squared")), "root of the mean squared residual, in {counted}"),
    StatisticKind(
        "bias", lambda table: table.mean("signed"), "mean of signed residuals, in {counted}", interval="student"
    ),
    StatisticKind(
        "largest",
        lambda table: float(np.abs(table.values).max()),
        "largest absolute residual, in {counted}",
        interval="none",
    ),
    *_privacy_loss(AS_CODED),
    *_privacy_loss(AS_WRITTEN),
)
#: By name and settings.
STATISTICS: Final[dict[tuple[str, str], StatisticKind]] = {(kind.name, kind.settings): kind for kind in _ALL}
