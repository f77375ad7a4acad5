"""Geography as a tidy table: Parquet or CSV, a row a block, the entities in columns of known names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import CENSUS_BLOCK, ENTITY_COLUMNS
from das_spark.io.geography._entities import Rows, checked, sixteen
from das_spark.io.geography.base import GEOCODE, EntityBlocks
from das_spark.io.readers._rows import row_checks, with_place
from das_spark.io.readers._sources import names_of, read_table

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

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file or folder of Parquet or CSV; see `GeographyReader`.

        Args:
            spark: The session.
            path: File or folder of Parquet or CSV.

        Raises:
            InputError: See `GeographyReader`.
        """
        frame = read_table(spark, path)
        missing = [name for name in ENTITY_COLUMNS if name not in frame.columns]
        if missing:
            near = get_close_matches(missing[0], names_of(frame), n=1)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"{path}: no column {', '.join(map(repr, missing))}",
                hint=f"{guess}the file has {', '.join(names_of(frame))}; a column of nulls says that there is none",
            )
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
    if GEOCODE in frame.columns:
        return GEOCODE, F.coalesce(F.col(GEOCODE).cast("string"), F.lit(""))
    name = next((name for name in BLOCK_NAMES if name in frame.columns), None)
    if name is None:
        raise InputError(
            f"{path}: no column 'geocode' of 16 digits, and no 'block' of {CENSUS_BLOCK}",
            hint=f"the file has {', '.join(names_of(frame))}",
        )
    text = F.coalesce(F.col(name).cast("string"), F.lit(""))
    good = text.rlike(f"^[0-9]{{{CENSUS_BLOCK}}}$")
    # What is no block must not be brought into the form of one.
    return name, F.when(good, sixteen(text)).otherwise(F.lit(""))
