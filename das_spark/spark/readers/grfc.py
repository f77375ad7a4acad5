"""The geographic reference file (GRF-C): every tabulation block, by the key that unit records carry.

Text delimited by ``|`` with a line of names; the columns that are read are found by name, the others are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import ENTITY_COLUMNS
from das_spark.io.cef import BLOCK_KEY, DELIMITER, GEOCODE_PARTS, UNIT
from das_spark.io.input_files import data_files, first_line, require_path
from das_spark.spark.readers._areas import AreaRows, Delimited, checked
from das_spark.spark.readers._rows import FAULTS, RowCheck, faults, problems_of, row_numbers, with_place
from das_spark.spark.readers.base import EntityBlocks, Problem, reading, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


GEOCODE = "geocode"
KEY = "block_key"
_GROUP, _BLOCK = 3, 4


@dataclass(frozen=True, slots=True)
class GeographicReference:
    """The opened file."""

    file: str
    frame: DataFrame
    checks: tuple[RowCheck, ...]

    @property
    def blocks(self) -> DataFrame:
        """Columns block_key and geocode, each key once."""
        return self.frame.where(F.col(GEOCODE).isNotNull()).select(KEY, GEOCODE).dropDuplicates([KEY])

    def problems(self) -> list[Problem]:
        """Check every row, and that no key leads to two blocks.

        Raises:
            InputError: There is no block.
        """
        with reading(self.file):
            is_block = F.col(GEOCODE).isNotNull().alias("is_block")
            rows = self.frame.groupBy(FAULTS, is_block).count().collect()
            counted = {row[FAULTS]: row["count"] for row in rows if row[FAULTS]}
            problems = problems_of(self.frame, counted, self.checks)
            if not problems and not any(row["is_block"] for row in rows):
                raise InputError(f"{self.file}: no block, so no geounit exists", hint="is it the whole file?")
            return problems or self._ambiguous()

    def _ambiguous(self) -> list[Problem]:
        rows = self.frame.where(F.col(GEOCODE).isNotNull())
        several = rows.groupBy(KEY).agg(F.countDistinct(GEOCODE).alias("blocks")).where("blocks > 1")
        bad = rows.join(several, KEY, "left_semi")
        number = bad.count()
        if not number:
            return []
        return [Problem(self.file, BLOCK_KEY, "one block for each key", number, row_numbers(self.frame, bad))]


def open_geography(spark: SparkSession, file: str) -> GeographicReference:
    """Open the file.

    Raises:
        InputError: There is no such file, or a column is missing.
    """
    require_path(file)
    with reading(file):
        lines = spark.read.text(file)
        first = lines.head()
    if first is None:
        raise InputError(f"{file}: the file is empty, so no geounit exists")
    header = str(first[0])
    names = _names(file, header)
    column = _columns(names)
    checks = _checks(file, column, len(names))
    is_header = F.col("value") == header
    # The line of names is a row without faults and without geocode.
    frame = (
        with_place(lines)
        .withColumn(FAULTS, F.when(is_header, F.lit(0).cast("long")).otherwise(faults(checks)))
        .withColumn(KEY, block_key(column[BLOCK_KEY]))
        .withColumn(
            GEOCODE, F.when(~is_header & (F.col(FAULTS) == 0), F.concat(*[column[name] for name, _ in GEOCODE_PARTS]))
        )
    )
    return GeographicReference(file, frame, tuple(checks))


def look_at_geography(file: str) -> None:
    """See without Spark that the file begins with the line of names.

    Raises:
        InputError: There is no such file, it is no text, or a column is missing.
    """
    require_path(file)
    for each in data_files(file):
        _names(str(each), first_line(each))


def _names(file: str, header: str) -> list[str]:
    names = [name.strip() for name in header.lstrip("\ufeff").split(DELIMITER)]
    missing = [name for name in (*(name for name, _ in GEOCODE_PARTS), BLOCK_KEY) if name not in names]
    if missing:
        hint = (
            f"its first line names the columns, delimited by {DELIMITER}, as in the geographic reference file (GRF-C)"
        )
        raise InputError(f"{file}: no column {', '.join(missing)}", hint=hint)
    return names


def _columns(names: Sequence[str]) -> dict[str, Column]:
    wanted = [*(name for name, _ in GEOCODE_PARTS), BLOCK_KEY]
    return {name: F.trim(F.get(_parts(), F.lit(names.index(name)))) for name in wanted}


def _parts() -> Column:
    return F.split("value", rf"\{DELIMITER}", -1)


def _checks(file: str, column: Mapping[str, Column], columns: int) -> list[RowCheck]:
    whole = F.size(_parts()) == columns
    group, block = GEOCODE_PARTS[_GROUP][0], GEOCODE_PARTS[_BLOCK][0]
    parts = [*GEOCODE_PARTS, (BLOCK_KEY, 0)]
    largest = UNIT.field("OIDTB").width
    first_digit = F.substring(column[block], 1, 1)
    good = {name: column[name].rlike(f"^[0-9]{{{digits or f'1,{largest}'}}}$") for name, digits in parts}
    return [
        RowCheck(file, "", f"{columns} columns, as in the first line", ~whole),
        *[
            RowCheck(file, name, f"{digits or f'up to {largest}'} digits", whole & ~good[name])
            for name, digits in parts
        ],
        RowCheck(
            file,
            group,
            f"the first digit of {block}",
            whole & good[group] & good[block] & (column[group] != first_digit),
        ),
    ]


_KIND: Final = "the geographic reference file (GRF-C)"
_KEY: Final = "block_key"
_WANTED: Final = (*(name for name, _ in GEOCODE_PARTS), *(column.upper() for column in ENTITY_COLUMNS))


class Grfc:
    """The reader of GRF-C text: columns delimited by ``|`` and found by their names in the first line.

    Read are the five parts of the geocode, AIANNHCE, COUSUBFP, COUSUBFS, PLACEFP, PLACEFS, SDUNILEA, SDSECLEA and
    SDELMLEA; a blank code says that the block lies in no such entity. Where the file has OIDTABBLK, each of its keys
    must lead to one block, so that no block lies in two tracts.
    """

    name = "grfc"

    def look(self, path: str) -> None:
        """See whether the file is there, with its columns; see `GeographyReader`."""
        Delimited.look([path], _WANTED, file=path, kind=_KIND)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file, a folder or a pattern; see `GeographyReader`."""
        parts = [name for name, _ in GEOCODE_PARTS]
        fields = {column: column.upper() for column in ENTITY_COLUMNS}
        table = Delimited.open(spark, [path], _WANTED, file=path, kind=_KIND)
        rows = AreaRows(
            file=path,
            placed=table.placed,
            whole=table.whole,
            is_block=F.lit(True),
            geocode=F.concat(*(table.column(name) for name in parts)),
            geocode_field=", ".join(parts),
            fields={column: (field, table.column(field)) for column, field in fields.items()},
            checks=(table.form,),
        )
        found = checked(rows)
        if BLOCK_KEY in table.names:
            with reading(path):
                refuse(self._split(table, rows), hint="a block lies in one tract; correct the file")
        return found

    @staticmethod
    def _split(table: Delimited, rows: AreaRows) -> list[Problem]:
        """Keys that lead to two blocks: the same block in two tracts."""
        keyed = table.placed.where(rows.whole).withColumns(
            {_KEY: block_key(table.column(BLOCK_KEY)), "geocode": rows.geocode}
        )
        keyed = keyed.where(F.col(_KEY) != "")
        several = keyed.groupBy(_KEY).agg(F.min("geocode").alias("least"), F.max("geocode").alias("most"))
        bad = keyed.join(several.where("least != most"), _KEY, "left_semi")
        some = tuple(row[0] for row in bad.select("geocode").distinct().orderBy("geocode").limit(4).collect())
        if not some:
            return []
        expected = "one block, in one tract, for each key"
        return [Problem(rows.file, BLOCK_KEY, expected, bad.count(), row_numbers(table.placed, bad), some)]


def block_key(column: Column) -> Column:
    """The number of a block as text without spaces and leading zeros: 22 digits are more than a long holds."""
    return F.regexp_replace(F.trim(column), "^0+(?=.)", "")
