"""Geography as a tidy table: Parquet or CSV, a row a block, the entities in columns of known names."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import CENSUS_BLOCK, ENTITY_COLUMNS
from das_spark.io.geography._entities import Rows, checked, sixteen
from das_spark.io.geography.base import GEOCODE, EntityBlocks
from das_spark.io.readers._rows import row_checks, with_place
from das_spark.io.readers._sources import columns_in, names_of, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Names of a column of census blocks of 15 digits, where there is none of geocodes of 16.
BLOCK_NAMES = ("block", "geoid")


class Tidy:
    """The reader of a table with geocode (16 digits) or block (15), and all columns of the entities by name.

    Columns: aiannhce, cousubfp, cousubfs, placefp, placefs, sdunilea, sdseclea, sdelmlea; a null or empty code says
    that the block lies in no such entity. Others are not looked at.
    """

    name = "tidy"

    def look(self, path: str) -> None:
        """See whether the table is there, with its columns; see `GeographyReader`.

        Args:
            path: File or folder of Parquet or CSV.

        Raises:
            InputError: See `GeographyReader`.
        """
        columns = columns_in(path)
        if columns is not None:
            _require_entities(path, columns)
            block_field(path, columns)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file or folder of Parquet or CSV; see `GeographyReader`.

        Args:
            spark: The session.
            path: File or folder of Parquet or CSV.

        Raises:
            InputError: See `GeographyReader`.
        """
        frame = read_table(spark, path)
        _require_entities(path, names_of(frame))
        field, geocode = block_column(path, frame)
        rows = Rows(
            file=path,
            placed=with_place(frame),
            whole=F.lit(True),
            is_block=F.lit(True),
            geocode=geocode,
            geocode_field=field,
            fields={name: (name, F.col(name).cast("string")) for name in ENTITY_COLUMNS},
            checks=tuple(row_checks(path, frame)),
        )
        return checked(rows)


def block_field(path: str, columns: Sequence[str]) -> str:
    """The name of the column of a table that names blocks.

    Args:
        path: Of the table, for messages.
        columns: Names of its columns.

    Raises:
        InputError: There is none.
    """
    name = next((name for name in (GEOCODE, *BLOCK_NAMES) if name in columns), None)
    if name is None:
        raise InputError(
            f"{path}: no column 'geocode' of 16 digits, and no 'block' of {CENSUS_BLOCK}",
            hint=f"the file has {', '.join(columns)}",
        )
    return name


def _require_entities(path: str, columns: Sequence[str]) -> None:
    missing = [name for name in ENTITY_COLUMNS if name not in columns]
    if missing:
        near = get_close_matches(missing[0], columns, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{path}: no column {', '.join(map(repr, missing))}",
            hint=f"{guess}the file has {', '.join(columns)}; a column of nulls says that there is none",
        )


def block_column(path: str, frame: DataFrame) -> tuple[str, Column]:
    """The column of a table that names blocks.

    Args:
        path: Of the table, for messages.
        frame: The table.

    Returns:
        Its name, and the geocode of 16 characters; other text where the row names no block.

    Raises:
        InputError: There is none.
    """
    name = block_field(path, names_of(frame))
    if name == GEOCODE:
        return GEOCODE, F.coalesce(F.col(GEOCODE).cast("string"), F.lit(""))
    text = F.coalesce(F.col(name).cast("string"), F.lit(""))
    good = text.rlike(f"^[0-9]{{{CENSUS_BLOCK}}}$")
    # What is no block must not be brought into the form of one.
    return name, F.when(good, sixteen(text)).otherwise(F.lit(""))
