"""The registry of statistics of residuals.

**A new statistic is one function of `Frequencies` and one line in `STATISTICS`**: it then stands on the page, in
the terminal, in CSV and JSON, among the definitions, and in comparisons of configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from das_spark.errors import UndefinedError
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, LossSettings, PrivacyLoss, empirical_privacy_loss

#: Names of the figures of empirical privacy loss: the largest of the curve, and the median of its absolute values.
LOSS: Final = "empirical_privacy_loss"
PLATEAU: Final = "empirical_privacy_loss_plateau"
_LOGARITHM: Final = "natural logarithm of a ratio"


@dataclass(frozen=True, slots=True)
class StatisticKind:
    """How a statistic is computed."""

    name: str  # of the statistic
    of: Callable[[Frequencies], float]  # its value; it raises `UndefinedError` with the reason where there is none
    meaning: str  # what it is, for the definitions of reports; "{counted}" stands for what is counted
    settings: str = ""  # settings of empirical privacy loss by name; empty for others
    unit: str = ""  # what it is counted in; empty for what the report counts
    # How its interval over residuals is found; none for an extreme value, which resampling never exceeds.
    interval: Literal["resampling", "student", "none"] = "resampling"


def _privacy_loss(settings: LossSettings) -> tuple[StatisticKind, StatisticKind]:
    """The largest of the curve and its plateau."""

    def figure(name: Literal["value", "plateau"]) -> Callable[[Frequencies], float]:
        def of(residuals: Frequencies) -> float:
            loss = _loss(residuals, settings)
            found: float | None = getattr(loss, name)
            if found is None:
                raise UndefinedError(loss.why_undefined)
            return found

        return of

    loss = (
        "the largest absolute value of ln f(x) - ln f(x + 1), f being a Gaussian kernel density of the residuals, over "
        "x one apart between minus and plus the larger of the absolute 5th and 95th percentiles. as coded: the "
        "kernel's standard deviation is a tenth of that of the residuals; as written: it is a tenth of one. Undefined "
        "where residuals do not vary or the density vanishes. A figure of the data as well as of the mechanism, no "
        "bound; it grows as residuals get fewer, so compare at equal n only"
    )
    return (
        StatisticKind(LOSS, figure("value"), loss, settings.name, _LOGARITHM),
        StatisticKind(PLATEAU, figure("plateau"), "the median of the same absolute values", settings.name, _LOGARITHM),
    )


@lru_cache(maxsize=4)
def _loss(residuals: Frequencies, settings: LossSettings) -> PrivacyLoss:
    """Once for both of its figures."""
    return empirical_privacy_loss(residuals, settings)


def _error(name: str, meaning: str, interval: Literal["resampling", "student", "none"] = "resampling") -> StatisticKind:
    """A figure of `ErrorFigures`."""

    def of(residuals: Frequencies) -> float:
        return float(getattr(residuals.figures, name))

    return StatisticKind(name, of, f"{meaning}, in {{counted}}", interval=interval)


#: In the order in which reports have them.
_ALL: Final = (
    _error("median_absolute", "median of absolute residuals"),
    _error("mean_absolute", "mean of absolute residuals"),
    _error("p95_absolute", "95th percentile of absolute residuals (linear interpolation)"),
    _error("rmse", "root of the mean squared residual"),
    _error("bias", "mean of signed residuals", "student"),
    _error("largest", "largest absolute residual", "none"),
    *_privacy_loss(AS_CODED),
    *_privacy_loss(AS_WRITTEN),
)
#: By name and settings.
STATISTICS: Final[dict[tuple[str, str], StatisticKind]] = {(kind.name, kind.settings): kind for kind in _ALL}
