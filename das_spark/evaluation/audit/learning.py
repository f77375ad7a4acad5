r"""A statistic that is learned: the linear combination of others that tells the two inputs apart best.

With means m and common covariance S over the runs that choose, the weights are those of Fisher (1936),

    w = (S + r I)^{-1} (m_first - m_second),                                                                 (V-7)

of statistics that have been divided by their standard deviations; r is small, or the square of statistics a run, and
keeps w finite where statistics do not vary, repeat each other, or are more than the runs. It needs no idea of what may
be wrong: noise that two answers share, or an exact count that shows through, reduces the covariance in some direction,
and w points there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.audit.events import Statistic

Floats = NDArray[np.float64]

_RIDGE: Final = 1e-3
#: Statistics that do not vary under either input are divided by this, so that a difference weighs much.
_LEAST_DEVIATION: Final = 1e-6


def learned(name: str, statistics: Sequence[Statistic]) -> Statistic:
    """Learn from the even runs, and give the learned combination for all of them.

    Args:
        name: What it will be called.
        statistics: One at least; where one is missing in a run its mean over the even runs stands for it, and whether
            it is missing is a statistic of its own where an even run misses it.
    """
    sides = [np.stack([getattr(each, side) for each in statistics], axis=1) for side in ("first", "second")]
    choosing = np.concatenate([side[::2] for side in sides])
    there = ~np.isnan(choosing)
    # Of the choosing runs alone: were the others asked, what they miss would add a column and change all weights.
    sometimes = ~there.all(axis=0)
    centre = np.where(there, choosing, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    whole = [np.hstack([np.where(np.isnan(side), centre, side), ~np.isnan(side[:, sometimes])]) for side in sides]
    weights = _weights(whole[0][::2], whole[1][::2])
    return Statistic(name, "learned", whole[0] @ weights, whole[1] @ weights)


def _weights(first: Floats, second: Floats) -> Floats:
    """(V-7), for statistics in their own units, (m,)."""
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    deviation = np.maximum(centred.std(axis=0), _LEAST_DEVIATION)
    scaled = centred / deviation
    ridge = max(_RIDGE, (scaled.shape[1] / len(first)) ** 2)
    covariance = scaled.T @ scaled / len(scaled) + ridge * np.eye(scaled.shape[1])
    difference = (first.mean(axis=0) - second.mean(axis=0)) / deviation
    weights: Floats = np.linalg.solve(covariance, difference) / deviation
    return weights
