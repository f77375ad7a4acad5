"""Rules on the histograms of estimates: possible ones, within their bounds, that sum up along the spine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from das_spark.core import GROUP_TOTAL
from das_spark.verification.families import (
    NOWHERE,
    FamilyRule,
    Found,
    Key,
    Lists,
    alike,
    differing_lines,
    names_of,
    summed,
)
from das_spark.verification.geounits import keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.constraints import StructuralZero
    from das_spark.histogram import Query, Schema
    from das_spark.verification.families import Families, Rows

RELAXED: Final = "consistency relaxed"
UNKNOWN: Final = "no query of that name is known"
NONNEGATIVE: Final = "nonnegative"
CHILDREN: Final = "children sum to parents"
#: Of bounds whose rows say nothing about one answer of one geounit; members are checked at their own level.
_FLOW: Final = "flow"
#: Zeros that are looked for at once: a bit each.
_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class HistogramsPossible(FamilyRule):
    """Rules on each histogram alone: `nonnegative`, and one a structural zero.

    Counts are positive whole numbers of cells that exist, each cell once and in ascending order; nobody is in a cell in
    which nobody can be.
    """

    needs: ClassVar = ("estimates",)

    levels: Sequence[str]
    schema: Schema
    zeros: Sequence[StructuralZero]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One of each rule at each level."""
        names = [NONNEGATIVE, *(_zero_name(zero) for zero in self.zeros)]
        return tuple(key for name in names for key in keys(name, self.levels))

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows, size = families.rows("estimates"), len(families.geocodes)
        if not len(rows):
            return
        cells = rows.lists("cells")
        inside = (cells.values >= 0) & (cells.values < self.schema.size)
        bad = np.bincount(rows.geounit[~are_possible(rows, self.schema.size)], minlength=size) > 0
        yield Found(NONNEGATIVE, len(rows), names_of(families.geocodes, bad))
        for begin in range(0, len(self.zeros), _BITS):
            some = tuple(self.zeros[begin : begin + _BITS])
            met = np.where(inside, _zero_bits(self.schema, some)[np.where(inside, cells.values, 0)], 0)
            where = np.flatnonzero(met)
            for place, zero in enumerate(some):
                mine = where[(met[where] >> place) & 1 == 1]
                inhabited = np.bincount(rows.geounit[cells.row[mine]], minlength=size) > 0 if len(mine) else None
                failing = [] if inhabited is None else names_of(families.geocodes, inhabited)
                yield Found(_zero_name(zero), len(rows) * _cells_of(zero, self.schema), failing)


def are_possible(rows: Rows, size: int) -> NDArray[np.bool_]:
    """Say which histograms have positive counts of cells below a size, each once and in ascending order."""
    cells, counts = rows.lists("cells"), rows.lists("counts")
    whole = cells.whole & counts.whole & (cells.lengths == counts.lengths)
    right = (cells.values >= 0) & (cells.values < size)
    ascending = np.ones(len(cells.values), dtype=np.bool_)
    ascending[1:] = np.diff(cells.values) > 0
    ascending[cells.offsets[:-1][cells.lengths > 0]] = True  # the first of a histogram has none before it
    return np.asarray(whole & ~cells.any_of(~(ascending & right)) & ~counts.any_of(counts.values <= 0))


def _zero_name(zero: StructuralZero) -> str:
    return f"structural zero {zero.name}"


@cache
def _zero_bits(schema: Schema, zeros: tuple[StructuralZero, ...]) -> NDArray[np.int64]:
    """Of each cell a bit for every structural zero that it is in."""
    bits = np.zeros(schema.size, dtype=np.int64)
    for place, zero in enumerate(zeros):
        bits |= zero.mask(schema).astype(np.int64) << place
    return bits


def _cells_of(zero: StructuralZero, schema: Schema) -> int:
    """How many cells a structural zero names."""
    named = {name: len(set(levels)) for name, levels in zero.selection}
    return prod(named.get(attribute.name, attribute.size) for attribute in schema.attributes)


@dataclass(frozen=True, slots=True)
class ChildrenSum(FamilyRule):
    """The children of every geounit sum to it, cell by cell.

    Attributes:
        levels: Those of children.
        relaxed: Level -> parents whose families are exempt.
    """

    needs: ClassVar = ("estimates", "above_geounits", "above_estimates")

    levels: Sequence[str]
    relaxed: Mapping[str, tuple[str, ...]]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level below the top."""
        return tuple((CHILDREN, level, self._note(level)) for level in self.levels)

    def _note(self, level: str) -> str:
        return RELAXED if self.relaxed.get(level) else ""

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        if families.level not in self.levels:
            return
        differs = differing(families, ("above_estimates", "estimates"))
        looked = len(families.rows("above_geounits")) + len(families.cells("estimates").cell)
        exempt = self.relaxed.get(families.level, ())
        failing = names_of(families.names, differs)
        if exempt:
            every = families.names.to_pylist()
            failing = sorted(every[place] for place in np.flatnonzero(differs) if every[place] not in exempt)
        yield Found(CHILDREN, looked, failing, self._note(families.level))


def differing(families: Families, tables: tuple[str, str], *, by_family: bool = True) -> NDArray[np.bool_]:
    """Say of families, or of geounits, whether the histograms of two tables sum to other counts in any cell."""
    number = len(families.names if by_family else families.geocodes)
    differs = np.zeros(number, dtype=np.bool_)
    sides = []
    for table, sign in zip(tables, (-1, 1), strict=True):
        rows, cells = families.rows(table), families.cells(table)
        index = rows.family if by_family else rows.geounit
        # Lists of different lengths are no histogram: what has them differs, and they are not added up.
        differs[index[cells.crooked]] = True
        sides.append((index[cells.row], cells.cell, cells.count * sign))
    place, cell, count = (np.concatenate(each) for each in zip(*sides, strict=True))
    if len(cell):
        lowest = int(cell.min())
        span = int(cell.max()) - lowest + 1
        differs |= differing_lines(place * span + (cell - lowest), count, span, number)[0]
    return differs


@dataclass(frozen=True, slots=True)
class BoundsKept(FamilyRule):
    """Every bound row holds, answer by answer; one check a kind of bound that a level has.

    Families that the failsafe relaxed are no exception: what it gives up is the sum to the parent (E-30 to E-34).

    Attributes:
        queries: Name of a bound -> the query whose answers it bounds.
        grouped: Whether totals are those of groups, which `GroupBoundsKept` judges.
    """

    needs: ClassVar = ("estimates", "bounds")

    queries: Mapping[str, Query]
    grouped: bool = False

    @property
    def expected(self) -> tuple[Key, ...]:
        """None: whether a bound must be there is known by other rules."""
        return ()

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows = families.rows("bounds")
        if not len(rows):
            return
        said = rows.texts("name")
        sides = [rows.lists(side) for side in ("lower", "upper")]
        for name in said.known:
            if name == _FLOW or (self.grouped and name == GROUP_TOTAL):
                continue
            own = np.flatnonzero(said.are(name))
            query = self.queries.get(name)
            answers = 0 if query is None else query.rows
            right = np.all([side.whole[own] & (side.lengths[own] == answers) for side in sides], axis=0)
            bad = np.zeros(len(families.geocodes), dtype=np.bool_)
            bad[rows.geounit[own[~right] if query is not None else own]] = True
            if query is not None:
                held = own[right]
                bad[rows.geounit[held[_outside(families, query, rows.geounit[held], sides, held)]]] = True
            note = "" if query is not None else UNKNOWN
            yield Found(f"bounds {name}", answers * len(own), names_of(families.geocodes, bad), note)


def _outside(
    families: Families,
    query: Query,
    geounit: NDArray[np.int64],
    sides: Sequence[Lists],
    rows: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Say of rows of bounds whether an answer of the estimate of their geounit lies outside."""
    answers = query.rows
    # Geounits that are bounded, with the answers of their estimates.
    some, place = np.unique(geounit, return_inverse=True)
    of_geounit = np.full(len(families.geocodes), -1)
    of_geounit[some] = np.arange(len(some))
    cells = families.cells("estimates")
    target = of_geounit[families.rows("estimates").geounit[cells.row]]
    own = (target >= 0) & (cells.cell >= 0) & (cells.cell < query.size)
    cell, target, count = cells.cell[own], target[own], cells.count[own]
    answer = query.row_of(cell)
    counted = answer >= 0
    found = summed(target[counted] * answers + answer[counted], count[counted], len(some) * answers)
    found = found.reshape(len(some), answers)[place]
    lower, upper = (side.matrix(rows, answers) for side in sides)
    return np.asarray(((found < lower) | (found > upper)).any(axis=1))


@dataclass(frozen=True, slots=True)
class GroupBoundsKept(FamilyRule):
    """The estimates of the members of every group of the bounds sum to what the rows of the group allow."""

    needs: ClassVar = ("estimates", "bounds")

    @property
    def expected(self) -> tuple[Key, ...]:
        """None: whether a bound must be there is known by other rules."""
        return ()

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows = families.rows("bounds")
        own = np.flatnonzero(rows.texts("name").are(GROUP_TOTAL))
        if not len(own):
            return
        members = rows.texts("member")
        # The last one is that of rows without a member.
        group, number = members.code[own] % (len(members.known) + 1), len(members.known) + 1
        sides = [rows.lists(side) for side in ("lower", "upper")]
        straight = np.all([side.whole[own] & (side.lengths[own] == 1) for side in sides], axis=0)
        crooked = np.bincount(group[~straight], minlength=number) > 0
        estimates = families.rows("estimates")
        totals = summed(estimates.geounit, families.totals, len(families.geocodes))
        found = summed(group, totals[rows.geounit[own]], number)
        inside, agreed = np.ones(number, dtype=np.bool_), np.ones(number, dtype=np.bool_)
        for side, sign in zip(sides, (1, -1), strict=True):
            limits = side.values[side.offsets[:-1][own[straight]]]
            limit, same = alike(group[straight], limits, number)
            agreed &= same
            inside &= (found - limit) * sign >= 0
        there = np.bincount(group, minlength=number)
        bad = (there > 0) & (crooked | ~(inside & agreed))
        yield Found(f"bounds {GROUP_TOTAL}", len(own), names_of(pa.array((*members.known, NOWHERE)), bad))
