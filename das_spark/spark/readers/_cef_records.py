"""Records of the census edited file of 2020, cut out of lines: persons and units, in classes, cells and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.cef import (
    ALONE,
    DELIMITER,
    DERIVED,
    ELDERLY,
    HHTYPE,
    HOUSEHOLD_CODES,
    HOUSEHOLDER,
    LAST_RELATIONSHIP,
    PERSON,
    RELGQ,
    TENVAC,
    UNIT,
)
from das_spark.io.input_fields import GEOCODE
from das_spark.io.line_fields import padded, records_of
from das_spark.io.text_lines import LINE
from das_spark.products import HOUSEHOLD_PLACE_VALUES
from das_spark.spark.readers._resolved import COUNT, INPUT_ROWS, Kind, Level, LineResolve, input_rows, kept, once
from das_spark.spark.readers._resolved import UNIT as OF_UNIT
from das_spark.spark.readers.grfc import block_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.io.input_fields import Rows
    from das_spark.io.record_text import Record
    from das_spark.products import CodedField

    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]

#: What is made of records. said: how many persons a unit says to have. level: class of the unit by a person's record.
_RECORD_ROWS: Final = pa.schema([*INPUT_ROWS, ("said", pa.int64()), ("level", pa.int32())])


def form_of(record: Record) -> str:
    """Say how long a line is."""
    return f"{record.length} characters, or {len(record.fields)} fields delimited by {DELIMITER}"


class _RecordLines(LineResolve):
    """Lines of records, fixed or delimited."""

    __slots__ = ()
    schema = _RECORD_ROWS
    are_records = True

    @staticmethod
    def records(rows: Rows, record: Record) -> Rows:
        """Return the lines as records, whose fields are right."""
        every = np.ones(len(rows), dtype=np.bool_)
        lines = rows.of(every, {LINE: padded(rows.column(LINE), record, DELIMITER)})
        return records_of(lines, record, every, f"{form_of(record)}, in every {record.name} line")


@dataclass(frozen=True, slots=True)
class PersonLines(_RecordLines):
    """Lines of persons.

    Attributes:
        levels: What a person tells of her cell.
        unit_class: Class of unit by the field of a record.
    """

    kinds = (Kind.COUNTED,)

    levels: tuple[Level, ...]
    unit_class: Level

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        persons = self.records(rows, PERSON)
        in_quarters = _has(persons, "QGQTYP")
        expected = "5 where there is a type of group quarters, 3 where it is blank"
        persons.check("RTYPE, QGQTYP", expected, _is(persons, "RTYPE", "5") != in_quarters)
        relates = any(level.coded.name == RELGQ for level in self.levels)
        if relates:
            at_home = persons.whole("RELSHIP").value <= LAST_RELATIONSHIP
            expected = f"{HOUSEHOLDER} to {LAST_RELATIONSHIP} in housing units and there alone"
            persons.check("RTYPE, RELSHIP", expected, ~in_quarters != at_home)
        levels = _levels(persons, self.levels, {RELGQ: _relationships})
        columns = {
            OF_UNIT: persons.column("MAFID"),
            "cell": _cell(self.levels, levels),
            "level": _level(persons, self.unit_class.coded),
            COUNT: once(len(persons)),
            "row": persons.numbers,
        }
        for level in self.levels:
            if level.coded.name == RELGQ:
                alone = _level(persons, level.coded, _relationships(persons, alone=True))
                columns["part"] = level.stride * (alone - levels[RELGQ])
        return kept(input_rows(Kind.COUNTED, columns, len(persons), self.schema), persons)


@dataclass(frozen=True, slots=True)
class UnitLines(_RecordLines):
    """Lines of units, which are what is counted where units or households are.

    Attributes:
        levels: What a unit tells of its cell; empty where persons are counted.
        unit_class: Its class.
        record: What is counted.
    """

    kinds = (Kind.UNITS, Kind.VACANT)
    nothing = "no unit record"

    levels: tuple[Level, ...]
    unit_class: Level
    record: str

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        units = self.records(rows, UNIT)
        in_quarters, vacant = _has(units, "QGQTYP"), ~_is(units, "VACS", "0")
        said = units.whole("FINAL_POP").value
        expected = "4 where there is a type of group quarters, 2 where it is blank"
        units.check("RTYPE, QGQTYP", expected, _is(units, "RTYPE", "4") != in_quarters)
        units.check("VACS", "0 in group quarters", in_quarters & vacant)
        units.check("VACS, FINAL_POP", "nobody in a vacant unit", vacant & (said > 0))
        level = _level(units, self.unit_class.coded)
        homes = self._homes(units, level, vacant, said)
        if not self.levels:
            return kept(homes, units)
        counted = self._counted(units, in_quarters, vacant)
        chosen = (level == 0) & ~(vacant & (self.record == "household")) & ~units.faulty
        return pa.concat_batches([kept(homes, units), counted.filter(pa.array(chosen))])

    def _homes(self, units: Rows, level: Whole, vacant: Flags, said: Whole) -> pa.RecordBatch:
        columns = {
            OF_UNIT: units.column("MAFID"),
            GEOCODE: block_keys(units.column("OIDTB")),
            "cell": level,
            COUNT: once(len(units)),
            "row": units.numbers,
            "kind": np.where(vacant, Kind.VACANT_HOME, Kind.HOME).astype(np.int8),
            "said": said,
        }
        return input_rows(Kind.HOME, columns, len(units), self.schema)

    def _counted(self, units: Rows, in_quarters: Flags, vacant: Flags) -> pa.RecordBatch:
        """Units as what is counted, where they are: those of the first class; of households, the occupied ones."""
        levels = _levels(units, self.levels, _DERIVED)
        of_households = self.record == "household"
        for level in self.levels:
            name = level.coded.name
            fields = ", ".join(DERIVED.get(name, (name,)))
            if name == TENVAC:
                expected = "tenure 1 to 4 of an occupied housing unit, and 0 of a vacant one"
                units.check(fields, expected, ~in_quarters & (_is(units, "TEN", "0") != vacant))
            elif of_households:
                lacking = ~in_quarters & ~vacant & (levels[name] < 0)
                expected = _EXPECTED.get(name, f"one of {HOUSEHOLD_CODES[name]}")
                units.check(fields, f"{expected} in an occupied housing unit", lacking)
        columns = {
            OF_UNIT: units.column("MAFID"),
            "cell": _cell(self.levels, levels),
            COUNT: once(len(units)),
            "row": units.numbers,
        }
        return input_rows(Kind.COUNTED, columns, len(units), self.schema)


_EXPECTED: Final = {HHTYPE: "what there can be together"}


def _has(rows: Rows, name: str) -> Flags:
    """Whether a field is not blank."""
    return np.asarray(rows.column(name).is_valid())


def _is(rows: Rows, name: str, code: str) -> Flags:
    """Whether a field has a code."""
    return np.asarray(pc.fill_null(pc.equal(rows.column(name), code), False))


def _level(rows: Rows, coded: CodedField, codes: Whole | None = None) -> Whole:
    """The level of a field, or of codes that are put together of several; -1 where there is none."""
    missing = np.zeros(len(rows), dtype=np.bool_)
    if codes is None:
        number = rows.whole(coded.name)
        codes, missing = number.value, number.is_missing
    distinct, places = np.unique(codes, return_inverse=True)
    level = coded.level_of(distinct)[places]
    level[missing] = -1 if coded.blank_level is None else coded.blank_level
    return level


def _levels(rows: Rows, coded: Sequence[Level], derived: Mapping[str, Callable[[Rows], Whole]]) -> dict[str, Whole]:
    """The levels of fields, and of codes that are put together of several, by name."""
    names = [level.coded.name for level in coded]
    codes = {name: derived[name](rows) for name in names if name in derived}
    return {level.coded.name: _level(rows, level.coded, codes.get(level.coded.name)) for level in coded}


def _cell(coded: Sequence[Level], levels: Mapping[str, Whole]) -> Whole:
    """The cells of records; anything where a field has no level."""
    cells: Whole = np.sum([level.stride * levels[level.coded.name] for level in coded], axis=0, dtype=np.int64)
    return cells


def _number(rows: Rows, name: str) -> Whole:
    """The numbers in a field; 0 where it is blank."""
    return rows.whole(name).value


def _relationships(rows: Rows, *, alone: bool = False) -> Whole:
    """Codes of RELGQ, of persons with others in their unit, or of such who are alone there."""
    relationship, quarters = _number(rows, "RELSHIP"), rows.whole("QGQTYP")
    if alone:
        relationship = np.where(relationship == HOUSEHOLDER, ALONE, relationship)
    return np.where(quarters.is_missing, relationship, quarters.value)


def _elderly(rows: Rows) -> Whole:
    some = {name: _number(rows, name) > 0 for name in ("P75", "P65", "P60")}
    return np.select(list(some.values()), [3, 2, 1], 0)


def _tenure(rows: Rows) -> Whole:
    vacant = _number(rows, "VACS")
    return np.where(vacant > 0, vacant + _TENURES, _number(rows, "TEN"))


def _household_type(rows: Rows) -> Whole:
    """Codes of HHTYPE: couple, ages of own and other children, children, family, generations and size."""

    def ages(name: str) -> Whole:
        code = _number(rows, name)
        return np.where((code >= 1) & (code <= _LAST_AGES), code, 0)

    couple, size, family = (_number(rows, name) for name in ("CPLT", "FINAL_POP", "HHT"))
    fields = (
        np.where((couple >= 1) & (couple <= _COUPLES), couple - 1, _COUPLES),
        ages("PAOC"),
        ages("PAC"),
        _number(rows, "P18") > 0,
        (family >= 1) & (family <= _LAST_FAMILY),
        _number(rows, "MULTG") == _GENERATIONS,
        np.minimum(size, _LARGEST),
    )
    code = sum(field * value for field, value in zip(fields, HOUSEHOLD_PLACE_VALUES, strict=True))
    return np.where(size > 0, code, -1)


_TENURES, _COUPLES, _LAST_AGES, _LAST_FAMILY, _GENERATIONS, _LARGEST = 4, 4, 3, 3, 2, 7
"""Codes of unit records: the last of TEN, of CPLT of couples, of PAOC and PAC of children, and of HHT of families; that
of MULTG for three generations; and the size from which on households are of one."""

_DERIVED: Final = {TENVAC: _tenure, ELDERLY: _elderly, HHTYPE: _household_type}
"""Codes that are put together of fields of a unit record."""
