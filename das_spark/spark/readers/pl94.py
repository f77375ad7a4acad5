"""The official P.L. 94-171 summary files of 2020, what anybody can download of a state: people, and the header alone.

Four files a state, delimited by ``|``, without header, in Latin-1: the geographic header and three segments of
tables, joined by STUSAB and LOGRECNO. `Pl94Summary` reads all four, `Pl94Header` the entities that blocks lie in.

Voting age x Hispanic x race63 of every block is exact. Who lives in group quarters is not published: the persons of
P5 are chosen by the fixed rule of :func:`~das_spark.io.pl94_tables.assign_group_quarters`. Units: the occupied units of
H1 are the first class, one facility of a type stands where P5 has people of it (or as many as can hold them), vacant
units are those of H1. A product of housing units is given the same units, and counts them as H1 does: vacant and
occupied. Rows of states, counties, tracts and block groups are compared with the sums of their blocks: where they
differ, files of blocks may be incomplete, which is noticed in the restricted record of problems.

Published units and people may contradict each other, because both are protected: ingestion finds such blocks and does
what `input.unit_conflicts` says. With `input.units_from_people` the units are made from the people, not from H1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.geography import BLOCK
from das_spark.io.input_fields import GEOCODE, Names, sixteen
from das_spark.io.input_files import required
from das_spark.io.pl94_tables import (
    HISPANIC_ITEMS,
    HOUSING_ITEMS,
    PERSON_CODES,
    RULES,
    TOTAL_ITEMS,
    UNIT_CODES,
    Counts,
    Tables,
    assign_group_quarters,
    class_codes,
    contradictions,
    person_codes,
)
from das_spark.spark.lists import flat_lists
from das_spark.spark.problems import Problem, refuse
from das_spark.spark.readers._gathered import Gathering, Join
from das_spark.spark.readers._passes import LeafPass, Pass, Rule, array_of, groups_of
from das_spark.spark.readers._pl94_files import (
    ABOVE,
    BLOCK_LEVEL,
    KINDS,
    SEGMENTS,
    RecordHeaders,
    RecordItems,
    find_files,
    lines_of,
    summary_files,
)
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import (
    COUNT,
    INPUT_ROWS,
    Kind,
    counts_of,
    cut_to,
    geounits_of,
    input_rows,
    summed,
)
from das_spark.spark.readers._told import CHANGED, facts_of, problems_in, tell
from das_spark.spark.readers._units import made_units
from das_spark.spark.readers.base import IngestedTables, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product
    from das_spark.spark.readers._told import Facts

#: Kinds of facts: of records and their partners, of blocks and their tables.
_RECORDS, _BLOCKS = "records", "blocks"
#: Segment -> 0-based places of the items that are summed: people, Hispanics, adults, Hispanic adults, housing units
#: (all, occupied, vacant), people in group quarters.
_SUMMED: Final = (
    (0, TOTAL_ITEMS + 1),
    (0, TOTAL_ITEMS + 1, *(TOTAL_ITEMS + HISPANIC_ITEMS + item for item in range(HOUSING_ITEMS))),
    (0,),
)


def _agreed(folder: str) -> Mapping[tuple[int, int], Rule]:
    """What rows of states, counties, tracts and block groups are: digits of a geocode, and place of an item -> rule.

    Files of a few blocks are read like those of a state; but blocks that were lost would not be noticed otherwise.
    """
    fields = [kind.field(position) for kind, places in zip(SEGMENTS, _SUMMED, strict=True) for position in places]
    return {
        (digits, item): Rule(folder, field, f"in rows of summary level {level} the sum of their blocks")
        for level, digits in ABOVE.items()
        for item, field in enumerate(fields)
    }


@dataclass(frozen=True, slots=True)
class Pl94Summary:
    """Reads the summary files of one or many states from a folder."""

    name: str = "pl94_summary"
    reads_tables: bool = False

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        folder = required(settings.path, "input.path", self.name)
        return dict.fromkeys(summary_files(folder), True)

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        folder = self._folder(settings, Target.of(self.name, product, spine))
        files = find_files(folder)
        for kind in KINDS:
            for path in files.get(kind.name, ()):
                kind.look(path)

    def _folder(self, settings: InputSettings, target: Target) -> str:
        allowed = UNIT_CODES if target.counts_units else PERSON_CODES
        target.require_codes(self.name, allowed, target.recodes.attributes.values())
        target.require_codes(self.name, PERSON_CODES, [target.unit_class])
        target.require_geocodes(self.name)
        return required(settings.path, "input.path", self.name)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return self.gathering(settings, product, spine).read(spark)

    def gathering(self, settings: InputSettings, product: Product, spine: Spine) -> Gathering:
        """Open the files, and say how they come together."""
        target = Target.of(self.name, product, spine)
        folder = self._folder(settings, target)
        files = find_files(folder)
        resolves = (RecordHeaders(), *(RecordItems(number) for number in range(1, len(KINDS))))
        tables = [
            Reading(Names(f"{folder}/{kind.pattern}", (), kind.name), resolve, lines_of(files[kind.name]))
            for kind, resolve in zip(KINDS, resolves, strict=True)
        ]
        once = Rule(folder, "GEOCODE", "each block once")
        joins = [Join(tuple(kind.name for kind in KINDS), _RecordPass(folder, _BlockRecodes.of(target)))]
        if spine.leaf.length < BLOCK:
            joins.append(Join((), _BlockPass(once, spine.leaf.length)))
        made = made_units(product) if settings.units_from_people and not target.counts_units else None
        exists, rules = (Kind.GEOGRAPHY,), {Kind.GEOGRAPHY: once} if spine.leaf.length == BLOCK else {}
        agreed = _agreed(folder)
        leaves = LeafPass(target.classes, exists, rules, {}, {}, frozenset(), units=True, made=made, agreed=agreed)
        return Gathering(tuple(tables), {}, tuple(joins), product.records, None, leaves)


@dataclass(frozen=True, slots=True, eq=False)
class _BlockRecodes:
    """What a worker needs to bring the people and units of the tables of a block into cells and classes.

    Attributes:
        people: Cell of each combination that the tables tell, (8 x 2 x 2 x 63,); None where housing units are counted.
        homes: Cells of occupied and of vacant housing units, (2,); None where people are.
        classes: Class of units of each of the eight that the tables tell, (8,).
        most: Most people of a unit of each of these, (8,); none where units bound nothing.
        number: How many classes of units there are.
    """

    people: Counts | None
    homes: Counts | None
    classes: Counts
    most: Counts | None
    number: int

    @classmethod
    def of(cls, target: Target) -> _BlockRecodes:
        classes = target.unit_class.level_of(class_codes())
        bounds = target.product.unit_bounds
        people = None if target.counts_units else target.cells(person_codes())
        homes = target.cells({"OCCUPANCY": np.array([2, 3])}) if target.counts_units else None
        return cls(people, homes, classes, np.array(bounds.most)[classes] if bounds else None, target.classes)

    def units(self, occupied: Counts, quarters: Counts) -> Counts:
        """Units by class, of facilities as many as can hold the people: one, but for a great many."""
        facilities = -(-quarters // self.most) if self.most is not None else quarters > 0
        by_class = np.zeros((len(quarters), self.number), dtype=np.int64)
        units = np.concatenate([occupied, facilities[:, 1:]], axis=1)
        for level, numbers in zip(self.classes, units.T, strict=True):
            by_class[:, level] += numbers
        return by_class


def _occupied(people: Counts, quarters: Counts, recoded: Counts) -> tuple[Counts, Counts, Counts]:
    """How many cells each block occupies, these, and their counts; only group quarters need the full histogram."""
    cells, counts = [], []
    has_quarters = np.any(quarters, axis=1)
    for block, row in enumerate(people.reshape(len(people), -1)):
        full = assign_group_quarters(people[block], quarters[block]).ravel() if has_quarters[block] else row
        mine = np.flatnonzero(full)
        cells.append(recoded[mine])
        counts.append(full[mine])
    return np.array([len(mine) for mine in cells]), np.concatenate(cells), np.concatenate(counts)


@dataclass(frozen=True, slots=True)
class _RecordPass(Pass):
    """Records of the four kinds of files as blocks, with their people and units.

    Attributes:
        folder: Of the files.
        recodes: Of what the tables tell.
    """

    keys = ("record", "file")

    folder: str
    recodes: _BlockRecodes

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return what is counted in blocks, and what is said of geounits above."""
        first, record = groups_of(rows, "record")
        file = array_of(rows, "file")
        numbers = range(len(KINDS))
        once = np.stack([np.bincount(record[file == number], minlength=len(first)) == 1 for number in numbers])
        problems = [self._partner(number).broken(int((~once[number]).sum())) for number in numbers]
        whole = np.all(once, axis=0)
        yield tell(INPUT_ROWS, _RECORDS, problems, blocks=0)
        yield tell(INPUT_ROWS, CHANGED, counted=0, others=-len(file))
        complete = rows.filter(pa.array(whole[record])).combine_chunks()
        if complete.num_rows:
            yield from self._tabulated(complete)

    def _partner(self, number: int) -> Rule:
        file = f"{self.folder}/{KINDS[number].pattern}"
        return Rule(file, "LOGRECNO", "each record of the other files, once")

    def _tabulated(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Records that have a row in every file, these one behind the other."""
        heads = pa.array(np.arange(0, rows.num_rows, len(KINDS)))
        level, geocode = (rows.column(name).combine_chunks().take(heads) for name in ("level", GEOCODE))
        read = np.asarray(pc.not_equal(level, ""))
        is_block = np.asarray(pc.equal(level, BLOCK_LEVEL))
        items = [_items(rows, number, read) for number in range(1, len(KINDS))]
        of_block = is_block[read]
        yield from self._sums(geocode.filter(pa.array(read)), of_block, items)
        yield from self._blocks(sixteen(geocode.filter(pa.array(is_block))), [counts[of_block] for counts in items])

    def _sums(self, geocodes: pa.Array, of_block: Counts, items: list[Counts]) -> Iterator[pa.RecordBatch]:
        """What rows of geounits say, and what their blocks sum to."""
        chosen = np.concatenate([counts[:, places] for counts, places in zip(items, _SUMMED, strict=True)], axis=1)
        above = pa.array(~of_block)
        yield counts_of(Kind.SAID, geocodes.filter(above), chosen[~of_block], zeros=True)
        blocks = geocodes.filter(pa.array(of_block))
        for digits in ABOVE.values():
            yield summed(counts_of(Kind.SUMMED, pc.utf8_slice_codeunits(blocks, 0, digits), chosen[of_block]))

    def _blocks(self, geocodes: pa.Array, items: list[Counts]) -> Iterator[pa.RecordBatch]:
        first, second, third = items
        p3, p4, h1 = np.split(second, [TOTAL_ITEMS, TOTAL_ITEMS + HISPANIC_ITEMS], axis=1)
        tables = Tables(first[:, :TOTAL_ITEMS], first[:, TOTAL_ITEMS:], p3, p4, h1, third)
        wrong = contradictions(tables)
        problems = [
            Rule(self.folder, field, expected).broken(int(bad.sum()), geounits=geocodes.filter(pa.array(bad)))
            for (field, expected), bad in zip(RULES, wrong.T, strict=True)
        ]
        yield tell(INPUT_ROWS, _BLOCKS, problems, blocks=len(geocodes))
        if wrong.any() or not len(geocodes):
            return
        people, quarters = tables.people(), tables.quarters()
        units = self.recodes.units(h1[:, 1:2], quarters)
        made = geounits_of(geocodes, units, h1[:, 2])
        if self.recodes.people is None:
            homes = np.stack([units[:, 0], h1[:, 2]], axis=1)
            made.append(counts_of(Kind.COUNTED, geocodes, homes, self.recodes.homes))
        else:
            sizes, cells, counts = _occupied(people, quarters, self.recodes.people)
            own = geocodes.take(pa.array(np.repeat(np.arange(len(geocodes)), sizes)))
            made.append(input_rows(Kind.COUNTED, {GEOCODE: own, "cell": cells, COUNT: counts}, len(cells)))
        yield from made
        *others, counted = (int(np.asarray(rows.column(COUNT)).sum()) for rows in made)
        yield tell(INPUT_ROWS, CHANGED, counted=counted, others=sum(others))

    def judged(self, facts: Facts) -> tuple[Problem, ...]:
        """Refuse records without partners, tables that contradict each other, and files without a block."""
        refuse(problems_in(facts_of(_RECORDS, facts)))
        blocks = facts_of(_BLOCKS, facts)
        if not any(fact["blocks"] for fact in blocks):
            raise InputError(f"{self.folder}: no block (summary level {BLOCK_LEVEL}) in the geographic header")
        refuse(problems_in(blocks))
        return ()


def _items(rows: pa.Table, number: int, read: Counts) -> Counts:
    """The numbers of a segment, of records that are read, (records, items)."""
    lists = rows.column("items").combine_chunks().take(pa.array(number + len(KINDS) * np.flatnonzero(read)))
    flat, _ = flat_lists(lists, np.int64)
    return flat.reshape(len(lists), -1) if len(lists) else np.zeros((0, KINDS[number].columns), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _BlockPass(Pass):
    """Blocks of a spine whose lowest level lies above them.

    What is told of blocks is judged with what `_RecordPass` tells of them.

    Attributes:
        once: Each block stands once.
        length: Of geocodes of that level.
    """

    keys = (GEOCODE, "kind")

    once: Rule
    length: int

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return rows under the geocodes of that level."""
        first, group = groups_of(rows, GEOCODE)
        kind, geocodes = array_of(rows, "kind"), rows.column(GEOCODE).combine_chunks()
        twice = np.bincount(group[kind == Kind.GEOGRAPHY], minlength=len(first)) > 1
        bad = geocodes.take(pa.array(first[twice]))
        yield tell(INPUT_ROWS, _BLOCKS, [self.once.broken(len(bad), geounits=bad)], blocks=0)
        cut = pc.if_else(pa.array(kind > Kind.COUNTED), geocodes, cut_to(self.length, geocodes))
        columns = {name: rows.column(name).combine_chunks() for name in ("kind", "cell", COUNT)} | {GEOCODE: cut}
        yield summed(pa.RecordBatch.from_pydict(columns))
