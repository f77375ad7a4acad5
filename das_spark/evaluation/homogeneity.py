"""How uniform the people of a geounit are: the homogeneity index, in two definitions.

Source: Petti and Flaxman (2020), "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff", section "Bias": homogeneous places gain people, diverse ones lose them, since noise in empty
strata can only raise them. The paper defines the index as the number of empty strata of a geounit; the program that
made its figures computes the number of strata minus the product of how many levels of each attribute occur, so that
an index such as 19 of 24 is never reached. Both are here, by name.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.histogram import Query

Definition = Literal["empty strata", "marginal product"]

#: As the paper defines the index, and as its program computes it.
EMPTY_STRATA: Final[Definition] = "empty strata"
MARGINAL_PRODUCT: Final[Definition] = "marginal product"
DEFINITIONS: Final = (EMPTY_STRATA, MARGINAL_PRODUCT)


def homogeneity_index(
    strata: Query, geounits: int, owner: NDArray[np.int64], row: NDArray[np.int64], definition: Definition
) -> NDArray[np.int64]:
    """The index of every geounit; a geounit without people has the highest one, the number of strata.

    Args:
        strata: The query of stratified counts, over n strata.
        geounits: How many geounits there are, K.
        owner: Geounit of each stratum that has people in the confidential counts, (m,); each pair once.
        row: The stratum, (m,).
        definition: Which index.

    Returns:
        Shape (K,), from 0 (most diverse) to n.
    """
    if definition == EMPTY_STRATA:
        return strata.rows - np.bincount(owner, minlength=geounits)
    sizes = [int(factor.max()) + 1 for factor in strata.factors]
    reached = (np.bincount(owner, minlength=geounits) > 0).astype(np.int64)
    for size, level in zip(sizes, np.unravel_index(row, sizes), strict=True):
        if size > 1:
            distinct = np.unique(owner * size + level) // size
            reached *= np.bincount(distinct, minlength=geounits)
    return strata.rows - reached
