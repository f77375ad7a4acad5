"""A family with very many cells and known sums of classes, laid out for its solver (README, section 16).

Cells are answered one by one, in groups that lie within classes whose people every child knows, and in a few hundred
sums that cross them. Cells that a child cannot have are not stored, and what has one solution is settled beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from das_spark.estimation.batched import Grouping, Stack, stack
from das_spark.estimation.support import Partition, Support, coarser, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import Booleans, Floats, Integers

MOST_STACKED: Final = 2500
"""Largest number of stacked rows that hang together."""
MOST_INVERSES: Final = 250_000_000
"""Numbers that the inverses of all sets of classes may have together; more take gigabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Cells in classes; the people of some classes are known for every child. C classes of n cells."""

    index: Integers  # class of each cell, shape (n,)
    known: Booleans  # whether its people are known, shape (C,)
    people: Floats  # people of each child where they are, shape (K, C)
    live: Booleans  # whether a child can have people there, shape (K, C)
    partition: Partition | None  # where the known sums come from
    row: Integers  # row of that partition, -1 for the others, shape (C,)


def exact_classes(support: Support) -> int:
    """Number of classes in the finest known sums of a family."""
    return max((each.rows for each in _exact(support)), default=0)


def _exact(support: Support) -> list[Partition]:
    return [
        partition
        for partition in support.partitions
        if partition.limits and np.array_equal(partition.lower, partition.upper)
    ]


def _classes_of(support: Support) -> Classes | None:
    """The finest known sums of a family; None where they are not the same for cells that a child can and cannot have.

    Cells that none of them counts are in classes of their own, one for each set of children that can have them.
    """
    partition = max(_exact(support), key=lambda each: each.rows, default=None)
    live = support.most > 0
    if support.parent is not None:
        live = live & (support.parent > 0)
    row = np.full(len(support.cells), -1) if partition is None else partition.index
    pattern = np.zeros(len(row), dtype=np.int64)
    if not live.all():
        packed = np.ascontiguousarray(np.packbits(live, axis=0).T)
        keys = packed.view([("", packed.dtype)] * packed.shape[1]).ravel()
        _, pattern = np.unique(keys, return_inverse=True)
    kinds, first, index = np.unique(np.stack([row, pattern]), axis=1, return_index=True, return_inverse=True)
    known = kinds[0] >= 0
    if partition is not None and len(np.unique(kinds[0][known])) != known.sum():
        return None
    people = np.zeros((support.children, len(first)))
    if partition is not None:
        people[:, known] = partition.lower[:, kinds[0][known]]
    return Classes(index.ravel(), known, people, live[:, first], partition, kinds[0])


def _keeps(classes: Classes, partition: Partition, parent: Integers | None) -> bool | None:
    """Whether known sums keep a partition's bounds; None where they do not say (and the bounds can bind)."""
    held = coarser(classes.index, partition.index)
    if held is not None and classes.known[held >= 0].all():
        found = sums(classes.people, held, partition.rows)
        return bool(((found >= partition.lower) & (found <= partition.upper)).all())
    counted = partition.index >= 0
    people = np.full(partition.rows, np.inf)
    if parent is not None:
        people = np.bincount(partition.index[counted], parent[counted], minlength=partition.rows).astype(np.float64)
    binds = (partition.lower > 0).any() or ((partition.upper > 0) & (partition.upper < people)).any()
    return None if binds else True


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Stacked rows that hang together through known sums; children of a kind have one inverse."""

    rows: Integers  # the stacked rows, shape (r,)
    classes: Integers  # the classes whose cells they count
    children: Integers  # children that have any of them, by kind
    kind: Integers  # kind of each of these children, sorted
    members: Booleans  # whether a class is live in a kind, shape (kinds, classes)
    weighting: Integers  # set of weights of each kind


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the N open cells stand, by class and by group within, and their unknowns: one for each live child."""

    cell: Integers  # position in the support of each open cell, shape (N,)
    cell_first: Integers  # first open cell of each group, and their number
    group_first: Integers  # first group of each open class, and their number
    class_first: Integers  # first open cell of each open class, and their number
    number: Integers  # the open classes among all, shape (C,)
    counted: Booleans  # whether each group has an answer
    live_first: Integers  # first of each class's children, and their number
    live: Integers  # those children
    base: Integers  # first unknown of each class
    unknowns: int  # number of unknowns

    @property
    def of_cell(self) -> Integers:
        """Open class of each open cell."""
        return np.repeat(np.arange(len(self.number)), np.diff(self.class_first))

    @property
    def of_live(self) -> Integers:
        """Open class of each entry of `live`."""
        return np.repeat(np.arange(len(self.number)), np.diff(self.live_first))


@dataclass(frozen=True, slots=True, eq=False)
class NestedFamily:
    """The open part of a family; weights are divided by a typical one.

    Classes with one child or one cell have one solution and are not in it.
    """

    support: Support  # where it comes from
    classes: Classes  # all of its classes
    closed: Integers  # cells whose class has one solution, positions in the support
    settled: NDArray[np.int32]  # people in these, shape (K, closed)
    places: Places  # where its open cells and unknowns stand
    known: Booleans  # whether each open class has a known sum
    targets: Floats  # known sum of each class and child, as in `live`
    needed: Floats  # people of the parent in each open cell, -1 at the root
    stacked: Stack  # the crossing sums
    rows: Integers  # stacked rows of each open cell, shape (P, N); P is 0 where nothing crosses
    joint: Integers  # the same in fewer parts: combinations of rows, shape (Q, N)
    parts: sp.csr_matrix  # rows that each combination has, shape (r, combinations)
    blocks: tuple[Block, ...]  # those that hang together
    weighting: Integers  # set of weights of each child, shape (K,)
    weight: Floats  # weight of the answers to single cells, shape (K,)
    group_weight: Floats  # weight of the answers to groups, shape (K,)
    weights: Floats  # weight of each crossing answer, shape (answers, K)
    linear: Floats  # linear term of half the objective, shape (unknowns,)
    constant: float  # objective where all open cells are empty
    steady: Floats  # derivative of what known sums decide of the objective, in people^-1, shape (K, classes)
    alone: Floats | Integers  # answers to the single cells, shape (K, n); those of open cells are read
    unit: float  # what weights were divided by, people^-2
    ignored: bool  # whether there are bounds that are looked at by the certificate alone

    @property
    def alike(self) -> bool:
        """Whether all children have the same weights."""
        return not self.weighting.any()


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """Answers of a family by what they sum."""

    own: Partition  # single cells
    group: Partition | None  # within classes
    crossing: tuple[Partition, ...]  # across classes
    constant: tuple[Partition, ...]  # known sums of classes


def _sorted(support: Support, classes: Classes) -> _Sorted | None:
    cells = np.arange(len(support.cells))
    measured = [partition for partition in support.partitions if partition.weight.any()]
    own = next((each for each in measured if np.array_equal(each.index, cells)), None)
    if own is None or not (own.weight > 0).all():
        return None
    within, crossing, constant = [], [], []
    for each in measured:
        if each is own:
            continue
        held = coarser(classes.index, each.index)
        counted = each.index >= 0
        if held is not None and classes.known[held >= 0].all():
            constant.append(each)
        elif coarser(each.index[counted], classes.index[counted]) is not None:
            within.append(each)
        else:
            crossing.append(each)
    within.sort(key=lambda each: -each.rows)
    return _Sorted(own, within[0] if within else None, (*crossing, *within[1:]), tuple(constant))


def nested_family(support: Support) -> NestedFamily | None:
    """Lay a family out; None where the method does not serve."""
    problem = support.problem
    if support.relaxation is not None or problem.flows is not None or problem.prior is not None:
        return None
    classes = _classes_of(support)
    found = None if classes is None else _sorted(support, classes)
    if classes is None or found is None or not _consistent(support, classes):
        return None
    kept = [_keeps(classes, partition, support.parent) for partition in support.partitions if partition.limits]
    if False in kept:
        return None
    family = _laid_out(support, classes, found, _settled(support, classes))
    if family is None:
        return None
    return replace(family, ignored=None in kept)


def _consistent(support: Support, classes: Classes) -> bool:
    """Whether children and cells of each class have the same people, and no cell is without a child."""
    if support.parent is None:
        return not classes.people[~classes.live].any()
    people = np.bincount(classes.index, support.parent, minlength=len(classes.known))
    apart = np.abs((classes.people * classes.live).sum(axis=0) - people)
    held = classes.live.sum(axis=0)[classes.index] > 0
    return not apart[classes.known].any() and bool(held[support.parent > 0].all())


@dataclass(frozen=True, slots=True, eq=False)
class _Settled:
    """What is known beforehand."""

    cells: Integers  # cells whose class has one solution
    people: NDArray[np.int32]  # people in these, shape (K, cells)
    is_open: Booleans  # which classes have more than one solution

    def left(self, asked: Partition) -> Floats:
        """Answers less what is settled, shape ``(K, answers)``."""
        return np.asarray(asked.values - sums(self.people, asked.index[self.cells], asked.rows), dtype=np.float64)

    def constant(self, asked: Partition) -> float:
        """What answers to single cells add to the objective where all open cells are empty."""
        squares = np.empty(len(self.people))
        for child, people in enumerate(self.people):
            gone = asked.values[child].astype(np.float64)
            gone[self.cells] -= people
            squares[child] = gone @ gone
        return float(asked.weight @ squares)


def _settled(support: Support, classes: Classes) -> _Settled:
    """People where a class has one solution, and which classes are open."""
    sizes = np.bincount(classes.index, minlength=len(classes.known))
    children = classes.live.sum(axis=0)
    single = (sizes == 1) & classes.known
    only = (children == 1) & (support.parent is not None)
    is_open = (children > 0) & ~single & ~only
    (closed,) = np.nonzero(~is_open[classes.index])
    place = np.full(len(support.cells), -1, dtype=np.int64)
    place[closed] = np.arange(len(closed))
    settled = np.zeros((support.children, len(closed)), dtype=np.int32)  # numbers of people, in half the memory
    (cells,) = np.nonzero(single[classes.index])
    settled[:, place[cells]] = np.where(
        classes.live[:, classes.index[cells]], classes.people[:, classes.index[cells]], 0.0
    )
    if support.parent is not None:
        (cells,) = np.nonzero((only & ~single)[classes.index])
        child = classes.live.argmax(axis=0)[classes.index[cells]]
        settled[child, place[cells]] = support.parent[cells]
    return _Settled(closed, settled, is_open)


def _placed(classes: Classes, group: Integers, is_open: Booleans) -> Places:
    """Sort the open cells; `group` is -1 for cells that are in none, which are groups of their own."""
    (cell,) = np.nonzero(is_open[classes.index])
    key = np.where(group[cell] < 0, len(group) + cell, group[cell])
    order = np.lexsort((cell, key, classes.index[cell]))
    cell, key = cell[order], key[order]
    of_class = classes.index[cell]
    fresh = np.ones(len(cell), dtype=np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (of_class[1:] != of_class[:-1])
    cell_first = np.append(np.flatnonzero(fresh), len(cell))
    number, class_first = np.unique(of_class, return_index=True)
    class_first = np.append(class_first, len(cell))
    position, live = np.nonzero(classes.live[:, number].T)
    live_first = np.searchsorted(position, np.arange(len(number) + 1))
    sizes = np.diff(class_first) * np.diff(live_first)
    return Places(
        cell=cell,
        cell_first=cell_first,
        group_first=np.searchsorted(cell_first, class_first),
        class_first=class_first,
        number=number,
        counted=group[cell[cell_first[:-1]]] >= 0,
        live_first=live_first,
        live=live,
        base=np.cumsum(sizes) - sizes,
        unknowns=int(sizes.sum()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Weights of the answers of each child, divided by a typical one."""

    unit: float  # that one
    alone: Floats  # of single cells, shape (K,)
    group: Floats  # of groups
    crossing: Floats  # of sums across classes, shape (queries, K)
    sets: Integers  # number of each child's set of weights

    @classmethod
    def of(cls, found: _Sorted, children: int) -> _Weights:
        unit = float(np.median(found.own.weight))
        alone = found.own.weight / unit
        group = np.zeros(children) if found.group is None else found.group.weight / unit
        crossing = np.array([each.weight for each in found.crossing]).reshape(len(found.crossing), children) / unit
        _, sets = np.unique(np.vstack([alone, group, crossing]), axis=1, return_inverse=True)
        return cls(unit, alone, group, crossing, np.asarray(sets, dtype=np.int64).ravel())


def _laid_out(support: Support, classes: Classes, found: _Sorted, settled: _Settled) -> NestedFamily | None:
    group = np.full(len(support.cells), -1) if found.group is None else found.group.index
    places, weights = _placed(classes, group, settled.is_open), _Weights.of(found, support.children)
    cell = places.cell
    stacked = stack(tuple(Grouping(each.index[cell], each.rows) for each in found.crossing), len(cell))
    rows = np.zeros((0, len(cell)), dtype=np.int64)
    if found.crossing and len(cell):
        rows = np.ascontiguousarray(stacked.index)
    blocks = _blocks(rows, places, classes.live[:, places.number], weights.sets, stacked)
    inverses = sum(len(block.members) * len(block.rows) ** 2 for block in blocks)
    if any(len(block.rows) > MOST_STACKED for block in blocks) or inverses > MOST_INVERSES:
        return None
    joint, parts = _joined(rows, stacked.rows)
    summed = (*(() if found.group is None else (found.group,)), *found.crossing)
    left = [settled.left(each) for each in summed]
    of_groups, across = (None, left) if found.group is None else (left[0], left[1:])
    constant, steady = _decided(found, classes)
    constant += settled.constant(found.own)
    for each, gone in zip(summed, left, strict=True):
        constant += float(each.weight @ np.einsum("ki,ki->k", gone, gone))
    of_answer = weights.crossing[stacked.owner]
    tail = np.concatenate([np.zeros((0, support.children)), *(gone.T for gone in across)])
    pull = parts.T @ (stacked.sums.T @ (of_answer * tail))
    return NestedFamily(
        support=support,
        classes=classes,
        closed=settled.cells,
        settled=settled.people,
        places=places,
        known=classes.known[places.number],
        targets=classes.people[places.live, places.number[places.of_live]],
        needed=np.full(len(cell), -1.0) if support.parent is None else support.parent[cell].astype(np.float64),
        stacked=stacked,
        rows=rows,
        joint=joint,
        parts=parts,
        blocks=blocks,
        weighting=weights.sets,
        weight=weights.alone,
        group_weight=weights.group,
        weights=of_answer,
        linear=_linear(places, weights, group, found.own.values, of_groups, joint, pull),
        constant=constant,
        steady=steady,
        alone=found.own.values,
        unit=weights.unit,
        ignored=False,
    )


def _decided(found: _Sorted, classes: Classes) -> tuple[float, Floats]:
    """What known sums decide of the objective, and its derivative in each class of each child."""
    constant, steady = 0.0, np.zeros(classes.people.shape)
    for each in found.constant:
        held = coarser(classes.index, each.index)
        if held is not None:
            gone = each.values - sums(classes.people, held, each.rows)
            constant += float((each.weight[:, None] * gone**2).sum())
            steady -= np.where(held >= 0, 2.0 * (each.weight[:, None] * gone)[:, held], 0.0)
    return constant, steady


def _linear(
    places: Places,
    weights: _Weights,
    group: Integers,
    alone: Floats | Integers,
    of_groups: Floats | None,
    joint: Integers,
    pull: Floats,
) -> Floats:
    of_group = np.zeros((len(alone), 1)) if of_groups is None else weights.group[:, None] * of_groups
    linear = np.empty(places.unknowns)
    from das_spark.estimation._nested_sweep import linear_terms  # noqa: PLC0415 - compiled on first use

    linear_terms(
        places.class_first,
        places.cell,
        places.live_first,
        places.live,
        places.base,
        joint,
        weights.alone,
        np.ascontiguousarray(alone, dtype=np.float64),
        np.ascontiguousarray(of_group),
        group[places.cell],
        np.ascontiguousarray(pull),
        linear,
    )
    return linear


def _blocks(rows: Integers, places: Places, live: Booleans, sets: Integers, stacked: Stack) -> tuple[Block, ...]:
    """Stacked rows that classes, or answers, tie together."""
    if not rows.size:
        return ()
    label, used = _components(rows, places, stacked), np.bincount(rows.ravel(), minlength=stacked.rows) > 0
    of_class, of_row = label[: len(places.number)], label[len(places.number) :][: stacked.rows]
    blocks = []
    for each in np.unique(of_class):
        (classes,) = np.nonzero(of_class == each)
        (children,) = np.nonzero(live[:, classes].any(axis=1))
        described = np.column_stack([sets[children], live[np.ix_(children, classes)]])
        kinds, kind = np.unique(described, axis=0, return_inverse=True)
        order = np.argsort(kind.ravel(), kind="stable")
        blocks.append(
            Block(
                rows=np.flatnonzero((of_row == each) & used),
                classes=classes,
                children=children[order],
                kind=kind.ravel()[order],
                members=kinds[:, 1:].astype(np.bool_),
                weighting=kinds[:, 0],
            )
        )
    return tuple(blocks)


def _components(rows: Integers, places: Places, stacked: Stack) -> Integers:
    """Number of what hangs together, of each class and then of each stacked row."""
    count, width = len(places.number), stacked.rows
    answers = stacked.sums.tocoo()
    one = np.concatenate([np.tile(places.of_cell, len(rows)), count + width + answers.row])
    two = np.concatenate([count + rows.ravel(), count + answers.col])
    nodes = count + width + answers.shape[0]
    graph = sp.csr_matrix((np.ones(len(one)), (one, two)), shape=(nodes, nodes))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


SPARSE: Final = 8
"""Cells to a combination of stacked rows: with fewer, adding up combinations costs more than it saves."""


def _joined(rows: Integers, width: int) -> tuple[Integers, sp.csr_matrix]:
    """Combine stacked rows of cells, as long as combinations are few: combinations of each cell, rows of each."""
    cells = rows.shape[1]
    made: list[tuple[Integers, list[int]]] = []  # number of each cell's combination, parts that it combines
    for part in sorted(range(len(rows)), key=lambda each: len(np.unique(rows[each]))):
        _, own = np.unique(rows[part], return_inverse=True)
        for place, (number, parts) in enumerate(made):
            _, both = np.unique(number * (int(own.max()) + 1) + own, return_inverse=True)
            if int(both.max()) + 1 <= cells // SPARSE:
                made[place] = both, [*parts, part]
                break
        else:
            made.append((own, [part]))
    start, joint, row, column = 0, [], [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number, parts in made:
        _, first = np.unique(number, return_index=True)
        for part in parts:
            row.append(rows[part, first])
            column.append(start + np.arange(len(first)))
        joint.append(start + number)
        start += len(first)
    places = np.concatenate(row), np.concatenate(column)
    matrix = sp.csr_matrix((np.ones(len(places[0])), places), shape=(width, start))
    return np.array(joint, dtype=np.int64).reshape(len(made), cells), matrix
