"""The noise of the studies of empirical privacy loss, and what is read off the residuals of a release.

The studies write the two-sided geometric distribution with ratio exp(-z), and their code draws the difference of two
geometric numbers with success probability z: ratio 1 - z, which is the same to O(z^2). Both are the distribution (P-1)
of `das_spark.privacy.mechanisms`, at

    exact:  b = 1 / z                            P(k + 1) / P(k) = exp(-z)                                         (X-1)
    coded:  b = the double nearest to -1 / ln(1 - z)          1 - z, to a relative 1e-15                           (X-2)

so both come out of the one sampler that is proved and tested, and every draw has an address: a part of a study drawn by
itself is the same part of the whole. Nobody is protected: keys are made from seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError, UndefinedError
from das_spark.evaluation import Frequencies, LossCurve, LossSettings, loss_curve
from das_spark.privacy import DiscreteLaplace, GeounitAddresses, RunKey, StreamDomain, cumulative_table, sample
from das_spark.report import STROKES, Axis, Curve, Figure, Guide, Legend, Panel

Counts = NDArray[np.int64]


class NoiseRatio(StrEnum):
    """Which ratio a parameter z stands for: 1 - z (the code of the studies) or exp(-z) (their text)."""

    CODED = "coded"
    EXACT = "exact"

    def slope(self, z: Fraction) -> float:
        """The privacy loss of one noisy count, ln P(k) / P(k + 1)."""
        return float(z) if self is NoiseRatio.EXACT else -math.log1p(-z)


RATIOS: Final[Mapping[NoiseRatio, str]] = {
    NoiseRatio.CODED: "two-sided geometric noise with ratio 1 - z, as the programs of the studies draw it, so that a "
    "parameter z spends -ln(1 - z), a little more",
    NoiseRatio.EXACT: "two-sided geometric noise with ratio exp(-z), as the studies write it",
}
"""Both in words."""


def ratio_of(name: str) -> NoiseRatio:
    """The ratio of that name."""
    try:
        return NoiseRatio(name)
    except ValueError:
        raise ConfigurationError(f"law: there is none called {name!r}", hint="take coded or exact") from None


@dataclass(frozen=True, slots=True)
class Noise:
    """All noise of one study."""

    study: str
    seed: int
    ratio: NoiseRatio

    def draw(self, what: str, z: Fraction, areas: int, replicates: int = 1) -> Counts:
        """Independent noise of the first areas, the same for the same name and seed however many are asked for.

        Returns:
            Shape (areas, replicates), people.
        """
        table = cumulative_table(noise_mechanism(z, self.ratio))
        key = RunKey.insecure(f"{self.study}, seed {self.seed}")
        stream = key.derive(StreamDomain("experiment", self.study, "areas", 0, what))
        return sample(table, stream, GeounitAddresses.of(map(str, range(areas))), np.arange(replicates))


def noise_mechanism(z: Fraction, ratio: NoiseRatio) -> DiscreteLaplace:
    """The distribution with parameter z, by (X-1) and (X-2)."""
    if z <= 0:
        raise ConfigurationError(f"epsilon: noise needs a parameter above 0, found {float(z):g}")
    if ratio is NoiseRatio.EXACT:
        return DiscreteLaplace(1 / z)
    if z >= 1:
        raise ConfigurationError(
            f"epsilon: the coded law takes a success probability below 1, found {float(z):g}",
            hint="take a smaller epsilon, or the exact law",
        )
    return DiscreteLaplace(Fraction(1 / NoiseRatio.CODED.slope(z)))


@dataclass(frozen=True, slots=True, eq=False)
class ResidualLoss:
    """What is known of a set of residuals."""

    residuals: Frequencies  # protected minus exact, people
    curve: LossCurve | None  # loss by residual; None where it is undefined
    why_undefined: str = ""  # why, else empty

    @classmethod
    def of(cls, residuals: NDArray[np.float64], settings: LossSettings) -> ResidualLoss:
        """Count residuals and draw their curve."""
        counted = Frequencies(*np.unique(residuals, return_counts=True))
        try:
            return cls(counted, loss_curve(counted, settings))
        except UndefinedError as reason:
            return cls(counted, None, reason.message)

    @property
    def n(self) -> int:
        """How many residuals."""
        return self.residuals.total

    @property
    def maximum(self) -> float | None:
        """The empirical privacy loss: the largest absolute loss."""
        return None if self.curve is None else self.curve.maximum

    @property
    def plateau(self) -> float | None:
        """Median absolute loss."""
        return None if self.curve is None else self.curve.plateau

    @property
    def root_mean_square(self) -> float:
        """Of the residuals, people."""
        return math.sqrt(self.residuals.sum_of(2) / self.n)

    def curve_json(self) -> dict[str, list[float] | str]:
        """Points of the curve, or why there is none."""
        if self.curve is None:
            return {"why_undefined": self.why_undefined}
        return {"x": self.curve.x.tolist(), "loss": self.curve.loss.tolist()}


def residuals_and_curves(
    releases: Mapping[str, ResidualLoss],
    levels: Sequence[float],
    counted: str,
    reach: float,
    caption: str,
    width: int = 1,
) -> Figure:
    """Histogram of residuals beside the loss curves, of releases by their labels."""
    # The middles of bins are multiples of their width, so that whole residuals fall inside.
    beside = int(np.ceil(reach / width))
    edges = (np.arange(-beside, beside + 2) - 0.5) * width
    steps, curves = [], []
    for at, (label, found) in enumerate(releases.items()):
        heights, _ = np.histogram(found.residuals.values, edges, weights=found.residuals.counts)
        stroke = STROKES[at % len(STROKES)]
        corners = [edges[0], *edges], [0, *heights, 0]
        steps.append(Curve(*corners, label=label, color=at, stroke=stroke, steps=True))
        if found.curve is not None:
            curves.append(Curve(found.curve.x.tolist(), found.curve.loss.tolist(), color=at, stroke=stroke))
    guides = [Guide(y=0.0), *(Guide(y=side * level, dashed=True) for level in levels for side in (-1, 1))]
    number = f"{counted} in bins of {width} people" if width > 1 else f"number of {counted}"
    left = Panel(tuple(steps), Axis("residual (people)", low=-reach, high=reach), Axis(number, low=0))
    right = Panel((*curves, *guides), Axis("x (people)", low=-reach, high=reach), Axis("EPL(x)"))
    legend: Legend = "above" if len(releases) > 1 else "none"
    return Figure(caption, (left, right), legend=legend, title="Residuals and empirical privacy loss (EPL)")
