"""A table of parents: CSV or Parquet with columns child and parent, perhaps level; all of them text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from das_spark.errors import InputError
from das_spark.geography import paths_of
from das_spark.io.input_tables import InputTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from das_spark.geography import Geolevel

_NEEDED: Final = ("child", "parent")
_LEVEL: Final = "level"


def read_parents(path: str, levels: Sequence[Geolevel], leaf: Geolevel) -> Mapping[str, str]:
    """The geocode of every geounit of a level, by the code that its office gives it.

    Args:
        path: The table: a path or an address.
        levels: All geolevels of the product, root first.
        leaf: That of the geounits.

    Raises:
        InputError: The file or a column is missing, or the table is no tree of these levels: with all that is wrong.
    """
    found, problems = paths_of(levels, leaf, _rows(path))
    if problems:
        raise InputError(
            "\n".join(f"{path}: {problem}" for problem in problems),
            hint=f"a geounit has one row, and one above it at each level; {_LEVEL} tells geounits of two levels apart",
        )
    return found


def look_at_parents(path: str) -> None:
    """See whether the table is one, and has its columns.

    Raises:
        InputError: The file or a column is missing.
    """
    _opened(path)


def _opened(path: str) -> InputTable:
    table = InputTable.open(path)
    for name in _NEEDED:
        if name not in table.columns:
            raise InputError(f"{path}: no column {name!r}", hint=f"the file has {', '.join(table.columns)}")
    return table


def _rows(path: str) -> list[tuple[str, str, str]]:
    table = _opened(path)
    told = [name for name in (_LEVEL,) if name in table.columns]
    columns = table.texts([*_NEEDED, *told]).columns
    texts = [[(each or "").strip() for each in column.to_pylist()] for column in columns]
    return list(zip(*texts[:2], texts[2] if told else [""] * len(texts[0]), strict=True))
