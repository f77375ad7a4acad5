"""The two-sided geometric noise of the studies, drawn by the exact keyed sampler under a key made from a seed.

The studies write the law with ratio exp(-z), and their code draws the difference of two geometric numbers with success
probability z: ratio 1 - z, which is the same to O(z^2). Both are the law (P-1) of `das_spark.privacy.mechanisms`, at

    exact:  b = 1 / z                            P(k + 1) / P(k) = exp(-z)                                         (X-1)
    coded:  b = the double nearest to -1 / ln(1 - z)          1 - z, to a relative 1e-15                           (X-2)

so both come out of the one sampler that is proved and tested, and every draw has an address: a part of an experiment
drawn by itself is the same part of the whole. Nobody is protected: the key is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.privacy import DiscreteLaplace, GeounitAddresses, RunKey, StreamDomain, cumulative_table, sample

Counts = NDArray[np.int64]


class Law(StrEnum):
    """Which ratio a parameter z stands for: 1 - z (the code of the studies) or exp(-z) (their text)."""

    CODED = "coded"
    EXACT = "exact"

    def slope(self, z: Fraction) -> float:
        """The privacy loss of one noisy count, ln P(k) / P(k + 1).

        Args:
            z: Parameter of the law: above 0; below 1 where it is coded.
        """
        return float(z) if self is Law.EXACT else -math.log1p(-z)


LAWS: Final[Mapping[Law, str]] = {
    Law.CODED: "two-sided geometric noise with ratio 1 - z, as the programs of the studies draw it, so that a "
    "parameter z spends -ln(1 - z), a little more",
    Law.EXACT: "two-sided geometric noise with ratio exp(-z), as the studies write it",
}
"""Both laws in words."""


def law_of(name: str) -> Law:
    """The law of that name.

    Args:
        name: `coded` or `exact`.

    Raises:
        ConfigurationError: There is none.
    """
    try:
        return Law(name)
    except ValueError:
        raise ConfigurationError(f"law: there is none called {name!r}", hint="take coded or exact") from None


@dataclass(frozen=True, slots=True)
class Noise:
    """All noise of one experiment.

    Args:
        study: Its name.
        seed: Another seed gives other noise.
        law: Which law.
    """

    study: str
    seed: int
    law: Law

    def draw(self, what: str, z: Fraction, areas: int, replicates: int = 1) -> Counts:
        """Independent noise of the first areas, the same for the same name and seed however many are asked for.

        Args:
            what: What is counted and protected; other names give independent noise.
            z: Parameter of the law.
            areas: How many.
            replicates: Of each.

        Returns:
            Shape (areas, replicates), int64, people.

        Raises:
            ConfigurationError: The parameter is not above 0, or is no probability where the law wants one.
        """
        table = cumulative_table(mechanism(z, self.law))
        key = RunKey.insecure(f"{self.study}, seed {self.seed}")
        stream = key.derive(StreamDomain("experiment", self.study, "areas", 0, what))
        return sample(table, stream, GeounitAddresses.of(map(str, range(areas))), np.arange(replicates))


def mechanism(z: Fraction, law: Law) -> DiscreteLaplace:
    """The law with parameter z, by (X-1) and (X-2).

    Args:
        z: Above 0; below 1 where it is coded.
        law: Which.

    Raises:
        ConfigurationError: The parameter is outside.
    """
    if z <= 0:
        raise ConfigurationError(f"epsilon: noise needs a parameter above 0, found {float(z):g}")
    if law is Law.EXACT:
        return DiscreteLaplace(1 / z)
    if z >= 1:
        raise ConfigurationError(
            f"epsilon: the coded law takes a success probability below 1, found {float(z):g}",
            hint="take a smaller epsilon, or the exact law",
        )
    return DiscreteLaplace(Fraction(1 / Law.CODED.slope(z)))
