"""Tables of the catalog of a Spark session as input: opened, and known again by a digest of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from das_spark.config import table_parts
from das_spark.errors import InputError, did_you_mean
from das_spark.io.listed_files import ROW
from das_spark.spark.problems import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Values are written as JSON in the same way whatever zone a session is in.
_JSON: Final = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: Hexadecimal digits of a checksum that are summed up together, so that the sum over all rows is exact.
_DIGITS: Final = 8
_CHECKSUM: Final = 64
#: Names that a message lists where none is near.
_SOME: Final = 6


class TableDigest(NamedTuple):
    """What a table holds, whatever the order of its rows and columns."""

    sha256: str
    rows: int


def catalog_rows(spark: SparkSession, place: str) -> DataFrame:
    """The rows of a table of the session's catalog as they are now, with numbers in the order of reading.

    Raises:
        InputError: There is no such table, or Spark cannot open it.
    """
    return _table(spark, place).withColumn(ROW, F.monotonically_increasing_id())


def table_digest(spark: SparkSession, place: str) -> TableDigest:
    """A digest of all rows and columns of a table: rows are hashed, and their hashes summed up.

    Raises:
        InputError: There is no such table, or Spark cannot read it.
    """
    frame = _table(spark, place)
    columns = sorted((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    with reading(place):
        row = F.to_json(F.struct(*(F.col(_quoted([name])) for name, _ in columns)), _JSON)
        hashed = frame.select(F.sha2(row, 256).alias("hash"))
        parts = [F.substring("hash", first, _DIGITS) for first in range(1, _CHECKSUM, _DIGITS)]
        sums = [F.sum(F.conv(part, 16, 10).cast("decimal(38,0)")) for part in parts]
        number, *found = hashed.agg(F.count(F.lit(1)), *sums).collect()[0]
    content = json.dumps({"columns": columns, "rows": number, "sums": [str(each or 0) for each in found]})
    return TableDigest(hashlib.sha256(content.encode()).hexdigest(), int(number))


def _table(spark: SparkSession, place: str) -> DataFrame:
    *database, table = table_parts(place)
    name = _quoted([*database, table])
    with reading(place):
        if not spark.catalog.tableExists(name):
            raise _missing(spark, place, database, table)
        spark.catalog.refreshTable(name)  # its files may have been replaced behind the session
        return spark.table(name)


def _missing(spark: SparkSession, place: str, database: list[str], table: str) -> InputError:
    """There is no such table; which there are in its database, or which databases."""
    last, missing = database[-1], "there is no such table"
    if spark.catalog.databaseExists(_quoted(database)):
        rows = spark.sql(f"SHOW TABLES IN {_quoted(database)}").collect()
        known, of = [str(row["tableName"]) for row in rows], f"tables of {last}"
        found = did_you_mean(table, known)
    else:
        # The current one is what is meant where no catalog is named.
        known, of = [str(row[0]) for row in spark.sql("SHOW DATABASES").collect()], "databases of the session's catalog"
        found, missing = did_you_mean(last, known), f"there is no database {'.'.join(database)}"
    some = ", ".join(sorted(known)[:_SOME]) + (", ..." if len(known) > _SOME else "")
    return InputError(f"{place}: {missing}", hint=f"{found} {of}: {some or 'none'}".strip())


def _quoted(parts: Sequence[str]) -> str:
    """A name of several parts as Spark SQL reads it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)
