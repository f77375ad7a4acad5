"""The delta of rho-zCDP by plain search, against which conversions and audits are held."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

_ABOVE_ONE = np.logspace(-3, 3, 24_001)


def searched_delta(rho: Fraction, epsilon: float) -> float:
    """The least of (P-8) over many orders: each gives a valid delta, and the best is near the infimum."""
    order = 1 + _ABOVE_ONE
    logarithm = _ABOVE_ONE * (order * float(rho) - epsilon) + order * np.log1p(-1 / order) - np.log(_ABOVE_ONE)
    return float(np.exp(min(0.0, float(logarithm.min()))))
