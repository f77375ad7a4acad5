"""Residuals of one release with their loss curve, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import UndefinedError
from das_spark.evaluation.privacy_loss import LossCurve, LossSettings, loss_curve


@dataclass(frozen=True, slots=True, eq=False)
class ResidualLoss:
    """What is known of a set of residuals.

    Attributes:
        values: Distinct residuals, protected minus exact, ascending, people; shape (m,).
        counts: How often each occurs, shape (m,).
        curve: Loss by residual; None where it is undefined.
        why_undefined: Why, else empty.
    """

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    curve: LossCurve | None
    why_undefined: str = ""

    @classmethod
    def of(cls, residuals: NDArray[np.float64], settings: LossSettings) -> ResidualLoss:
        """Count residuals and draw their curve.

        Args:
            residuals: People, any shape.
            settings: Of the curve.
        """
        values, counts = np.unique(residuals, return_counts=True)
        try:
            return cls(values, counts, loss_curve(values, counts, settings))
        except UndefinedError as reason:
            return cls(values, counts, None, reason.message)

    @property
    def n(self) -> int:
        """How many residuals."""
        return int(self.counts.sum())

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
        return float(np.sqrt((self.values**2 @ self.counts) / self.n))

    def curve_json(self) -> dict[str, list[float] | str]:
        """Points of the curve, or why there is none."""
        if self.curve is None:
            return {"why_undefined": self.why_undefined}
        return {"x": self.curve.x.tolist(), "loss": self.curve.loss.tolist()}
