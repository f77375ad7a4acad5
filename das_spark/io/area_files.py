"""Files of areas off the spine, such as precincts: CSV of leaf geocode and area, seen without Spark."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from das_spark.errors import InputError
from das_spark.io.input_files import first_line

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.geography import Spine

_COLUMNS: Final = 2
_HINT: Final = "evaluation.areas (or --areas) names a CSV of geocode and area"


def require_areas(path: Path) -> None:
    """Refuse a file of areas that is not there."""
    if not path.is_file():
        raise InputError(f"{path}: no such file", hint=_HINT)


def look_at_areas(path: Path, spine: Spine) -> None:
    """See without Spark whether a file of areas can be used: columns, geocodes, and that no geocode has two areas."""
    require_areas(path)
    names = next(csv.reader([first_line(str(path))]), [])
    if len(names) < _COLUMNS:
        raise InputError(f"{path}: has {len(names)} columns, expected {_COLUMNS}: geocode and area", hint=_HINT)
    codes, length = _codes(path, names), spine.leaf.length
    least = length if spine.letters else length - 1
    form = pc.match_substring_regex(codes, f"^{spine.characters}{{{least},{length}}}$")
    wrong = pc.sum(pc.invert(form)).as_py() or 0
    if wrong:
        wanted = "characters" if spine.letters else f"digits (or {length - 1}, of census blocks)"
        raise InputError(
            f"{path}, {names[0]}: expected geocodes of {length} {wanted}; not so in {wrong:,} of {len(codes):,} rows",
            hint="codes are text with their leading zeros, of the lowest geolevel of the run",
        )
    counted = pc.value_counts(_widened(codes, length - 1))
    twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    if len(twice):
        raise InputError(f"{path}: geocode {pc.min(twice).as_py()} stands twice", hint="a geounit lies in one area")


def _codes(path: Path, names: list[str]) -> pa.Array:
    """The first column as text; rows with other numbers of columns are left out, as they are by the report."""
    positions = [f"c{number}" for number in range(len(names))]  # names may be empty, or stand twice
    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=positions, skip_rows=1),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=lambda _: "skip"),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=positions[:1], column_types={positions[0]: pa.string()}, strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__})", hint=_HINT) from None
    return pc.fill_null(table.column(0).combine_chunks(), "")


def _widened(codes: pa.Array, short: int) -> pa.Array:
    """Codes of census blocks in the form of the spine: the digit of the block group once more before the block."""
    parts = [pc.utf8_slice_codeunits(codes, *ends) for ends in ((0, short - 4), (short - 4, short - 3), (short - 4,))]
    wide = pc.binary_join_element_wise(parts[0], parts[1], parts[2], "")
    return pc.if_else(pc.equal(pc.utf8_length(codes), short), wide, codes)
