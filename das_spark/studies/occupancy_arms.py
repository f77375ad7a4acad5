"""The ways in which the study of occupancy releases households: as published, and with one cause taken away at a time.

All arms of one budget see the same noise under one key, so that they differ by what is taken away alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.privacy import RunKey
from das_spark.studies.household_mechanism import household_mechanism
from das_spark.studies.housing import HousingLevel
from das_spark.studies.linear_release import linear_totals
from das_spark.studies.top_down import Layer, release

Counts = NDArray[np.int64]

#: How many times the published budget the arm with more of it has.
MORE_BUDGET: Final = Fraction(10)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to release the counts.

    Attributes:
        name: Short name.
        title: What is imposed and spent, in words.
        nonnegative: Whether no count may be negative. If so the estimator of a run makes whole numbers; if not, the
            closed form of `linear_release` gives totals, rounded here.
        bounded: Whether no geounit may have more households than housing units.
        multiple: Of the published budget.
    """

    name: str
    title: str
    nonnegative: bool = True
    bounded: bool = True
    multiple: Fraction = Fraction(1)


AS_PUBLISHED: Final = Arm("as published", "nonnegative, at most the housing units, published budget")
UNBOUNDED: Final = Arm("no upper bound", "nonnegative, not bounded by housing units", bounded=False)
SIGNED: Final = Arm("no nonnegativity", "counts may be negative, at most the housing units", nonnegative=False)
UNCONSTRAINED: Final = Arm("neither", "counts may be negative, not bounded", nonnegative=False, bounded=False)
RICH: Final = Arm("ten times the budget", "as published, with ten times the budget", multiple=MORE_BUDGET)
ARMS: Final = (AS_PUBLISHED, UNBOUNDED, SIGNED, UNCONSTRAINED, RICH)


def release_households(levels: Sequence[HousingLevel], arm: Arm, key: RunKey) -> tuple[Counts, ...]:
    """Households by cell of every geounit in an arm that imposes nonnegativity.

    Args:
        levels: From the nation down.
        arm: What is imposed and spent.
        key: Of the noise.

    Returns:
        (K, cells) a level.

    Raises:
        EstimationError: A family could not be estimated.
    """
    return release(_layers(levels, arm), household_mechanism(arm.multiple), key)


def release_totals(levels: Sequence[HousingLevel], arm: Arm, key: RunKey) -> tuple[Counts, ...]:
    """Number of households of every geounit in an arm: sums of cells, or the rounded totals of least squares.

    Args:
        levels: From the nation down.
        arm: What is imposed and spent.
        key: Of the noise.

    Returns:
        (K,) a level.

    Raises:
        EstimationError: A family could not be estimated.
    """
    if arm.nonnegative:
        return tuple(each.sum(axis=1) for each in release_households(levels, arm, key))
    totals = linear_totals(_layers(levels, arm), household_mechanism(arm.multiple), key, bounded=arm.bounded)
    return tuple(np.rint(each).astype(np.int64) for each in totals)


def broken_rules(levels: Sequence[HousingLevel], released: Sequence[Counts]) -> tuple[str, ...]:
    """What a release of households must keep, looked at anew: nothing is taken from the estimator.

    Args:
        levels: Geounits with their housing units, top first.
        released: Households of each by cell.

    Returns:
        A sentence a rule and geolevel that is broken.
    """
    found = []
    for depth, (level, cells) in enumerate(zip(levels, released, strict=True)):
        if cells.dtype.kind != "i" or (cells < 0).any():
            found.append(f"{level.name}: a count is no whole number from 0")
        if (cells.sum(axis=1) > level.units).any():
            found.append(f"{level.name}: more households than housing units")
        if depth:
            sums = np.zeros_like(released[depth - 1])
            np.add.at(sums, level.parent, cells)
            divided = np.unique(level.parent)
            if (sums != released[depth - 1])[divided].any():
                found.append(f"{level.name}: children do not sum to their parent")
    return tuple(found)


def _layers(levels: Sequence[HousingLevel], arm: Arm) -> tuple[Layer, ...]:
    return tuple(
        Layer(each.name, each.parent, each.households, np.zeros_like(each.units), each.units if arm.bounded else None)
        for each in levels
    )
