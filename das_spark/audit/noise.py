r"""What the declared noise allows: the perfect attacker on all measured answers in which two inputs differ.

By Neyman and Pearson no attacker is better than the one that looks at the log-likelihood ratio of everything measured;
by post-processing none that sees only what is computed from it. An answer that differs by n (one, or as many as a
contributor has records) adds a loss

    l(k) = ln P(X = k) - ln P(X = k - n),      with probability P(X = k)                                     (V-5)

Losses of independent answers add, so their distributions are convolved, on a grid. An outcome whose loss is no grid
point is divided into two that have the next ones, such that its probability under either input is kept: who sees which
of the two sees no less, so what follows is never too strict. With L the sum, for every event of probability p under one
input and q under the other,

    p <= min over epsilon of exp(epsilon) q + delta(epsilon),   delta(epsilon) = E max(0, 1 - exp(epsilon - L))  (V-6)

Sources: Dong, Roth, Su (2022), on trade-off functions; Koskela, Jälkö, Honkela (2020), on the convolution; Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi (2022), on the grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from das_spark.audit.claim import Claim, lower_limit, upper_limit
from das_spark.errors import InputError
from das_spark.privacy import DiscreteGaussian, DiscreteLaplace, Mechanism

Floats = NDArray[np.float64]

_GRID: Final = 1 << 17
_REACH: Final = 12.0  # Standard deviations, or multiples of the scale over 4, behind which less than 1e-19 is left.
_CURVE: Final = 4096  # Points of the curve that is made of the grid.
_RESOLVED: Final = 1e-13  # Smaller probabilities are lost in the rounding of the transform.


@dataclass(frozen=True, eq=False)
class DeclaredNoise:
    """The distribution of the loss L of (V-5) over all answers that differ."""

    losses: Floats  # grid of losses, ascending, (m,)
    probabilities: Floats  # of each under the input that it speaks for, (m,)
    answers: int  # how many answers differ

    @classmethod
    def of(cls, mechanisms: Mapping[Mechanism, int], by: int = 1) -> DeclaredNoise:
        """Convolve the losses of all answers, each of which differs by so many."""
        answers = sum(mechanisms.values())
        if not answers:
            raise InputError("the two inputs differ in no measured answer: there is nothing to audit")
        step = _reach(mechanisms, by) / (_GRID // 2 - 1 - answers)
        transformed = np.ones(_GRID // 2 + 1, dtype=np.complex128)
        for mechanism, number in mechanisms.items():
            transformed *= rfft(_losses_of(mechanism, step, by)) ** number
        probabilities: Floats = np.roll(np.clip(irfft(transformed, _GRID), 0.0, None), _GRID // 2).astype(np.float64)
        losses: Floats = (np.arange(_GRID) - _GRID // 2).astype(np.float64) * step
        return cls(losses, probabilities, answers)

    def roc(self) -> tuple[Floats, Floats]:
        """The perfect attacker's events: probabilities under both inputs, each (n,), the first ones greater.

        They are `L >= t` for many t >= 0 and, since the noise is symmetric, what mirrors them when the inputs are
        exchanged and the event negated.
        """
        _, own, other = self._curve
        return np.concatenate([own, 1 - other]), np.concatenate([other, 1 - own])

    def allowed(self, high: Floats) -> Floats:
        """The greatest probability that an event can have under one input (V-6)."""
        losses, own, other = self._curve
        growth = np.exp(losses)
        delta = np.clip(own - growth * other, 0.0, 1.0)
        flat = np.asarray(high, dtype=np.float64).ravel()
        found = np.ones_like(flat)
        for place, one in enumerate(flat):
            # The second form is that of -epsilon, by symmetry.
            found[place] = min((growth * one + delta).min(), (1 - (1 - delta - one) / growth).min(), 1.0)
        return found.reshape(np.shape(high))

    def excess(self, low: Floats, high: Floats) -> Floats:
        """How much more probable an event is than the declared noise allows; positive: something else leaks.

        Fast, and good to a thousandth, for the choice of events; `allowed` is what judges them.
        """
        return np.asarray(low - np.interp(high, *self._table), dtype=np.float64)

    def expected(self, claim: Claim, declared: DeclaredNoise, runs: int, alpha: float) -> tuple[float, float]:
        """What the perfect attacker on this noise typically sees: greatest bound on the total, greatest excess."""
        own, other = self.roc()
        low = lower_limit(np.rint(own * runs), runs, alpha / 2)
        high = upper_limit(np.rint(other * runs), runs, alpha / 2)
        different = np.unique(np.stack([low, high]), axis=1)
        return float(claim.bound(*different).max()), float(declared.excess(*different).max())

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Probabilities, and the greatest ones that are allowed beside them."""
        high = np.concatenate([[0.0], np.logspace(-9, 0, 500)])
        return high, self.allowed(high)

    @cached_property
    def _curve(self) -> tuple[Floats, Floats, Floats]:
        """Thresholds t >= 0 evenly over the losses that occur, and the probabilities of `L >= t` under both inputs."""
        middle = len(self.losses) // 2
        losses, probabilities = self.losses[middle:], self.probabilities[middle:]
        own = np.cumsum(probabilities[::-1])[::-1]
        other = np.cumsum((probabilities * np.exp(-losses))[::-1])[::-1]
        last = int(np.flatnonzero(own > _RESOLVED)[-1]) if own[0] > _RESOLVED else 0
        places = np.unique(np.linspace(0, last, _CURVE).astype(np.int64))
        return losses[places], np.minimum(own[places], 1.0), np.minimum(other[places], 1.0)


def louder(mechanisms: Mapping[Mechanism, int], factor: Fraction) -> dict[Mechanism, int]:
    """The same answers with noise of another width."""
    found: dict[Mechanism, int] = {}
    for mechanism, number in mechanisms.items():
        if isinstance(mechanism, DiscreteLaplace):
            found[DiscreteLaplace(mechanism.scale * factor)] = number
        else:
            found[DiscreteGaussian(mechanism.sigma_squared * factor * factor)] = number
    return found


def log_ratio(mechanism: Mechanism, values: Floats, first: int, second: int) -> Floats:
    """Log-likelihood ratio of two exact answers, given noisy ones."""
    before, after = values - first, values - second
    if isinstance(mechanism, DiscreteLaplace):
        found = (np.abs(after) - np.abs(before)) / float(mechanism.scale)
    else:
        found = (after**2 - before**2) / (2 * float(mechanism.sigma_squared))
    return np.nan_to_num(found, nan=0.0)


def _reach(mechanisms: Mapping[Mechanism, int], by: int) -> float:
    """A loss that is never exceeded, or with a probability that doubles do not see beside 1."""
    most, rho = 0.0, 0.0
    for mechanism, number in mechanisms.items():
        if isinstance(mechanism, DiscreteLaplace):
            most += number * by / float(mechanism.scale)
        else:
            rho += number * by * by / (2 * float(mechanism.sigma_squared))
    return most + rho + _REACH * math.sqrt(2 * rho)


def _losses_of(mechanism: Mechanism, step: float, by: int) -> Floats:
    """Probabilities of the losses (V-5) of one answer on the grid, loss 0 in place 0, negative ones from the end."""
    if isinstance(mechanism, DiscreteLaplace):
        width = float(mechanism.scale)
        noise = np.arange(-math.ceil(4 * _REACH * width) - 1, math.ceil(4 * _REACH * width) + 2, dtype=np.float64)
        logarithm = -np.abs(noise) / width
    else:
        width = math.sqrt(float(mechanism.sigma_squared))
        noise = np.arange(-math.ceil(_REACH * width) - 2, math.ceil(_REACH * width) + 3, dtype=np.float64)
        logarithm = -(noise**2) / (2 * float(mechanism.sigma_squared))
    probabilities = np.exp(logarithm)
    probabilities /= probabilities.sum()
    limit = _GRID // 2 - 2
    losses = np.clip(log_ratio(mechanism, noise, 0, by), -limit * step, limit * step)
    below = np.floor(losses / step)
    upper = np.expm1(below * step - losses) / math.expm1(-step)
    found = np.zeros(_GRID)
    for places, share in ((below, 1 - upper), (below + 1, upper)):
        np.add.at(found, places.astype(np.int64) % _GRID, probabilities * share)
    return found
