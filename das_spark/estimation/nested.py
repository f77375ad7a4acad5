"""The solver of nested families: very many cells, known sums of classes, few crossing sums (README, section 16).

Cells are answered one by one, in groups that lie within classes whose people every child knows, and in a few hundred
sums across them. All but the last is solved by formulas, cell by cell; the last by one small inverse for each set of
classes that a child can have. Cells that a child cannot have are not stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from das_spark.estimation.batched import Grouping, Stack, stack
from das_spark.estimation.solvers import Status
from das_spark.estimation.support import Candidate, Partition, Proposal, Support, hand_out, sums

if TYPE_CHECKING:
    from das_spark.estimation.certify import Certificate, Proof
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
    return [each for each in support.partitions if each.limits and np.array_equal(each.lower, each.upper)]


def classes_of(support: Support) -> Classes | None:
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


def coarser(fine: Integers, index: Integers) -> Integers | None:
    """What holds each part of a partition, -1 for nothing; None where a part is cut."""
    found = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[fine] = index
    return found if np.array_equal(found[fine], index) else None


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
class NestedFamily:
    """The open part of a family, cells sorted by class and group; weights are divided by a typical one.

    Classes with one child or one cell have one solution and are not in it.
    """

    support: Support  # where it comes from
    classes: Classes  # all of its classes
    settled: Floats  # people in classes that have one solution, shape (K, n)
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
    alone: Floats  # answers to the single cells, shape (K, n)
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
    measured = [each for each in support.partitions if each.weight.any()]
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
    classes = classes_of(support)
    found = None if classes is None else _sorted(support, classes)
    if classes is None or found is None or not _consistent(support, classes):
        return None
    kept = [_keeps(classes, each, support.parent) for each in support.partitions if each.limits]
    if False in kept:
        return None
    settled, is_open = _settled(support, classes)
    family = _laid_out(support, classes, found, settled, is_open)
    if family is None:
        return None
    return replace(family, ignored=None in kept)


def _consistent(support: Support, classes: Classes) -> bool:
    """Whether children and cells of each class have the same people, and no cell is without a child."""
    if support.parent is None:
        return not classes.people[~classes.live].any()
    people = np.bincount(classes.index, support.parent, minlength=len(classes.known))
    same = (classes.people * classes.live).sum(axis=0) == people
    return bool(same[classes.known].all() and classes.live.any(axis=0)[classes.index][support.parent > 0].all())


def _settled(support: Support, classes: Classes) -> tuple[Floats, Booleans]:
    """People where a class has one solution, and which classes are open."""
    sizes = np.bincount(classes.index, minlength=len(classes.known))
    children = classes.live.sum(axis=0)
    single = (sizes == 1) & classes.known
    only = (children == 1) & (support.parent is not None)
    settled = np.zeros((support.children, len(support.cells)))
    (cells,) = np.nonzero(single[classes.index])
    settled[:, cells] = np.where(classes.live[:, classes.index[cells]], classes.people[:, classes.index[cells]], 0.0)
    if support.parent is not None:
        (cells,) = np.nonzero((only & ~single)[classes.index])
        child = classes.live.argmax(axis=0)[classes.index[cells]]
        settled[child, cells] = support.parent[cells]
    return settled, (children > 0) & ~single & ~only


def _laid_out(
    support: Support, classes: Classes, found: _Sorted, settled: Floats, is_open: Booleans
) -> NestedFamily | None:
    from das_spark.estimation._nested_sweep import linear_terms  # noqa: PLC0415 - imports the compiler

    children = support.children
    group = np.full(len(support.cells), -1) if found.group is None else found.group.index
    (cell,) = np.nonzero(is_open[classes.index])
    loose = np.where(group[cell] < 0, len(support.cells) + cell, group[cell])
    cell = cell[np.lexsort((cell, loose, classes.index[cell]))]
    of_class = classes.index[cell]
    key = np.where(group[cell] < 0, len(support.cells) + cell, group[cell])
    fresh = np.ones(len(cell), dtype=np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (of_class[1:] != of_class[:-1])
    cell_first = np.append(np.flatnonzero(fresh), len(cell))
    number, class_first = np.unique(of_class, return_index=True)
    class_first = np.append(class_first, len(cell))
    group_first = np.searchsorted(cell_first, class_first)
    position, live = np.nonzero(classes.live[:, number].T)
    live_first = np.searchsorted(position, np.arange(len(number) + 1))
    sizes = np.diff(class_first) * np.diff(live_first)
    base = np.cumsum(sizes) - sizes
    needed = np.full(len(cell), -1.0) if support.parent is None else support.parent[cell].astype(np.float64)

    unit = float(np.median(found.own.weight))
    weight = found.own.weight / unit
    group_weight = np.zeros(children) if found.group is None else found.group.weight / unit
    stacked = stack(tuple(Grouping(each.index[cell], each.rows) for each in found.crossing), len(cell))
    crossing = np.array([each.weight for each in found.crossing]).reshape(len(found.crossing), children) / unit
    weights = crossing[stacked.owner]
    _, weighting = np.unique(np.vstack([weight, group_weight, crossing]), axis=1, return_inverse=True)
    weighting = weighting.ravel() - weighting.min(initial=0)
    rows = stacked.index if found.crossing and len(cell) else np.zeros((0, len(cell)), dtype=np.int64)
    joint, parts = _joined(rows, stacked.rows)
    live_of_open = classes.live[:, number]
    blocks = _blocks(rows, np.repeat(np.arange(len(number)), np.diff(class_first)), live_of_open, weighting, stacked)
    inverses = sum(len(each.members) * len(each.rows) ** 2 for each in blocks)
    if any(len(each.rows) > MOST_STACKED for each in blocks) or inverses > MOST_INVERSES:
        return None

    constant, left, steady = 0.0, {}, np.zeros(classes.people.shape)
    for each in (found.own, *filter(None, (found.group,)), *found.crossing):
        left[id(each)] = each.values - sums(settled, each.index, each.rows)
        constant += float((each.weight[:, None] * left[id(each)] ** 2).sum())
    for each in found.constant:
        held = coarser(classes.index, each.index)
        gone = each.values - sums(classes.people, held, each.rows)
        constant += float((each.weight[:, None] * gone**2).sum())
        steady += np.where(held >= 0, 2.0 * (each.weight[:, None] * -gone)[:, held], 0.0)
    answers = np.concatenate([np.zeros((0, children)), *(left[id(each)].T for each in found.crossing)])
    pull = np.asarray(stacked.sums.T @ (weights * answers), dtype=np.float64)
    group_pull = np.zeros((children, 1)) if found.group is None else group_weight[:, None] * left[id(found.group)]
    linear = np.empty(int(sizes.sum()))
    linear_terms(
        class_first,
        cell,
        live_first,
        live,
        base,
        joint,
        weight,
        np.ascontiguousarray(left[id(found.own)]),
        np.ascontiguousarray(group_pull),
        group[cell],
        np.ascontiguousarray(parts.T @ pull),
        linear,
    )
    return NestedFamily(
        support=support,
        classes=classes,
        settled=settled,
        cell=cell,
        cell_first=cell_first,
        group_first=group_first,
        class_first=class_first,
        number=number,
        counted=group[cell[cell_first[:-1]]] >= 0,
        live_first=live_first,
        live=live,
        base=base,
        unknowns=int(sizes.sum()),
        known=classes.known[number],
        targets=classes.people[live, number[position]],
        needed=needed,
        stacked=stacked,
        rows=np.ascontiguousarray(rows),
        joint=joint,
        parts=parts,
        blocks=blocks,
        weighting=weighting,
        weight=weight,
        group_weight=group_weight,
        weights=weights,
        linear=linear,
        constant=constant,
        steady=steady,
        alone=left[id(found.own)],
        unit=unit,
        ignored=False,
    )


def _blocks(
    rows: Integers, of_cell: Integers, live: Booleans, weighting: Integers, stacked: Stack
) -> tuple[Block, ...]:
    """Stacked rows that classes, or answers, tie together."""
    if not len(rows) or not rows.size:
        return ()
    count, width = live.shape[1], stacked.rows
    of_row = (np.ones(rows.size), (np.tile(of_cell, len(rows)), count + rows.ravel()))
    answers = stacked.sums.tocoo()
    of_answer = (np.ones(len(answers.data)), (count + width + answers.row, count + answers.col))
    nodes = count + width + answers.shape[0]
    graph = sp.csr_matrix(of_row, shape=(nodes, nodes)) + sp.csr_matrix(of_answer, shape=(nodes, nodes))
    _, label = connected_components(graph, directed=False)
    used = np.bincount(rows.ravel(), minlength=width) > 0
    blocks = []
    for each in np.unique(label[:count]):
        (classes,) = np.nonzero(label[:count] == each)
        (own,) = np.nonzero((label[count : count + width] == each) & used)
        (children,) = np.nonzero(live[:, classes].any(axis=1))
        described = np.column_stack([weighting[children], live[np.ix_(children, classes)]])
        kinds, kind = np.unique(described, axis=0, return_inverse=True)
        order = np.argsort(kind.ravel(), kind="stable")
        members = kinds[:, 1:].astype(np.bool_)
        blocks.append(Block(own, classes, children[order], kind.ravel()[order], members, kinds[:, 0]))
    return tuple(blocks)


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


@dataclass(slots=True, eq=False)
class Inverses:
    """What turns stacked sums of the first step into corrections, for one block (E-79, E-80)."""

    middle: Floats  # M of each set of weights, shape (sets, r, r)
    rest: Floats  # (1 + O M)^-1 of each kind, shape (kinds, r, r)
    mean: Floats | None  # inverse of the sum of `rest` over children; None where the mean's curvature is kept


@dataclass(slots=True, eq=False)
class Iterates:
    """What iterations change.

    Attributes:
        family: The family.
        rho: Penalty of the division of cells.
        scale: a of each set of weights.
        coupling: What couples the cells of each group, shape ``(sets, groups)``.
        share: What a class's multiplier takes from each cell of each group, likewise.
        inverse_sum: Inverse of the sum of that over the class's cells, shape ``(sets, C)``; 0 where nothing is known.
        inverses: Of each block.
        split: Points that divide the parent's cells exactly, shape ``(unknowns,)``.
        dual: Their scaled multipliers.
        price: Multiplier of each cell's sum, shape ``(N,)``.
        step: Points before the correction by stacked sums.
        combined: Sums of `step` by combination of stacked rows, shape ``(combinations, K)``.
        shift: Corrections of stacked rows, shape ``(r, K)``.
        pulled: M times the mean of the stacked sums, shape ``(r,)``.
        work: Room for the largest class.
        sums: Room for the sums of its groups.
        iterations: How many were made.
    """

    family: NestedFamily
    rho: float
    scale: Floats
    coupling: Floats
    share: Floats
    inverse_sum: Floats
    inverses: list[Inverses]
    split: Floats
    dual: Floats
    price: Floats
    step: Floats
    combined: Floats
    shift: Floats
    pulled: Floats
    work: Floats
    sums: Floats
    iterations: int = 0


def begin(family: NestedFamily, rho: float) -> Iterates:
    """Start where every class is divided in proportion, with the prices that this has."""
    widths = np.diff(family.live_first)
    largest = int((np.diff(family.class_first) * widths).max(initial=0))
    rows, children = family.stacked.rows, family.support.children
    none = np.zeros(0)
    state = Iterates(
        family=family,
        rho=rho,
        scale=none,
        coupling=none,
        share=none,
        inverse_sum=none,
        inverses=[],
        split=_start(family),
        dual=np.zeros(family.unknowns),
        price=np.zeros(len(family.cell)),
        step=np.zeros(family.unknowns),
        combined=np.zeros((family.parts.shape[1], children)),
        shift=np.zeros((rows, children)),
        pulled=np.zeros(rows),
        work=np.zeros(largest),
        sums=np.zeros(int(((np.diff(family.group_first) + 1) * widths).max(initial=0))),
    )
    if family.support.parent is not None:
        _warm(state)
    set_penalty(state, rho)
    return state


def _start(family: NestedFamily) -> Floats:
    """Points that keep both margins; at the root, noisy cells brought to their class's people."""
    points = np.empty(family.unknowns)
    sizes = family.support.sizes()
    for kind, start in enumerate(family.base):
        cells = slice(int(family.class_first[kind]), int(family.class_first[kind + 1]))
        own = slice(int(family.live_first[kind]), int(family.live_first[kind + 1]))
        children, needed = family.live[own], family.needed[cells]
        shape = (len(needed), len(children))
        part = points[start : start + shape[0] * shape[1]].reshape(shape)
        if family.support.parent is None:
            free = family.alone[0, family.cell[cells]]
            part[:, 0] = _divided(free, float(family.targets[own][0])) if family.known[kind] else np.maximum(free, 0.0)
            continue
        share = family.targets[own] if family.known[kind] else sizes[children]
        part[:] = needed[:, None] * (share / share.sum())
    return points


def _divided(free: Floats, people: float) -> Floats:
    """The nearest nonnegative numbers that sum to what there is (E-44)."""
    order = -np.sort(-free)
    above = (np.cumsum(order) - people) / np.arange(1, len(free) + 1)
    last = int(np.flatnonzero(order > above)[-1]) if people > 0 else 0
    level = above[last] if people > 0 else np.inf
    return np.asarray(np.maximum(free - level, 0.0), dtype=np.float64)


def _summed(family: NestedFamily, points: Floats) -> Floats:
    """Stacked sums of points, shape ``(r, K)``."""
    from das_spark.estimation._nested_sweep import stacked_sums  # noqa: PLC0415

    found = np.zeros((family.parts.shape[1], family.support.children))
    stacked_sums(family.class_first, family.live_first, family.live, family.base, family.joint, points, found)
    return np.asarray(family.parts @ found, dtype=np.float64)


def _pulled(family: NestedFamily, stacked: Floats) -> Floats:
    """M times stacked sums, child by child, shape ``(r, K)``."""
    answers = family.weights * (family.stacked.sums @ stacked)
    return np.ascontiguousarray(family.stacked.sums.T @ answers, dtype=np.float64)


def _gradient(family: NestedFamily, points: Floats, pulled: Floats) -> Floats:
    from das_spark.estimation._nested_sweep import gradients  # noqa: PLC0415

    found = np.empty(family.unknowns)
    gradients(
        family.group_first,
        family.cell_first,
        family.live_first,
        family.live,
        family.base,
        family.joint,
        family.weight,
        family.group_weight,
        family.counted,
        family.linear,
        np.ascontiguousarray(family.parts.T @ pulled),
        points,
        found,
    )
    return found


def _class_means(family: NestedFamily, price: Floats, gradient: Floats, points: Floats) -> Floats:
    from das_spark.estimation._nested_sweep import class_means  # noqa: PLC0415

    found = np.empty(len(family.live))
    class_means(family.class_first, family.live_first, family.base, family.known, price, gradient, points, found)
    return found


def _cell_means(family: NestedFamily, multipliers: Floats, gradient: Floats, points: Floats) -> Floats:
    from das_spark.estimation._nested_sweep import cell_means  # noqa: PLC0415

    found = np.zeros(len(family.cell))
    cell_means(family.class_first, family.live_first, family.base, multipliers, gradient, points, found)
    return found


def _warm(state: Iterates) -> None:
    """Prices of cells at the start: means of the gradient, less what it has in common over each class of a child."""
    family = state.family
    pulled = _pulled(family, _summed(family, state.split))
    if family.alike:
        pulled = pulled - _mean_pull(family, state.split)[:, None]
    gradient = _gradient(family, state.split, np.ascontiguousarray(pulled))
    multipliers = _class_means(family, state.price, gradient, state.split)
    state.price = -_cell_means(family, multipliers, gradient, state.split) / state.rho
    widths = np.diff(family.live_first)
    state.dual = np.repeat(state.price, np.repeat(widths, np.diff(family.class_first)))


def _mean_pull(family: NestedFamily, points: Floats) -> Floats:
    """M times the mean of stacked sums over the children of each block."""
    stacked = _summed(family, points)
    mean = np.zeros(stacked.shape[0])
    for block in family.blocks:
        mean[block.rows] = stacked[np.ix_(block.rows, block.children)].mean(axis=1)
    return np.asarray(family.stacked.sums.T @ (family.weights[:, 0] * (family.stacked.sums @ mean)), dtype=np.float64)


def set_penalty(state: Iterates, rho: float) -> None:
    """Change the penalty: multipliers keep their value in people's units, all inverses are made again."""
    from das_spark.estimation._nested_sweep import begun  # noqa: PLC0415

    family = state.family
    state.dual *= state.rho / rho
    state.price *= state.rho / rho
    state.rho = rho
    sets = int(family.weighting.max(initial=0)) + 1
    typical = [int(np.argmax(family.weighting == each)) for each in range(sets)]
    base = family.weight[typical] + rho
    sizes = np.diff(family.cell_first).astype(np.float64)
    group = np.where(family.counted, family.group_weight[typical][:, None], 0.0)
    state.scale = 1.0 / base
    state.share = 1.0 / (base[:, None] + group * sizes)
    state.coupling = (state.scale[:, None] - state.share) / sizes
    whole = np.add.reduceat(state.share * sizes, family.group_first[:-1], axis=1) if len(sizes) else state.share
    state.inverse_sum = np.where(family.known, 1.0 / whole, 0.0)
    state.inverses = [_inverses(state, each, typical) for each in family.blocks]
    begun(
        family.group_first,
        family.cell_first,
        family.live_first,
        family.live,
        family.base,
        family.joint,
        family.weighting,
        state.scale,
        state.coupling,
        state.share,
        state.inverse_sum,
        family.targets,
        family.linear,
        rho,
        state.split,
        state.dual,
        state.step,
        state.sums,
        state.combined,
    )


def _inverses(state: Iterates, block: Block, typical: list[int]) -> Inverses:
    """Invert for every kind of children of a block (E-79), and for their mean (E-80)."""
    from das_spark.estimation._nested_sweep import overlaps  # noqa: PLC0415

    family, size = state.family, len(block.rows)
    local = np.full(family.stacked.rows, -1, dtype=np.int64)
    local[block.rows] = np.arange(size)
    middle = np.stack([_middle(family, block.rows, child) for child in typical])
    overlap = np.zeros((len(block.members), size, size))
    for each in np.unique(block.weighting):
        (own,) = np.nonzero(block.weighting == each)
        found = np.zeros((len(own), size, size))
        overlaps(
            block.classes,
            np.ascontiguousarray(block.members[own]),
            family.group_first,
            family.cell_first,
            family.rows,
            local,
            float(state.scale[each]),
            state.coupling[each],
            np.repeat(state.share[each], np.diff(family.cell_first)),
            state.inverse_sum[each],
            found,
        )
        overlap[own] = found
    matrix = overlap @ (middle[0] if family.alike else middle[block.weighting])
    matrix += np.eye(size)
    rest = np.linalg.inv(matrix)
    mean = None
    if family.alike and family.support.parent is not None:
        mean = np.linalg.inv(np.tensordot(np.bincount(block.kind, minlength=len(rest)).astype(np.float64), rest, 1))
    return Inverses(middle, rest, mean)


def _middle(family: NestedFamily, rows: Integers, child: int) -> Floats:
    part = sp.csc_matrix(family.stacked.sums[:, rows])
    weighted = sp.diags_array(family.weights[:, child]) @ part
    return np.asarray((part.T @ weighted).toarray(), dtype=np.float64)


RELAXATION: Final = 1.6
"""Over-relaxation of each step."""


def iterate(state: Iterates) -> None:
    """Make one iteration."""
    from das_spark.estimation._nested_sweep import sweep_nested  # noqa: PLC0415

    family = state.family
    stacked = np.asarray(family.parts @ state.combined, dtype=np.float64)
    for block, inverses in zip(family.blocks, state.inverses, strict=True):
        _correct(state, block, inverses, stacked)
    sweep_nested(
        family.group_first,
        family.cell_first,
        family.live_first,
        family.live,
        family.base,
        family.joint,
        family.weighting,
        state.scale,
        state.coupling,
        state.share,
        state.inverse_sum,
        family.targets,
        np.zeros(family.support.children),
        family.linear,
        state.rho,
        RELAXATION,
        family.needed,
        np.ascontiguousarray(family.parts.T @ state.shift),
        state.split,
        state.dual,
        state.price,
        state.step,
        state.work,
        state.sums,
        state.combined,
    )
    state.iterations += 1


def _correct(state: Iterates, block: Block, inverses: Inverses, stacked: Floats) -> None:
    """Corrections of a block's rows from the stacked sums of the first step (E-80)."""
    place = np.ix_(block.rows, block.children)
    given = stacked[place]
    if inverses.mean is not None:
        together = np.zeros((len(inverses.rest), len(block.rows)))
        np.add.at(together, block.kind, given.T)
        mean = inverses.mean @ np.matmul(inverses.rest, together[:, :, None]).sum(axis=0)[:, 0]
        given = given - mean[:, None]
        state.pulled[block.rows] = inverses.middle[0] @ mean
    weighting = block.weighting[block.kind]
    if len(inverses.rest) == 1:
        near = inverses.rest[0] @ given
    elif len(inverses.rest) == len(block.children):
        near = np.matmul(inverses.rest, given.T[:, :, None])[:, :, 0].T
    else:
        near = np.empty(given.shape)
        for kind, rest in enumerate(inverses.rest):
            own = slice(*np.searchsorted(block.kind, (kind, kind + 1)))
            near[:, own] = rest @ given[:, own]
    if state.family.alike:
        found = inverses.middle[0] @ near
    else:
        found = np.empty(given.shape)
        for each in np.unique(weighting):
            own = weighting == each
            found[:, own] = inverses.middle[each] @ near[:, own]
    state.shift[place] = found


PENALTIES: Final = ((0, 1.0), (20, 20.0), (70, 60.0))
"""Penalty from an iteration on, in units of the weight of single cells."""
FIRST_LOOK: Final = 20
DECADE: Final = 8
NEXT_LOOK: Final = 8
"""The gap costs some iterations: it is asked for after 20 of them, then 8 for each power of 10 that it is too large."""
SAFETY: Final = 0.5
"""Share of the tolerance that our own gap must reach before the certificate is asked for."""
MOST_ITERATIONS: Final = 1500
RAKINGS: Final = 30
EXACT: Final = 1e-12
"""Violation at which raking ends, relative to max(1, what is violated); beyond, what is left is moved."""


def solve_nested(support: Support, proof: Proof, tolerance: float) -> Proposal | None:
    """Iterate until the family's certificate holds.

    Args:
        support: The family.
        proof: Its certificate.
        tolerance: Relative gap at which that is asked for.

    Returns:
        The estimate; None where the method does not serve (`nested_family`), or where bounds that it does not know of
        turn out to bind.
    """
    family = nested_family(support)
    if family is None:
        return None
    penalties, look = dict(PENALTIES), FIRST_LOOK
    state = begin(family, penalties[0])
    while True:
        if family.unknowns:
            iterate(state)
        if not family.unknowns or state.iterations >= look or state.iterations >= MOST_ITERATIONS:
            found = _candidate(state)
            last = state.iterations >= MOST_ITERATIONS or not family.unknowns or not np.isfinite(found.gap)
            if found.gap <= SAFETY * tolerance or last:
                proved = proof(found.candidate())
                if proved.certified or last or _in_vain(family, proved, tolerance):
                    return _proposal(family, found.candidate(), proved, state.iterations)
            look = state.iterations + max(NEXT_LOOK, int(DECADE * np.log10(max(found.gap, 1.0e-300) / tolerance)))
        if state.iterations in penalties:
            set_penalty(state, penalties[state.iterations])


def _in_vain(family: NestedFamily, proved: Certificate, tolerance: float) -> bool:
    """Whether all is proved but for bounds that the iterations do not know of."""
    return family.ignored and abs(proved.gap) <= tolerance


def _proposal(family: NestedFamily, candidate: Candidate, proved: Certificate, iterations: int) -> Proposal | None:
    if family.ignored and not proved.certified:
        return None
    return Proposal(candidate, Status.OPTIMAL if proved.certified else Status.LIMIT, iterations)


@dataclass(slots=True, eq=False)
class Found:
    """Raked points with multipliers; weights are divided by the unit."""

    family: NestedFamily
    points: Floats  # shape (unknowns,)
    price: Floats  # of each open cell
    multipliers: Floats  # of each class and child, as in `live`
    gap: float  # relative distance from the bound that these multipliers prove
    made: Candidate | None = None

    def candidate(self) -> Candidate:
        """The estimate of all cells, with its multipliers in people's units."""
        if self.made is None:
            self.made = self._made()
        return self.made

    def _made(self) -> Candidate:
        from das_spark.estimation._nested_sweep import spread_points  # noqa: PLC0415

        family, problem = self.family, self.family.support.problem
        x = family.settled.copy()
        spread_points(family.class_first, family.cell, family.live_first, family.live, family.base, self.points, x)
        prices = np.zeros(x.shape[1])
        prices[family.cell] = 2.0 * family.unit * self.price
        hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
        partition = family.classes.partition
        if partition is not None:
            value = np.zeros((len(x), partition.rows))
            kind = np.repeat(np.arange(len(family.base)), np.diff(family.live_first))
            row = family.classes.row[family.number[kind]]
            slope = 2.0 * family.unit * self.multipliers + family.steady[family.live, family.number[kind]]
            value[family.live[row >= 0], row[row >= 0]] = slope[row >= 0]
            self._settle(x, value, partition)
            hand_out(problem, partition, value, hints)
        return Candidate(x, None, prices, tuple(hints), None)

    def _settle(self, x: Floats, value: Floats, partition: Partition) -> None:
        """Multipliers of classes of one cell: its gradient."""
        family = self.family
        sizes = np.bincount(family.classes.index, minlength=len(family.classes.known))
        (cells,) = np.nonzero(((sizes == 1) & family.classes.known)[family.classes.index])
        if not len(cells):
            return
        gradient = np.zeros((len(x), len(cells)))
        for each in family.support.partitions:
            if each.weight.any():
                residual = each.weight[:, None] * (sums(x, each.index, each.rows) - each.values)
                index = each.index[cells]
                gradient += np.where(index >= 0, 2.0 * residual[:, index], 0.0)
        value[:, partition.index[cells]] = gradient


def _candidate(state: Iterates) -> Found:
    """The current point, raked, with its multipliers and gap (E-82, E-83)."""
    from das_spark.estimation._nested_sweep import raked_classes, shortfall  # noqa: PLC0415

    family = state.family
    points = state.split.copy()
    if not family.unknowns:
        return Found(family, points, state.price, np.zeros(len(family.live)), 0.0)
    raked_classes(
        family.class_first,
        family.live_first,
        family.base,
        family.known,
        family.targets,
        family.needed,
        RAKINGS,
        EXACT,
        points,
        state.sums,
    )
    stacked = _summed(family, points)
    pulled = _pulled(family, stacked)
    gradient = _gradient(family, points, pulled)
    price = np.zeros(len(family.cell))
    if family.support.parent is not None:
        price = -state.rho * state.price
        for part in range(len(family.rows)):
            price = price + state.pulled[family.rows[part]]
    best: Found | None = None
    half = 0.5 * float(points @ (gradient - family.linear))
    objective = family.constant + 2.0 * family.unit * half
    for _ in range(1 if family.support.parent is None else 2):
        multipliers = _class_means(family, price, gradient, points)
        short = shortfall(
            family.class_first,
            family.live_first,
            family.live,
            family.base,
            family.known,
            family.targets,
            family.needed,
            family.weight,
            price,
            multipliers,
            gradient,
            points,
        )
        found = Found(family, points, price, multipliers, 2.0 * family.unit * short / max(1.0, objective))
        if best is None or found.gap < best.gap:
            best = found
        price = _cell_means(family, multipliers, gradient, points) if family.support.parent is not None else price
    assert best is not None  # noqa: S101
    return best
