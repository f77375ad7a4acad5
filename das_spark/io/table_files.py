"""Files of published tables: Parquet as Spark writes it, and one CSV a table and level; what they hold, read back.

A folder of a table also holds `_about.txt`, which says in words what its columns are and who made them; readers of
partitioned folders skip names that begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from das_spark.io.csv_records import csv_records
from das_spark.io.input_files import PLAIN_CSV
from das_spark.places import Place, as_input, system_of
from das_spark.store import make_folder, part_files, write_durably
from das_spark.store.parquet import batches_of
from das_spark.tabulation import MedianTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from das_spark.tabulation import TableShell

PARQUET: Final = "parquet"
CSV: Final = "csv"
ABOUT: Final = "_about.txt"
GEOCODE: Final = "geocode"
#: The geocode of a record of CSV that is none: it has too few or too many fields, or quotes that are not around one.
BROKEN: Final = "(broken record)"
_CSV_FILE: Final = "part-00000.csv"
#: Rows that are made into text at once, and bytes that are read at once: bound the memory.
_ROWS: Final = 1 << 14
_BYTES: Final = 1 << 20
#: Type -> how its numbers are written; Arrow reads hexadecimal ones, too.
_FORMS: Final = {
    pa.lib.Type_INT64: "^-?([0-9]{1,18}|[0-8][0-9]{18})$",
    pa.lib.Type_DOUBLE: r"^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$",
}


def write_csv(parts: Sequence[Place], folder: Place, columns: Sequence[str]) -> None:
    """Write the rows of Parquet files, one file behind the other, into one CSV with a header.

    Nothing is in quotes where geocodes are the only text: they are digits or letters, and stay text, since they may
    begin with 0. All else are numbers, and nothing where a number is missing. Where there is other text, all text is in
    quotes.
    """
    others = [
        field.type for part in parts[:1] for field in parquet.read_schema(as_input(part)) if field.name != GEOCODE
    ]
    style = "needed" if any(map(pa.types.is_string, others)) else "none"
    options = csv.WriteOptions(include_header=False, quoting_style=style)
    with system_of(folder).open_output(str(folder / _CSV_FILE)) as file:
        file.write((",".join(columns) + "\n").encode())
        for part in parts:
            with parquet.ParquetFile(as_input(part)) as source:
                for batch in source.iter_batches(batch_size=_ROWS, columns=list(columns)):
                    csv.write_csv(batch.select(list(columns)), file, options)


def csv_header(folder: Place) -> tuple[str, ...]:
    """The names of the columns that the CSV of a folder gives; none where there is no such file."""
    path = folder / _CSV_FILE
    if not path.is_file():
        return ()
    with path.open("rb") as file:
        return tuple(file.readline().decode("utf-8", errors="replace").rstrip("\r\n").split(","))


def read_table_file(path: Place, format: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file of a table.

    Args:
        path: The file.
        format: `PARQUET`, whose columns are read by name, or `CSV`, whose columns are read in order.
        schema: Its columns, the geocode first.

    Yields:
        Rows with these columns. A value that is missing, or is none of its type, is null. A record of CSV that is
        broken stands under a geocode that no geounit has, `BROKEN`.
    """
    if format == PARQUET:
        for batch in batches_of(path, schema.names, _ROWS):
            yield _typed(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows, schema)
        return
    with path.open("rb") as stream:
        for records in csv_records(stream, schema.names, schema.names, PLAIN_CSV):
            yield _typed(dict(zip(schema.names, records.rows.columns, strict=True)), records.rows.num_rows, schema)
            broken = pa.array([BROKEN] * len(records.faults), pa.string())
            yield _typed({schema.names[0]: broken}, len(broken), schema)


def _typed(columns: Mapping[str, pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        typed(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema.names)


def typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Take published values as those of a type.

    Args:
        values: Texts of CSV, or a column of Parquet.
        kind: Their type.

    Returns:
        The values; null for what is none. A number in CSV has decimal digits, and no blank or plus before it.
    """
    try:
        if not _is_number(values.type):
            values = values.cast(pa.string())
            if (form := _FORMS.get(kind.id)) is not None:
                values = pc.if_else(pc.match_substring_regex(values, form), values, pa.scalar(None, pa.string()))
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not (_is_number(values.type) and _is_number(kind)):  # a column of another type
            return pa.nulls(len(values), kind)
    near = values.cast(kind, safe=False)
    same = pc.equal(near.cast(values.type, safe=False), values)
    if pa.types.is_unsigned_integer(values.type):
        same = pc.and_(same, pc.greater_equal(near, 0))
    return pc.if_else(same, near, pa.scalar(None, kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def rows_of(folder: Place, format: str) -> int:
    """Rows of one level of a table: from the footers of Parquet files, or by counting the lines of the CSV."""
    if format == PARQUET:
        return sum(parquet.read_metadata(as_input(path)).num_rows for path in part_files(folder))
    return max(0, sum(_lines(path) for path in part_files(folder)) - 1)


def _lines(path: Place) -> int:
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(_BYTES):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (last != b"\n")


def write_about(folder: Place, table: TableShell, facts: Sequence[str]) -> None:
    """Write in words what a table is, into a folder that holds it."""
    make_folder(folder)
    write_durably(folder / ABOUT, about_text(table, facts))


def about_text(table: TableShell, facts: Sequence[str]) -> str:
    """What `write_about` writes."""
    of_medians = [median_sentence(table)] if isinstance(table, MedianTable) else []
    head = [f"{table.name}. {table.title}", f"Universe: {table.universe}", *of_medians, *facts, ""]
    lines = [f"{column.name}  {'  ' * column.depth}{column.label}" for column in table.columns]
    geocode = f"{GEOCODE}: digits of the geounit; text, because it may begin with 0"
    return "\n".join([*head, geocode, *lines]) + "\n"


def median_sentence(table: MedianTable) -> str:
    """What a reader of medians must know."""
    last = table.schema.attributes[table.schema.axis(table.attribute)].size - 1
    return (
        f"Medians of {table.attribute} among those that a line counts, to a tenth, interpolated within the year in "
        f"which half of them are reached; {last}.1 is a median of {last} or more, and what is missing (null in "
        "Parquet, empty in CSV) a median of nobody. Medians do not sum, and have no intervals."
    )
