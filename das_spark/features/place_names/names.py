"""Names of geounits, read from a CSV that somebody gives."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import ConfigurationError, InputError
from das_spark.io.input_tables import InputTable
from das_spark.names import check_text, is_formula

if TYPE_CHECKING:
    from das_spark.places import Place

SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("geolevel", "geocode", "name")])
_HINT: Final = "output.place_names.path names a CSV of geolevel, geocode and name, in UTF-8, with a line of these names"


def read_names(path: Place, geolevels: Collection[str]) -> pa.Table:
    """Read the names of the geounits of some geolevels.

    Args:
        path: The CSV.
        geolevels: Those that are wanted.

    Returns:
        Columns geolevel, geocode and name (`SCHEMA`); no geounit stands twice.

    Raises:
        InputError: It is no such CSV, a geounit stands in it twice, or a name is none that can be printed.
    """
    opened = InputTable.open(str(path))
    if opened.columns != tuple(SCHEMA.names):
        raise InputError(f"{path}: has columns {', '.join(opened.columns)}", hint=_HINT)
    texts = opened.texts(SCHEMA.names)
    table = pa.table([pc.fill_null(column, "") for column in texts.columns], schema=SCHEMA)
    chosen = table.filter(pc.is_in(table.column("geolevel"), pa.array(geolevels, pa.string())))
    counted = chosen.group_by(["geolevel", "geocode"]).aggregate([([], "count_all")])
    for twice in islice(counted.filter(pc.greater(counted.column("count_all"), 1)).to_pylist(), 1):
        where = f"{twice['geolevel']} {twice['geocode']}"
        raise InputError(f"{path}: {where} stands twice", hint="name each geounit once")
    for name in pc.unique(chosen.column("name")).to_pylist():
        try:
            check_text(name, "the name")
        except ConfigurationError as error:
            raise InputError(f"{path}: {error.message}", hint=error.hint) from None
        if is_formula(name):
            raise InputError(f"{path}: a spreadsheet would carry out {name!r}", hint="begin names with a letter")
    return chosen
