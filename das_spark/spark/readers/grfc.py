"""The geographic reference file (GRF-C): every tabulation block, by the key that unit records carry.

Text delimited by ``|`` with a line of names; the columns that are read are found by name, the others are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.geography import ENTITY_COLUMNS
from das_spark.io.cef import BLOCK_KEY, GEOCODE_PARTS, UNIT
from das_spark.io.input_fields import GEOCODE
from das_spark.spark.problems import (
    FAULTS,
    Problem,
    RowCheck,
    faults,
    reading,
    refuse,
    row_numbers,
    some_geounits,
)
from das_spark.spark.readers._areas import AreaRows, Delimited, block_problems, checked
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


KEY: Final = "block_key"
_KIND: Final = "the geographic reference file (GRF-C)"
_PARTS: Final = tuple(name for name, _ in GEOCODE_PARTS)
_GROUP, _BLOCK = _PARTS[3:]
_KEYED: Final = (*_PARTS, BLOCK_KEY)
_WANTED: Final = (*_PARTS, *(column.upper() for column in ENTITY_COLUMNS))


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
        """Check every row, and that no key leads to two blocks; without a block, an error."""
        with reading(self.file):
            problems = block_problems(self.file, self.frame, self.checks)
            return problems or _ambiguous_keys(self.file, self.frame, "one block for each key")


def look_at_geography(file: str) -> None:
    """See without Spark that the file begins with the line of names."""
    Delimited.look([file], _KEYED, file=file, kind=_KIND)


def open_geography(spark: SparkSession, file: str) -> GeographicReference:
    """Open the file; rows with a fault, and the line of names, have no geocode."""
    table = Delimited.open(spark, [file], _KEYED, file=file, kind=_KIND)
    checks = _checks(table)
    frame = table.frame.select("*", faults(checks), block_key(table.column(BLOCK_KEY)).alias(KEY))
    geocode = F.when(table.is_row & (F.col(FAULTS) == 0), _geocode(table))
    return GeographicReference(file, frame.withColumn(GEOCODE, geocode), checks)


def _geocode(table: Delimited) -> Column:
    return F.concat(*(table.column(name) for name in _PARTS))


def _checks(table: Delimited) -> tuple[RowCheck, ...]:
    largest = UNIT.field("OIDTB").width
    digits = {name: (f"{width}", f"{width}") for name, width in GEOCODE_PARTS}
    digits[BLOCK_KEY] = (f"1,{largest}", f"up to {largest}")
    good = {name: table.column(name).rlike(f"^[0-9]{{{allowed}}}$") for name, (allowed, _) in digits.items()}
    other = table.column(_GROUP) != F.substring(table.column(_BLOCK), 1, 1)
    return (
        table.form,
        *(
            RowCheck(table.file, name, f"{expected} digits", table.whole & ~good[name])
            for name, (_, expected) in digits.items()
        ),
        RowCheck(table.file, _GROUP, f"the first digit of {_BLOCK}", table.whole & good[_GROUP] & good[_BLOCK] & other),
    )


class Grfc:
    """The reader of GRF-C text: columns delimited by ``|`` and found by their names in the first line.

    Read are the five parts of the geocode, AIANNHCE, COUSUBFP, COUSUBFS, PLACEFP, PLACEFS, SDUNILEA, SDSECLEA and
    SDELMLEA; a blank code says that the block lies in no such entity. Where the file has OIDTABBLK, each of its keys
    must lead to one block, so that no block lies in two tracts.
    """

    name = "grfc"

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        Delimited.look([path], _WANTED, file=path, kind=_KIND)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file, a folder or a pattern; see `GeographyReader`."""
        table = Delimited.open(spark, [path], _WANTED, file=path, kind=_KIND)
        rows = AreaRows(
            file=path,
            frame=table.frame,
            whole=table.whole,
            is_block=F.lit(True),
            geocode=_geocode(table),
            geocode_field=", ".join(_PARTS),
            fields={column: (column.upper(), table.column(column.upper())) for column in ENTITY_COLUMNS},
            checks=(table.form,),
        )
        found = checked(rows)
        if BLOCK_KEY in table.names:
            geocode = F.when(table.whole, rows.geocode)
            keyed = table.frame.withColumns({KEY: block_key(table.column(BLOCK_KEY)), GEOCODE: geocode})
            with reading(path):
                problems = _ambiguous_keys(path, keyed, "one block, in one tract, for each key")
                refuse(problems, hint="a block lies in one tract; correct the file", public=True)
        return found


def _ambiguous_keys(file: str, rows: DataFrame, expected: str) -> list[Problem]:
    """Keys that lead to two blocks: the same block in two tracts."""
    keyed = rows.where(F.col(GEOCODE).isNotNull() & (F.col(KEY) != ""))
    several = keyed.groupBy(KEY).agg(F.min(GEOCODE).alias("least"), F.max(GEOCODE).alias("most"))
    bad = keyed.join(several.where("least != most"), KEY, "left_semi")
    number = bad.count()
    return [Problem(file, BLOCK_KEY, expected, number, row_numbers(rows, bad), some_geounits(bad))] if number else []


def block_key(column: Column) -> Column:
    """The number of a block as text without spaces and leading zeros: 22 digits are more than a long holds."""
    return F.regexp_replace(F.trim(column), "^0+(.)", "$1")
