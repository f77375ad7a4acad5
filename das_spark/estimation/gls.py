"""Generalised least squares on the spine: the best linear unbiased estimate from the measurements of all levels.

By one pass upwards and one downwards, family by family (README, section 14). On the way up a geounit is known by what
lies below it and by its own answers (E-62, E-63); on the way down also by everything else (E-64). Means are real
numbers and may be negative; covariances are components (`components.py`), never matrices over cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation.components import Blocks, Decomposition, Frame
from das_spark.estimation.problem import LEAST_VARIANCE, FamilyMeasurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import Booleans, FamilyProblem, Floats, Integers
    from das_spark.histogram import Query

#: Names of the arrays by which a geounit's mean and covariance travel.
LIVE, MEAN, COVARIANCE, EXACT = "live", "mean", "covariance", "exact"


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """Mean and covariance of the counts of one geounit in its live cells.

    Attributes:
        frame: Its live sites.
        mean: People, shape ``(n,)``.
        covariance: People squared, by component; each shape ``(p, p)``.
        exact: Whether its total is exact, so that the covariance has no inverse.
    """

    frame: Frame
    mean: Floats
    covariance: Blocks
    exact: bool = False

    def arrays(self) -> dict[str, Floats]:
        """As flat arrays, by name: numbers of the live sites, the mean, and the upper triangles of the components."""
        triangles = [block[np.triu_indices(len(block))] for block in self.covariance]
        return {
            LIVE: np.flatnonzero(self.frame.live).astype(np.float64),
            MEAN: self.mean,
            COVARIANCE: np.concatenate(triangles),
            EXACT: np.array([float(self.exact)]),
        }

    @staticmethod
    def numbers(frame: Frame) -> int:
        """How many numbers `arrays` gives for a geounit with these live sites."""
        triangles = sum(len(own) * (len(own) + 1) // 2 for own in frame.positions)
        return int(frame.live.sum()) + len(frame.cells) + triangles + 1

    @classmethod
    def of(cls, algebra: Decomposition, arrays: Mapping[str, Floats]) -> Gaussian:
        """Read back what `arrays` gave."""
        live = np.zeros(algebra.sites, dtype=np.bool_)
        live[arrays[LIVE].astype(np.int64)] = True
        frame, start, blocks = algebra.frame(live), 0, []
        for own in frame.positions:
            size = len(own)
            upper = np.triu_indices(size)
            block = np.zeros((size, size))
            block[upper] = arrays[COVARIANCE][start : start + len(upper[0])]
            blocks.append(np.triu(block, 1).T + block)
            start += len(upper[0])
        return cls(frame, arrays[MEAN], tuple(blocks), bool(arrays[EXACT][0]))


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Some children of a family, all with the same live sites: information, or mean and covariance.

    Attributes:
        children: Their positions in the family, shape ``(G,)``.
        frame: Their live sites.
        vector: Information vectors, or means, shape ``(G, n)``.
        blocks: Precisions, or covariances, by component; each shape ``(G, p, p)``.
        exact: Whether the total of each is exact and has been used, shape ``(G,)``.
    """

    children: Integers
    frame: Frame
    vector: Floats
    blocks: Blocks
    exact: Booleans

    def __iter__(self) -> Iterator[tuple[int, Gaussian]]:
        """Each child's position, and its mean and covariance."""
        for place, child in enumerate(self.children.tolist()):
            blocks = tuple(block[place] for block in self.blocks)
            yield child, Gaussian(self.frame, self.vector[place], blocks, bool(self.exact[place]))

    def some(self, chosen: Integers) -> Alike:
        """Those of some positions in the family."""
        (own,) = np.nonzero(np.isin(self.children, chosen))
        blocks = tuple(block[own] for block in self.blocks)
        return Alike(self.children[own], self.frame, self.vector[own], blocks, self.exact[own])


def measured_information(problem: FamilyProblem, algebra: Decomposition, live: Booleans) -> list[Alike]:
    """What the answers of each child say of it alone: precisions and information vectors (E-59).

    Args:
        problem: The family.
        algebra: Its components.
        live: Live sites of each child, shape ``(K, sites)``.
    """
    found = []
    for children in _equal_rows(live):
        frame = algebra.frame(live[children[0]])
        blocks: list[Floats] = [np.zeros((len(children), len(own), len(own))) for own in frame.positions]
        vector = np.zeros((len(children), len(frame.cells)))
        for each in problem.measurements:
            weight = 1.0 / each.variance[children]
            grams = frame.restricted(algebra.gram(each.query))
            blocks = [block + weight[:, None, None] * gram for block, gram in zip(blocks, grams, strict=True)]
            rows = each.query.row_of(frame.cells.astype(np.int32))
            place = np.minimum(np.searchsorted(each.rows, rows), max(len(each.rows) - 1, 0))
            inside = (rows >= 0) & (each.rows[place] == rows) if len(each.rows) else np.zeros(len(rows), dtype=np.bool_)
            # Answers that are not there say nothing: their cells are not in the parent's support, and stay empty.
            vector[:, inside] += weight[:, None] * each.values[np.ix_(children, place[inside])]
        nobody = np.zeros(len(children), dtype=np.bool_)
        found.append(Alike(children, frame, vector, tuple(blocks), nobody))
    return found


def _equal_rows(live: Booleans) -> list[Integers]:
    """Positions of the rows that are equal, for each different row."""
    _, place = np.unique(np.packbits(live, axis=1), axis=0, return_inverse=True)
    return [np.flatnonzero(place == number) for number in range(int(np.max(place, initial=-1)) + 1)]


def inverse(blocks: Blocks) -> Blocks:
    """Inverses of symmetric positive definite matrices, component by component."""
    found: list[Floats] = []
    for block in blocks:
        inverted = np.asarray(np.linalg.inv(block), dtype=np.float64)
        found.append(0.5 * (inverted + np.swapaxes(inverted, -1, -2)))
    return tuple(found)


def precision_of(known: Gaussian) -> Blocks:
    """The inverse of a covariance.

    Where the total is exact, the variance of the total is none; whoever conditions on that total once more may take any
    other for it.
    """
    blocks = known.covariance
    if known.exact and len(blocks[0]):
        ones = known.frame.ones
        scale = max(float(np.trace(blocks[0])), 1.0) / float(ones @ ones)
        blocks = (blocks[0] + scale * np.outer(ones, ones), *blocks[1:])
    return inverse(blocks)


def totals_of(problem: FamilyProblem) -> Integers:
    """Exact total of each child, -1 where it is not known, shape ``(K,)``."""
    found = np.full(len(problem.children), -1, dtype=np.int64)
    for bound in problem.bounds:
        if bound.query.rows == 1 and bound.query.is_partition:
            known = bound.lower[:, 0] == bound.upper[:, 0]
            found = np.where(known, bound.lower[:, 0].astype(np.int64), found)
    return found


def with_below(own: Iterable[Alike], below: Sequence[Gaussian | None]) -> list[Alike]:
    """Information of the children's own answers together with what lies below them; totals are not used yet (E-62).

    Args:
        own: What `measured_information` gave.
        below: What lies below each child, or None.
    """
    found = []
    for each in own:
        vector, blocks = each.vector.copy(), [block.copy() for block in each.blocks]
        for place, child in enumerate(each.children.tolist()):
            known = below[child]
            if known is None:
                continue
            precision = precision_of(known)
            pulled = known.frame.apply(_several(precision), known.mean[None])[0]
            vector[place, np.searchsorted(each.frame.cells, known.frame.cells)] += pulled
            for block, part, wide in zip(blocks, precision, known.frame.within(each.frame), strict=True):
                block[place][np.ix_(wide, wide)] += part
        found.append(replace(each, vector=vector, blocks=tuple(blocks)))
    return found


def informed(problem: FamilyProblem, below: Sequence[Gaussian | None], algebra: Decomposition) -> list[Alike]:
    """Information of all children of a family: of their own answers and of what lies below them.

    Args:
        problem: The family.
        below: Mean and covariance of what lies below each child, or None.
        algebra: The components.
    """
    live = algebra.live_sites(problem)
    for child, each in enumerate(below):
        live[child] |= False if each is None else each.frame.live
    return with_below(measured_information(problem, algebra, live), below)


def solved(information: Iterable[Alike], totals: Integers) -> list[Alike]:
    """Means and covariances of children from their information, and from their totals where these are exact (E-63)."""
    found = []
    for each in information:
        covariance = inverse(each.blocks)
        mean = each.frame.apply(covariance, each.vector)
        found.append(conditioned(replace(each, vector=mean, blocks=covariance), totals[each.children]))
    return found


def conditioned(alike: Alike, totals: Integers) -> Alike:
    """Condition on exact totals, shape ``(G,)``; -1 where there is none."""
    known = totals >= 0
    if not known.any() or not len(alike.frame.cells):
        return alike
    ones = alike.frame.ones
    first = alike.blocks[0]
    pulled = first @ ones
    spread = np.where(known, pulled @ ones, 1.0)
    missing = np.where(known, totals - alike.vector.sum(axis=1), 0.0)
    parts = [np.zeros((len(totals), len(own), 1)) for own in alike.frame.positions]
    parts[0] = (pulled * (missing / spread)[:, None])[:, :, None]
    mean = alike.vector + _first_part(alike.frame, parts[0][:, :, 0])
    share = np.where(known, 1.0 / spread, 0.0)[:, None, None]
    less = first - share * pulled[:, :, None] * pulled[:, None, :]
    return replace(alike, vector=mean, blocks=(less, *alike.blocks[1:]), exact=known)


def _first_part(frame: Frame, part: Floats) -> Floats:
    """Vectors of which the first component is given, shape ``(G, p)``, and the others are zero: level within sites."""
    algebra = frame.algebra
    site = algebra.site[frame.cells]
    size = np.bincount(algebra.site, minlength=algebra.sites)[site]
    place = np.searchsorted(np.flatnonzero(frame.live), site)
    return part[:, place] / np.sqrt(size)


def summed(parts: Iterable[Alike], algebra: Decomposition) -> Gaussian:
    """Mean and covariance of the sum of independent children."""
    kept = [each for each in parts if len(each.children)]
    live = np.zeros(algebra.sites, dtype=np.bool_)
    for each in kept:
        live |= each.frame.live
    frame = algebra.frame(live)
    mean = np.zeros(len(frame.cells))
    blocks = tuple(np.zeros((len(own), len(own))) for own in frame.positions)
    for each in kept:
        mean[np.searchsorted(frame.cells, each.frame.cells)] += each.vector.sum(axis=0)
        for block, part, wide in zip(blocks, each.blocks, each.frame.within(frame), strict=True):
            block[np.ix_(wide, wide)] += part.sum(axis=0)
    return Gaussian(frame, mean, blocks, all(each.exact.all() for each in kept))


def given_parent(parts: Sequence[Alike], total: Gaussian, parent: Gaussian) -> list[Alike]:
    """Means and covariances of children given everything, from those given what lies below (E-64).

    Args:
        parts: The children, given what lies below them.
        total: Their sum, as `summed` gives it.
        parent: The parent given everything.
    """
    precision, frame = precision_of(total), total.frame
    expected = parent.mean[np.searchsorted(parent.frame.cells, frame.cells)]
    pull = frame.apply(_several(precision), (expected - total.mean)[None])[0]
    inside = [block[np.ix_(own, own)] for block, own in zip(parent.covariance, frame.within(parent.frame), strict=True)]
    pairs = zip(precision, total.covariance, inside, strict=True)
    middle = [one @ (whole - own) @ one for one, whole, own in pairs]
    found = []
    for each in parts:
        pulled = np.broadcast_to(pull[np.searchsorted(frame.cells, each.frame.cells)], each.vector.shape)
        less = zip(each.blocks, middle, each.frame.within(frame), strict=True)
        blocks = tuple(block - block @ part[np.ix_(sites, sites)] @ block for block, part, sites in less)
        found.append(replace(each, vector=each.vector + each.frame.apply(each.blocks, pulled), blocks=blocks))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class FamilyKnowledge:
    """The children of a family given their own answers and what lies below.

    Attributes:
        algebra: The components.
        children: Means and covariances, exact totals of children used; none where the only child is not known at all.
        groups: Positions of the members of each group of two and more, and its exact total or -1.
    """

    algebra: Decomposition
    children: Sequence[Alike]
    groups: Sequence[tuple[Integers, int]]

    @classmethod
    def of(cls, problem: FamilyProblem, information: Sequence[Alike], algebra: Decomposition) -> FamilyKnowledge:
        """Solve for each child.

        Args:
            problem: The family: exact totals of children, and of groups of them; that of a child alone is its own.
            information: Of the children, totals not used.
            algebra: The components.
        """
        totals, several, groups = totals_of(problem), [], problem.groups
        for _, own in () if groups is None else groups.members:
            total = -1 if groups is None else int(groups.totals[own[0]])
            if len(own) > 1:
                several.append((own, total))
            elif total >= 0:
                totals[own[0]] = total
        unknown = len(totals) == 1 and any(len(each.frame.cells) and not each.blocks[0].any() for each in information)
        return cls(algebra, [] if unknown else solved(information, totals), several)

    def together(self) -> Gaussian | None:
        """The sum of all children, given their answers and what lies below: what their parent is told; None if nothing.

        Nothing is known of a single child that is not measured, and has nothing below it.
        """
        return summed(self.independent(), self.algebra) if self.children else None

    def independent(self) -> list[Alike]:
        """The children that are in no group, and every group as if it were a child, named by its first member."""
        members = [own for own, _ in self.groups]
        grouped = np.concatenate([np.zeros(0, dtype=np.int64), *members])
        found = [each.some(np.setdiff1d(each.children, grouped)) for each in self.children]
        for own, total in self.groups:
            whole = summed([each.some(own) for each in self.children], self.algebra)
            found.append(conditioned(_alone(int(own[0]), whole), np.array([total])))
        return [each for each in found if len(each.children)]

    def given(self, parent: Gaussian | None) -> list[Alike]:
        """The children given everything: their parent, given everything; at the root nothing comes from above."""
        if parent is not None and not self.children:
            return [_alone(0, parent)]
        parts = self.independent()
        if parent is not None:
            parts = given_parent(parts, summed(parts, self.algebra), parent)
        for own, _ in self.groups:
            (number,) = (place for place, each in enumerate(parts) if each.children.tolist() == [own[0]])
            ((_, group),) = parts.pop(number)
            members = [part for each in self.children if len((part := each.some(own)).children)]
            parts += given_parent(members, summed(members, self.algebra), group)
        return parts


def _alone(child: int, known: Gaussian) -> Alike:
    exact = np.array([known.exact])
    return Alike(np.array([child]), known.frame, known.mean[None], _several(known.covariance), exact)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyPrior:
    """What is known of the children of a family besides their own answers: (x - s)' S^-1 (x - s) in the objective.

    See (E-67).

    Attributes:
        algebra: The components.
        below: Means s and precisions S^-1 of what lies below; children with nothing below are missing.
        information: Information of the children's own answers and what lies below together.
        means: Means and covariances that follow from it, and from exact totals of children.
    """

    algebra: Decomposition
    below: Sequence[Alike]
    information: Sequence[Alike]
    means: Sequence[Alike]

    @classmethod
    def of(cls, problem: FamilyProblem, below: Sequence[Gaussian | None], algebra: Decomposition) -> FamilyPrior:
        """What is known of the children of a measured family.

        Args:
            problem: The family.
            below: Mean and covariance of what lies below each child, or None.
            algebra: The components.
        """
        information = informed(problem, below, algebra)
        known = [
            Alike(np.array([child]), each.frame, each.mean[None], _several(precision_of(each)), np.array([each.exact]))
            for child, each in enumerate(below)
            if each is not None
        ]
        return cls(algebra, known, information, FamilyKnowledge.of(problem, information, algebra).children)

    def of_groups(self, groups: Sequence[Integers]) -> FamilyPrior:
        """What is known of the sums over groups of children, as if the groups were children that are not measured."""
        below, information, means = [], [], []
        for place, own in enumerate(groups):
            whole = summed([each.some(own) for each in self.means], self.algebra)
            precision, child = _several(precision_of(whole)), np.array([place])
            exact = np.array([whole.exact])
            means.append(Alike(child, whole.frame, whole.mean[None], _several(whole.covariance), exact))
            below.append(Alike(child, whole.frame, whole.mean[None], precision, exact))
            pulled = whole.frame.apply(precision, whole.mean[None])
            information.append(Alike(child, whole.frame, pulled, precision, exact))
        return FamilyPrior(self.algebra, below, information, means)

    def of_members(self, members: Integers) -> FamilyPrior:
        """What is known of some children, in a family of their own."""
        parts = [[_renumbered(each.some(members), members) for each in part] for part in self._parts]
        return FamilyPrior(self.algebra, *([each for each in part if len(each.children)] for part in parts))

    @property
    def _parts(self) -> tuple[Sequence[Alike], ...]:
        return self.below, self.information, self.means

    def value_and_gradient(self, cells: NDArray[np.int32], x: Floats) -> tuple[float, Floats]:
        """Its part of the objective, and the gradient, at points ``(K, cells)`` that are zero in all other cells."""
        value, gradient = 0.0, np.zeros(x.shape)
        for each in self.below:
            place, inside = _found(each.frame, cells)
            moved = -each.vector
            moved[:, place] += x[np.ix_(each.children, inside)]
            pulled = each.frame.apply(each.blocks, moved)
            value += float((moved * pulled).sum())
            gradient[np.ix_(each.children, inside)] = 2.0 * pulled[:, place]
        return value, gradient

    def curvature(self, children: int) -> Floats:
        """Least curvature of its part in any direction, for each child, shape ``(K,)``."""
        least = np.zeros(children)
        for each in self.below:
            values = [np.linalg.eigvalsh(block)[:, 0] for block in each.blocks if block.shape[1]]
            least[each.children] = np.maximum(np.min(values, axis=0), 0.0) if values else 0.0
        return least

    def dense(self, child: int, cells: NDArray[np.int32]) -> Floats:
        """The matrix of its part of the objective for one child on some cells, shape ``(cells, cells)``."""
        found = np.zeros((len(cells), len(cells)))
        for each in self.below:
            (own,) = np.nonzero(each.children == child)
            if len(own):
                place, inside = _found(each.frame, cells)
                whole = each.frame.dense(tuple(block[own] for block in each.blocks))
                found[np.ix_(inside, inside)] = whole[np.ix_(place, place)]
        return found

    def measurement(self, query: Query) -> FamilyMeasurement:
        """What is known of the answers to a query, as if it had been measured: means, and their mean variance."""
        children = sum(len(each.children) for each in self.means)
        values, variance = np.zeros((children, query.rows)), np.full(children, LEAST_VARIANCE)
        for each in self.means:
            rows = query.row_of(each.frame.cells.astype(np.int32))
            touched = np.unique(rows[rows >= 0])
            if not len(touched):
                continue
            statistics = (rows == touched[:, None]).astype(np.float64)
            values[np.ix_(each.children, touched)] = each.vector @ statistics.T
            spread = variances(each.blocks, each.frame.traces(statistics)).mean(axis=1)
            variance[each.children] = np.maximum(spread, LEAST_VARIANCE)
        return FamilyMeasurement(query, np.arange(query.rows), values, variance)


def variances(blocks: Blocks, traces: tuple[Floats, ...]) -> Floats:
    """Variances of statistics of G geounits, shape ``(G, s)``, from their covariances (E-66).

    Args:
        blocks: Covariances, by component, each shape ``(G, p, p)``.
        traces: What `Frame.traces` gives for the statistics.
    """
    found = np.zeros((len(blocks[0]), len(traces[0])))
    for block, trace in zip(blocks, traces, strict=True):
        found += block.reshape(len(block), -1) @ trace.reshape(len(trace), -1).T
    return found


def _several(blocks: Blocks) -> Blocks:
    return tuple(block[None] for block in blocks)


def _renumbered(each: Alike, members: Integers) -> Alike:
    return replace(each, children=np.searchsorted(members, each.children))


def _found(frame: Frame, cells: NDArray[np.int32]) -> tuple[Integers, Integers]:
    """Positions, in a frame, of those cells that are in it, and their positions among the cells."""
    (inside,) = np.nonzero(np.isin(cells, frame.cells))
    return np.searchsorted(frame.cells, cells[inside]), inside
