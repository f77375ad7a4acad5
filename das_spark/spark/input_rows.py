"""Files of the input as rows, with the place of each row in its file: read by Spark, or for Sail by tasks.

Sail refuses rows that have not as many fields as the header, and does not say where a row lies; both engines must give
the same rows, and name the same ones when something is wrong with them. The files that Sail is given are small.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from das_spark.errors import EnvironmentProblemError
from das_spark.io.input_files import PLAIN_CSV, CsvForm, data_files, first_line, is_folder, is_remote
from das_spark.spark.engine import in_tasks, is_sail

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

#: Columns that say where in its file a row lies.
POSITION: Final = ("row_file", "row_block", "row_id")
#: Column of a CSV table: the text of a row that has not as many fields as the header; null for others. RESTRICTED.
MALFORMED: Final = "row_malformed"
_TYPES: Final = (pa.string(), pa.int64(), pa.int64())
_UTF8: Final = "UTF-8"


def parquet_rows(spark: SparkSession, path: str) -> DataFrame:
    """The rows of Parquet files, whatever columns they have."""
    files = data_files(path)
    if not is_sail(spark) or not files:
        return spark.read.parquet(path)
    # Sail takes columns of a dictionary, such as pandas writes, only where it is told what their values are.
    fields = [
        each.with_type(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in parquet.read_schema(files[0])
    ]
    try:
        return spark.read.schema(from_arrow_schema(pa.schema(fields))).parquet(path)
    except PySparkException:  # a type that PySpark has no name for
        return spark.read.parquet(path)


def with_position(frame: DataFrame) -> DataFrame:
    """Add where in its file a row lies; must be called on a frame that comes straight from a file."""
    if set(POSITION) <= set(frame.columns):
        return frame
    if is_sail(frame):  # of the rows of a table in Parquet it knows their order
        file, block = F.lit(""), F.lit(0)
    else:
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
    if not is_sail(spark):
        chosen = f"{{{','.join(patterns)}}}" if patterns and is_folder(paths[0]) else None
        return with_position(spark.read.option("encoding", encoding).text(list(paths), pathGlobFilter=chosen))
    schema = pa.schema([("value", pa.string()), *zip(POSITION, _TYPES, strict=True)])
    return in_tasks(_files(spark, paths, patterns), _Lines(encoding, schema), from_arrow_schema(schema))


def csv_rows(spark: SparkSession, path: str, form: CsvForm = PLAIN_CSV) -> DataFrame:
    """The rows of CSV files with a line of names: texts (null where there is none), `MALFORMED`, and `POSITION`.

    Rows that do not have as many fields as the names are kept, for checks to count: Spark would otherwise write such a
    row, which is confidential, into its logs.
    """
    if not is_sail(spark):
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
    files = _files(spark, [path], ())
    names = _names(data_files(path), form)
    schema = pa.schema([*((name, pa.string()) for name in (*names, MALFORMED)), *zip(POSITION, _TYPES, strict=True)])
    columns = StructType([StructField(each.name, each.dataType) for each in from_arrow_schema(schema).fields])
    return in_tasks(files, _Table(names, schema, form), columns)


def _files(spark: SparkSession, paths: Sequence[str], patterns: Sequence[str]) -> DataFrame:
    """The files that are read, a row each."""
    if any(map(is_remote, paths)):
        message = f"{paths[0]}: Sail reads no files of other machines"
        raise EnvironmentProblemError(message, hint="set DAS_SPARK_ENGINE=spark")
    files = [
        file
        for path in paths
        for file in data_files(path)
        if not patterns or not is_folder(path) or any(fnmatchcase(PurePath(file).name, each) for each in patterns)
    ]
    return spark.createDataFrame([(file,) for file in files], "path string").repartition(max(len(files), 1), "path")


def _text(file: str, encoding: str = _UTF8) -> str:
    """A text file, plain or compressed as its name says, without a mark of the order of its bytes."""
    with pa.input_stream(file, compression="detect") as stream:
        return str(stream.read().decode(encoding, "replace")).removeprefix("\ufeff")


def _names(files: Sequence[str], form: CsvForm) -> tuple[str, ...]:
    """The names in the first line of CSV files, those that stand twice as Spark calls them."""
    first = next(filter(None, (first_line(file, form.encoding) for file in files)), "")
    unnamed, parsed = csv.ReadOptions(autogenerate_column_names=True), csv.ParseOptions(delimiter=form.delimiter)
    table = csv.read_csv(io.BytesIO(f"{first}\n".encode()), read_options=unnamed, parse_options=parsed)
    found = [str(column[0].as_py() or "") for column in table.columns] if first else []
    lower = [name.lower() for name in found]
    return tuple(
        f"_c{place}" if not name else f"{name}{place}" if lower.count(name.lower()) > 1 else name
        for place, name in enumerate(found)
    )


def _placed(file: str, ids: NDArray[np.int64]) -> list[pa.Array]:
    """The columns of `POSITION`."""
    return [pa.array([file] * len(ids), pa.string()), pa.array(np.zeros(len(ids), dtype=np.int64)), pa.array(ids)]


@dataclass(frozen=True, slots=True)
class _Lines:
    """From paths to the lines of their files."""

    encoding: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.column("path").to_pylist():
                lines = re.split("\r\n|\n|\r", _text(file, self.encoding))
                if lines[-1] == "":
                    lines.pop()
                ids = np.arange(len(lines), dtype=np.int64)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(lines, pa.string()), *_placed(file, ids)], schema=self.schema
                )


@dataclass(frozen=True, slots=True)
class _Table:
    """From paths to the rows of their CSV files."""

    names: tuple[str, ...]
    schema: pa.Schema
    form: CsvForm

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.column("path").to_pylist():
                yield from self._rows(file)

    def _rows(self, file: str) -> Iterator[pa.RecordBatch]:
        text = _text(file, self.form.encoding)
        if not text:
            return
        odd: list[tuple[int, str]] = []

        def keep(row: csv.InvalidRow) -> str:
            odd.append((int(row.number), str(row.text)))
            return "skip"

        table = csv.read_csv(
            io.BytesIO(text.encode()),
            read_options=csv.ReadOptions(column_names=list(self.names), skip_rows=1, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=self.form.delimiter, invalid_row_handler=keep, escape_char="\\"),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        # The reader counts lines from 1, that of the names among them.
        places = np.array([number - 2 for number, _ in odd], dtype=np.int64)
        ids = np.setdiff1d(np.arange(table.num_rows + len(odd)), places)
        whole = [*(column.combine_chunks() for column in table.columns), pa.nulls(table.num_rows, pa.string())]
        yield pa.RecordBatch.from_arrays([*whole, *_placed(file, ids)], schema=self.schema)
        missing = [pa.nulls(len(odd), pa.string()) for _ in self.names]
        malformed = pa.array([row for _, row in odd], pa.string())
        yield pa.RecordBatch.from_arrays([*missing, malformed, *_placed(file, places)], schema=self.schema)
