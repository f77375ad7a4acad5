"""Rules on bounds: each follows from the invariants that a run has declared, and there are no others.

They are made anew, without a line of the code that made them (`das_spark.spark.bounds`), which sums over descendants
level by level. Here each bound is compared with what it follows from one step below, that is a published bound, too:

- at a leaf, with the formulas (C-1) to (C-4) of its units and its total;
- at a geounit down to the level with exact totals, or where there are none, with the formulas of its units, which are
  summed over its leaves, and with the sums of the bounds of these;
- above that level, with the formulas, and with the sums of its flows, which are the bounds and totals of what lies at
  that level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.constraints import UNBOUNDED, AddedConstraint, Sense, UnitBounds, tighten
from das_spark.core import GROUP_TOTAL
from das_spark.verification.families import (
    FamilyRule,
    Found,
    Key,
    Lists,
    Rows,
    alike,
    first_wrong,
    geocodes_at,
    summed_rows,
)
from das_spark.verification.geounits import declared_totals, group_keys, groups, keys, odd_parents, rule_name, totals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.geography import Geolevel, Spine
    from das_spark.verification.families import Families

#: Names of bounds: on the total, on the classes, and on what lies at the level of the totals, for geounits above.
TOTAL: Final = "total"
CLASS: Final = "class"
FLOW: Final = "flow"
#: Names of sums over what lies below a geounit: of units, of the class bounds of leaves, and (behind this one) of the
#: geounits that an added constraint is on.
UNITS: Final = "units"
LOWER: Final = "lower"
UPPER: Final = "upper"
ADDED: Final = "added:"
_COLUMNS: Final = ("name or member", "parent", "lower", "upper")


def sums_above(
    geocodes: pa.Array, lists: pa.ListArray, levels: Sequence[Geolevel]
) -> Iterator[tuple[str, pa.StringArray, pa.ListArray]]:
    """Sum lists over geounits for what they lie in.

    Args:
        geocodes: Of each list; those without one are left out.
        lists: Of one length; others are left out.
        levels: For which ones, from the top: a geounit lies in another one whose geocode its own begins with.

    Yields:
        Level, geocodes, and the sum of each, from the lowest level up; of geounits that nothing lies in there are none.
    """
    values = Lists.of(lists)
    if not len(lists):
        return
    width = int(np.bincount(values.lengths).argmax())
    right = values.whole & (values.lengths == width) & geocodes.is_valid().to_numpy(zero_copy_only=False)
    sums, known = values.matrix(np.flatnonzero(right), width), geocodes.filter(pa.array(right))
    longest = pc.max(pc.utf8_length(known)).as_py() or 0
    for level in reversed([level for level in levels if level.length <= longest]):
        encoded = geocodes_at(known, level).dictionary_encode()
        known = encoded.dictionary
        sums = summed_rows(encoded.indices.to_numpy().astype(np.int64), sums, len(known))
        offsets = pa.array(np.arange(len(known) + 1, dtype=np.int32) * width)
        yield level.name, known, pa.ListArray.from_arrays(offsets, pa.array(sums.ravel()))


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """Bounds of one name that geounits must have.

    Attributes:
        there: Which geocodes have one: shape ``(geocodes,)``.
        lower, upper: Shape ``(geocodes, answers)``.
        member: Of each geocode.
    """

    there: NDArray[np.bool_]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    member: pa.Array


@dataclass(frozen=True, slots=True)
class BoundColumns(FamilyRule):
    """Every geounit has the bounds that follow for it, and no others.

    Attributes:
        spine: The levels.
        levels: Those at which there are bounds.
        total_at: The level at which, and above which, totals are exact; None where none are.
        formulas: Bounds by units; None where units bound nothing.
        added: Constraints that a run has added, with the number of their answers.
        imported: Answers of class bounds that others have published: nothing says which, but each geounit has one. 0
            where they have published none.
    """

    needs: ClassVar = ("geounits", "invariants", "bounds", "below", "flows")

    spine: Spine
    levels: Sequence[str]
    total_at: str | None
    formulas: UnitBounds | None
    added: Sequence[tuple[AddedConstraint, int]]
    imported: int

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level with bounds."""
        return keys(rule_name("bounds"), self.levels)

    @property
    def flowing(self) -> bool:
        """Whether geounits above the level of the totals have flows."""
        classes = self.formulas is not None or self.imported > 0
        return classes and self.total_at is not None and self.spine.index(self.total_at) > 0

    @property
    def _key(self) -> tuple[int, int] | None:
        return self.spine.total_key_at(self.total_at)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows, size = families.rows("bounds"), len(families.geocodes)
        said = rows.texts("name")
        wrong = {column: np.zeros(size, dtype=np.bool_) for column in _COLUMNS}
        looked, judged = 0, np.zeros(len(rows), dtype=np.bool_)
        if self.flowing:
            judged |= said.are(FLOW)  # they are judged with their members
        odd = odd_parents(families, rows.columns["parent"], rows.family) & ~judged
        wrong["parent"][rows.geounit[odd]] = True
        for name, bounds in self._expected(families, rows).items():
            own = np.flatnonzero(said.are(name))
            judged[own] = True
            looked += int(bounds.there.sum())
            geounit = rows.geounit[own]
            count = np.bincount(geounit, minlength=size)
            member = pc.equal(rows.columns["member"].take(pa.array(own)), bounds.member.take(pa.array(geounit)))
            wrong["name or member"] |= count != bounds.there
            wrong["name or member"][geounit[~member.fill_null(False).to_numpy(zero_copy_only=False)]] = True
            for side, values in (("lower", bounds.lower), ("upper", bounds.upper)):
                wrong[side][geounit[~_same(rows.lists(side), own, values[geounit])]] = True
        wrong["name or member"][rows.geounit[~judged]] = True
        if looked or len(rows):
            yield Found(rule_name("bounds"), looked, first_wrong(families.geocodes, wrong))
        if self.flowing and families.level == self.total_at:
            yield from self._flows(families)

    def _expected(self, families: Families, rows: Rows) -> dict[str, _Expected]:
        """The bounds that geounits must have, by name."""
        depth = self.spine.index(families.level)
        found: dict[str, _Expected] = {}
        members = {} if self.total_at is None else {TOTAL: families.geocodes}
        if self._key is not None:
            members[GROUP_TOTAL] = group_keys(families, self._key)
        for name, member in members.items():
            value, there = totals_of(families, name)
            found[name] = _Expected(there, value[:, None], value[:, None], member)
        if self.imported:
            lower, upper = _published_classes(families, self.imported)
            found[CLASS] = _Expected(families.geounits > 0, lower, upper, families.geocodes)
        elif self.formulas is not None:
            found[CLASS] = self._classes(self.formulas, families, rows)
        for constraint, answers in self.added:
            if depth > self.spine.index(constraint.geolevel):
                continue
            name = f"{ADDED}{constraint.name}"
            count, there = _below(families, name, 1)
            right = np.broadcast_to(np.asarray(constraint.right, dtype=np.int64), (answers,))
            low = right if constraint.sense in (Sense.EQUAL, Sense.AT_LEAST) else np.zeros(answers, dtype=np.int64)
            high = right if constraint.sense in (Sense.EQUAL, Sense.AT_MOST) else np.full(answers, UNBOUNDED)
            # Capped before, so that no product overflows.
            lower, upper = (np.minimum(np.minimum(each, UNBOUNDED) * count, UNBOUNDED) for each in (low, high))
            found[name] = _Expected(there, lower, upper, families.geocodes)
        return found

    def _classes(self, formulas: UnitBounds, families: Families, rows: Rows) -> _Expected:
        """Class bounds, as they follow from what lies one step below."""
        size, classes, level = len(families.geocodes), len(formulas.least), families.level
        units, there = self._units(families, classes)
        lower, upper = _by_formulas(formulas, units, *totals_of(families, TOTAL))
        if level != self.spine.leaf.name:
            if self.total_at is not None and self.spine.index(level) < self.spine.index(self.total_at):
                below = _flow_sums(rows, size, classes)
            else:
                below = (_below(families, LOWER, classes)[0], _below(families, UPPER, classes)[0])
            lower, upper = tighten(lower, upper, *below)
        return _Expected(there, lower, upper, families.geocodes)

    def _units(self, families: Families, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the units of each geocode, of the classes that bound anything, and which have any."""
        if families.level != self.spine.leaf.name:
            return _below(families, UNITS, width)
        rows, size = families.rows("invariants"), len(families.geocodes)
        values = rows.lists("values")
        own = np.flatnonzero(rows.texts("name").are(UNITS) & values.whole & (values.lengths >= width))
        units = np.zeros((size, width), dtype=np.int64)
        units[rows.geounit[own]] = values.matrix(own, width)
        return units, np.bincount(rows.geounit[own], minlength=size) > 0

    def _flows(self, families: Families) -> Iterator[Found]:
        """Judge what geounits above the totals say of the geounits, or groups of them, that have one."""
        spine, flows = self.spine, families.rows("flows")
        names, parents, lower, upper = self._members(families)
        places = {name: number for number, name in enumerate(names)}
        member = np.array([places.get(name, -1) for name in flows.columns["member"].to_pylist()], dtype=np.int64)
        of, above = flows.texts("of"), flows.columns["above"]
        depth = spine.index(families.level)
        strange = ~np.isin(of.among(spine.names[:depth]), range(depth)) | (member < 0)
        for number, level in enumerate(spine.levels[:depth]):
            own = np.flatnonzero(of.are(level.name) & ~strange)
            due = geocodes_at(parents, level)
            given = above.take(pa.array(own))
            right = pc.equal(given, due.take(pa.array(member[own]))).fill_null(False).to_numpy(zero_copy_only=False)
            count = np.bincount(member[own[right]], minlength=len(names))
            failing = [f"{code} {_COLUMNS[0]}" for code in due.filter(pa.array(count != 1)).to_pylist()]
            failing += [f"{code} {_COLUMNS[0]}" for code in given.filter(pa.array(~right)).to_pylist()]
            parent = geocodes_at(given, spine.levels[number - 1]) if number else pa.array([""] * len(own), pa.string())
            same = pc.equal(flows.columns["parent"].take(pa.array(own)), parent).fill_null(False)
            odd = {"parent": ~same.to_numpy(zero_copy_only=False)}
            odd["lower"] = ~_same(flows.lists("lower"), own, lower[member[own]])
            odd["upper"] = ~_same(flows.lists("upper"), own, upper[member[own]])
            for column, bad in odd.items():
                failing += [f"{code} {column}" for code in given.filter(pa.array(bad & right)).to_pylist()]
            yield Found(rule_name("bounds"), len(names), sorted(set(failing)), level=level.name)
        for place in np.flatnonzero(strange).tolist():
            name = f"{above[place].as_py()} {_COLUMNS[0]}"
            yield Found(rule_name("bounds"), 0, [name], level=flows.columns["of"][place].as_py())

    def _members(self, families: Families) -> tuple[list[str], pa.Array, NDArray[np.int64], NDArray[np.int64]]:
        """Return what flows are of, a geocode of each, and their bounds with their totals."""
        width = len(self.formulas.least) if self.formulas is not None else self.imported
        sides = _published_classes(families, width)
        names = codes = families.geocodes
        there = families.geounits > 0
        if self._key is None:
            total, _ = totals_of(families, TOTAL)
        else:
            group, names = groups(families, self._key)
            number = len(names)
            some, first = declared_totals(families, (TOTAL, GROUP_TOTAL))
            total, known = alike(group[families.rows("invariants").geounit[some]], first, number)
            sides = (summed_rows(group, sides[0], number), summed_rows(group, sides[1], number))
            if self.formulas is not None:
                units = summed_rows(group, self._units(families, width)[0], number)
                sides = tighten(*_by_formulas(self.formulas, units, total, known), *sides)
            there = np.bincount(group, weights=there, minlength=number) > 0
            codes = codes.take(pa.array(np.unique(group, return_index=True)[1]))
        lower, upper = (np.hstack([side, total[:, None]])[there] for side in sides)
        inhabited = pa.array(there)
        return names.filter(inhabited).to_pylist(), codes.filter(inhabited), lower, upper


def _same(side: Lists, rows: NDArray[np.int64], due: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say of some rows whether their list is the one that is due: shape ``(rows, values)``."""
    width = due.shape[1]
    good = side.whole[rows] & (side.lengths[rows] == width)
    good[good] = (side.matrix(rows[good], width) == due[good]).all(axis=1)
    return np.asarray(good)


def _below(families: Families, name: str, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the sums over what lies below each geocode, shape ``(geocodes, width)``, and which have any."""
    rows = families.rows("below")
    values = rows.lists("values")
    own = np.flatnonzero(rows.texts("name").are(name) & (values.lengths >= width))
    geounit, size = rows.geounit[own], len(families.geocodes)
    return summed_rows(geounit, values.matrix(own, width), size), np.bincount(geounit, minlength=size) > 0


def _published_classes(families: Families, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the class bounds that each geocode has, 0 where it has none: shape ``(geocodes, width)``."""
    rows = families.rows("bounds")
    own = np.flatnonzero(rows.texts("name").are(CLASS))
    lower, upper = np.zeros((2, len(families.geocodes), width), dtype=np.int64)
    for values, side in ((lower, rows.lists("lower")), (upper, rows.lists("upper"))):
        right = own[side.whole[own] & (side.lengths[own] == width)]
        values[rows.geounit[right]] = side.matrix(right, width)
    return lower, upper


def _flow_sums(rows: Rows, size: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sum the flows of each geocode, without the totals that stand behind them."""
    own, sums = np.flatnonzero(rows.texts("name").are(FLOW)), []
    for side in (rows.lists("lower"), rows.lists("upper")):
        right = own[side.lengths[own] >= width]
        sums.append(summed_rows(rows.geounit[right], side.matrix(right, width), size))
    return sums[0], sums[1]


def _by_formulas(
    formulas: UnitBounds, units: NDArray[np.int64], total: NDArray[np.int64], known: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bounds by units, and by totals where they are known; of numbers that are none other rules tell."""
    possible = np.clip(units, 0, np.iinfo(np.int64).max // (max(formulas.most) * units.shape[1] or 1))
    lower, upper = np.zeros_like(units), np.zeros_like(units)
    for some, totals in ((known, np.maximum(total[known], 0)), (~known, None)):
        if some.any():
            lower[some] = formulas.lower(possible[some], totals)
            upper[some] = formulas.upper(possible[some], totals)
    return lower, upper


@dataclass(frozen=True, slots=True)
class BoundsNotLooser(FamilyRule):
    """Where class bounds were published by others: none is looser than the sum of those of the children.

    Attributes:
        levels: From the top.
        classes: Answers of the bounds.
    """

    needs: ClassVar = ("bounds", "above_bounds")

    levels: Sequence[str]
    classes: int

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level with children."""
        return keys(rule_name("bounds"), self.levels[:-1])

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families; what fails are parents."""
        if families.level == self.levels[0]:
            return
        number = len(families.names)
        above, below = families.rows("above_bounds"), families.rows("bounds")
        own = np.flatnonzero(below.texts("name").are(CLASS))
        there = np.bincount(above.family, minlength=number) > 0
        wrong: dict[str, NDArray[np.bool_]] = {}
        for side in ("lower", "upper"):
            of_parents, of_children = above.lists(side), below.lists(side)
            sums = np.zeros((number, self.classes), dtype=np.int64)
            for lists, rows, family, sign in (
                (of_parents, np.arange(len(above)), above.family, 1),
                (of_children, own, below.family[own], -1),
            ):
                right = lists.lengths[rows] == self.classes
                sums += sign * summed_rows(family[right], lists.matrix(rows[right], self.classes), number)
            wrong[side] = there & np.asarray(((sums < 0) if side == "lower" else (sums > 0)).any(axis=1))
        failing = first_wrong(families.names, wrong)
        level = self.levels[list(self.levels).index(families.level) - 1]
        if len(above):
            yield Found(rule_name("bounds"), len(above), failing, level=level)
