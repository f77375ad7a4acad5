"""Finding and opening input files: local ones are looked for at once, others are left to Spark's file systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark.sql.types import StringType

from das_spark.errors import ConfigurationError, InputError
from das_spark.io.readers._begin import CSV, columns_of, data_files, is_data, is_remote
from das_spark.io.readers.base import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "csv"]
MALFORMED = "row_malformed"
"""Column of a CSV table: the text of a row that has not as many fields as the header; null for others. RESTRICTED."""


def required(path: str | None, key: str, reader: str) -> str:
    """The path that a reader cannot do without.

    Args:
        path: What the settings say.
        key: Key path of that setting.
        reader: Name of the reader.

    Raises:
        ConfigurationError: It is not set.
    """
    if not path:
        raise ConfigurationError(f"reader {reader!r} needs {key}", hint=f"set it with --set {key}=FILE")
    return path


def require_path(path: str) -> None:
    """Refuse a local path that does not exist, or an empty folder, before Spark is asked.

    Raises:
        InputError: There is no such file or folder, or no file in it.
    """
    if is_remote(path) or any(character in path for character in "*?["):
        return
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path}: no such file or folder", hint="check the paths of [input]")
    if place.is_dir() and not any(is_data(file) for file in place.rglob("*") if file.is_file()):
        raise InputError(f"{path}: the folder holds no file")


def is_folder(path: str) -> bool:
    """Whether a local path is a folder; of a remote one, whether its last name has no ending."""
    return "." not in path.rstrip("/").rsplit("/", 1)[-1] if is_remote(path) else Path(path).is_dir()


def any_of(patterns: Sequence[str]) -> str:
    """Patterns of file names as one, as Spark spells it."""
    return f"{{{','.join(patterns)}}}"


def format_of(path: str) -> Format:
    """Whether a file or folder holds CSV or Parquet, by the names of its files.

    Args:
        path: A local path, or the address of a remote one, which is taken for Parquet when its name does not say CSV.

    Raises:
        InputError: A local folder holds both, or neither.
    """
    place = Path(path)
    if is_remote(path) or not place.is_dir():
        return "csv" if path.lower().endswith(CSV) else "parquet"
    names = [file.name.lower() for file in place.rglob("*") if file.is_file() and is_data(file)]
    csv, parquet = any(name.endswith(CSV) for name in names), any(name.endswith(".parquet") for name in names)
    if csv == parquet:
        found = "both CSV and Parquet files" if csv else "neither CSV nor Parquet files"
        raise InputError(f"{path}: the folder holds {found}", hint="name one kind by .csv or .parquet")
    return "csv" if csv else "parquet"


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Open a table with named columns.

    Rows of CSV that do not have as many fields as the header are kept, for the checks to count: Spark would otherwise
    write such a row, which is confidential, into its logs. :func:`row_checks` finds them.

    Args:
        spark: The session.
        path: A file or folder of CSV (with a header; all columns are text) or Parquet.

    Raises:
        InputError: It is missing, or no table; or the files of a folder have different headers.
    """
    columns_in(path)
    with reading(path):
        if format_of(path) == "parquet":
            return spark.read.parquet(path)
        columns = spark.read.csv(path, header=True, inferSchema=False).schema
        # Whole rows are parsed: with fewer columns Spark would not notice a field too many.
        return spark.read.option("columnPruning", value=False).csv(
            path,
            header=True,
            schema=columns.add(MALFORMED, StringType()),
            enforceSchema=False,
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=MALFORMED,
        )


def columns_in(path: str) -> tuple[str, ...] | None:
    """Names of the columns of a table, seen without Spark; None where it is left to Spark.

    Args:
        path: A file or folder of CSV or Parquet.

    Raises:
        InputError: It is missing, or a file of it is no table, or has other columns than the first one.
    """
    require_path(path)
    files = data_files(path)
    if not files:
        return None
    format_of(path)
    return columns_of(path, files)


def names_of(frame: DataFrame) -> list[str]:
    """Columns that a table has in its file.

    Args:
        frame: From :func:`read_table`, with or without the place of its rows.
    """
    return [name for name in frame.columns if not name.startswith("row_")]


def companion(folder: str, name: str) -> str | None:
    """A table of a known name in a folder: `name`.parquet or `name`.csv, as a file or a folder.

    Args:
        folder: Where to look; a remote one is expected to hold Parquet.
        name: Such as ``persons``.

    Returns:
        Its path, or None.
    """
    return named_in(folder, name, (".parquet", *CSV))


def named_in(folder: str, name: str, endings: Sequence[str]) -> str | None:
    """A file or folder of a known name in a folder.

    Args:
        folder: Where to look; a remote one is expected to hold the first ending.
        name: Such as ``persons``.
        endings: Such as ``.parquet``, in order.

    Returns:
        Its path, or None.
    """
    if is_remote(folder):
        return f"{folder.rstrip('/')}/{name}{endings[0]}"
    places = (Path(folder) / f"{name}{ending}" for ending in endings)
    return next((str(place) for place in places if place.exists()), None)


def files_in(spark: SparkSession | None, folder: str) -> tuple[str, ...]:
    """Every file in a folder and in its folders.

    Args:
        spark: Lists remote folders; may be None for a local one.
        folder: A local path or a remote address.

    Returns:
        Paths or addresses, sorted.

    Raises:
        InputError: There is no such folder, or it is a file.
    """
    require_path(folder)
    if is_remote(folder):
        if spark is None:
            return ()
        with reading(folder):
            listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
            return tuple(sorted(row[0] for row in listing.select("path").collect()))
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: a folder is expected, not a file")
    return tuple(sorted(str(file) for file in Path(folder).rglob("*") if file.is_file() and is_data(file)))
