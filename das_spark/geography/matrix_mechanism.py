"""The matrix mechanism on a spine: variances of the weighted-least-squares estimates of one total query.

Source: Cumings-Menon et al., equations (18) and (19). Every geounit's total is measured once with independent noise of
known variance; all totals are then estimated together from all measurements, without rounding and without bounds. On a
tree the variances need no matrix: one pass from the blocks up collects what a geounit's own subtree says of its total,
one pass down adds what the rest of the spine says. Both take time proportional to the number of geounits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.distance import Touch

#: A number for each geounit of each level, top first.
ByLevel: TypeAlias = tuple[NDArray[np.float64], ...]

#: Framework -> power of the share that the precision is proportional to.
_PRECISION_POWER: Final = {"pure_dp": 2, "zcdp": 1}


def precisions(shares: Sequence[NDArray[Any]], denominator: int, framework: str, budget: float = 1.0) -> ByLevel:
    """Precision of the measurement of every geounit's total (Lemma 4).

    Args:
        shares: For each level an array (geounits,) of numerators of shares.
        denominator: What the numerators are parts of.
        framework: "zcdp": variance 1/(rho g). "pure_dp": variance 2 b^2 of a Laplace law of scale b = 2/(epsilon g).
        budget: rho or epsilon, times the share of the total query in its level.

    Returns:
        For each level an array (geounits,): 1/variance, in 1/people^2; 0 where nothing is measured.

    Raises:
        GeographyError: The framework is unknown.
    """
    if framework not in _PRECISION_POWER:
        raise GeographyError(f"no noise is known for {framework!r}; known: {', '.join(_PRECISION_POWER)}")
    power = _PRECISION_POWER[framework]
    scale = budget if power == 1 else budget**2 / 8
    return tuple(scale * (level.astype(np.float64) / denominator) ** power for level in shares)


def upward(parents: Sequence[NDArray[np.int64]], precision: Sequence[NDArray[np.float64]]) -> ByLevel:
    """Variance of every geounit's total, estimated from the measurements in its own subtree.

    Args:
        parents: For each level, top first, the positions of the parents; those of the top are not used.
        precision: For each level an array (geounits,), as `precisions` gives it.

    Returns:
        For each level an array (geounits,) in people^2; infinite where the subtree does not determine the total.
    """
    found = [_inverse(precision[-1])]
    for level in reversed(range(len(parents) - 1)):
        below = _sums(parents[level + 1], found[-1], precision[level].size)
        found.append(_inverse(precision[level] + _inverse(below)))
    return tuple(reversed(found))


def downward(parents: Sequence[NDArray[np.int64]], subtree: ByLevel, top: NDArray[np.float64]) -> ByLevel:
    """Variance of every geounit's total, estimated from all measurements.

    Args:
        parents: As in `upward`.
        subtree: What `upward` gave.
        top: (geounits of the top,) variance from all measurements there: `subtree[0]`, if nothing stands above.

    Returns:
        For each level an array (geounits,) in people^2.
    """
    found = [top]
    for level in range(1, len(parents)):
        share, rest = _division(parents[level], subtree[level])
        above = found[-1][parents[level]]
        found.append(rest + np.where(share == 0, 0, share**2 * np.where(share == 0, 0, above)))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """How the part of an entity inside a geounit depends on the geounit's total, for pairs that touch.

    Attributes:
        entity: (pairs,) number of the entity.
        unit: (pairs,) position of the geounit in its level.
        slope: (pairs,) how much the part changes with the total.
        residual: (pairs,) variance of the part if the total were known, people^2.
    """

    entity: NDArray[np.int64]
    unit: NDArray[np.int64]
    slope: NDArray[np.float64]
    residual: NDArray[np.float64]


def regression_of(touch: Touch) -> Regression:
    """Regressions of entities on the totals of the blocks that they consist of.

    Args:
        touch: Touches of the blocks.

    Returns:
        For each pair slope 1 and residual 0: a block lies wholly inside.
    """
    return Regression(touch.entity, touch.unit, np.ones(touch.unit.size), np.zeros(touch.unit.size))


def climb_regression(parts: Regression, parents: NDArray[np.int64], subtree: NDArray[np.float64]) -> Regression:
    """From regressions on the geounits of a level to regressions on those of the level above.

    Args:
        parts: Regressions on a level.
        parents: (geounits,) positions of the parents of that level.
        subtree: (geounits,) what `upward` gave for that level.

    Returns:
        Regressions on the parents.
    """
    width = int(parents.max(initial=0)) + 1
    pairs, place = np.unique(parts.entity * width + parents[parts.unit], return_inverse=True)
    entity, unit = pairs // width, pairs % width
    share = _division(parents, subtree)[0]
    slope = _sums(place, share[parts.unit] * parts.slope, pairs.size)
    own = subtree[parts.unit]
    apart = parts.slope - slope[place]
    spread = parts.residual + np.where(apart == 0, 0, np.where(np.isfinite(own), own, 0) * apart**2)
    # A single child of unknown total is what the others leave over: its slope is the parent's, and it adds nothing.
    unknown = _sums(parents, ~np.isfinite(subtree), width)
    spread[(~np.isfinite(own)) & (apart != 0) & (unknown[unit][place] > 1)] = np.inf
    finite = np.where(np.isfinite(subtree), subtree, 0)
    rest = _sums(parents, finite, width)[unit]
    rest = np.maximum(rest - _sums(place, finite[parts.unit], pairs.size), 0)
    residual = _sums(place, spread, pairs.size) + rest * slope**2
    hidden = unknown[unit] - _sums(place, ~np.isfinite(own), pairs.size)
    residual[(hidden > 0) & (slope != 0)] = np.inf
    return Regression(entity, unit, slope, residual)


def top_variances(parts: Regression, top: NDArray[np.float64], entities: int) -> NDArray[np.float64]:
    """Variances of entities from their regressions on the geounits of the top, which are independent of each other.

    Args:
        parts: Regressions on the geounits of the top level.
        top: (geounits,) variances of their totals.
        entities: Number of entities.

    Returns:
        Array (entities,) in people^2.
    """
    known = np.where(parts.slope == 0, 0, parts.slope**2 * top[parts.unit])
    return _sums(parts.entity, known + parts.residual, entities)


def _sums(place: NDArray[np.int64], values: NDArray[Any], size: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(place, weights=values, minlength=size), dtype=np.float64)


def _inverse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return 1.0 / values


def _division(
    parents: NDArray[np.int64], subtree: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How children share a correction of their parent's total, and their variances if that total were known.

    Children of unknown total take up the whole correction between them.
    """
    endless = ~np.isfinite(subtree)
    finite = np.where(endless, 0, subtree)
    unknown = _sums(parents, endless, 0)[parents]
    total = _sums(parents, finite, 0)[parents]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(unknown == 0, finite / total, endless / np.maximum(unknown, 1))
    others = np.where(endless, total, np.maximum(total - finite, 0))
    bound = np.where(endless, others, finite * others / np.where(total == 0, 1, total))
    rest = np.where(unknown == 0, bound, np.where(endless, np.where(unknown == 1, others, np.inf), finite))
    return share, rest
