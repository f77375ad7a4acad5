"""The geographic reference file (GRF-C) with the columns of the entities of every tabulation block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.geography import ENTITY_COLUMNS
from das_spark.io.cef_layout import BLOCK_KEY, GEOCODE_PARTS
from das_spark.io.geography._delimited import Delimited
from das_spark.io.geography._entities import Rows, checked
from das_spark.io.geography.base import EntityBlocks
from das_spark.io.readers._cef_lines import block_key
from das_spark.io.readers._rows import row_numbers
from das_spark.io.readers.base import Problem, reading, refuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        """See whether the file is there, with its columns; see `GeographyReader`.

        Args:
            path: File, folder or pattern.

        Raises:
            InputError: See `GeographyReader`.
        """
        Delimited.look([path], _WANTED, file=path, kind=_KIND)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file, a folder or a pattern; see `GeographyReader`.

        Args:
            spark: The session.
            path: File, folder or pattern.

        Raises:
            InputError: See `GeographyReader`; also a block in two tracts.
        """
        parts = [name for name, _ in GEOCODE_PARTS]
        fields = {column: column.upper() for column in ENTITY_COLUMNS}
        table = Delimited.open(spark, [path], _WANTED, file=path, kind=_KIND)
        rows = Rows(
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
    def _split(table: Delimited, rows: Rows) -> list[Problem]:
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
