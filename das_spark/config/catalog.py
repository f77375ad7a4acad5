"""Tables of Spark's catalog as places of the input, such as `table:census.persons`."""

from __future__ import annotations

import re
from typing import Final

#: How a place begins that is a table of the catalog.
_PREFIX: Final = "table:"
_NAME: Final = re.compile(r"table:\w[\w-]*(\.\w[\w-]*){1,7}", re.ASCII)


def is_catalog_table(place: str) -> bool:
    """Whether a place is a table of the catalog, and no file or folder."""
    return place.startswith(_PREFIX)


def table_parts(place: str) -> tuple[str, ...]:
    """The names of which the name of a table is made: catalog, where it is named, database and table."""
    return tuple(place.removeprefix(_PREFIX).split("."))


def wrong_table(place: str) -> str:
    """What is wrong with how a table is named; empty where nothing is."""
    if _NAME.fullmatch(place):
        return ""
    return (
        f"{place} names no table; write table:database.table or table:catalog.database.table, of letters, digits, "
        "'_' and '-'"
    )
