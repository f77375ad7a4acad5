"""Which of two releases is nearer to the truth, geounit by geounit: differences of absolute residuals.

A difference is |first - truth| - |second - truth|: below zero where the first release is nearer. They are paired by
geounit (and stratum), so that what both have in common, such as how large the geounit is, cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.tally import Side
from das_spark.histogram import NO_GROUP, Query


class Differences(NamedTuple):
    """Differences of absolute residuals.

    Attributes:
        totals: Of every geounit, (K,).
        strata: Of every geounit and stratum that has people in the truth or in a release, (m,).
    """

    totals: NDArray[np.int64]
    strata: NDArray[np.int64]


def absolute_differences(strata: Query, geounits: int, truth: Side, first: Side, second: Side) -> Differences:
    """Compare two releases of the same geounits.

    Args:
        strata: The query of stratified counts.
        geounits: How many geounits there are, K.
        truth: Confidential.
        first: Protected.
        second: Protected, another run.
    """
    sides = (truth, first, second)
    totals = [np.bincount(side.owner, side.count, geounits).astype(np.int64) for side in sides]
    keys, counts = [], []
    for side in sides:
        row = strata.row_of(side.cell)
        inside = row != NO_GROUP
        keys.append(side.owner[inside] * strata.rows + row[inside])
        counts.append(side.count[inside])
    distinct = np.unique(np.concatenate(keys))
    sums = np.zeros((len(sides), len(distinct)), dtype=np.int64)
    for answers, key, count in zip(sums, keys, counts, strict=True):
        np.add.at(answers, np.searchsorted(distinct, key), count)
    sums = sums[:, sums.any(axis=0)]
    return Differences(_difference(*totals), _difference(*sums))


def _difference(truth: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.abs(first - truth) - np.abs(second - truth))
