"""The empirical privacy loss of protected counts, from how often each residual occurs.

How much does the density f of the residuals change from x people to x + 1? One person more or less moves a
confidential count by one; where f(x) and f(x + 1) are alike, the protected count hardly tells the two apart. The loss
curve is ln f(x) - ln f(x + 1); the empirical privacy loss is its largest absolute value. It is a figure of the data as
well as of the mechanism, no bound: the guarantee of a release stands in its privacy statement.

Sources: Petti and Flaxman, "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff", Gates Open Research 2020, and Flaxman, "Empirical quantification of privacy loss with
examples relevant to the 2020 US census"; definitions as their published programs compute them. What follows from them:

- The range ends at B = multiplier x max(|P5|, |P95|) of the signed residuals, and the last point lies one below the
  mirror image of the first (see `_points`): turning all signs round mirrors the curve but for one point at either end.
- The largest value over a curve is biased upward, the more so the fewer residuals there are. Where the true slope is
  0.1335, it is 0.24 with 2,663 residuals, 0.16 with 26,000 and 0.15 with 134,857: compare at equal n only. The plateau
  (median of the absolute values) hardly moves: 0.127, 0.131, 0.132.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError, UndefinedError
from das_spark.evaluation.metrics import Frequencies

#: Kernel deviations beyond which the kernel is exactly 0 in double precision: exp(-39^2 / 2) < 2^-1075.
_REACH: Final = 39.0
#: Numbers of a block: it stays in the cache of a core.
_BLOCK: Final = 2**17


def kernel_density(residuals: Frequencies, kernel_deviation: float, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The density sum_i counts_i phi((t - values_i) / h) / (n h) at points t, h the kernel deviation.

    The same as `scipy.stats.gaussian_kde` on the expanded residuals, where its factor is h / standard deviation.
    """
    values = residuals.values
    weights = residuals.counts / (residuals.total * kernel_deviation * sqrt(2 * pi))
    density = np.empty(at.size)
    rows = max(1, _BLOCK // max(1, values.size))
    for first in range(0, at.size, rows):
        points = at[first : first + rows]
        ends = points[0] - _REACH * kernel_deviation, points[-1] + _REACH * kernel_deviation
        near = slice(*np.searchsorted(values, ends))
        distances = (points[:, None] - values[None, near]) / kernel_deviation
        density[first : first + rows] = np.exp(-0.5 * distances**2) @ weights[near]
    return density


_MEDIAN: Final = 50.0
_ALL: Final = 100.0
#: So much of a person may a range be wrong by rounding without gaining a point.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LossSettings:
    """How a loss curve is computed.

    Raises:
        ConfigurationError: A number is out of its range.
    """

    name: str
    bandwidth: float  #: size of the kernel, positive
    #: `deviation`: the kernel's standard deviation is `bandwidth` x that of the residuals; `people`: it is `bandwidth`
    #: people.
    bandwidth_of: Literal["deviation", "people"]
    percentile: float = 95.0  #: where the range ends: above 50, at most 100
    multiplier: float = 1.0  #: by how much the range is stretched, positive

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.bandwidth_of not in ("deviation", "people"):
            raise ConfigurationError(
                f"loss settings {self.name}: bandwidth_of is {self.bandwidth_of!r}",
                hint='use "deviation" or "people"',
            )
        if not (self.bandwidth > 0 and self.multiplier > 0 and _MEDIAN < self.percentile <= _ALL):
            raise ConfigurationError(
                f"loss settings {self.name}: bandwidth {self.bandwidth}, percentile {self.percentile}, multiplier "
                f"{self.multiplier}",
                hint="bandwidth and multiplier are positive, the percentile lies above 50 and is at most 100",
            )

    def kernel_deviation(self, deviation: float) -> float:
        """Standard deviation of the kernel, people, for residuals with this standard deviation."""
        return self.bandwidth * deviation if self.bandwidth_of == "deviation" else self.bandwidth


#: What produced the published figures: a factor of the sample standard deviation.
AS_CODED: Final = LossSettings("as coded", 0.1, "deviation")
#: What the text of the studies says of the bandwidth: a tenth of a person.
AS_WRITTEN: Final = LossSettings("as written", 0.1, "people")
#: The settings of the study of three algorithms on a simulated hierarchy.
FLAXMAN: Final = LossSettings("Flaxman", 0.15, "deviation", multiplier=2.0)


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """The loss at every point of the range; always finite."""

    x: NDArray[np.float64]  #: shape (m,), people: points, 1 apart
    loss: NDArray[np.float64]  #: shape (m,): ln f(x) - ln f(x + 1)
    density_at: NDArray[np.float64]  #: shape (m + 1,), people: x, and one point more
    density: NDArray[np.float64]  #: shape (m + 1,): f there, per person
    n: int  #: residuals
    settings: LossSettings  #: how it was computed
    kernel_deviation: float  #: standard deviation of the kernel, people

    @property
    def maximum(self) -> float:
        """Largest absolute loss: the empirical privacy loss."""
        return float(np.abs(self.loss).max())

    @property
    def plateau(self) -> float:
        """Median of the absolute losses: the slope, where the density falls geometrically."""
        return float(np.median(np.abs(self.loss)))


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The empirical privacy loss, or why there is none."""

    value: float | None  # largest absolute loss; None where it is undefined
    plateau: float | None  # median absolute loss; None likewise
    n: int  # residuals
    why_undefined: str = ""  # empty where it is defined


def loss_curve(residuals: Frequencies, settings: LossSettings = AS_CODED) -> LossCurve:
    """The loss curve of residuals.

    Args:
        residuals: In people, whole or not.
        settings: Bandwidth and range.

    Raises:
        UndefinedError: There is no curve: fewer than two residuals, all are equal, the range holds fewer than two
            points, or the density vanishes within the range. The message is the reason.
    """
    if residuals.total <= 1:
        raise UndefinedError("fewer than two residuals")
    if residuals.values.size == 1:
        raise UndefinedError("all residuals are equal")
    points = _points(residuals, settings)
    kernel = settings.kernel_deviation(residuals.standard_deviation)
    density = kernel_density(residuals, kernel, points)
    # Where this underflows, the published programs find an infinite loss. It would tell of the kernel's own tail only.
    # The message gives no range: errors never hold what was computed from confidential counts.
    if density.min() < np.finfo(np.float64).tiny:
        raise UndefinedError("the density vanishes in a part of the range: no residual is near enough for this kernel")
    logarithm = np.log(density)
    return LossCurve(points[:-1], logarithm[:-1] - logarithm[1:], points, density, residuals.total, settings, kernel)


def empirical_privacy_loss(residuals: Frequencies, settings: LossSettings = AS_CODED) -> PrivacyLoss:
    """The largest absolute loss and the plateau, or the reason why they are undefined."""
    try:
        curve = loss_curve(residuals, settings)
    except UndefinedError as reason:
        return PrivacyLoss(None, None, residuals.total, reason.message)
    return PrivacyLoss(curve.maximum, curve.plateau, curve.n)


def _points(residuals: Frequencies, settings: LossSettings) -> NDArray[np.float64]:
    """Middles of the unit bins whose edges are -B, -B + 1, ... below B."""
    high = settings.percentile / _ALL
    low = (_ALL - settings.percentile) / _ALL
    bound = settings.multiplier * max(map(abs, residuals.quantiles((low, high))))
    edges = int(np.ceil(2 * bound - _ROUNDING))
    if edges - 1 < 2:  # noqa: PLR2004 - a loss is between two points
        raise UndefinedError("the range holds fewer than two points")
    return np.arange(edges - 1, dtype=np.float64) - (bound - 0.5)
