"""Generalised least squares on the spine: the best linear unbiased estimate from the measurements of all levels.

By one pass upwards and one downwards, family by family (README, section 14). On the way up a geounit is known by what
lies below it and by its own answers (E-62, E-63); on the way down also by everything else (E-64). Means are real
numbers and may be negative; covariances are components (`components.py`), never matrices over cells, and are held by
their roots (`roots.py`). Which sums are exact is part of what is known of a geounit (`Gaussian.exact`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation.components import Blocks, Decomposition, Frame
from das_spark.estimation.problem import LEAST_VARIANCE, FamilyMeasurement
from das_spark.estimation.roots import inverse_root, triangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import Booleans, FamilyProblem, Floats, Integers
    from das_spark.histogram import Query

#: Names of the arrays by which a geounit's mean and covariance travel.
LIVE, MEAN, COVARIANCE, EXACT = "live", "mean", "covariance", "exact"
#: Most steps in which means are made exact, and errors of rounding, in standard errors, that are none.
_REFINEMENTS, _ROUNDED = 5, 1e-9
#: Numbers of a root that are held at once where roots are stacked: 128 MB.
_STACKED = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """Mean and covariance of the counts of one geounit in its live cells.

    Attributes:
        frame: Its live sites.
        mean: People, shape ``(n,)``.
        covariance: Upper triangular roots R of it, by component: R'R is people squared; each shape ``(p, p)``.
        exact: Of each live site the number of the group of sites whose sum is exact, from 1; 0 where it is in none.
    """

    frame: Frame
    mean: Floats
    covariance: Blocks
    exact: Integers

    def arrays(self) -> dict[str, Floats]:
        """As flat arrays, by name: numbers of the live sites, the mean, upper triangles of the roots, exact groups."""
        triangles = [block[np.triu_indices(len(block))] for block in self.covariance]
        return {
            LIVE: np.flatnonzero(self.frame.live).astype(np.float64),
            MEAN: self.mean,
            COVARIANCE: np.concatenate(triangles),
            EXACT: self.exact.astype(np.float64),
        }

    @staticmethod
    def numbers(frame: Frame) -> int:
        """How many numbers `arrays` gives for a geounit with these live sites."""
        triangles = sum(len(own) * (len(own) + 1) // 2 for own in frame.positions)
        return 2 * int(frame.live.sum()) + len(frame.cells) + triangles

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
            blocks.append(block)
            start += len(upper[0])
        return cls(frame, arrays[MEAN], tuple(blocks), arrays[EXACT].astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Some children of a family, all with the same live sites and exact sums: mean and covariance, or precision.

    Attributes:
        children: Their positions in the family, shape ``(G,)``.
        frame: Their live sites.
        vector: Means, or information vectors, shape ``(G, n)``.
        blocks: Roots of covariances, or of precisions, by component; each shape ``(G, r, p)``.
        exact: Groups of sites whose sums are exact, as of a `Gaussian`; shape ``(sites,)``.
    """

    children: Integers
    frame: Frame
    vector: Floats
    blocks: Blocks
    exact: Integers

    def __iter__(self) -> Iterator[tuple[int, Gaussian]]:
        """Each child's position, and its mean and covariance."""
        triangles = tuple(map(triangle, self.blocks))
        for place, child in enumerate(self.children.tolist()):
            blocks = tuple(block[place] for block in triangles)
            yield child, Gaussian(self.frame, self.vector[place], blocks, self.exact)

    def some(self, chosen: Integers) -> Alike:
        """Those of some positions in the family."""
        return self.at(np.flatnonzero(np.isin(self.children, chosen)))

    def at(self, places: Integers) -> Alike:
        """Those of some places among them."""
        blocks = tuple(block[places] for block in self.blocks)
        return replace(self, children=self.children[places], vector=self.vector[places], blocks=blocks)


@dataclass(frozen=True, slots=True, eq=False)
class Information:
    """What the own answers of some children say, and what lies below them; their live sites and exact sums are alike.

    Attributes:
        children: Their positions in the family, shape ``(G,)``.
        frame: Their live sites.
        mean: Means of what lies below, shape ``(G, n)``; zero where nothing does.
        own: Roots of the precisions of the own answers, by component; each shape ``(G, p, p)``.
        below: Roots of the precisions of what lies below, each shape ``(G, r, p)``.
        exact: Groups of sites whose sums below are exact, as of a `Gaussian`; shape ``(sites,)``.
        answers: Those of the whole family.
    """

    children: Integers
    frame: Frame
    mean: Floats
    own: Blocks
    below: Blocks
    exact: Integers
    answers: Sequence[FamilyMeasurement]

    @classmethod
    def from_precision(cls, known: Alike) -> Information:
        """Return what is known of geounits that are not measured, from means and precisions."""
        own = tuple(root[:, :0] for root in known.blocks)
        return cls(known.children, known.frame, known.vector, own, known.blocks, known.exact, ())

    @property
    def roots(self) -> Blocks:
        """Roots of the precisions of both together."""
        return tuple(np.concatenate(pair, axis=1) for pair in zip(self.own, self.below, strict=True))

    @property
    def is_nothing(self) -> bool:
        """Whether nothing at all is known of cells that are there."""
        return bool(len(self.frame.cells)) and not (self.own[0].any() or self.below[0].any() or self.exact.any())

    def at(self, places: Integers) -> Information:
        """Return that of some places among the children."""
        own, below = (tuple(root[places] for root in roots) for roots in (self.own, self.below))
        return replace(self, children=self.children[places], mean=self.mean[places], own=own, below=below)

    def pull(self, counts: Floats) -> Floats:
        """Return the information vectors of what all that is known differs by from some counts, shape ``(G, n)``."""
        found = np.zeros(counts.shape)
        for answer in self.answers:
            rows = answer.query.row_of(self.frame.cells.astype(np.int32))
            place = np.minimum(np.searchsorted(answer.rows, rows), max(len(answer.rows) - 1, 0))
            inside = (
                (rows >= 0) & (answer.rows[place] == rows) if len(answer.rows) else np.zeros(len(rows), dtype=np.bool_)
            )
            missing = np.where(rows >= 0, -_sums(counts, rows), 0.0)
            # Of answers that are not there the cells are not in the parent's support, and stay empty.
            missing[:, inside] += answer.values[np.ix_(self.children, place[inside])]
            found += missing / answer.variance[self.children, None]
        away = self.mean - counts
        return found + self.frame.apply_roots(self.below, away) if away.any() else found

    def at_zero(self) -> Alike:
        """Return precisions and information vectors."""
        pull = self.pull(np.zeros(self.mean.shape))
        return Alike(self.children, self.frame, pull, self.roots, self.exact)


def informed(problem: FamilyProblem, below: Sequence[Gaussian | None], algebra: Decomposition) -> list[Information]:
    """Return information on all children of a family: their own answers (E-59), and what lies below them (E-62).

    Args:
        problem: The family; its totals are not used yet.
        below: Mean and covariance of what lies below each child, or None.
        algebra: The components.
    """
    live = algebra.live_sites(problem)
    exact = np.zeros(live.shape, dtype=np.int64)
    for child, known in enumerate(below):
        if known is not None:
            live[child] |= known.frame.live
            exact[child, known.frame.live] = known.exact
    found = []
    for children in _equal_rows(np.hstack([live, exact])):
        frame = algebra.frame(live[children[0]])
        mean = np.zeros((len(children), len(frame.cells)))
        for place, known in enumerate(below[child] for child in children.tolist()):
            if known is not None:
                mean[place, np.searchsorted(frame.cells, known.frame.cells)] = known.mean
        own = _measured(problem, children, frame)
        further = _below([below[child] for child in children.tolist()], frame)
        of_all = exact[children[0], frame.live]
        found.append(Information(children, frame, mean, own, further, of_all, problem.measurements))
    return found


def _measured(problem: FamilyProblem, children: Integers, frame: Frame) -> Blocks:
    """Return roots of the precision of the answers of children."""
    weights = np.ones((len(children), 1 + len(problem.measurements)))  # the first is of no answer
    for number, measurement in enumerate(problem.measurements, start=1):
        weights[:, number] = 1.0 / measurement.variance[children]
    different, of_child = np.unique(weights, axis=0, return_inverse=True)
    parts = [frame.root(measurement.query) for measurement in problem.measurements]
    roots = []
    for number, own in enumerate(frame.positions):
        stack = [np.zeros((len(different), 0, len(own)))]
        for part, weight in zip(parts, different[:, 1:].T, strict=True):
            stack.append(np.sqrt(weight)[:, None, None] * part[number])
        roots.append(triangle(np.concatenate(stack, axis=1))[of_child])
    return tuple(roots)


def _sums(counts: Floats, rows: Integers) -> Floats:
    """Return for each cell the sum over the cells of its row, shape ``(G, n)``; all rows below 0 are one."""
    if not counts.any():
        return counts
    order = np.argsort(rows, kind="stable")
    begins = np.append(True, np.diff(rows[order]) != 0)
    sums = np.empty(counts.shape)
    sums[:, order] = np.add.reduceat(counts[:, order], np.flatnonzero(begins), axis=1)[:, np.cumsum(begins) - 1]
    return sums


def _below(below: Sequence[Gaussian | None], frame: Frame) -> Blocks:
    """Return roots of the precisions of what lies below children; without rows where nothing does."""
    known = [(place, each) for place, each in enumerate(below) if each is not None]
    found = [np.zeros((len(below), len(own) if known else 0, len(own))) for own in frame.positions]
    alike: dict[tuple[Frame, bytes], list[tuple[int, Gaussian]]] = {}
    for place, each in known:
        alike.setdefault((each.frame, each.exact.tobytes()), []).append((place, each))
    for members in alike.values():
        places, first = np.array([place for place, _ in members]), members[0][1]
        blocks = tuple(map(np.array, zip(*(each.covariance for _, each in members), strict=True)))
        precision = precision_of(first.frame, blocks, first.exact)
        for root, part, wide in zip(found, precision, first.frame.within(frame), strict=True):
            root[places[:, None, None], np.arange(part.shape[1])[:, None], wide] = part
    return tuple(found)


def _equal_rows(rows: NDArray[np.generic]) -> list[Integers]:
    """Positions of the rows that are equal, for each different row."""
    _, place = np.unique(rows, axis=0, return_inverse=True)
    return [np.flatnonzero(place == number) for number in range(int(np.max(place, initial=-1)) + 1)]


def precision_of(frame: Frame, roots: Blocks, exact: Integers) -> Blocks:
    """Return roots of the inverses of covariances, shape ``(..., p, p)``.

    An exact sum has no finite precision, and whoever is told of it holds it by other means: it has that of the largest
    variance, so that the precision is positive in all directions.

    Args:
        frame: The live sites.
        roots: Of the covariances, by component, each shape ``(..., r, p)``.
        exact: The exact sums, as of a `Gaussian`.
    """
    sums, basis = sums_and_basis(frame, exact)
    found = [inverse_root(root, None if number else basis) for number, root in enumerate(roots)]
    if len(sums):
        variance = (roots[0] ** 2).sum(axis=(-2, -1))
        held = sums / np.sqrt(np.where(variance > 0, variance, 1.0))[..., None, None]
        found[0] = np.concatenate([found[0], held], axis=-2)
    return tuple(found)


def sums_and_basis(frame: Frame, exact: Integers) -> tuple[Floats, Floats]:
    """Return unit vectors of exact sums in the component of sums, as rows, and a basis of what they leave, as columns.

    Groups share no sites, so that a reflection for each, which turns its first site into its sum, gives both.
    """
    basis, pivots = np.eye(len(exact)), []
    for number in range(1, int(np.max(exact, initial=0)) + 1):
        own = np.flatnonzero(exact == number)
        mirror = frame.ones[own] / np.sqrt((frame.ones[own] ** 2).sum())
        mirror[0] += 1.0
        basis[np.ix_(own, own)] -= np.outer(mirror, mirror) / mirror[0]
        pivots.append(own[0])
    return -basis[:, pivots].T, np.delete(basis, pivots, axis=1)


def totals_of(problem: FamilyProblem) -> Integers:
    """Exact total of each child, -1 where it is not known, shape ``(K,)``."""
    found = np.full(len(problem.children), -1, dtype=np.int64)
    for bound in problem.bounds:
        if bound.query.rows == 1 and bound.query.is_partition:
            known = bound.lower[:, 0] == bound.upper[:, 0]
            found = np.where(known, bound.lower[:, 0].astype(np.int64), found)
    return found


def solved(information: Iterable[Information], totals: Integers) -> list[Alike]:
    """Return means and covariances of children from what is known, and their totals where these are exact (E-63).

    Args:
        information: What is known, by live sites and exact sums.
        totals: Exact total of each child of the family, shape ``(K,)``; -1 where there is none.
    """
    found = []
    for each in information:
        known = totals[each.children] >= 0
        for own in (np.flatnonzero(~known), np.flatnonzero(known)):
            if len(own):
                found.append(_solved(each.at(own), totals[each.children[own]]))
    return found


def _solved(information: Information, totals: Integers) -> Alike:
    """Return what follows where all of the children have an exact total, or none has."""
    frame, exact, mean = information.frame, information.exact, information.mean
    free = exact[frame.site] == 0
    if (totals >= 0).all() and free.any():
        mean = mean + ((totals - mean.sum(axis=1)) / free.sum())[:, None] * free
        exact = np.where(exact == 0, exact.max() + 1, exact)
    _, basis = sums_and_basis(frame, exact)
    roots = information.roots
    covariance = tuple(inverse_root(root, None if number else basis) for number, root in enumerate(roots))
    deviation = max((float(np.sqrt((root**2).sum(axis=1)).max(initial=0.0)) for root in covariance), default=0.0)
    for _ in range(_REFINEMENTS):
        pull = information.pull(mean)
        mean = mean + _beside_exact(frame, exact, frame.apply_roots(covariance, pull))
        # What rounding of answers moves means by, in standard errors: a large answer of little noise hides the others.
        if np.abs(pull).max(initial=0.0) * deviation * np.finfo(np.float64).eps < _ROUNDED:
            break
    return Alike(information.children, frame, mean, covariance, exact)


def _beside_exact(frame: Frame, exact: Integers, changes: Floats) -> Floats:
    """Return changes of means, shape ``(G, n)``, without what rounding would change exact sums by."""
    group, found = exact[frame.site], changes.copy()
    for number in range(1, int(exact.max(initial=0)) + 1):
        own = group == number
        found[:, own] -= found[:, own].mean(axis=1, keepdims=True)
    return found


def summed(parts: Iterable[Alike], algebra: Decomposition) -> Gaussian:
    """Mean and covariance of the sum of independent children."""
    kept = [part for part in parts if len(part.children)]
    live = np.zeros(algebra.sites, dtype=np.bool_)
    for each in kept:
        live |= each.frame.live
    frame = algebra.frame(live)
    mean = np.zeros(len(frame.cells))
    for each in kept:
        mean[np.searchsorted(frame.cells, each.frame.cells)] += each.vector.sum(axis=0)
    blocks = []
    for number, own in enumerate(frame.positions):
        inside = [each.frame.within(frame)[number] for each in kept]
        blocks.append(
            stacked(_widened(zip((each.blocks[number] for each in kept), inside, strict=True), len(own)), len(own))
        )
    exact = common_sums([(each.frame.positions[0], each.exact) for each in kept], algebra.sites)[live]
    return Gaussian(frame, mean, tuple(blocks), exact)


def _widened(roots: Iterable[tuple[Floats, Integers]], size: int) -> Iterator[Floats]:
    """Yield rows of roots, shape ``(G, r, p)``, each with its places among more columns; some at a time."""
    for root, places in roots:
        rows = root.reshape(root.shape[0] * root.shape[1], root.shape[2])
        once = max(1, _STACKED // max(size, 1))
        for start in range(0, len(rows), once):
            wide = np.zeros((min(once, len(rows) - start), size))
            wide[:, places] = rows[start : start + once]
            yield wide


def stacked(roots: Iterable[Floats], size: int) -> Floats:
    """Return an upper triangular root of the sum of matrices of an order from their roots, shape ``(r, size)``."""
    held, rows = [np.zeros((0, size))], 0
    for root in roots:
        held.append(root)
        rows += len(root)
        if rows * size > _STACKED:
            held, rows = [triangle(np.concatenate(held))], size
    return triangle(np.concatenate(held))


def common_sums(parts: Iterable[tuple[Integers, Integers]], sites: int) -> Integers:
    """Return the groups of sites whose sum is exact in the sum of independent geounits; -1 where no part has the site.

    The sum of a vector is exact in the whole where it is in every part: where it gives every site of an exact group of
    a part the same weight, and none to other sites of it. So groups that share a site are one, and one that has a site
    which is free in any part is none.

    Args:
        parts: Of each part its live sites and the group of each, from 1; 0 stands for free ones.
        sites: Number of all sites.
    """
    leader = list(range(sites + 1))  # of each site another of its group; the last stands for all that is free

    def first_of(site: int) -> int:
        while leader[site] != site:
            leader[site] = site = leader[leader[site]]
        return site

    found = np.full(sites, -1, dtype=np.int64)
    for own, exact in {(own.tobytes(), exact.tobytes()): (own, exact) for own, exact in parts}.values():
        found[own] = 0
        first = {0: sites}
        for site, number in zip(own.tolist(), exact.tolist(), strict=True):
            leader[first_of(site)] = first_of(first.setdefault(number, site))
    numbers = {first_of(sites): 0}
    for site in np.flatnonzero(found == 0).tolist():
        found[site] = numbers.setdefault(first_of(site), len(numbers))
    return found


def given_parent(parts: Sequence[Alike], total: Gaussian, parent: Gaussian) -> list[Alike]:
    """Means and covariances of children given everything, from those given what lies below (E-64).

    Args:
        parts: The children, given what lies below them.
        total: Their sum, as `summed` gives it.
        parent: The parent given everything.
    """
    frame = total.frame
    precision = precision_of(frame, total.covariance, total.exact)
    expected = parent.mean[np.searchsorted(parent.frame.cells, frame.cells)]
    pull = frame.apply_roots(precision, (expected - total.mean)[None])[0]
    inside = zip(parent.covariance, frame.within(parent.frame), precision, strict=True)
    spreads = [root[:, own] @ white.T for root, own, white in inside]
    exact = _exact_given_parent(parts, parent, frame.algebra.sites)
    found = []
    for part, own_exact in zip(parts, exact, strict=True):
        pulled = np.broadcast_to(pull[np.searchsorted(frame.cells, part.frame.cells)], part.vector.shape)
        blocks = []
        for root, white, spread, sites in zip(part.blocks, precision, spreads, part.frame.within(frame), strict=True):
            share = root @ white[:, sites].T  # the squares of all children's sum to 1
            # What the parent does not tell of a child: from 0, where it is all of the sum, to 1.
            kept, vectors = np.linalg.eigh(np.eye(root.shape[1]) - share @ share.swapaxes(1, 2))
            apart = np.sqrt(np.maximum(kept, 0.0))[:, :, None] * vectors.swapaxes(1, 2)
            blocks.append(triangle(np.concatenate([spread @ share.swapaxes(1, 2), apart], axis=1) @ root))
        mean = part.vector + _beside_exact(part.frame, part.exact, part.frame.apply_roots(part.blocks, pulled))
        found.append(replace(part, vector=mean, blocks=tuple(blocks), exact=own_exact))
    return found


def _exact_given_parent(parts: Sequence[Alike], parent: Gaussian, sites: int) -> list[Integers]:
    """Return the exact sums of children: their own, and the rest of their parent's where one child alone is free."""
    of_parent = np.full(sites, -1, dtype=np.int64)
    of_parent[parent.frame.live] = parent.exact
    found = [part.exact for part in parts]
    for number in range(1, int(parent.exact.max(initial=0)) + 1):
        members = []
        for place, part in enumerate(parts):
            own = of_parent[part.frame.positions[0]] == number
            across = np.isin(found[place], found[place][own & (found[place] > 0)]) & ~own
            if (own & (found[place] == 0)).any() or across.any():
                members.append((place, own, len(part.children) > 1 or across.any()))
        if len(members) == 1 and not members[0][2]:
            ((place, own, _),) = members
            left = own & (found[place] == 0)
            found[place] = np.where(left, found[place].max() + 1, found[place])
    return found


def is_exact(frame: Frame, exact: Integers, counted: NDArray[np.generic]) -> Booleans:
    """Return which statistics are sums of exact sums alone, shape ``(s,)``: their variance is none.

    Args:
        frame: The live sites.
        exact: Their exact sums, as of a `Gaussian`.
        counted: How often each statistic counts each live cell, shape ``(n, s)``.
    """
    group = exact[frame.site]
    found: Booleans = ~counted[group == 0].any(axis=0)
    for number in range(1, int(exact.max(initial=0)) + 1):
        own = counted[group == number]
        found &= (own == own[0]).all(axis=0)
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
    def of(cls, problem: FamilyProblem, information: Sequence[Information], algebra: Decomposition) -> FamilyKnowledge:
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
        unknown = len(totals) == 1 and any(each.is_nothing for each in information)
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
        found = [child.some(np.setdiff1d(child.children, grouped)) for child in self.children]
        for own, total in self.groups:
            whole = summed([child.some(own) for child in self.children], self.algebra)
            found.append(_with_total(_alone(int(own[0]), whole), total))
        return [each for each in found if len(each.children)]

    def given(self, parent: Gaussian | None) -> list[Alike]:
        """The children given everything: their parent, given everything; at the root nothing comes from above."""
        if parent is not None and not self.children:
            return [_alone(0, parent)]
        parts = self.independent()
        if parent is not None:
            parts = given_parent(parts, summed(parts, self.algebra), parent)
        for own, _ in self.groups:
            (number,) = (place for place, part in enumerate(parts) if part.children.tolist() == [own[0]])
            ((_, group),) = parts.pop(number)
            members = [part for child in self.children if len((part := child.some(own)).children)]
            parts += given_parent(members, summed(members, self.algebra), group)
        return parts


def _alone(child: int, known: Gaussian) -> Alike:
    return Alike(np.array([child]), known.frame, known.mean[None], _several(known.covariance), known.exact)


def _with_total(alone: Alike, total: int) -> Alike:
    """Return what is known of one geounit when its total, -1 where there is none, is too."""
    precision = replace(alone, blocks=precision_of(alone.frame, alone.blocks, alone.exact))
    return _solved(Information.from_precision(precision), np.array([total]))


def _prior_of(child: int, known: Gaussian) -> Alike:
    """Return mean and precision of what lies below a child."""
    alone = _alone(child, known)
    return replace(alone, blocks=precision_of(alone.frame, alone.blocks, alone.exact))


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
        known = [_prior_of(child, each) for child, each in enumerate(below) if each is not None]
        knowledge = FamilyKnowledge.of(problem, information, algebra)
        return cls(algebra, known, [each.at_zero() for each in information], knowledge.children)

    def of_groups(self, groups: Sequence[Integers]) -> FamilyPrior:
        """What is known of the sums over groups of children, as if the groups were children that are not measured."""
        sums = [summed([mean.some(own) for mean in self.means], self.algebra) for own in groups]
        below = [_prior_of(place, whole) for place, whole in enumerate(sums)]
        information = [Information.from_precision(each).at_zero() for each in below]
        return FamilyPrior(self.algebra, below, information, [_alone(*each) for each in enumerate(sums)])

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
            parts = [root @ part for root, part in zip(each.blocks, each.frame.analyze(moved), strict=True)]
            value += sum(float((part**2).sum()) for part in parts)
            pulled = each.frame.synthesize(
                [root.swapaxes(1, 2) @ part for root, part in zip(each.blocks, parts, strict=True)]
            )
            gradient[np.ix_(each.children, inside)] = 2.0 * pulled[:, place]
        return value, gradient

    def curvature(self, children: int) -> Floats:
        """Return a bound on the least curvature of its part in any direction, for each child, shape ``(K,)``.

        It is a square less what rounding may have added to it, so that no curvature is claimed which is not there.
        """
        least = np.full(children, np.inf)
        for each in self.below:
            for root in each.blocks:
                lengths = np.linalg.svd(root, compute_uv=False)
                rounding = np.finfo(np.float64).eps * root.shape[1] * np.max(lengths, axis=1, initial=0.0)
                shortest = np.maximum(np.min(lengths, axis=1, initial=np.inf) - rounding, 0.0)
                least[each.children] = np.minimum(least[each.children], shortest**2)
        return np.where(np.isfinite(least), least, 0.0)

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
        children = sum(len(mean.children) for mean in self.means)
        values, variance = np.zeros((children, query.rows)), np.full(children, LEAST_VARIANCE)
        for mean in self.means:
            rows = query.row_of(mean.frame.cells.astype(np.int32))
            touched = np.unique(rows[rows >= 0])
            if not len(touched):
                continue
            statistics = (rows == touched[:, None]).astype(np.float64)
            values[np.ix_(mean.children, touched)] = mean.vector @ statistics.T
            spread = variances(mean.blocks, mean.frame.traces(statistics)).mean(axis=1)
            variance[mean.children] = np.maximum(spread, LEAST_VARIANCE)
        return FamilyMeasurement(query, np.arange(query.rows), values, variance)


def variances(roots: Blocks, traces: tuple[Floats, ...]) -> Floats:
    """Variances of statistics of G geounits, shape ``(G, s)``, from roots of their covariances (E-66).

    Args:
        roots: By component, each shape ``(G, r, p)``.
        traces: What `Frame.traces` gives for the statistics.
    """
    found = np.zeros((len(roots[0]), traces[0].shape[1]))
    for root, trace in zip(roots, traces, strict=True):
        parts = trace.reshape(len(trace), trace.shape[1] * trace.shape[2])
        for row in root.swapaxes(0, 1):
            found += ((row @ parts) ** 2).reshape(len(row), *trace.shape[1:]).sum(axis=2)
    return found


def _several(blocks: Blocks) -> Blocks:
    return tuple(block[None] for block in blocks)


def _renumbered(each: Alike, members: Integers) -> Alike:
    return replace(each, children=np.searchsorted(members, each.children))


def _found(frame: Frame, cells: NDArray[np.int32]) -> tuple[Integers, Integers]:
    """Positions, in a frame, of those cells that are in it, and their positions among the cells."""
    (inside,) = np.nonzero(np.isin(cells, frame.cells))
    return np.searchsorted(frame.cells, cells[inside]), inside
