"""Off-spine entity distance: how many geounits must be added or subtracted to make up an entity (Algorithm 1).

Source: Cumings-Menon et al., section 4, equations (20) to (23). Only pairs of an entity and a geounit that has a block
of it are held: a geounit outside an entity counts 0 towards the entity and 1 towards its complement, whatever is below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Pairs of an entity and a geounit of one level that has a part of it, each pair once."""

    entity: NDArray[np.int64]  # (pairs,) number of the entity
    unit: NDArray[np.int64]  # (pairs,) position of the geounit in its level
    # (pairs,) least number of geounits, this one or below, that make up the part inside the entity
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]  # (pairs,) the same for the part outside


def name_entities(names: NDArray[np.str_]) -> tuple[NDArray[np.str_], Touch]:
    """Entities of a category that gives every block one name at most, "" for none: sorted names, touches of blocks."""
    blocks = np.flatnonzero(names != "")
    found, entity = np.unique(names[blocks], return_inverse=True)
    return found, touch_blocks(entity.astype(np.int64), blocks)


def touch_blocks(entity: NDArray[np.int64], block: NDArray[np.int64]) -> Touch:
    """Touches of blocks: each is wholly inside (S-14); entities may overlap, and pairs may repeat."""
    width = int(block.max(initial=0)) + 1
    pairs = np.unique(entity * width + block)
    return Touch(pairs // width, pairs % width, np.ones(pairs.size, np.int64), np.zeros(pairs.size, np.int64))


def climb(touch: Touch, parents: NDArray[np.int64]) -> Touch:
    """From touches of a level to touches of the level above (S-15, S-16)."""
    width = int(parents.max(initial=0)) + 1
    pairs, place = np.unique(touch.entity * width + parents[touch.unit], return_inverse=True)
    entity, unit = pairs // width, pairs % width
    inside = _sums(place, touch.inside, pairs.size)
    # A child that the entity does not touch is one geounit of the complement.
    untouched = np.bincount(parents, minlength=width)[unit] - np.bincount(place, minlength=pairs.size)
    outside = _sums(place, touch.outside, pairs.size) + untouched
    return Touch(entity, unit, np.minimum(inside, 1 + outside), np.minimum(outside, 1 + inside))


def climb_to_top(touch: Touch, parents: Sequence[NDArray[np.int64]]) -> Touch:
    """From touches of the blocks to touches of the top level; parents by level, top first."""
    for level in reversed(parents[1:]):
        touch = climb(touch, level)
    return touch


def entity_distances(touch: Touch, parents: Sequence[NDArray[np.int64]], entities: int) -> NDArray[np.int64]:
    """Off-spine distance of every entity (S-17).

    A geounit that was bypassed, or one that only copies its parent, changes nothing: a single child is the same area.
    """
    top = climb_to_top(touch, parents)
    return _sums(top.entity, top.inside, entities)


def _sums(place: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    # Sums of counts below 2^53 are exact in the float weights of bincount.
    return np.bincount(place, weights=values, minlength=size).astype(np.int64)
