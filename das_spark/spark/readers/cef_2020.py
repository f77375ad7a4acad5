"""Reader of the census edited file (CEF) of 2020: person and unit records, and the geographic reference file (GRF-C).

Every block of the reference file exists, with units or without. A housing unit is vacant where VACS is not 0. A product
of housing units reads units and geography alone.

Lines are cut, checked field by field, and held to rules across fields in the task that reads them. Persons and units
are brought together by the unit (MAFID), which gives persons their block; then units and blocks by the key of the block
(OIDTB), which gives them their geocodes.

Where the release drops records silently, this reader refuses: persons without a unit, units without a block. Besides,
what persons and units say of each other must agree: the type of group quarters, and their numbers state by state. A
facility without persons breaks the bounds that facilities put on persons; it is refused too, unless
``input.unit_conflicts`` takes the units from the people.

A product of units may read TENVAC, put together of tenure and vacancy; one of households, which are the occupied
housing units, reads fields of these alone, and ELDERLY and HHTYPE, put together of what a record tells of the people.
A record in which such a field has no code of a household is refused.

A product may read the derived field RELGQ: RELSHIP in households, the type of group quarters of all others, and 19 for
a householder without anybody else in the unit. For such a product RELSHIP must fit to where a person lives, and
FINAL_POP of a unit must be 1 where one person lives in it and there alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.cef import (
    BLOCK_KEY,
    DELIMITER,
    ENDINGS,
    FILES,
    HOUSEHOLD_CODES,
    PERSON,
    PERSON_CODES,
    RELGQ,
    UNIT,
    UNIT_CODES,
)
from das_spark.io.input_fields import GEOCODE, MOST_EXAMPLES, Names
from das_spark.io.input_files import look_at_lines, named_in, require_path, required
from das_spark.io.table_folder import record_files
from das_spark.io.text_lines import TextLines
from das_spark.spark.problems import Problem, refuse
from das_spark.spark.readers._areas import other_blocks
from das_spark.spark.readers._cef_records import PersonLines, UnitLines, form_of
from das_spark.spark.readers._gathered import Gathering, Join
from das_spark.spark.readers._passes import BY_UNIT, LeafPass, Pass, Rule, UnitPass, array_of, groups_of
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import COUNT, INPUT_ROWS, Kind, Resolve, cut_to, input_rows, levels_of, summed
from das_spark.spark.readers._resolved import UNIT as OF_UNIT
from das_spark.spark.readers._tables import unit_class
from das_spark.spark.readers._told import facts_of, filled, problems_in, tell
from das_spark.spark.readers.base import IngestedTables, Target
from das_spark.spark.readers.grfc import ReferenceKeys, open_reference

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.io.record_text import Record
    from das_spark.products import Product
    from das_spark.spark.readers._told import Facts

    Whole = NDArray[np.int64]


_PARTS = ("*.txt", "*.txt.gz", "*.dat", "*.dat.gz", "*.cef", "*.cef.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""
_PERSONS, _UNITS, _GEOGRAPHY = FILES

#: Kinds of facts: of facilities without persons, of blocks and their keys, of cells in which nobody can be.
_EMPTY, _BY_KEY, _IMPOSSIBLE = "empty", "keys", "impossible"
#: Digits of a state in a geocode.
_STATE: Final = 2


@dataclass(frozen=True, slots=True)
class Cef2020:
    """Reads persons, units and blocks, each a file or a folder of parts, plain or gzipped."""

    name: str = "cef_2020"
    reads_tables: bool = False

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        paths = {name: path for name, path in _named(settings).items() if path}
        files = {file: False for path in [paths.pop(_GEOGRAPHY, None)] if path for file in record_files(path)}
        return files | {file: True for path in paths.values() for file in record_files(path, _PARTS)}

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        persons, units, geography = self._paths(settings, Target.of(self.name, product, spine))
        if persons:
            _look_at_records(persons, PERSON)
        _look_at_records(units, UNIT)
        open_reference(geography, ReferenceKeys.wanted)

    def _paths(self, settings: InputSettings, target: Target) -> tuple[str, str, str]:
        """Paths of persons (empty where units are counted), units and geography."""
        counted = UNIT if target.counts_units else PERSON
        codes = {"person": PERSON_CODES, "unit": UNIT_CODES, "household": HOUSEHOLD_CODES}[target.product.record]
        target.require_codes(self.name, codes, target.recodes.attributes.values())
        for record in {UNIT.name: UNIT, counted.name: counted}.values():
            target.require_codes(self.name, record.codes, [target.unit_class])
        target.require_geocodes(self.name)
        return _locate(settings, self.name, of_units=target.counts_units)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the files; see :class:`~das_spark.spark.readers.base.Reader`.

        Facilities without persons, where they are let pass, and persons where a structural zero allows none are among
        the problems of the tables.
        """
        return self.gathering(settings, product, spine).read(spark)

    def gathering(self, settings: InputSettings, product: Product, spine: Spine) -> Gathering:
        """Open the files, and say how they come together."""
        target = Target.of(self.name, product, spine)
        persons, units, geography = self._paths(settings, target)
        levels, of_class = levels_of(target), unit_class(target)
        of_units = UnitLines(levels if target.counts_units else (), of_class, product.record)
        tables = [_lines(units, _UNITS, of_units)]
        if persons:
            tables.insert(0, _lines(persons, _PERSONS, PersonLines(levels, of_class)))
        fields, lines = open_reference(geography, ReferenceKeys.wanted)
        reference = Reading(Names(geography, (), _GEOGRAPHY), ReferenceKeys(fields), lines)
        homes = _homes(persons, units, target, refused=settings.unit_conflicts == "fail")
        blocks = _KeyPass(
            Rule(geography, BLOCK_KEY, "one block for each key"),
            Rule(units, "OIDTB", f"the {BLOCK_KEY} of a block of {geography}"),
            Rule(units, "FINAL_POP", "a sum over the units of each state that is its number of person lines"),
            target,
            persons or units,
        )
        joins = (Join(tuple(table.names.table for table in tables), homes), Join((_GEOGRAPHY,), blocks))
        leaves = LeafPass(target.classes, (Kind.GEOGRAPHY,), {}, {}, {}, frozenset(), units=True, made=None)
        return Gathering((*tables, reference), {}, joins, product.records, None, leaves)


def _locate(settings: InputSettings, reader: str, *, of_units: bool) -> tuple[str, str, str]:
    named = _named(settings)
    wanted = FILES[1:] if of_units else FILES
    paths = {name: required(named[name], f"input.{name}", reader) for name in wanted}
    return paths.get(_PERSONS, ""), paths[_UNITS], paths[_GEOGRAPHY]


def _named(settings: InputSettings) -> dict[str, str | None]:
    """Paths of the files, by the settings or by their names in a folder."""
    named: dict[str, str | None] = {name: getattr(settings, name) for name in FILES}
    if settings.path:
        require_path(settings.path)
        named = {name: path or named_in(settings.path, name, ENDINGS) for name, path in named.items()}
    return named


def _look_at_records(file: str, record: Record) -> None:
    """See without Spark that files of records begin with one, fixed or delimited."""
    require_path(file)

    def is_record(line: str) -> bool:
        fields = line.split(DELIMITER)
        return len(fields) == len(record.fields) if len(fields) > 1 else len(line) == record.length

    look_at_lines(file, _PARTS, is_record, f"a {record.name} record: {form_of(record)}")


def _lines(file: str, table: str, resolve: Resolve) -> Reading:
    require_path(file)
    return Reading(Names(file, (), table), resolve, TextLines.of([file], _PARTS))


def _homes(persons: str, units: str, target: Target, *, refused: bool) -> _HomePass:
    """Say how persons come to their units, and what both say of each other."""
    relates = any(coded.name == RELGQ for coded in target.recodes.attributes.values())
    alone = f"a FINAL_POP of 1 in {units} where nobody else lives in the unit, and there alone"
    return _HomePass(
        once=Rule(units, "MAFID", "each unit once"),
        known=Rule(persons, "MAFID", f"the unit of every person in {units}"),
        alone=None,
        occupied=False,
        bound=False,
        of_class=Rule(persons, "QGQTYP", "the type of group quarters that the unit has") if persons else None,
        of_size=Rule(persons, "MAFID", alone) if persons and relates else None,
        inhabited=Rule(units, "MAFID", "a person line for every facility of group quarters (RTYPE 4)"),
        refused=refused,
    )


@dataclass(frozen=True, slots=True)
class _HomePass(UnitPass):
    """Persons with their unit, and what both say of each other.

    Attributes:
        of_class: The class of a person's unit is that of her record; None where persons are not read.
        of_size: A unit says whether somebody lives alone in it; None where that is not asked.
        inhabited: Somebody lives in every facility.
        refused: Whether facilities without persons are refused, or let pass.
    """

    of_class: Rule | None
    of_size: Rule | None
    inhabited: Rule
    refused: bool

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """See `UnitPass`; what is made of rows has the key of a block in the place of a unit."""
        yield from map(_under_keys, UnitPass.together(self, rows))
        if self.of_class is None:
            return
        first, group = groups_of(rows, OF_UNIT)
        kind, row, said = (array_of(rows, name) for name in ("kind", "row", "said"))
        home, level, unit_class = kind <= Kind.VACANT_HOME, array_of(rows, "level"), array_of(rows, "cell")[first]
        persons = np.bincount(group[~home], minlength=len(first))
        one = (np.bincount(group[home], minlength=len(first)) == 1)[group]
        others = ~home & one & (level != unit_class[group])
        problems = [self.of_class.broken(int(others.sum()), row[others])]
        if self.of_size is not None:
            alone, says = persons == 1, said[first] == 1
            odd = ~home & one & ~others & (level == 0) & (alone != says)[group]
            problems.append(self.of_size.broken(int(odd.sum()), row[odd]))
        yield tell(INPUT_ROWS, BY_UNIT, problems)
        empty = home & one & (array_of(rows, "cell") > 0) & (persons == 0)[group]
        yield tell(INPUT_ROWS, _EMPTY, [self.inhabited.broken(int(empty.sum()), row[empty])])
        population = {GEOCODE: rows.column(GEOCODE).combine_chunks(), COUNT: said}
        told = input_rows(Kind.SAID, population, len(said)).filter(pa.array(home & (said > 0)))
        yield _under_keys(summed(told))

    def judged(self, facts: Facts) -> tuple[Problem, ...]:
        """See `UnitPass`; facilities without persons are let pass, if they are not refused."""
        UnitPass.judged(self, facts)
        empty = problems_in(facts_of(_EMPTY, facts))
        if self.refused:
            refuse(empty, hint='correct the files, or set input.unit_conflicts = "from_people"')
        return tuple(empty)


def _under_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of units, which have the key of a block in the place of a geocode, under that key."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    return pa.RecordBatch.from_pydict(columns | {OF_UNIT: columns[GEOCODE]}, schema=rows.schema)


@dataclass(frozen=True, slots=True)
class _KeyPass(Pass):
    """Units and persons with the block to which the key of their unit leads.

    Attributes:
        one: A key leads to one block.
        known: The key of every unit leads to one.
        agreed: Of each state, units say to have as many persons as there are.
        target: What is read for.
        file: Of what is counted.
    """

    keys = (OF_UNIT, "kind")

    one: Rule
    known: Rule
    agreed: Rule
    target: Target
    file: str

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return rows under the geocodes of their blocks."""
        first, group = groups_of(rows, OF_UNIT)
        kind, cell, count, row = (array_of(rows, name) for name in ("kind", "cell", COUNT, "row"))
        geocodes, block = rows.column(GEOCODE).combine_chunks(), kind == Kind.GEOGRAPHY
        several = other_blocks(group, block, geocodes)
        # A block stands before what its key leads to.
        known = block[first][group]
        lost = ~known & np.isin(kind, (Kind.UNITS, Kind.VACANT))
        problems = [
            self.one.broken(int(several.sum()), row[several], geocodes.filter(pa.array(several))),
            self.known.broken(int(count[lost].sum()), row[lost]),
        ]
        codes = geocodes.take(pa.array(first))
        states = pc.utf8_slice_codeunits(codes, 0, _STATE).to_numpy(zero_copy_only=False)
        population = {
            name: _by_state(states, group, np.where(known & (kind == of), count, 0))
            for name, of in (("said", Kind.SAID), ("counted", Kind.COUNTED))
        }
        yield tell(INPUT_ROWS, _BY_KEY, problems, **population)
        counted = kind == Kind.COUNTED
        yield tell(INPUT_ROWS, _IMPOSSIBLE, self._impossible(cell[counted], count[counted]))
        cut = cut_to(self.target.spine.leaf.length, codes)
        columns = {name: rows.column(name).combine_chunks() for name in ("kind", "cell", COUNT)}
        columns[GEOCODE] = cut.take(pa.array(group))
        yield summed(filled(INPUT_ROWS, columns, len(group)).filter(pa.array(known & (kind != Kind.SAID))))

    def _impossible(self, cell: Whole, count: Whole) -> Iterator[Problem]:
        """What is counted in cells that are structural zeros."""
        schema, coded = self.target.product.schema, self.target.recodes.attributes
        levels = np.unravel_index(cell, schema.shape)
        for zero in self.target.product.structural_zeros:
            inside = np.ones(len(cell), dtype=np.bool_)
            for name, excluded in zero.selection:
                inside = inside & np.isin(levels[schema.axis(name)], excluded)
            fields = ", ".join(sorted({coded[name].name for name, _ in zero.selection}))
            yield Rule(self.file, fields, zero.meaning).broken(int(count[inside].sum()))

    def judged(self, facts: Facts) -> tuple[Problem, ...]:
        """Refuse keys of several blocks, units without a block, and states whose numbers disagree."""
        by_key = facts_of(_BY_KEY, facts)
        refuse(problems_in(by_key))
        if not self.target.counts_units:
            said, counted = Counter[str](), Counter[str]()
            for fact in by_key:
                said.update(fact["said"])
                counted.update(fact["counted"])
            wrong = sorted(state for state in said | counted if said[state] != counted[state])
            if wrong:
                refuse([replace(self.agreed.broken(len(wrong)), geounits=tuple(wrong[:MOST_EXAMPLES]))])
        return tuple(problems_in(facts_of(_IMPOSSIBLE, facts)))


def _by_state(states: NDArray[np.object_], group: Whole, count: Whole) -> dict[str, int]:
    """Add up counts by state."""
    sums = Counter[str]()
    for state, number in zip(states.tolist(), np.bincount(group, count, len(states)).tolist(), strict=True):
        sums[state] += int(number)
    return {state: number for state, number in sums.items() if number}
