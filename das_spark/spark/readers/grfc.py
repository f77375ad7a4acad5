"""The geographic reference file (GRF-C): every tabulation block, by the key that unit records carry.

Text delimited by ``|`` with a line of names; the columns that are read are found by name, the others are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from das_spark.geography import ENTITY_COLUMNS
from das_spark.io.cef import BLOCK_KEY, GEOCODE_PARTS
from das_spark.io.cef import UNIT as OF_UNITS
from das_spark.io.delimited_lines import LineFields
from das_spark.io.input_fields import GEOCODE, Names, matching
from das_spark.io.input_files import require_path
from das_spark.io.table_folder import record_files
from das_spark.io.text_lines import TextLines
from das_spark.spark.readers._areas import AreaLines, BlockPass, KeyPass, areas_of, read_blocks
from das_spark.spark.readers._passes import Rule
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import COUNT, UNIT, Kind, LineResolve, input_rows, kept, once
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from das_spark.io.input_fields import Rows

#: Digits of the key of a block, in records of units.
_KEY_DIGITS: Final = OF_UNITS.field("OIDTB").width
_KIND: Final = "the geographic reference file (GRF-C)"
PARTS: Final = tuple(name for name, _ in GEOCODE_PARTS)
_WANTED: Final = (*PARTS, *(column.upper() for column in ENTITY_COLUMNS))


def open_reference(file: str, wanted: tuple[str, ...]) -> tuple[LineFields, TextLines]:
    """Find the fields and the files of a geographic reference, which has some columns.

    Raises:
        InputError: A file or column is missing, or a file is not of this kind.
    """
    require_path(file)
    files = record_files(file)
    return LineFields.of(files, wanted, file=file, kind=_KIND), TextLines.of(files)


def geocodes_of(rows: Rows) -> pa.Array:
    """Put the geocodes of blocks together."""
    return pc.binary_join_element_wise(*(rows.column(name) for name in PARTS), "")


def block_keys(texts: pa.Array) -> pa.Array:
    """The numbers of blocks as texts without spaces and leading zeros: 22 digits are more than an int64 holds."""
    return pc.replace_substring_regex(pc.utf8_trim(texts, " "), "^0+(.)", r"\1")


class Grfc:
    """The reader of GRF-C text: columns delimited by ``|`` and found by their names in the first line.

    Read are the five parts of the geocode, AIANNHCE, COUSUBFP, COUSUBFS, PLACEFP, PLACEFS, SDUNILEA, SDSECLEA and
    SDELMLEA; a blank code says that the block lies in no such entity. Where the file has OIDTABBLK, each of its keys
    must lead to one block, so that no block lies in two tracts.
    """

    name = "grfc"

    def files(self, path: str) -> list[str]:
        """See `GeographyReader`."""
        return record_files(path)

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        open_reference(path, _WANTED)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file or a folder of them; see `GeographyReader`."""
        fields, lines = open_reference(path, _WANTED)
        keyed = BLOCK_KEY in fields.names
        table = Reading(Names(path, (), self.name), _ReferenceLines(fields, keyed), lines)
        once = Rule(path, ", ".join(PARTS), "each block once")
        keys = KeyPass(Rule(path, BLOCK_KEY, "one block, in one tract, for each key")) if keyed else None
        return EntityBlocks(read_blocks(spark, path, [table], BlockPass.of_areas(once), keys))


@dataclass(frozen=True, slots=True)
class _ReferenceLines(AreaLines):
    """Lines of the reference file, perhaps with keys."""

    line: LineFields
    keyed: bool

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        blocks = self.line.cut(rows, (*_WANTED, *([BLOCK_KEY] if self.keyed else [])))
        texts = {column: (column.upper(), blocks.column(column.upper())) for column in ENTITY_COLUMNS}
        key = block_keys(blocks.column(BLOCK_KEY)) if self.keyed else None
        return areas_of(blocks, geocodes_of(blocks), ", ".join(PARTS), texts, key)


@dataclass(frozen=True, slots=True)
class ReferenceKeys(LineResolve):
    """Lines of the reference file as blocks under the keys by which records name them, which stand for units."""

    kinds = (Kind.GEOGRAPHY,)
    nothing = "no block, so no geounit exists"
    wanted = (*PARTS, BLOCK_KEY)

    line: LineFields

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        blocks = self.line.cut(rows, self.wanted)
        right = {}
        for name, width in GEOCODE_PARTS:
            right[name] = matching(blocks.column(name), f"^[0-9]{{{width}}}$")
            blocks.check(name, f"{width} digits", ~right[name])
        digits = matching(blocks.column(BLOCK_KEY), f"^[0-9]{{1,{_KEY_DIGITS}}}$")
        blocks.check(BLOCK_KEY, f"up to {_KEY_DIGITS} digits", ~digits)
        group, block = PARTS[3:]
        other = pc.not_equal(blocks.column(group), pc.utf8_slice_codeunits(blocks.column(block), 0, 1))
        blocks.check(group, f"the first digit of {block}", right[group] & right[block] & np.asarray(other))
        columns = {
            UNIT: block_keys(blocks.column(BLOCK_KEY)),
            GEOCODE: geocodes_of(blocks),
            COUNT: once(len(blocks)),
            "row": blocks.numbers,
        }
        return kept(input_rows(Kind.GEOGRAPHY, columns, len(blocks)), blocks)
