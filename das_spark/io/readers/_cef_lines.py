"""Lines of CEF records, fixed or delimited, opened and checked field by field in one pass.

A good line matches one regular expression, and keeps rules across fields. Only when there is another one, the file is
read again, field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.io.cef_layout import DELIMITER, LARGEST_CLASS, PERSON, UNIT, Record
from das_spark.io.readers._begin import look_at_lines
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, with_place
from das_spark.io.readers._sources import any_of, is_folder, require_path
from das_spark.io.readers.base import Problem, reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

IS_GOOD = "is_good"
LINE = "line"
"""Column of a line in fixed width, whichever way it was written; null where a delimited one cannot be."""

_PARTS = ("*.txt", "*.txt.gz", "*.dat", "*.dat.gz", "*.cef", "*.cef.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one kind of record.

    Args:
        file: Its path, for messages.
        record: The kind.
        frame: Columns value, line, is_good, and where each line lies.
        rules: Across fields; asked where the fields are in order.
    """

    file: str
    record: Record
    frame: DataFrame
    rules: tuple[Check, ...]

    def problems(self) -> list[Problem]:
        """Describe the checks that failed; reads all lines again."""
        checks = [*_field_checks(self.file, self.record), *self.rules]
        checked = self.frame.withColumn(FAULTS, faults(checks))
        with reading(self.file):
            rows = checked.where(F.col(FAULTS) != 0).groupBy(FAULTS).count().collect()
            return problems_of(checked, {row[FAULTS]: row["count"] for row in rows}, checks)


def text(record: Record, name: str) -> Column:
    """The characters of a field.

    Args:
        record: The kind of record.
        name: Name of one of its fields.
    """
    field = record.field(name)
    return F.substring(LINE, field.start + 1, field.width)


def number(record: Record, name: str) -> Column:
    """The number in a field (long; null where there is none).

    Args:
        record: The kind of record.
        name: Name of one of its fields.
    """
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
    """Open the person records; see :func:`open_units`.

    Args:
        spark: The session.
        file: File, folder or pattern.

    Raises:
        InputError: There is no such file.
    """
    rule = ("RTYPE, QGQTYP", "5 where there is a type of group quarters, 3 where it is blank", _not_in(PERSON, "5"))
    return _open(spark, file, PERSON, [rule])


def look_at_records(file: str, record: Record) -> None:
    """See without Spark that files of records begin with one, fixed or delimited.

    Args:
        file: File or folder.
        record: The kind.

    Raises:
        InputError: A file is missing, unreadable, or does not begin so.
    """
    require_path(file)

    def is_record(line: str) -> bool:
        fields = line.split(DELIMITER)
        return len(fields) == len(record.fields) if len(fields) > 1 else len(line) == record.length

    look_at_lines(file, _PARTS, is_record, f"a {record.name} record: {_form(record)}")


def _form(record: Record) -> str:
    return f"{record.length} characters, or {len(record.fields)} fields delimited by {DELIMITER}"


def _not_in(record: Record, quarters: str) -> Column:
    return (text(record, "RTYPE") == quarters) != (F.trim(text(record, "QGQTYP")) != "")


def _open(spark: SparkSession, file: str, record: Record, rules: Sequence[tuple[str, str, Column]]) -> Lines:
    require_path(file)
    good = F.coalesce(F.col(LINE).rlike(record.pattern), F.lit(False))
    across = [Check(file, field, expected, good & fails) for field, expected, fails in rules]
    with reading(file):
        lines = with_place(spark.read.text(file, pathGlobFilter=any_of(_PARTS) if is_folder(file) else None))
        delimited = F.contains("value", F.lit(DELIMITER))
        fixed = lines.withColumn(LINE, F.when(delimited, _fixed(record)).otherwise(F.col("value")))
        broken = reduce(lambda one, other: one | other, (fails for _, _, fails in rules))
        frame = fixed.withColumn(IS_GOOD, good & ~broken)
    return Lines(file, record, frame, tuple(across))


def _field_checks(file: str, record: Record) -> list[Check]:
    whole = F.coalesce(F.length(LINE) == record.length, F.lit(False))
    return [
        Check(file, "record length", f"{_form(record)}, in every {record.name} line", ~whole),
        *[
            Check(file, field.name, field.expected, whole & ~text(record, field.name).rlike(f"^(?:{field.pattern})$"))
            for field in record.fields
        ],
    ]


def _fixed(record: Record) -> Column:
    """A delimited line in fixed width; null where it has another number of fields, or one is too long."""
    parts = rf"split(value, '\\{DELIMITER}', -1)"
    fields = [(f"trim(get({parts}, {place}))", field.width) for place, field in enumerate(record.fields)]
    padded = ", ".join(
        f"CASE WHEN length({part}) <= {width} THEN lpad({part}, {width}, ' ') END" for part, width in fields
    )
    return F.expr(f"CASE WHEN size({parts}) = {len(fields)} THEN concat({padded}) END")
