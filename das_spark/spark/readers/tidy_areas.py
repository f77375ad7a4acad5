"""Tidy tables of blocks: with their entities, which of them have group quarters, and their primitive geounits.

`Tidy` reads a table of geography, a row a block, the entities in columns of known names; beside it may stand tables
that say which blocks have group quarters (`read_quarters`), and a crosswalk to primitive geounits (`read_crosswalk`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK, ENTITY_COLUMNS, GQ_TYPES
from das_spark.io.input_fields import GEOCODE, Names, matching, sixteen
from das_spark.io.input_files import is_catalog_table
from das_spark.io.input_tables import InputTable
from das_spark.io.table_folder import table_files
from das_spark.spark.lists import list_rows
from das_spark.spark.readers._areas import AREA_ROWS, BlockPass, areas_of, block_rows, read_blocks, rows_of_blocks
from das_spark.spark.readers._passes import Rule
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import Kind, Resolve
from das_spark.spark.readers._tables import names_of
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.io.input_fields import Rows

#: Names of a column of census blocks of 15 digits, where there is none of geocodes of 16.
_BLOCK_NAMES: Final = ("block", "geoid")
#: How a table may call the columns of the seven major types of group quarters.
_QUARTERS: Final = tuple(
    tuple(f"{prefix}{number}" for number in range(1, GQ_TYPES + 1)) for prefix in ("gq", "units_", "gq_")
)
_PRIMITIVE: Final = ("primitive", "prim")
_GQ = pa.field("gq", pa.list_(pa.bool_()))
_PRIMITIVE_FIELD = pa.field("primitive", pa.string())
_QUARTER_ROWS: Final = rows_of_blocks(_GQ)
_CROSSWALK_ROWS: Final = rows_of_blocks(_PRIMITIVE_FIELD)
_ONE_ROW: Final = "each block once"

#: From the columns of a table to what is made of its rows.
_Resolving = Callable[[str, Sequence[str]], "_BlockRows"]


class Tidy:
    """The reader of a table with geocode (16 digits) or block (15), and all columns of the entities by name.

    Columns: aiannhce, cousubfp, cousubfs, placefp, placefs, sdunilea, sdseclea, sdelmlea; a null or empty code says
    that the block lies in no such entity. Others are not looked at.
    """

    name = "tidy"

    def files(self, path: str) -> list[str]:
        """See `GeographyReader`."""
        return [] if is_catalog_table(path) else [file.path for file in table_files(path)]

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        _look(path, _areas)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file or folder of Parquet or CSV, or a table of a catalog; see `GeographyReader`."""
        table = _opened(spark, path, _areas)
        once = Rule(path, table.names.of(GEOCODE), _ONE_ROW)
        return EntityBlocks(read_blocks(spark, path, [table], BlockPass.of_areas(once)))


def read_quarters(spark: SparkSession, path: str) -> DataFrame:
    """Read which blocks have facilities of which major types of group quarters.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15); and gq1 to gq7 or units_1 to units_7: a
            number of facilities or of people, above 0 where there is a facility; null for none.

    Returns:
        Columns geocode (16 digits, each block once) and gq (array of 7 booleans).

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    table = _opened(spark, path, _quarters)
    once = Rule(path, table.names.of(GEOCODE), _ONE_ROW)
    return read_blocks(spark, path, [table], BlockPass((_GQ,), {0: once}, {}))


def read_crosswalk(spark: SparkSession, path: str) -> DataFrame:
    """Read the crosswalk from blocks to primitive geounits; whether it splits blocks is asked when it is used.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15), and primitive (or prim): any text.

    Returns:
        Columns geocode (16 digits) and primitive.

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    rows = read_blocks(spark, path, [_opened(spark, path, _crosswalk)], None)
    return rows.select(GEOCODE, _PRIMITIVE_FIELD.name)


def look_at_crosswalk(path: str) -> None:
    """See, cheaply and without Spark, whether a crosswalk (`read_crosswalk`) is there and has its columns.

    Raises:
        InputError: The file or a column is missing.
    """
    _look(path, _crosswalk)


def _look(path: str, resolving: _Resolving) -> None:
    if not is_catalog_table(path):
        _reading(path, InputTable.open(path), resolving)


def _opened(spark: SparkSession, path: str, resolving: _Resolving) -> Reading:
    if not is_catalog_table(path):
        return _reading(path, InputTable.open(path), resolving)
    from das_spark.spark.catalog import catalog_rows  # noqa: PLC0415 - for such tables alone

    columns = names_of(catalog_rows(spark, path))
    return Reading(_names(path, columns), resolving(path, columns), None)


def _reading(path: str, table: InputTable, resolving: _Resolving) -> Reading:
    resolve = resolving(path, table.columns)
    names = _names(path, table.columns, table.unread, len(table.names))
    names.require(*resolve.fields(names))
    return Reading(names, resolve, table)


def _names(path: str, columns: Sequence[str], unread: frozenset[str] = frozenset(), header: int = 0) -> Names:
    """The names of a table of blocks."""
    block = next((name for name in _BLOCK_NAMES if name in columns), None)
    if GEOCODE not in columns and block is None:
        raise InputError(
            f"{path}: no column 'geocode' of 16 digits, and no 'block' of {CENSUS_BLOCK}",
            hint=f"the file has {', '.join(columns)}",
        )
    mapped = {} if block is None else {_BLOCK_NAMES[0]: block}
    return Names(path, tuple(columns), "blocks", mapped, unread=unread, header=header)


class _BlockRows(Resolve):
    """Rows that tell something of blocks."""

    __slots__ = ()
    kinds = (Kind.GEOGRAPHY,)
    nothing = ""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that tell it."""

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (GEOCODE, *self.columns)


def _geocodes(rows: Rows) -> pa.Array:
    """Geocodes of 16 digits; an empty text where a census block has no 15."""
    texts = pc.fill_null(rows.column(GEOCODE).cast(pa.string()), "")
    if not rows.names.by_block:
        return texts
    # What is no block must not be brought into the form of one.
    return pc.if_else(pc.match_substring_regex(texts, f"^[0-9]{{{CENSUS_BLOCK}}}$"), sixteen(texts), "")


def _digits(rows: Rows) -> pa.Array:
    """Geocodes of rows, which have all digits."""
    geocodes = _geocodes(rows)
    good = matching(geocodes, f"^[0-9]{{{BLOCK}}}$")
    rows.check(GEOCODE, "the digits of a block, as text", ~good)
    return geocodes


@dataclass(frozen=True, slots=True)
class _Areas(_BlockRows):
    """Blocks with their entities."""

    schema = AREA_ROWS
    nothing = "no block, so no geounit exists"
    columns = ENTITY_COLUMNS

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        texts = {name: (name, rows.column(name)) for name in self.columns}
        return areas_of(rows, _geocodes(rows), GEOCODE, texts)


def _areas(path: str, columns: Sequence[str]) -> _Areas:
    if missing := [name for name in ENTITY_COLUMNS if name not in columns]:
        near = get_close_matches(missing[0], columns, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{path}: no column {', '.join(map(repr, missing))}",
            hint=f"{guess}the file has {', '.join(columns)}; a column of nulls says that there is none",
        )
    return _Areas()


@dataclass(frozen=True, slots=True)
class _Quarters(_BlockRows):
    """Blocks with numbers of facilities."""

    schema = _QUARTER_ROWS

    columns: tuple[str, ...]

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        geocodes, flags = _digits(rows), []
        for name in self.columns:
            number = rows.whole(name)
            wrong = ~number.is_missing & ~(number.is_whole & (number.value >= 0))
            rows.check(name, "a whole number of 0 or more", wrong)
            flags.append(number.value > 0)
        return block_rows(self.schema, rows, geocodes, {_GQ.name: list_rows(np.stack(flags, axis=1))})


def _quarters(path: str, columns: Sequence[str]) -> _Quarters:
    names = next((names for names in _QUARTERS if set(names) <= set(columns)), None)
    if names is None:
        raise InputError(
            f"{path}: no columns {_QUARTERS[0][0]} to {_QUARTERS[0][-1]}, nor {_QUARTERS[1][0]} to {_QUARTERS[1][-1]}",
            hint=f"the file has {', '.join(columns)}",
        )
    return _Quarters(names)


@dataclass(frozen=True, slots=True)
class _Crosswalk(_BlockRows):
    """Blocks with the primitive geounit that each lies in."""

    schema = _CROSSWALK_ROWS

    columns: tuple[str, ...]

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        (name,) = self.columns
        geocodes, texts = _digits(rows), pc.utf8_trim(rows.column(name).cast(pa.string()), " ")
        blank = np.asarray(pc.fill_null(pc.equal(texts, ""), True))
        rows.check(name, "the name of a primitive geounit", blank)
        return block_rows(self.schema, rows, geocodes, {_PRIMITIVE_FIELD.name: texts})


def _crosswalk(path: str, columns: Sequence[str]) -> _Crosswalk:
    name = next((name for name in _PRIMITIVE if name in columns), None)
    if name is None:
        raise InputError(f"{path}: no column 'primitive'", hint=f"the file has {', '.join(columns)}")
    return _Crosswalk((name,))
