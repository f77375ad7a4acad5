"""Lines of CEF records, fixed or delimited, opened and checked field by field in one pass.

A good line matches one regular expression; only the others are looked at again, field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.io.cef_layout import DELIMITER, LARGEST_CLASS, PERSON, UNIT, Record
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, with_place
from das_spark.io.readers._sources import is_folder, require_path
from das_spark.io.readers.base import Problem, reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LINE = "line"
"""Column of a line in fixed width, whichever way it was written; null where a delimited one cannot be."""

_PARTS = "{*.txt,*.txt.gz,*.dat,*.dat.gz,*.cef,*.cef.gz,part-*}"
"""Names of data files in a folder, where a README may stand beside them."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one kind of record.

    Args:
        file: Its path, for messages.
        record: The kind.
        frame: Columns value, line, faults, and where each line lies.
        checks: Behind the faults, in order.
    """

    file: str
    record: Record
    frame: DataFrame
    checks: tuple[Check, ...]

    @property
    def is_good(self) -> Column:
        """Whether a line passes every check."""
        return F.col(FAULTS) == 0

    def problems(self, counted: dict[int, int]) -> list[Problem]:
        """Describe the checks that failed.

        Args:
            counted: Lines by the value of the faults; 0 may be among them.
        """
        found = {fault: lines for fault, lines in counted.items() if fault}
        with reading(self.file):
            return problems_of(self.frame, found, self.checks) if found else []


def text(record: Record, name: str) -> Column:
    """The characters of a field."""
    field = record.field(name)
    return F.substring(LINE, field.start + 1, field.width)


def number(record: Record, name: str) -> Column:
    """The number in a field (long)."""
    return F.trim(text(record, name)).try_cast("long")


def block_key(column: Column) -> Column:
    """The number of a block as text without spaces and leading zeros: 22 digits are more than a long holds."""
    return F.regexp_replace(F.trim(column), "^0+(?=.)", "")


def quarters_class(record: Record) -> Column:
    """Class of unit (int): 0 in a housing unit, else the first digit of the type of group quarters, 7 at most."""
    code = text(record, "QGQTYP")
    first = F.least(F.substring(code, 1, 1).try_cast("int"), F.lit(LARGEST_CLASS))
    return F.when(F.trim(code) == "", F.lit(0)).otherwise(first)


def open_units(spark: SparkSession, file: str) -> Lines:
    """Open the unit records.

    Args:
        spark: The session.
        file: File, folder or pattern.

    Raises:
        InputError: There is no such file.
    """
    in_quarters = F.trim(text(UNIT, "QGQTYP")) != ""
    vacant = text(UNIT, "VACS") != "0"
    return _open(
        spark,
        file,
        UNIT,
        [
            ("RTYPE, QGQTYP", "4 where there is a type of group quarters, 2 where it is blank", _not_in(UNIT, "4")),
            ("VACS", "0 in group quarters", in_quarters & vacant),
            ("VACS, FINAL_POP", "nobody in a vacant unit", vacant & (number(UNIT, "FINAL_POP") > 0)),
        ],
    )


def open_persons(spark: SparkSession, file: str) -> Lines:
    """Open the person records; see :func:`open_units`."""
    rule = ("RTYPE, QGQTYP", "5 where there is a type of group quarters, 3 where it is blank", _not_in(PERSON, "5"))
    return _open(spark, file, PERSON, [rule])


def _not_in(record: Record, quarters: str) -> Column:
    return (text(record, "RTYPE") == quarters) != (F.trim(text(record, "QGQTYP")) != "")


def _open(spark: SparkSession, file: str, record: Record, rules: Sequence[tuple[str, str, Column]]) -> Lines:
    require_path(file)
    across = [Check(file, field, expected, _of_whole(record, fails)) for field, expected, fails in rules]
    checks = [*_field_checks(file, record), *across]
    with reading(file):
        lines = with_place(spark.read.text(file, pathGlobFilter=_PARTS if is_folder(file) else None))
        fixed = lines.withColumn(
            LINE, F.when(F.contains("value", F.lit(DELIMITER)), _fixed(record)).otherwise(F.col("value"))
        )
        good = F.col(LINE).rlike(record.pattern)
        # Rules across fields have the highest bits, also where the fields themselves are in order.
        crossed = faults(across) * F.lit(1 << (len(checks) - len(across)))
        frame = fixed.withColumn(FAULTS, F.when(good, crossed).otherwise(faults(checks)))
    return Lines(file, record, frame, tuple(checks))


def _of_whole(record: Record, fails: Column) -> Column:
    return (F.length(LINE) == record.length) & fails


def _field_checks(file: str, record: Record) -> list[Check]:
    whole = F.coalesce(F.length(LINE) == record.length, F.lit(False))
    form = f"{record.length} characters, or {len(record.fields)} fields delimited by {DELIMITER}"
    return [
        Check(file, "record length", f"{form}, in every {record.name} line", ~whole),
        *[
            Check(file, field.name, field.expected, whole & ~text(record, field.name).rlike(f"^(?:{field.pattern})$"))
            for field in record.fields
        ],
    ]


def _fixed(record: Record) -> Column:
    """A delimited line in fixed width; null where it has another number of fields, or one is too long."""
    parts = F.split("value", rf"\{DELIMITER}", -1)
    padded = []
    for place, field in enumerate(record.fields):
        part = F.trim(F.get(parts, F.lit(place)))
        padded.append(F.when(F.length(part) <= field.width, F.lpad(part, field.width, " ")))
    return F.when(F.size(parts) == len(record.fields), F.concat(*padded))
