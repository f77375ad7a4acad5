"""The 2010 Demonstration Data Product of October 2019: its allocation of epsilon, and what was published of it.

Every query in both groups of geolevels, exactly, and its noise:

    epsilon of a query = total of its tables x share of the geolevel x share of the query                          (O-1)
    scale = 2 / epsilon                                                                                            (O-2)

Source: Van Riper, Kugler and Ruggles (2020), "Disclosure Avoidance in the Census Bureau's 2010 Demonstration Data
Product", PSD 2020: equation 1, sections 2 and 3, table 2, figures 1 and 2. Facts and numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.privacy import DiscreteLaplace, GeounitAddresses, RunKey, StreamDomain, cumulative_table, sample

Tables = Literal["person", "household"]
Scope = Literal["nation and state", "county and below"]


@dataclass(frozen=True, slots=True)
class PublishedQuery:
    """One of the 13 queries."""

    tables: Tables  # which tables it serves
    name: str  # as it was printed
    cells: int  # number of its answers in each geounit
    share: Fraction  # of the budget of its tables in each geolevel
    scales: Mapping[Scope, str]  # printed scale of its noise by geolevels, in people or households, to two decimals


def _query(tables: Tables, name: str, cells: int, share: str, scales: tuple[str, str]) -> PublishedQuery:
    printed: dict[Scope, str] = {"nation and state": scales[0], "county and below": scales[1]}
    return PublishedQuery(tables, name, cells, Fraction(share), MappingProxyType(printed))


#: Total epsilon of the person and of the household tables.
TOTALS: Final[Mapping[Tables, Fraction]] = MappingProxyType({"person": Fraction(4), "household": Fraction(2)})
#: Share of each geolevel, the same for persons and households.
GEOLEVEL_SHARES: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        "Nation": Fraction(1, 5),
        "State": Fraction(1, 5),
        **dict.fromkeys(("County", "Tract_Group", "Tract", "Block_Group", "Block"), Fraction(3, 25)),
    }
)
#: a geolevel of each column of scales in table 2.
_SCOPES: Final[Mapping[Scope, str]] = MappingProxyType({"nation and state": "Nation", "county and below": "County"})

PERSON_QUERIES: Final = (
    _query("person", "Detailed person", 467_712, "1/10", ("25.00", "41.67")),
    _query("person", "Household/group quarters", 8, "1/5", ("12.50", "20.83")),
    _query("person", "Voting age x Hisp x Race x Citizen", 504, "1/2", ("5.00", "8.33")),
    _query("person", "Sex x Age (single year bins)", 232, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (4 year bins)", 58, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (16 year bins)", 16, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (64 year bins)", 4, "1/20", ("50.00", "83.33")),
)
HOUSEHOLD_QUERIES: Final = (
    _query("household", "Detailed household", 96_768, "1/5", ("25.00", "41.67")),
    _query("household", "HHhisp x HHrace x HHsize x HHtype", 2_688, "1/4", ("20.00", "33.33")),
    _query("household", "HHsex x HHhisp x HHrace x HHtype", 672, "1/4", ("20.00", "33.33")),
    # 28 is no multiple of the 24 types of household, but 2 x 7 x 2: the printed name may mean race instead of type.
    _query("household", "HHhisp x HHtype x HHmulti", 28, "1/10", ("50.00", "83.33")),
    _query("household", "HHsex x HHtype x HHelderly", 384, "1/10", ("50.00", "83.33")),
    _query("household", "HHsex x HHage x HHtype", 432, "1/10", ("50.00", "83.33")),
)

#: Counties without a vacant housing unit in the release, all counties (with those of Puerto Rico), and how many of them
#: had none in Summary File 1, where occupied units were exact.
FULL_COUNTIES: Final = 310
COUNTIES: Final = 3_221
FULL_COUNTIES_IN_TRUTH: Final = 0
#: Quintiles of counties by true number of households whose box lies above zero in figure 2, counted from the smallest.
RAISED_QUINTILES: Final = 3
#: Figure 1 draws the Laplace distribution of this scale; half of the draws lie within the first number, 95 % within the
#: second.
FIGURE_1_SCALE: Final = Fraction(125, 3)
FIGURE_1_HALF: Final = 29
FIGURE_1_MOST: Final = 125
#: Half of the draws at this scale are larger than this (section 3.2).
WIDE_SCALE: Final = Fraction(250, 3)
WIDE_HALF: Final = 57

#: Table 1: 100 people by sex (rows) and school attendance (columns), and the noise that is added to each cell.
TOY_TABLE: Final = ((3, 12, 33), (4, 17, 31))
TOY_NOISE: Final = ((-1, 0, 1), (8, 2, -2))
TOY_NOISY_TOTAL: Final = 108

_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class NoiseFigures:
    """Percentiles of discrete Laplace noise X, in people or households.

    The distribution is symmetric: half of the draws lie from -p75 to p75, and 95 % from -p97_5 to p97_5.
    """

    p75: int  # 75th percentile, the least k with P(X <= k) >= 0.75; also the median of |X|
    p97_5: int  # 97.5th percentile; also the 95th percentile of |X|


@dataclass(frozen=True, slots=True)
class Allocation:
    """One query in one group of geolevels."""

    query: PublishedQuery  # as published
    scope: Scope
    epsilon: Fraction  # what is spent on it in each of these geolevels
    noise: NoiseFigures  # percentiles of its noise

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
        for scope, geolevel in _SCOPES.items():
            epsilon = _epsilon_of(query, geolevel)
            lines.append(Allocation(query, scope, epsilon, noise_figures(2 / epsilon)))
    return tuple(lines)


def _epsilon_of(query: PublishedQuery, geolevel: str) -> Fraction:
    """What is spent on a query in a geolevel (O-1)."""
    return TOTALS[query.tables] * GEOLEVEL_SHARES[geolevel] * query.share


def noise_figures(scale: Fraction) -> NoiseFigures:
    """Percentiles of discrete Laplace noise of a scale, from its distribution function."""
    return NoiseFigures(quantile(scale, 0.75), quantile(scale, 0.975))


def quantile(scale: Fraction, probability: float) -> int:
    """The least k with P(X <= k) >= probability, for X discrete Laplace.

    With q = exp(-1 / scale), P(X <= k) = 1 - q^(k+1) / (1 + q) from k = 0 on.
    """
    if not _HALF <= probability < 1:
        raise ConfigurationError(f"quantiles of noise: expected a probability from 0.5 to below 1, not {probability}")
    ratio = math.exp(-1 / scale)
    return max(0, math.ceil(math.log((1 - probability) * (1 + ratio)) / math.log(ratio)) - 1)


def drawn_noise(scale: Fraction, draws: int, seed: int) -> NDArray[np.int64]:
    """Noise from the project's exact sampler, under a key that anybody can make from the seed: shape (draws,)."""
    stream = RunKey.insecure(f"noise {seed}").derive(StreamDomain("experiment", "noise", "none", 0, str(scale)))
    table = cumulative_table(DiscreteLaplace(scale))
    return sample(table, stream, GeounitAddresses.of(["0"]), np.arange(draws)).ravel()
