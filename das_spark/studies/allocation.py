"""How the demonstration of 2019 spent its epsilon: every query in both groups of geolevels, exactly, and its noise.

    epsilon of a query = total of its tables x share of the geolevel x share of the query                          (O-1)
    scale = 2 / epsilon                                                                                            (O-2)

Source: Van Riper, Kugler and Ruggles (2020), equation 1 and table 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.privacy import DiscreteLaplace, GeounitAddresses, RunKey, StreamDomain, cumulative_table, sample
from das_spark.studies.published_demonstration import (
    GEOLEVEL_SHARES,
    HOUSEHOLD_QUERIES,
    PERSON_QUERIES,
    SCOPES,
    TOTALS,
    PublishedQuery,
    Scope,
)

_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class NoiseFigures:
    """Percentiles of discrete Laplace noise X, in people or households.

    The law is symmetric: half of the draws lie from -p75 to p75, and 95 % from -p97_5 to p97_5.

    Attributes:
        p75: 75th percentile, the least k with P(X <= k) >= 0.75; also the median of |X|.
        p97_5: 97.5th percentile; also the 95th percentile of |X|.
    """

    p75: int
    p97_5: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """One query in one group of geolevels.

    Attributes:
        query: As published.
        scope: The group of geolevels.
        epsilon: What is spent on it in each of these geolevels.
        noise: Percentiles of its noise.
    """

    query: PublishedQuery
    scope: Scope
    epsilon: Fraction
    noise: NoiseFigures

    @property
    def scale(self) -> Fraction:
        """Scale of the noise (O-2), exact."""
        return 2 / self.epsilon

    @property
    def printed(self) -> str:
        """The scale to two decimals, as table 2 prints it."""
        return f"{float(self.scale):.2f}"

    @property
    def agrees(self) -> bool:
        """Whether the published scale is the same."""
        return self.printed == self.query.scales[self.scope]


def allocation_table() -> tuple[Allocation, ...]:
    """All 13 queries in both groups of geolevels: 26 lines, those of one query together."""
    lines = []
    for query in (*PERSON_QUERIES, *HOUSEHOLD_QUERIES):
        for scope, geolevel in SCOPES.items():
            epsilon = epsilon_of(query, geolevel)
            lines.append(Allocation(query, scope, epsilon, noise_figures(2 / epsilon)))
    return tuple(lines)


def epsilon_of(query: PublishedQuery, geolevel: str) -> Fraction:
    """What is spent on a query in a geolevel (O-1).

    Args:
        query: As published.
        geolevel: One of `GEOLEVEL_SHARES`.
    """
    return TOTALS[query.tables] * GEOLEVEL_SHARES[geolevel] * query.share


def noise_figures(scale: Fraction) -> NoiseFigures:
    """Percentiles of the discrete Laplace law of a scale, from its distribution function.

    Args:
        scale: In people or households, above 0.
    """
    return NoiseFigures(quantile(scale, 0.75), quantile(scale, 0.975))


def quantile(scale: Fraction, probability: float) -> int:
    """The least k with P(X <= k) >= probability, for X discrete Laplace.

    With q = exp(-1 / scale), P(X <= k) = 1 - q^(k+1) / (1 + q) from k = 0 on.

    Args:
        scale: Above 0.
        probability: At least 0.5 and below 1; the other half is symmetric.

    Raises:
        ConfigurationError: The probability is outside of that.
    """
    if not _HALF <= probability < 1:
        raise ConfigurationError(f"quantiles of noise: expected a probability from 0.5 to below 1, not {probability}")
    ratio = math.exp(-1 / scale)
    return max(0, math.ceil(math.log((1 - probability) * (1 + ratio)) / math.log(ratio)) - 1)


def drawn_noise(scale: Fraction, draws: int, seed: int) -> NDArray[np.int64]:
    """Noise from the project's exact sampler, under a key that anybody can make from the seed.

    Args:
        scale: In people or households, above 0.
        draws: How many.
        seed: Names the key.

    Returns:
        Shape (draws,).
    """
    law = DiscreteLaplace(scale)
    stream = RunKey.insecure(f"noise {seed}").derive(StreamDomain("experiment", "noise", "none", 0, str(scale)))
    return sample(cumulative_table(law), stream, GeounitAddresses.of(["0"]), np.arange(draws)).ravel()
