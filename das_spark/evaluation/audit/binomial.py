r"""Exact confidence limits on the probability of an event that was seen s times in n independent runs.

    low(s, n, a)  = the p at which s or more are seen with probability a; 0 where s = 0                    (V-1)
    high(s, n, a) = the p at which s or fewer are seen with probability a; 1 where s = n                   (V-2)

Each limit is wrong with probability a at most, whatever the true p. Source: Clopper and Pearson (1934); both are
quantiles of beta laws, Beta(s, n - s + 1) and Beta(s + 1, n - s).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from das_spark.errors import InputError


def lower_limit(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    """The probability that is exceeded with confidence 1 - alpha (V-1).

    Args:
        seen: How often the event was seen, any shape.
        runs: In how many runs.
        alpha: Probability of being wrong, in (0, 1).

    Raises:
        InputError: The event was seen more often than there were runs, or alpha is no probability.
    """
    counts = _checked(seen, runs, alpha)
    found = betaincinv(np.maximum(counts, 1.0), runs - counts + 1.0, alpha)
    return np.where(counts == 0, 0.0, found)


def upper_limit(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    """The probability that is not exceeded with confidence 1 - alpha (V-2).

    Args:
        seen: How often the event was seen, any shape.
        runs: In how many runs.
        alpha: Probability of being wrong, in (0, 1).

    Raises:
        InputError: The event was seen more often than there were runs, or alpha is no probability.
    """
    counts = _checked(seen, runs, alpha)
    found = betainccinv(counts + 1.0, np.maximum(runs - counts, 1.0), alpha)
    return np.where(counts == runs, 1.0, found)


def _checked(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    counts = np.asarray(seen, dtype=np.float64)
    if runs < 1 or (counts.size and (counts.min() < 0 or counts.max() > runs)):
        raise InputError(f"an event is seen between 0 and {runs} times in {runs} runs, of which there is one at least")
    if not 0 < alpha < 1:
        raise InputError(f"a probability of being wrong lies between 0 and 1, is {alpha}")
    return counts
