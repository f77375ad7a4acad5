"""Files of areas off the spine, such as precincts: CSV of leaf geocode and area, seen without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.io.input_places import is_file
from das_spark.io.input_tables import InputTable
from das_spark.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

    from das_spark.geography import Spine

_COLUMNS: Final = 2
_HINT: Final = "evaluation.areas (or --areas) names a CSV of geocode and area"


def require_areas(path: Place) -> None:
    """Refuse a file of areas that is not there."""
    if not is_file(str(path)):
        raise InputError(f"{path}: no such file", hint=_HINT)


def open_areas(path: Place) -> InputTable:
    """Open a file of areas, whose first two columns are geocode and area.

    Raises:
        InputError: It is not there, or has fewer columns.
    """
    require_areas(path)
    table = InputTable.open(str(path))
    if len(table.names) < _COLUMNS:
        raise InputError(f"{path}: has {len(table.names)} columns, expected {_COLUMNS}: geocode and area", hint=_HINT)
    if table.names[0] == table.names[1]:
        raise InputError(f"{path}: two columns are called {table.names[0]!r}", hint=_HINT)
    return table


def look_at_areas(path: Place, spine: Spine) -> None:
    """See without Spark whether a file of areas can be used: columns, geocodes, and that no geocode has two areas."""
    code, _ = (table := open_areas(path)).names[:_COLUMNS]
    codes, length = pc.fill_null(table.texts([code]).column(0).combine_chunks(), ""), spine.leaf.length
    least = length if spine.letters else length - 1
    form = pc.match_substring_regex(codes, f"^{spine.characters}{{{least},{length}}}$")
    wrong = pc.sum(pc.invert(form)).as_py() or 0
    if wrong:
        wanted = "characters" if spine.letters else f"digits (or {length - 1}, of census blocks)"
        raise InputError(
            f"{path}, {code}: expected geocodes of {length} {wanted}; not so in {wrong:,} of {len(codes):,} rows",
            hint="codes are text with their leading zeros, of the lowest geolevel of the run",
        )
    counted = pc.value_counts(_widened(codes, length - 1))
    twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    if len(twice):
        raise InputError(f"{path}: geocode {pc.min(twice).as_py()} stands twice", hint="a geounit lies in one area")


def _widened(codes: pa.Array, short: int) -> pa.Array:
    """Codes of census blocks in the form of the spine: the digit of the block group once more before the block."""
    parts = [pc.utf8_slice_codeunits(codes, *ends) for ends in ((0, short - 4), (short - 4, short - 3), (short - 4,))]
    wide = pc.binary_join_element_wise(parts[0], parts[1], parts[2], "")
    return pc.if_else(pc.equal(pc.utf8_length(codes), short), wide, codes)
