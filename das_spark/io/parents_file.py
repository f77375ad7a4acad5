"""A table of parents: CSV or Parquet with columns child and parent, perhaps level; all of them text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import csv, parquet

from das_spark.errors import InputError
from das_spark.geography import paths_of
from das_spark.io.input_files import columns_in, format_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from das_spark.geography import Geolevel

_NEEDED: Final = ("child", "parent")
_LEVEL: Final = "level"


def read_parents(path: str, levels: Sequence[Geolevel], leaf: Geolevel) -> Mapping[str, str]:
    """The geocode of every geounit of a level, by the code that its office gives it.

    Args:
        path: The table; a local file.
        levels: All geolevels of the product, root first.
        leaf: That of the geounits.

    Raises:
        InputError: The file or a column is missing, or the table is no tree of these levels: with all that is wrong.
    """
    found, problems = paths_of(levels, leaf, _rows(path))
    if problems:
        raise InputError(
            "\n".join(f"{path}: {each}" for each in problems),
            hint=f"a geounit has one row, and one above it at each level; {_LEVEL} tells geounits of two levels apart",
        )
    return found


def look_at_parents(path: str) -> None:
    """See whether the table is one, and has its columns.

    Raises:
        InputError: The file or a column is missing.
    """
    found = columns_in(path) or ()
    for name in _NEEDED:
        if name not in found:
            raise InputError(f"{path}: no column {name!r}", hint=f"the file has {', '.join(found)}")


def _rows(path: str) -> list[tuple[str, str, str]]:
    look_at_parents(path)
    try:
        table = _parquet(path) if format_of(path) == "parquet" else _csv(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__})") from error
    texts = [[(each or "").strip() for each in table.column(name).to_pylist()] for name in _NEEDED]
    rows = table.num_rows
    told = [(each or "").strip() for each in table.column(_LEVEL).to_pylist()] if _has(table) else [""] * rows
    return list(zip(*texts, told, strict=True))


def _has(table: pa.Table) -> bool:
    return _LEVEL in table.column_names


def _parquet(path: str) -> pa.Table:
    table = parquet.read_table(Path(path))
    kept = [name for name in (*_NEEDED, _LEVEL) if name in table.column_names]
    return pa.table({name: table.column(name).cast(pa.string()) for name in kept})


def _csv(path: str) -> pa.Table:
    texts = csv.ConvertOptions(column_types=dict.fromkeys((*_NEEDED, _LEVEL), pa.string()), strings_can_be_null=False)
    return csv.read_csv(path, convert_options=texts)
