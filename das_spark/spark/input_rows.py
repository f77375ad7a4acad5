"""Files of the input as rows, with the place of each row in its file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from das_spark.io.input_files import PLAIN_CSV, CsvForm, is_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns that say where in its file a row lies.
POSITION: Final = ("row_file", "row_block", "row_id")
#: Column of a CSV table: the text of a row that has not as many fields as the header; null for others. RESTRICTED.
MALFORMED: Final = "row_malformed"
_UTF8: Final = "UTF-8"


def with_position(frame: DataFrame) -> DataFrame:
    """Add where in its file a row lies; must be called on a frame that comes straight from a file."""
    if set(POSITION) <= set(frame.columns):
        return frame
    file, block = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    return frame.withColumns(dict(zip(POSITION, (file, block, F.monotonically_increasing_id()), strict=True)))


def text_lines(
    spark: SparkSession, paths: Sequence[str], *, patterns: Sequence[str] = (), encoding: str = _UTF8
) -> DataFrame:
    """The lines of text files, and where they lie: value, and `POSITION`.

    Args:
        spark: The session.
        paths: Files, or folders with all that they hold, plain or compressed.
        patterns: Of a folder, the names of the files that are read; all where none are given.
        encoding: Of the text; bytes that are none become the sign of replacement.
    """
    chosen = f"{{{','.join(patterns)}}}" if patterns and is_folder(paths[0]) else None
    return with_position(spark.read.option("encoding", encoding).text(list(paths), pathGlobFilter=chosen))


def csv_rows(spark: SparkSession, path: str, form: CsvForm = PLAIN_CSV) -> DataFrame:
    """The rows of CSV files with a line of names: texts (null where there is none), `MALFORMED`, and `POSITION`.

    Rows that do not have as many fields as the names are kept, for checks to count: Spark would otherwise write such a
    row, which is confidential, into its logs.
    """
    read = partial(spark.read.option("columnPruning", value=False).csv, path, header=True)
    read = partial(read, sep=form.delimiter, encoding=form.encoding)
    columns = read(inferSchema=False).schema
    # Whole rows are parsed: with fewer columns Spark would not notice a field too many.
    rows = read(
        schema=columns.add(MALFORMED, StringType()),
        enforceSchema=False,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=MALFORMED,
    )
    return with_position(rows)
