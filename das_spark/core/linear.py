"""Estimates that the measurements alone determine, with their standard errors: one pass upwards, one downwards.

Generalised least squares on the spine (estimation/README.md, section 14), as passes over families: what travels between
them are arrays, all of them public. Nothing is forced to be nonnegative or whole; what is published that way has its
own errors.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.core.family import GeounitArrays, MeasuredFamily, UpwardResult
from das_spark.estimation import (
    Decomposition,
    FamilyKnowledge,
    FamilyPlan,
    Gaussian,
    UnionPart,
    informed,
    is_exact,
    spread_at_top,
    union_above,
    variances,
)
from das_spark.privacy import Framework
from das_spark.tabulation import incidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation import Frame
    from das_spark.histogram import Query
    from das_spark.tabulation import Incidence, Table

    Floats = NDArray[np.float64]

#: Name of the array that stands where nothing is known.
UNKNOWN: Final = "unknown"
#: What the name of an array begins with that tells of the part of a union in a geounit; the union's name follows.
UNION: Final = "union "
#: Most combinations of levels that a workload may tell apart, so that covariances are matrices that a task can hold.
MOST_SITES: Final = 1024
#: Sets of live sites whose traces a process keeps: geounits with the same facilities share them.
_FRAMES: Final = 64


def decomposition(plan: FamilyPlan) -> Decomposition:
    """The components of a run's workload; made once a process."""
    return _decomposition(plan.workload, plan.zero_cells.tobytes(), plan.classes)


@lru_cache(maxsize=8)
def _decomposition(workload: tuple[Query, ...], zero_cells: bytes, classes: Query | None) -> Decomposition:
    return Decomposition.of(workload, np.frombuffer(zero_cells, dtype=np.int32), classes)


def below_children(family: MeasuredFamily, algebra: Decomposition) -> list[Gaussian | None]:
    """What lies below each child, as the pass upwards left it; None where nothing does, or nothing is known of it."""
    given = family.upward or [{}] * len(family.problem.children)
    return [None if not _is_known(arrays) else Gaussian.of(algebra, arrays) for arrays in given]


def _is_known(arrays: GeounitArrays) -> bool:
    return UNKNOWN not in arrays and any(not name.startswith(UNION) for name in arrays)


def upward(family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
    """What the children and all below them say of their parent; of the children, what lies below them.

    Args:
        family: Its measurements, and what came from below.
        plan: How the families of the level are estimated.
    """
    algebra = decomposition(plan)
    knowledge = _knowledge(family, algebra)
    given = family.upward or [{}] * len(family.problem.children)
    unions = {
        UNION + name: union_above(knowledge, parts).array()
        for name, parts in _unions(family, algebra).items()
        if family.problem.parent_geocode
    }
    return UpwardResult(
        [arrays if _is_known(arrays) else {**arrays, UNKNOWN: np.zeros(0)} for arrays in given],
        {**_arrays(knowledge.together()), **unions},
    )


def _knowledge(family: MeasuredFamily, algebra: Decomposition) -> FamilyKnowledge:
    problem = family.problem
    return FamilyKnowledge.of(problem, informed(problem, below_children(family, algebra), algebra), algebra)


def _arrays(known: Gaussian | None) -> GeounitArrays:
    """What travels; where nothing is known an array says that, so that no geounit is missing."""
    return {UNKNOWN: np.zeros(0)} if known is None else known.arrays()


def _unions(family: MeasuredFamily, algebra: Decomposition) -> dict[str, dict[int, UnionPart]]:
    """Parts of unions by name and position of the child."""
    found: dict[str, dict[int, UnionPart]] = {}
    for child, arrays in enumerate(family.upward):
        for name, array in arrays.items():
            if name.startswith(UNION):
                found.setdefault(name.removeprefix(UNION), {})[child] = UnionPart.of(algebra, array)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Estimates and variances of statistics.

    Attributes:
        names: Geocodes or unions, K of them.
        estimates: Of each statistic, people; shape ``(K, s)``.
        variances: People squared, likewise.
    """

    names: Sequence[str]
    estimates: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums over cells whose estimates and standard errors are wanted, such as the columns of published tables.

    Attributes:
        matrix: Which of them count which cells.
    """

    matrix: Incidence
    _traces: OrderedDict[bytes, tuple[Floats, ...]] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, tables: Iterable[Table]) -> Statistics:
        """The columns of tables of one schema, one table behind the other."""
        return cls(incidence(tuple(tables)))

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.matrix.names)

    def traces(self, frame: Frame) -> tuple[Floats, ...]:
        """What turns roots of covariances on live sites into variances; kept for the frames last asked for."""
        key = frame.live.tobytes()
        if key not in self._traces:
            self._traces[key] = frame.traces(self.matrix.counted(frame.cells).T.astype(np.float64))
            if len(self._traces) > _FRAMES:
                self._traces.popitem(last=False)
        self._traces.move_to_end(key)
        return self._traces[key]

    def variances(self, frame: Frame, roots: tuple[Floats, ...], exact: NDArray[np.int64]) -> Floats:
        """Return variances of geounits with the same live sites and exact sums, shape ``(G, s)``; 0 of what is exact.

        Args:
            frame: The live sites.
            roots: Of the covariances, by component, each shape ``(G, r, p)``.
            exact: The exact sums, as of a `Gaussian`.
        """
        known = is_exact(frame, exact, self.matrix.counted(frame.cells)) if exact.any() else np.zeros(1, dtype=np.bool_)
        return np.where(known, 0.0, variances(roots, self.traces(frame)))

    def estimates(self, frame: Frame, means: Floats) -> Floats:
        """Of means on live cells, shape ``(G, n)``."""
        return np.asarray(means @ self.matrix.counted(frame.cells), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class DownwardResult:
    """What the pass downwards makes of a family.

    Attributes:
        children: Each child given everything, which the family below is given.
        geounits: Of the children.
        unions: What the family adds to each union that it is a border of: its children that lie in it wholly, and at
            the top how uncertain the union is.
    """

    children: Sequence[GeounitArrays]
    geounits: Moments
    unions: Moments


def downward(family: MeasuredFamily, plan: FamilyPlan, statistics: Statistics) -> DownwardResult:
    """The children of a family given the measurements of all levels.

    Args:
        family: Its measurements, what the pass upwards found, and the parent given everything.
        plan: How the families of the level are estimated.
        statistics: What is wanted of each geounit and union.
    """
    algebra = decomposition(plan)
    knowledge = _knowledge(family, algebra)
    parent = None if family.parent is None else Gaussian.of(algebra, family.parent)
    codes, count = family.problem.children, statistics.number
    estimates, spreads = np.zeros((len(codes), count)), np.zeros((len(codes), count))
    children: dict[int, GeounitArrays] = {}
    for alike in knowledge.given(parent):
        estimates[alike.children] = statistics.estimates(alike.frame, alike.vector)
        spreads[alike.children] = statistics.variances(alike.frame, alike.blocks, alike.exact)
        children |= {child: known.arrays() for child, known in alike}
    unions = {
        name: parts
        for name, parts in _unions(family, algebra).items()
        if parent is None or len(parts) < len(codes) or not all(part.is_whole for part in parts.values())
    }
    sums = [
        estimates[[child for child, part in parts.items() if part.is_whole]].sum(axis=0) for parts in unions.values()
    ]
    uncertain = [
        _variances_at_top(knowledge, parts, statistics) if parent is None else np.zeros(count)
        for parts in unions.values()
    ]
    return DownwardResult(
        [children[child] for child in range(len(codes))],
        Moments(codes, estimates, spreads),
        Moments(tuple(unions), np.array(sums).reshape(-1, count), np.array(uncertain).reshape(-1, count)),
    )


def _variances_at_top(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart], statistics: Statistics) -> Floats:
    whole = knowledge.algebra.frame(knowledge.algebra.possible)
    roots, exact = spread_at_top(knowledge, parts)
    blocks = tuple(root[None] for root in whole.restricted(roots))
    found: Floats = statistics.variances(whole, blocks, exact[whole.live])[0]
    return found


#: How far an end of an interval may be from a whole number and count as one: exact totals have rounding errors.
_EXACT: Final = 1e-6
#: Variance of the distance between a number and the whole number that it is rounded to (Sheppard's correction).
_OF_ROUNDING: Final = 1 / 12


def interval_reach(standard_errors: Floats, level: float, framework: Framework) -> Floats:
    """Return how far intervals reach to either side of their estimates (E-95).

    What is known of an error is its variance, and not of how few noisy answers it is made. The error of a single one
    is a whole number: the reach is that of a normal distribution beside which whole numbers are rounded, and half a
    person more. Where noise is rare, Chebyshev's inequality says less than that, of whatever distribution.

    Args:
        standard_errors: Of the estimates, of any shape.
        level: Probability of an interval to cover the truth.
        framework: In which the noise was drawn. Of Laplace noise single answers reach further than sums.
    """
    rounded = _deviations(level, framework) * np.sqrt(np.square(standard_errors) + _OF_ROUNDING) + 0.5
    return np.minimum(rounded, standard_errors / math.sqrt(1 - level))


def largest_error(reach: float, level: float, framework: Framework) -> float:
    """Return the largest standard error with which `interval_reach` reaches no further."""
    variance = (max(reach - 0.5, 0.0) / _deviations(level, framework)) ** 2 - _OF_ROUNDING
    return max(math.sqrt(max(variance, 0.0)), reach * math.sqrt(1 - level))


def _deviations(level: float, framework: Framework) -> float:
    """Return the standard deviations within which sums of noise lie, and single Laplace noise where it is drawn."""
    normal = NormalDist().inv_cdf(0.5 + level / 2)
    return max(normal, -math.log(1 - level) / math.sqrt(2)) if framework is Framework.PURE_DP else normal


def whole_intervals(
    estimates: Floats, standard_errors: Floats, level: float, framework: Framework = Framework.ZCDP
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return intervals of counts that hold the truth with a probability: ends rounded inwards, negative ones to 0.

    What is true is a whole number and not negative, so that neither step takes anything from the coverage. Where no
    whole number is left between the ends, the interval is the nearest one.

    Args:
        estimates: People, of any shape.
        standard_errors: Of the estimates, likewise.
        level: Probability, such as 0.9.
        framework: In which the noise was drawn.

    Returns:
        The least and the greatest count of each interval.
    """
    reach = interval_reach(standard_errors, level, framework)
    low, high = np.ceil(estimates - reach - _EXACT), np.floor(estimates + reach + _EXACT)
    nearest = np.rint(estimates)
    low, high = np.where(low > high, nearest, low), np.where(low > high, nearest, high)
    return np.maximum(low, 0).astype(np.int64), np.maximum(high, 0).astype(np.int64)
