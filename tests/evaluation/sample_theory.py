"""What is expected of simple random samples: closed forms for areas of given sizes.

f is the share of the persons that is drawn, N the population, n the people of an area. The residual of an area is its
sampled count times 1/f, minus n.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, norm

from das_spark.evaluation.samples import Draw

#: People up to whom the distribution of a residual is summed term by term.
_TERM_BY_TERM: Final = 1000
_NEXT_TO_NONE: Final = 1e-9  # people


def sample_standard_deviation(people: ArrayLike, share: Fraction, population: int | None = None) -> NDArray[np.float64]:
    r"""Standard deviation of the residual of an area.

    The sample holds a hypergeometric number of the area's n people, so that with m = f N

    .. math:: \sigma^2 = n \, \frac{N - n}{N - 1} \, \frac{1 - f}{f},

    which is n (1 - f) / f where the area is a small part of the population.

    Args:
        people: n of each area.
        share: f, above 0 and not above 1.
        population: N, at least 2; None for areas that are small parts of it.

    Returns:
        People, in the shape of the areas.
    """
    n = np.asarray(people, dtype=np.float64)
    if population is None:
        return np.asarray(np.sqrt(n * float((1 - share) / share)))
    drawn = Draw(share, 0).persons(population)
    return np.asarray(np.sqrt(n * (population - n) * _variance_factor(drawn, share, population)))


def sample_rmse(people: ArrayLike, share: Fraction, population: int | None = None) -> float:
    """Root of the expected mean square of the residuals of areas of given sizes.

    Args:
        people: n of each area, at least one.
        share: As in `sample_standard_deviation`.
        population: As there.
    """
    n = np.asarray(people, dtype=np.float64)
    square = sample_standard_deviation(n, share, population) ** 2
    return float(np.sqrt(np.mean(square + _offset(n, share, population) ** 2)))


def sample_median_absolute(people: ArrayLike, share: Fraction, population: int | None = None) -> float:
    """Median absolute residual over areas of given sizes: of the distribution that mixes theirs.

    Areas of up to 1,000 people have few possible residuals: their distribution is summed term by term, as that of a
    small part of the population (binomial). That of larger ones is taken as normal.

    Args:
        people: n of each area, whole numbers, at least one.
        share: As in `sample_standard_deviation`.
        population: As there.

    Returns:
        The least residual, in people, that half of the areas are expected not to exceed: a multiple of 1/p.
    """
    sizes, weights = np.unique(np.asarray(people, dtype=np.int64), return_counts=True)
    small = sizes <= _TERM_BY_TERM
    steps, mass = _small_distribution(sizes[small], weights[small], share)
    large = sizes[~small]
    # Whoever is everybody, or drawn with everybody, has no deviation; this is next to none.
    deviation = np.maximum(sample_standard_deviation(large, share, population), _NEXT_TO_NONE)
    centre = _offset(large.astype(np.float64), share, population)

    def within(step: int) -> float:
        """How many of the areas are expected to be wrong by at most so many steps of 1/p."""
        reach = (step + 0.5) / share.numerator  # halfway to the next step
        inside = norm.cdf(reach, centre, deviation) - norm.cdf(-reach, centre, deviation)
        return float(mass[steps <= step].sum() + (weights[~small] * inside).sum())

    low, high = -1, int(sizes.max()) * share.denominator
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if 2 * within(middle) >= weights.sum() else (middle, high)
    return high / share.numerator


def _variance_factor(drawn: int, share: Fraction, population: int) -> float:
    """Variance of a residual over n (N - n), of a whole number of persons drawn."""
    return float(Fraction(drawn * (population - drawn), population**2 * (population - 1)) / share**2)


def _offset(people: NDArray[np.float64], share: Fraction, population: int | None) -> NDArray[np.float64]:
    """Mean of the residuals: f N is no whole number of persons, so that weights of 1/f miss the population a little."""
    if population is None:
        return np.zeros_like(people)
    drawn = Draw(share, 0).persons(population)
    return people * float(Fraction(drawn, population) / share - 1)


def _small_distribution(
    sizes: NDArray[np.int64], weights: NDArray[np.int64], share: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Absolute residuals of small areas, in steps of 1/p, and how many areas are expected to have them."""
    sampled = np.arange(_TERM_BY_TERM + 1)[:, np.newaxis]
    distribution = np.asarray(binom.pmf(sampled, sizes, float(share)), dtype=np.float64) * weights
    steps = np.abs(sampled * share.denominator - sizes * share.numerator)
    possible = sampled <= sizes
    return steps[possible], distribution[possible]
