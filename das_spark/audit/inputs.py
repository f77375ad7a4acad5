"""Synthetic neighbouring inputs: a small spine, few records, and one record that is another one in the second input.

Where a contributor has several records, all of them are others in the second input, and alike, so that the answers of a
query change by as much as the noise provides for.

The record changes its cell and, where the invariants leave it free, moves to another geounit: the two geounits lie in
the same geounit of the level whose totals are invariant, each on its own path below it. So every query at every level
answers differently, as far as the invariants allow. Every geounit on the two paths has a sibling (single children are
not measured), whose own descendants are single children.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.audit.system import SmallPopulation, declared_bounds
from das_spark.config import RunPlan, neighbors_of
from das_spark.errors import ConfigurationError, PrivacyGuardError
from das_spark.geography import Spine
from das_spark.privacy import Mechanism, l1_sensitivity

Cells = NDArray[np.int64]

#: Records in a leaf that are like the one that is replaced: standard deviations of the widest noise, and limits.
_DEVIATIONS: Final = 4
_FEWEST, _MOST = 12, 20_000
_LONE: Final = 3
_SIGNS: Final = 36  # digits and capital letters, of codes that geounits have by themselves


@dataclass(frozen=True, slots=True)
class WatchedAnswer:
    """A measured answer that an attacker looks at."""

    geolevel: str  # of the geounit
    query: str
    geocode: str
    row: int  # the answer
    first: int  # exact answer under the first input
    second: int  # under the second one: as many more or less as a contributor has records, or the same
    mechanism: Mechanism  # distribution of the declared noise

    @property
    def differs(self) -> bool:
        """Whether the exact answer depends on the input."""
        return self.first != self.second

    @property
    def text(self) -> str:
        """The answer in words."""
        return f"{self.query}[{self.row}] of {self.geolevel} {self.geocode}"


@dataclass(frozen=True, slots=True, eq=False)
class NeighbouringInputs:
    """Two small populations that differ in one record, or in all records of one contributor."""

    name: str  # of the pair
    text: str  # what it is, in a sentence
    first: SmallPopulation  # the first population
    second: SmallPopulation  # the second one
    leaves: tuple[str, str]  # leaf of the replaced record under each
    cells: tuple[int, int]  # cell of the replaced record under each
    answers: tuple[WatchedAnswer, ...]  # every measured answer that differs, and some that do not, level by level
    exercised: Fraction  # part of the total budget that is spent on those that differ, exact
    by: int = 1  # by how much these differ

    @property
    def mechanisms(self) -> Mapping[Mechanism, int]:
        """Distribution of the declared noise -> number of answers that differ and have it."""
        return Counter(one.mechanism for one in self.answers if one.differs)


def neighbouring_inputs(plan: RunPlan) -> tuple[NeighbouringInputs, ...]:
    """Two pairs: the replaced record is one of many alike ("crowd"), or the only one of its kind ("lone")."""
    spot = _spot(plan)
    return _pair(plan, spot, crowded=True), _pair(plan, spot, crowded=False)


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where the replaced record is, and among which leaves."""

    leaves: tuple[str, str]  # its leaf under each input
    cells: tuple[int, int]  # its cell under each input
    every: tuple[str, ...]  # all leaves of the small spine, ascending


def _spot(plan: RunPlan) -> _Spot:
    spine, divides_at = plan.spine, _divides_at(plan)
    ends, leaves = ["", ""], set()
    for depth in range(len(spine.levels)):
        for side in (0, 1):
            away = side == 1 and depth == divides_at
            if depth > 0 and depth != divides_at:
                leaves.add(_leaf(ends[side] + _digits(spine, depth, 2), spine, depth))
            ends[side] += _digits(spine, depth, 2 if away else 1)
    every = told_apart(leaves | set(ends), spine)
    return _Spot((every[ends[0]], every[ends[1]]), _cells(plan, divides_at), tuple(sorted(every.values())))


def told_apart(leaves: Collection[str], spine: Spine) -> dict[str, str]:
    """Leaves by geocodes that can be, where geounits have codes of their own: numbered over all of their level.

    Args:
        leaves: Geocodes of the lowest level, nested by prefix.
        spine: Of the run.

    Returns:
        Geocode -> geocode, in the same order; the same where codes nest.
    """
    if not spine.own_codes:
        return {leaf: leaf for leaf in leaves}
    found = dict.fromkeys(leaves, "")
    for begin, end in spine.own_codes.values():
        above = sorted({leaf[:end] for leaf in leaves})
        for leaf in leaves:
            found[leaf] += np.base_repr(above.index(leaf[:end]) + 1, _SIGNS).zfill(end - begin)
    return found


def _divides_at(plan: RunPlan) -> int:
    """The first level at which the record may lie in another geounit; below the leaf where totals are exact there."""
    exact = exact_at(plan)
    if exact is not None:
        return plan.spine.index(exact) + 1
    return 0 if plan.spine.levels[0].length else 1


def exact_at(plan: RunPlan) -> str | None:
    """Return the lowest geolevel at which the number of records is exact, so that none can leave a geounit of it.

    Args:
        plan: The run.
    """
    return next(iter(neighbors_of(plan).exact_at(plan.product.noun)), None)


def _digits(spine: Spine, depth: int, number: int) -> str:
    """The digits that a level adds to a geocode; none at a root of length 0."""
    width = spine.levels[depth].length - (spine.levels[depth - 1].length if depth else 0)
    return f"{number:0{width}d}" if width else ""


def _leaf(geocode: str, spine: Spine, depth: int) -> str:
    """The only leaf below a geounit."""
    return geocode + "".join(_digits(spine, below, 1) for below in range(depth + 1, len(spine.levels)))


def allowed_cells(plan: RunPlan) -> Cells:
    """The cells in which a record can be, ascending.

    Args:
        plan: The run.
    """
    return np.flatnonzero(~plan.product.zero_cells())


def _cells(plan: RunPlan, divides_at: int) -> tuple[int, int]:
    """The first cell in which somebody can be, and the one that differs from it in most of the budget."""
    allowed = allowed_cells(plan)
    if len(allowed) < 2:  # noqa: PLR2004 - a record needs another cell to be in
        raise ConfigurationError(f"product {plan.product.name}: no record can be replaced by another one")
    spent = np.zeros(len(allowed) - 1)
    for level in plan.budget.levels[: max(divides_at, 1)]:
        for item in level.queries:
            rows = plan.queries[item.query].row_of(allowed)
            spent += float(level.share * item.share) * (rows[1:] != rows[0])
    # Of equals the last one, which differs in most attributes.
    return int(allowed[0]), int(allowed[len(spent) - int(np.argmax(spent[::-1]))])


def _pair(plan: RunPlan, spot: _Spot, *, crowded: bool) -> NeighbouringInputs:
    people = _crowd(plan) if crowded else _LONE
    own = plan.budget.at_most
    base = np.zeros((len(spot.every), plan.product.schema.size), dtype=np.int64)
    for cell in spot.cells if crowded else _companions(plan, spot.cells):
        base[:, cell] += people
    both = [_with(own, base, spot.every.index(at), cell) for at, cell in zip(spot.leaves, spot.cells, strict=True)]
    first, second = (SmallPopulation(spot.every, counts, units_for(plan, base, counts)) for counts in both)
    _require_neighbours(plan, first, second)
    answers = _watched(plan, first, second)
    queries = dict.fromkeys((one.geolevel, one.query) for one in answers if one.differs)
    return NeighbouringInputs(
        name="crowd" if crowded else "lone",
        text=_text(first, spot, own, f"{people:,} others of either kind in every leaf" if crowded else ""),
        first=first,
        second=second,
        leaves=spot.leaves,
        cells=spot.cells,
        answers=answers,
        exercised=sum((plan.budget.spent(*query) for query in queries), Fraction(0)),
        by=own,
    )


def _text(population: SmallPopulation, spot: _Spot, own: int, alike: str) -> str:
    replaced = (
        f"one of them, in cell {spot.cells[0]} of {spot.leaves[0]}, is replaced by one in cell "
        if own == 1
        else f"the {own} of one contributor, in cell {spot.cells[0]} of {spot.leaves[0]}, are replaced by as many in "
        "cell "
    )
    return (
        f"{'crowd' if alike else 'lone'}: {population.counts.sum():,} synthetic records in {len(spot.every)} leaf "
        f"geounits; {replaced}"
        f"{spot.cells[1]} of {spot.leaves[1]}, beside {alike or 'nobody else of the second kind'}"
    )


def _with(own: int, base: Cells, leaf: int, cell: int) -> Cells:
    """The records of the contributor besides those of all others."""
    counts = base.copy()
    counts[leaf, cell] += own
    return counts


def _crowd(plan: RunPlan) -> int:
    """Records of a kind in a leaf: so many that estimates of none are rare under the widest noise."""
    widest = max(
        plan.budget.mechanism(level.geolevel, item.query).variance()
        for level in plan.budget.levels
        for item in level.queries
    )
    return min(max(_FEWEST, math.ceil(_DEVIATIONS * math.sqrt(widest))), _MOST)


def _companions(plan: RunPlan, cells: tuple[int, int]) -> tuple[int, ...]:
    """Cells of other records, such that the units that hold them can hold the replaced one as well."""
    if not plan.product.class_query:
        return (cells[0],)
    allowed = allowed_cells(plan)
    classes = plan.product.schema.query(plan.product.class_query).row_of(allowed)
    found = []
    for cell in cells:
        like = allowed[(classes == classes[allowed == cell]) & ~np.isin(allowed, cells)]
        found.append(int(like[0]) if len(like) else cell)
    return tuple(found)


def units_for(plan: RunPlan, base: Cells, counts: Cells) -> Cells:
    """Units of each class: the records themselves, where units are counted; else as few as hold people, and one more.

    Args:
        plan: The run.
        base: Records by leaf and cell, (K, cells), but for the one that is another one in the neighbour.
        counts: All records, (K, cells).

    Returns:
        By leaf and class, (K, classes).
    """
    product = plan.product
    if product.listed or not product.class_query or product.unit_bounds is None:
        units = np.zeros((len(base), len(product.unit_classes)), dtype=np.int64)
        units[:, 0] = counts.sum(axis=1) if product.record == "unit" else base.sum(axis=1) + plan.budget.at_most
        return units
    people = product.schema.query(product.class_query).answer_dense(base)
    room = np.maximum(np.asarray(product.unit_bounds.most, dtype=np.int64), 1)
    return np.where(people > 0, -(-(people + plan.budget.at_most) // room), 0)


def _require_neighbours(plan: RunPlan, first: SmallPopulation, second: SmallPopulation) -> None:
    """The claim is about inputs that agree in every invariant: an audit of others would convict nobody rightly."""
    changed = np.abs(first.counts - second.counts).sum()
    alike = np.array_equal(first.units, second.units)
    if (
        changed != l1_sensitivity(plan.budget.at_most)
        or not alike
        or declared_bounds(plan, first) != declared_bounds(plan, second)
    ):
        raise PrivacyGuardError("the synthetic inputs are no neighbours within the declared invariants")


def _watched(plan: RunPlan, first: SmallPopulation, second: SmallPopulation) -> tuple[WatchedAnswer, ...]:
    """Every answer that differs; and those of other queries with the same number, which would share careless noise."""
    spine, found = plan.spine, []
    for depth, level in enumerate(plan.budget.levels):
        codes = first.codes(spine, depth)
        sums = [side.summed(side.counts, spine, depth) for side in (first, second)]
        names = [item.query for item in level.queries]
        answers = {name: [plan.queries[name].answer_dense(side) for side in sums] for name in names}
        differing = {name: np.argwhere(one != other).tolist() for name, (one, other) in answers.items()}
        places = sorted({(place, row) for pairs in differing.values() for place, row in pairs})
        for name, (one, other) in answers.items():
            mechanism = plan.budget.mechanism(level.geolevel, name)
            found += [
                WatchedAnswer(
                    level.geolevel, name, codes[place], row, int(one[place, row]), int(other[place, row]), mechanism
                )
                for place, row in places
                if row < one.shape[1]
            ]
    return tuple(found)
