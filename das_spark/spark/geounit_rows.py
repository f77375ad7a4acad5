"""From the geounits of one level to the rows of all tables that are made before noise, and to the geounits above them.

The plain form, in arrays, of what a run declares: totals, units, bounds that follow from them (das_spark/constraints),
and contradictions among these. Levels at and below the one where totals are invariant have bounds on the class margins;
levels above it have, besides, one `flow` row for each descendant whose total is invariant
(das_spark/estimation/README.md says why sums of class bounds are not enough there). Where an area is split into parts,
only its total is invariant: the parts are a *group*, share digits of their geocodes (`Spine.total_key`), and have a row
`group_total` each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.constraints import UNBOUNDED, AddedConstraint, Invariants, Sense, UnitBounds, divisible, tighten
from das_spark.core import GROUP_TOTAL
from das_spark.spark.family_rows import FamilySpan
from das_spark.spark.lists import flat_lists, list_array, list_rows
from das_spark.store import tables as declared_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.geography import Spine
    from das_spark.histogram import Query

    Counts = NDArray[np.int64]

#: Geounits as they travel from one level to the one above; several rows of one geounit are parts of it.
PARTS: Final = pa.schema(
    [
        ("geocode", pa.string()),
        ("children", pa.int64()),
        ("cells", pa.list_(pa.int32())),
        ("counts", pa.list_(pa.int64())),
        ("numbers", pa.list_(pa.int64())),
    ]
)
#: Descendants with an invariant total, as they travel to every geounit above them.
FLOWS: Final = pa.schema(
    [
        ("geocode", pa.string()),
        ("member", pa.string()),
        ("lower", pa.list_(pa.int64())),
        ("upper", pa.list_(pa.int64())),
    ]
)
_ADDED: Final = "added:"
_BOUNDS: Final = declared_tables.BOUNDS.schema


@dataclass(frozen=True, slots=True)
class Declared:
    """What a run declares of its geounits, and by which formulas bounds follow."""

    spine: Spine
    invariants: Invariants
    formulas: UnitBounds | None  # of the product; None where units bound nothing
    added: tuple[tuple[AddedConstraint, Query], ...] = ()

    @property
    def total_depth(self) -> int:
        """Depth of the level with invariant totals; -1 where no total is invariant."""
        at = self.invariants.total_at
        return -1 if at is None else self.spine.index(at)

    @property
    def total_key(self) -> tuple[int, int] | None:
        """First digit (from 1) and number of the digits that geounits share which have a total together alone."""
        return self.spine.total_key_at(self.invariants.total_at)

    @property
    def bounding(self) -> UnitBounds | None:
        """The formulas, where units are invariant and bound people."""
        return self.formulas if self.invariants.units else None

    @property
    def classes(self) -> int:
        """Classes of units that bound people."""
        return 0 if self.bounding is None else len(self.bounding.least)


@dataclass(frozen=True, slots=True, eq=False)
class Geounits:
    """Some geounits of one level, sorted by geocode, each once."""

    codes: pa.StringArray
    children: Counts  # (n,)
    cells: NDArray[np.int32]  # occupied cells of all geounits, flat
    counts: Counts  # people in them
    offsets: Counts  # (n + 1,)
    units: Counts  # by class that bounds, (n, C)
    lower: Counts  # sums over descendants, (n, C)
    upper: Counts  # the same
    members: Counts  # descendants at the level of each added constraint, (n, constraints)

    @classmethod
    def of_leaves(cls, rows: pa.Table, declared: Declared) -> Geounits:
        """Those of the lowest level, of rows of `tables.LEAVES`; their bounds are not known yet."""
        cells, offsets = flat_lists(rows.column("cells"), np.int32)
        units = np.zeros((rows.num_rows, declared.classes), dtype=np.int64)
        if declared.classes:
            units = flat_lists(rows.column("units"), np.int64)[0].reshape(rows.num_rows, -1)[:, : declared.classes]
        return cls(
            codes=_whole(rows.column("geocode")),
            children=np.zeros(rows.num_rows, dtype=np.int64),
            cells=cells,
            counts=flat_lists(rows.column("counts"), np.int64)[0],
            offsets=offsets,
            units=units,
            lower=np.zeros_like(units),
            upper=np.zeros_like(units),
            members=np.zeros((rows.num_rows, len(declared.added)), dtype=np.int64),
        )

    @classmethod
    def of_parts(cls, rows: pa.Table, declared: Declared) -> Geounits:
        """Those of rows of `PARTS`, sorted by geocode: parts of a geounit are summed."""
        cells, offsets = flat_lists(rows.column("cells"), np.int32)
        classes, width = declared.classes, 3 * declared.classes + len(declared.added)
        numbers = flat_lists(rows.column("numbers"), np.int64)[0].reshape(rows.num_rows, width)
        several = cls(
            codes=_whole(rows.column("geocode")),
            children=rows.column("children").to_numpy(),
            cells=cells,
            counts=flat_lists(rows.column("counts"), np.int64)[0],
            offsets=offsets,
            units=numbers[:, :classes],
            lower=numbers[:, classes : 2 * classes],
            upper=numbers[:, 2 * classes : 3 * classes],
            members=numbers[:, 3 * classes :],
        )
        return several.summed(several.codes)

    def __len__(self) -> int:
        """How many."""
        return len(self.codes)

    def summed(self, names: pa.StringArray) -> Geounits:
        """Sums over those of one name; names are ascending."""
        codes = names.dictionary_encode()
        group = np.asarray(codes.indices, dtype=np.int64)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(group) != 0])) if len(group) else group
        row = np.repeat(group, np.diff(self.offsets))
        size = int(self.cells.max(initial=0)) + 1
        keys = row * size + self.cells
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(keys) != 0])) if len(keys) else keys
        owner, cells = np.divmod(keys[first], size)

        def sums(values: Counts) -> Counts:
            return np.add.reduceat(values, starts, axis=0) if len(starts) else values

        return Geounits(
            codes=names.take(pa.array(starts)),
            children=sums(self.children),
            cells=cells.astype(np.int32),
            counts=np.add.reduceat(self.counts[order], first) if len(first) else self.counts[order],
            offsets=np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(starts)))]).astype(np.int64),
            units=sums(self.units),
            lower=sums(self.lower),
            upper=sums(self.upper),
            members=sums(self.members),
        )

    def parts(self) -> pa.RecordBatch:
        """Rows of `PARTS`."""
        numbers = np.concatenate([self.units, self.lower, self.upper, self.members], axis=1)
        columns = [
            self.codes,
            pa.array(self.children),
            list_array(self.cells, self.offsets, pa.int32()),
            list_array(self.counts, self.offsets, pa.int64()),
            list_rows(numbers),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=PARTS)

    def people(self) -> Counts:
        """People of each, (n,)."""
        total = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(np.diff(total[self.offsets]), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Invariants or added constraints that no people can meet."""

    geocode: str  # of the geounit, or the key of the group
    constraint: str = ""  # name of the added constraint; empty where totals contradict units


@dataclass(frozen=True, slots=True, eq=False)
class LevelRows:
    """What is made of some geounits of a level: rows of tables, contradictions, and what goes to the level above."""

    tables: Mapping[str, pa.Table]  # each sorted as its files are
    contradictions: tuple[Contradiction, ...]
    above: Geounits | None  # parts of the geounits above; None at the top
    flows: pa.Table | None  # `FLOWS` of the level above


@dataclass(frozen=True, slots=True)
class _Totals:
    """Invariant totals of geounits of a level, or of groups of them."""

    keys: pa.StringArray  # of the group of each geounit; its geocode where it is alone
    together: NDArray[np.bool_]  # whether it has a total with others alone
    values: Counts  # of the geounit or its group
    group: Counts  # number of the group of each geounit
    first: Counts  # of each group, a member

    def known(self) -> Iterator[tuple[NDArray[np.bool_], Counts | None]]:
        """Geounits with a total of their own, with these totals; and the others."""
        if not self.together.all():
            yield ~self.together, self.values[~self.together]
        if self.together.any():
            yield self.together, None


def rows_of(declared: Declared, depth: int, geounits: Geounits, flows: pa.Table, leaves: pa.Table | None) -> LevelRows:
    """Make the rows of some geounits of a level.

    Args:
        declared: What the run declares.
        depth: Of the level; 0 is the top.
        geounits: Some of the level. At the level of totals that groups have together, all of it.
        flows: `FLOWS` of these geounits.
        leaves: At the lowest level, their rows of `tables.LEAVES`.
    """
    parents = _parents(declared.spine, depth, geounits.codes)
    totals = _totals(declared, depth, geounits)
    members = _members(declared, depth, geounits.members)
    bounds, contradictions = list[pa.Table](), list[Contradiction]()
    carried, flowing = replace(geounits, members=members), flows
    if totals is not None:
        bounds += _total_bounds(geounits.codes, totals)
    if declared.bounding is not None:
        own, sums = _class_bounds(declared.bounding, geounits, totals, is_leaf=leaves is not None)
        bounds += [_bound_rows(geounits.codes, "class", geounits.codes, *own)]
        carried = replace(carried, lower=sums[0], upper=sums[1])
        contradictions += _indivisible(geounits.codes, own, totals)
        if totals is not None and depth == declared.total_depth:
            carried, base = _base(declared.bounding, carried, own, totals, grouped=declared.total_key is not None)
            flowing = _flows(parents, base) if depth else flows
        elif flows.num_rows:
            bounds.append(_flow_bounds(flows))
    added = [
        (f"{_ADDED}{constraint.name}", *_added_bounds(constraint, query, members[:, place]))
        for place, (constraint, query) in enumerate(declared.added)
        if depth <= declared.spine.index(constraint.geolevel)
    ]
    bounds += [_bound_rows(geounits.codes, name, geounits.codes, lower, upper) for name, lower, upper in added]
    if totals is not None:
        whole = {f"{_ADDED}{constraint.name}" for constraint, query in declared.added if query.is_partition}
        contradictions += _against_totals(geounits.codes, added, whole, totals)
    tables = {
        "geounits": _table("geounits", geounits.codes, parents, children=pa.array(geounits.children)),
        "histograms": _table(
            "histograms",
            geounits.codes,
            parents,
            cells=list_array(geounits.cells, geounits.offsets, pa.int32()),
            counts=list_array(geounits.counts, geounits.offsets, pa.int64()),
        ),
        "invariants": _invariants(declared, geounits.codes, parents, totals, leaves),
        "bounds": _sorted_bounds(bounds, geounits.codes, parents),
    }
    if not depth:
        return LevelRows(tables, tuple(contradictions), None, None)
    own_children = replace(carried, children=np.ones(len(geounits), dtype=np.int64))
    if depth != declared.total_depth and flows.num_rows:
        place = pc.index_in(flows.column("geocode"), value_set=geounits.codes)
        flowing = flows.set_column(0, "geocode", parents.take(place.combine_chunks()))
    return LevelRows(tables, tuple(contradictions), own_children.summed(parents), flowing)


def _parents(spine: Spine, depth: int, codes: pa.StringArray) -> pa.StringArray:
    if not depth:
        return _repeated("", len(codes))
    return FamilySpan.of(spine, spine.names[depth]).families(codes)


def _totals(declared: Declared, depth: int, geounits: Geounits) -> _Totals | None:
    """Invariant totals at this level, if it has them."""
    if depth > declared.total_depth:
        return None
    people, key = geounits.people(), declared.total_key
    if key is None or depth != declared.total_depth:
        place = np.arange(len(geounits), dtype=np.int64)
        return _Totals(geounits.codes, np.zeros(len(geounits), dtype=np.bool_), people, place, place)
    keys = pc.utf8_slice_codeunits(geounits.codes, key[0] - 1, key[0] - 1 + key[1])
    group = np.asarray(keys.dictionary_encode().indices, dtype=np.int64)
    sizes, sums = np.bincount(group), np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, group, people)
    _, first = np.unique(group, return_index=True)
    return _Totals(keys, sizes[group] > 1, sums[group], group, first)


def _members(declared: Declared, depth: int, below: Counts) -> Counts:
    """How many geounits at the level of each added constraint a geounit holds or is."""
    at = np.array([declared.spine.index(constraint.geolevel) for constraint, _ in declared.added], dtype=np.int64)
    return np.where(at == depth, 1, below) if len(at) else below


def _class_bounds(
    formulas: UnitBounds, geounits: Geounits, totals: _Totals | None, *, is_leaf: bool
) -> tuple[tuple[Counts, Counts], tuple[Counts, Counts]]:
    """Bounds on the class margins, the tighter of own and summed; and what is summed, which is own of the leaves."""
    own = _formula(formulas, geounits.units, totals)
    if is_leaf:
        return own, own
    sums = geounits.lower, geounits.upper
    return tighten(*own, *sums), sums


def _formula(formulas: UnitBounds, units: Counts, totals: _Totals | None) -> tuple[Counts, Counts]:
    if totals is None:
        return formulas.lower(units), formulas.upper(units)
    lower, upper = np.empty_like(units), np.empty_like(units)
    for chosen, values in totals.known():
        lower[chosen] = formulas.lower(units[chosen], values)
        upper[chosen] = formulas.upper(units[chosen], values)
    return lower, upper


@dataclass(frozen=True, slots=True)
class _Base:
    """Bounds and totals of the areas with invariant totals, of which those of the levels above are made."""

    members: Counts  # a geounit of each area
    names: pa.StringArray
    lower: Counts
    upper: Counts
    total: Counts


def _base(
    formulas: UnitBounds, geounits: Geounits, own: tuple[Counts, Counts], totals: _Totals, *, grouped: bool
) -> tuple[Geounits, _Base]:
    """At the level of the totals: what levels above sum, and the areas that have a total."""
    if not grouped:
        every = np.arange(len(geounits), dtype=np.int64)
        carried = replace(geounits, lower=own[0], upper=own[1])
        return carried, _Base(every, geounits.codes, *own, totals.values)
    units, lower, upper = (_by_group(values, totals.group) for values in (geounits.units, *own))
    total = totals.values[totals.first]
    sides = tighten(formulas.lower(units, total), formulas.upper(units, total), lower, upper)
    # Groups are summed by the geounit above, whichever of their members have the sums.
    spread = [np.zeros_like(geounits.lower) for _ in sides]
    for target, side in zip(spread, sides, strict=True):
        target[totals.first] = side
    carried = replace(geounits, lower=spread[0], upper=spread[1])
    return carried, _Base(totals.first, totals.keys.take(pa.array(totals.first)), *sides, total)


def _by_group(values: Counts, group: Counts) -> Counts:
    sums = np.zeros((int(group.max(initial=-1)) + 1, values.shape[1]), dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def _flows(parents: pa.StringArray, base: _Base) -> pa.Table:
    """Areas with invariant totals as they go to the geounits above."""
    total = base.total[:, None]
    columns = [
        parents.take(pa.array(base.members)),
        base.names,
        *(list_rows(np.concatenate([side, total], axis=1)) for side in (base.lower, base.upper)),
    ]
    return pa.table(columns, schema=FLOWS)


def _total_bounds(codes: pa.StringArray, totals: _Totals) -> list[pa.Table]:
    values, found = totals.values[:, None], []
    for name, chosen, member in (("total", ~totals.together, codes), (GROUP_TOTAL, totals.together, totals.keys)):
        kept = pa.array(chosen)
        found.append(_bound_rows(codes.filter(kept), name, member.filter(kept), values[chosen], values[chosen]))
    return found


def _bound_rows(codes: pa.StringArray, name: str, member: pa.StringArray, lower: Counts, upper: Counts) -> pa.Table:
    columns = [codes, _repeated(name, len(codes)), member, list_rows(lower), list_rows(upper)]
    return pa.table(columns, names=["geocode", "name", "member", "lower", "upper"])


def _flow_bounds(flows: pa.Table) -> pa.Table:
    names = _repeated("flow", flows.num_rows)
    columns = [flows.column("geocode"), names, *(flows.column(name) for name in ("member", "lower", "upper"))]
    return pa.table(columns, names=["geocode", "name", "member", "lower", "upper"])


def _sorted_bounds(bounds: Sequence[pa.Table], codes: pa.StringArray, parents: pa.StringArray) -> pa.Table:
    """Rows of `tables.BOUNDS` in the order of its files."""
    if not bounds:
        return _BOUNDS.empty_table()
    rows = pa.concat_tables(bounds).sort_by([(name, "ascending") for name in ("geocode", "name", "member")])
    rows = rows.combine_chunks()
    own = parents.take(pc.index_in(_whole(rows.column("geocode")), value_set=codes))
    return rows.add_column(1, "parent", own).select(_BOUNDS.names)


def _added_bounds(constraint: AddedConstraint, query: Query, members: Counts) -> tuple[Counts, Counts]:
    """Sums of an added constraint over the geounits at its level, (n, answers)."""
    right = constraint.right_hand_sides(query.rows)
    low = right if constraint.sense in (Sense.EQUAL, Sense.AT_LEAST) else np.zeros_like(right)
    high = right if constraint.sense in (Sense.EQUAL, Sense.AT_MOST) else np.full_like(right, UNBOUNDED)
    return _scaled(low, members), _scaled(high, members)


def _scaled(values: Counts, members: Counts) -> Counts:
    """Products that stop at `UNBOUNDED`, and do not overflow."""
    most = UNBOUNDED // np.maximum(members, 1)[:, None]
    return np.where(values[None, :] > most, UNBOUNDED, np.minimum(values, UNBOUNDED)[None, :] * members[:, None])


def _indivisible(codes: pa.StringArray, own: tuple[Counts, Counts], totals: _Totals | None) -> Iterator[Contradiction]:
    """Geounits, and groups of them, whose class bounds contradict each other or their total."""
    lower, upper = own
    good = np.ones(len(codes), dtype=np.bool_)
    if totals is None:
        good = divisible(lower, upper)
    else:
        for chosen, values in totals.known():
            good[chosen] = divisible(lower[chosen], upper[chosen], values)
    yield from (Contradiction(codes[place].as_py()) for place in np.flatnonzero(~good))
    if totals is not None and totals.together.any():
        first, (lower, upper) = totals.first, (_by_group(side, totals.group) for side in own)
        good = divisible(lower, upper, totals.values[first]) | ~totals.together[first]
        yield from (Contradiction(totals.keys[first[place]].as_py()) for place in np.flatnonzero(~good))


def _against_totals(
    codes: pa.StringArray, added: Sequence[tuple[str, Counts, Counts]], whole: set[str], totals: _Totals
) -> Iterator[Contradiction]:
    """Added constraints that ask for more people than a total, or, where all people are asked, leave no room."""
    total = totals.values[totals.first]
    keys = pc.if_else(pa.array(totals.together), totals.keys, codes)
    for name, lower, upper in added:
        least, most = (_by_group(side, totals.group).sum(axis=1) for side in (lower, upper))
        broken = (least > total) | ((most < total) & (name in whole))
        for place in np.flatnonzero(broken):
            yield Contradiction(keys[totals.first[place]].as_py(), name.removeprefix(_ADDED))


def _invariants(
    declared: Declared, codes: pa.StringArray, parents: pa.StringArray, totals: _Totals | None, leaves: pa.Table | None
) -> pa.Table:
    """Rows of `tables.INVARIANTS` in the order of its files."""
    found, every = [], pa.table({"geocode": codes, "parent": parents})

    def add(rows: pa.Table, name: str | pa.Array, values: pa.Array) -> None:
        names = _repeated(name, rows.num_rows) if isinstance(name, str) else name
        found.append(rows.append_column("name", names).append_column("values", values))

    if totals is not None:
        names = pc.if_else(pa.array(totals.together), GROUP_TOTAL, "total")
        add(every, names, list_rows(totals.values[:, None]))
    if leaves is not None and declared.invariants.units:
        add(every, "units", leaves.column("units").combine_chunks())
        known = leaves.column("vacant").combine_chunks().is_valid()
        vacant = leaves.column("vacant").combine_chunks().filter(known).to_numpy()
        add(every.filter(known), "vacant", list_rows(vacant.astype(np.int64)[:, None]))
    schema = declared_tables.INVARIANTS.schema
    if not found:
        return schema.empty_table()
    rows = pa.concat_tables(each.cast(_nullable(schema)) for each in found)
    return rows.sort_by([("geocode", "ascending"), ("name", "ascending")])


def _table(name: str, codes: pa.StringArray, parents: pa.StringArray, **columns: pa.Array) -> pa.Table:
    given = {"geocode": codes, "parent": parents, **columns}
    return pa.table([given[each] for each in declared_tables.TABLES[name].schema.names], list(given))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """The types of a schema, whatever is declared of nulls."""
    return pa.schema([pa.field(each.name, each.type) for each in schema])


def _repeated(text: str, times: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(text, pa.string()), times)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """A column of text in one piece."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.cast(pa.string())
