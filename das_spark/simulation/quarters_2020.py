"""Facilities and vacant units of a simulated state of 2020."""

from __future__ import annotations

import numpy as np

from das_spark.simulation.places_2020 import Blocks, Counts

_FACILITIES = ((1, 59e-4, 400.0), (2, 2.7e-4, 18.0), (3, 49e-4, 80.0), (4, 2.1e-4, 25.0), (5, 84e-4, 260.0))
_MORE_FACILITIES = ((6, 10e-4, 220.0), (7, 41e-4, 11.0))
"""Class, residents as a share of everybody, and mean residents of a facility."""

_SHAPE = 0.8
_IN_EMPTY_BLOCKS = 0.15
_VACANT = 0.107
_SEASONAL = 0.5
_EMPTY_WITH_UNITS, _UNITS_THERE = 0.09, 1.5

RESIDENTS = sum(share for _, share, _ in (*_FACILITIES, *_MORE_FACILITIES))
"""Share of everybody who lives in group quarters."""


def facilities(blocks: Blocks, persons: float, numbers: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """Draw the facilities of a state: some of every class, most of them where people live.

    Args:
        blocks: Of the state.
        persons: People expected in it.
        numbers: Random numbers of the state.

    Returns:
        Block, class and residents of each, by block.
    """
    kinds = (*_FACILITIES, *_MORE_FACILITIES)
    number = numbers.poisson([persons * share / mean for _, share, mean in kinds])
    # Of a class that is too rare for a small state there is one, too small to change how many live in quarters.
    usual = [
        mean if drawn else min(persons * share, mean) for (_, share, mean), drawn in zip(kinds, number, strict=True)
    ]
    of_kind = np.repeat(np.arange(len(kinds)), np.maximum(number, 1))
    level = np.array([each for each, _, _ in kinds])[of_kind]
    size = 1 + numbers.poisson(numbers.gamma(_SHAPE, np.array(usual)[of_kind] / _SHAPE))
    where = np.cumsum(np.where(blocks.size > 0, 1.0, _IN_EMPTY_BLOCKS))
    block = np.searchsorted(where, numbers.random(len(level)) * where[-1], side="right")
    order = np.argsort(block, kind="stable")
    return block[order], level[order], size[order]


def vacant_units(blocks: Blocks, households: Counts, numbers: np.random.Generator) -> Counts:
    """Draw the vacant housing units of every block: more in some tracts than in others, and a few where nobody lives.

    Args:
        blocks: Of the state.
        households: Of each block, (B,).
        numbers: Random numbers of the state.
    """
    seasonal = numbers.gamma(1 / _SEASONAL, _SEASONAL, len(blocks.rates))[blocks.tract]
    vacant = numbers.poisson(households * _VACANT * seasonal)
    alone = (households == 0) & (numbers.random(len(households)) < _EMPTY_WITH_UNITS)
    return np.where(alone, 1 + numbers.poisson(_UNITS_THERE, len(households)), vacant).astype(np.int64)
