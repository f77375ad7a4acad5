"""The three mechanisms of Flaxman (2019), section 2.2. A person is in one leaf, so every query has sensitivity 1.

    GDPC(eps):    leaf + G(eps)                                                                                  (X-3)
    ADPC(eps, P): mean of P independent GDPC(eps / P)                                                            (X-4)
    RDPC(eps):    every area of every level, the root too, + G(eps / (J + 1)); then from the top down each family of
                  siblings is multiplied by one number, so that it sums to its parent as raked before            (X-5)

All three are eps-differentially private by sequential composition. The results of (X-4) and (X-5) are no integers.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.studies.flaxman_population import Database
from das_spark.studies.noise import Noise

Floats = NDArray[np.float64]


class Mechanism(StrEnum):
    """The algorithms, in the order of the study."""

    GDPC = "GDPC"
    RDPC = "RDPC"
    ADPC = "ADPC"

    def expected_share(self, levels: int) -> Fraction:
        """Empirical privacy loss as a share of epsilon, as the study reads it off its figure (for P = 4).

        Args:
            levels: J, levels below the root.
        """
        shares = {Mechanism.GDPC: Fraction(1), Mechanism.ADPC: Fraction(1, 2)}
        return shares.get(self, Fraction(1, levels + 1))


def protect(
    algorithm: Mechanism,
    database: Database,
    epsilon: Fraction,
    noise: Noise,
    *,
    parts: int,
    replicates: int = 1,
    first_only: bool = False,
) -> Floats:
    """Protected counts of the leaves.

    Args:
        algorithm: Which mechanism.
        database: Exact counts.
        epsilon: In all.
        noise: Of the experiment.
        parts: P of ADPC.
        replicates: Independent repetitions.
        first_only: Only the first leaf, with the same values as if all were protected: of the others, only those are
            drawn that it depends on.

    Returns:
        Shape (leaves, replicates), or (1, replicates); people.

    Raises:
        ConfigurationError: A family's noisy counts sum to 0, so that it cannot be raked.
    """
    name = f"{algorithm} with epsilon {epsilon} of {database.name}"
    if algorithm is Mechanism.RDPC:
        return _raked(database, epsilon, noise, name, replicates, first_only)
    leaves = database.leaves[:1] if first_only else database.leaves
    # GDPC is the mean of one part.
    number = 1 if algorithm is Mechanism.GDPC else parts
    drawn = noise.draw(name, epsilon / number, len(leaves), replicates * number)
    protected: Floats = leaves[:, None] + drawn.reshape(len(leaves), replicates, number).mean(axis=2)
    return protected


def _raked(database: Database, epsilon: Fraction, noise: Noise, name: str, replicates: int, first_only: bool) -> Floats:
    """(X-5): children of the areas that are kept are the first ones of the next level."""
    share = epsilon / len(database.levels)
    children = len(database.levels[1])
    root = database.levels[0][:, None] + noise.draw(f"{name}, root", share, 1, replicates)
    raked: Floats = root.astype(np.float64)
    for level, counts in enumerate(database.levels[1:], 1):
        asked = counts[: children * len(raked)]
        noisy = asked[:, None] + noise.draw(f"{name}, level {level}", share, len(asked), replicates)
        raked = rake(raked, noisy.astype(np.float64))
        if first_only:
            raked = raked[:1]
    return raked


def rake(parents: Floats, children: Floats) -> Floats:
    """Scale families so that they sum to their parents.

    Args:
        parents: Shape (areas, replicates), people.
        children: Shape (areas x C, replicates), those of one parent side by side.

    Returns:
        Like `children`.

    Raises:
        ConfigurationError: A family sums to 0.
    """
    families = children.reshape(len(parents), -1, parents.shape[1])
    sums = families.sum(axis=1)
    if (sums == 0).any():
        raise ConfigurationError(
            "the noisy counts of a family sum to 0 and cannot be scaled to their parent",
            hint="take a larger epsilon or a larger mean size",
        )
    scaled: Floats = (families * (parents / sums)[:, None, :]).reshape(children.shape)
    return scaled
