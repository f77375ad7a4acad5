"""Blocks with the entities that they lie in: what their codes must be, and how rows of several files come together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from das_spark.errors import InputError
from das_spark.geography import BLOCK, ENTITY_COLUMNS, NO_AIAN_AREA, NO_ENTITY
from das_spark.io.input_fields import GEOCODE, matching
from das_spark.spark.problems import reading, refuse
from das_spark.spark.readers._passes import Pass, Rule, array_of, groups_of
from das_spark.spark.readers._reading import READ
from das_spark.spark.readers._resolved import COUNT, Kind, LineResolve, input_rows, kept, once
from das_spark.spark.readers._told import TOLD, facts_of, filled, problems_in, tell, told_in

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from das_spark.io.input_fields import Rows
    from das_spark.spark.readers._reading import Reading

    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]

#: The functional status of what does not exist, and the one of a government that is active.
_NO_STATUS, _ACTIVE = "9", "A"

#: Columns of functional status, and the code that each is about.
STATUS_OF: Final[Mapping[str, str]] = MappingProxyType({"cousubfs": "cousubfp", "placefs": "placefp"})

_OWN_NOTHING: Final = {"aiannhce": NO_AIAN_AREA} | dict.fromkeys(STATUS_OF, _NO_STATUS)

#: Column -> what it holds for a block that lies in no such entity; its length is that of every code of the column.
NOTHING: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OWN_NOTHING.get(name, NO_ENTITY) for name in ENTITY_COLUMNS}
)

STATUS_NOTE: Final = (
    "the files do not give the functional status of places and county subdivisions: each counts as functioning"
)

_CODES_HINT: Final = "correct the file; codes are text, with their leading zeros"
_ROWS_HINT: Final = "each block lies in one tract and has one row, in every file of a release"
_UNASSIGNED_AIAN: Final = ("4990", "4999")

ENTITIES: Final = tuple(pa.field(name, pa.string()) for name in ENTITY_COLUMNS)


def rows_of_blocks(*columns: pa.Field) -> pa.Schema:
    """Return the schema of what is made of a table that tells something of blocks.

    Columns besides: kind; file (which one of several in which blocks stand); count; row (number in its file); told.
    """
    places = [(GEOCODE, pa.string()), ("kind", pa.int8()), ("file", pa.int8())]
    return pa.schema([*places, *columns, (COUNT, pa.int64()), ("row", pa.int64()), (TOLD, pa.string())])


#: Of blocks with their entities, and the key by which records name them: empty where one has none.
AREA_ROWS: Final = rows_of_blocks(*ENTITIES, pa.field("key", pa.string()))
_BY_BLOCK: Final = "blocks"


def filled_codes(texts: pa.Array, column: str) -> pa.Array:
    """Return codes without spaces around them; what stands for nothing where they are blank or null."""
    trimmed = pc.utf8_trim(texts.cast(pa.string()), " ")
    blank = pc.fill_null(pc.equal(trimmed, ""), True)
    return pc.if_else(blank, NOTHING[column], trimmed)


def status_of(codes: pa.Array, column: str) -> pa.Array:
    """Return the functional status of entities in files that give none: active where there is one."""
    return pc.if_else(pc.equal(codes, NOTHING[STATUS_OF[column]]), _NO_STATUS, _ACTIVE)


def check_codes(rows: Rows, field: str, column: str, codes: pa.Array) -> None:
    """Check what the codes of a column must be."""
    width = len(NOTHING[column])
    if column in STATUS_OF:
        expected, pattern = "a functional status: one capital letter or digit", "^[A-Z0-9]$"
    else:
        expected, pattern = f"{width} digits, as text with leading zeros", f"^[0-9]{{{width}}}$"
    rows.check(field, expected, ~matching(codes, pattern))
    if column == "aiannhce":
        low, high = _UNASSIGNED_AIAN
        between = np.asarray(pc.and_(pc.greater_equal(codes, low), pc.less_equal(codes, high)))
        expected = f"a code that is assigned to areas (0000 and {low}-{high} are not), or 9999 for none"
        rows.check(field, expected, between | np.asarray(pc.equal(codes, "0000")))


def check_geocodes(rows: Rows, field: str, geocodes: pa.Array) -> None:
    """Check the geocodes of blocks, of 16 digits."""
    good = matching(geocodes, f"^[0-9]{{{BLOCK}}}$")
    group, block = (np.asarray(pc.utf8_slice_codeunits(geocodes, position, position + 1)) for position in (11, 12))
    digits = "the digits of state (2), county (3), tract (6) and block (4), as text with leading zeros"
    rows.check(field, digits, ~good)
    rows.check(field, "a block group that is the first digit of the block", good & (group != block))


def block_rows(
    schema: pa.Schema, rows: Rows, geocodes: pa.Array, columns: Mapping[str, pa.Array], *, file: int = 0
) -> pa.RecordBatch:
    """Make rows of a schema of `rows_of_blocks`, of those that break no rule."""
    told = {GEOCODE: geocodes, **columns, COUNT: once(len(rows)), "row": rows.numbers}
    told["file"] = np.full(len(rows), file, dtype=np.int8)
    return kept(input_rows(Kind.GEOGRAPHY, told, len(rows), schema), rows)


def areas_of(
    rows: Rows,
    geocodes: pa.Array,
    geocode_field: str,
    fields: Mapping[str, tuple[str, pa.Array]],
    key: pa.Array | None = None,
) -> pa.RecordBatch:
    """Check rows of blocks that tell all of their entities, and make `AREA_ROWS`.

    Args:
        rows: Of blocks.
        geocodes: Of 16 digits.
        geocode_field: What the file calls them.
        fields: Column of the entities -> what the file calls it, and its texts.
        key: By which records name the block.
    """
    check_geocodes(rows, geocode_field, geocodes)
    codes = {name: filled_codes(texts, name) for name, (_, texts) in fields.items()}
    for name, (field, _) in fields.items():
        check_codes(rows, field, name, codes[name])
    return block_rows(AREA_ROWS, rows, geocodes, codes | ({} if key is None else {"key": key}))


def other_blocks(key: Whole, named: Flags, geocodes: pa.Array) -> Flags:
    """Return the rows whose key leads to several blocks.

    Args:
        key: Number of the key of each row, sorted.
        named: Rows that say which block a key leads to.
        geocodes: Of these blocks; of other rows anything.
    """
    block = np.asarray(geocodes.dictionary_encode().indices.fill_null(-1)).astype(np.int64)
    most, least = (np.full(int(key[-1]) + 1, start, dtype=np.int64) for start in (-1, len(block)))
    np.maximum.at(most, key[named], block[named])
    np.minimum.at(least, key[named], block[named])
    several: Flags = named & (least < most)[key]
    return several


@dataclass(frozen=True, slots=True)
class KeyPass(Pass):
    """Blocks by the keys under which records name them: a key leads to one block.

    Attributes:
        one: The rule.
    """

    keys = ("key",)
    schema = AREA_ROWS

    one: Rule

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Pass on rows, and tell which keys lead to several blocks."""
        _, key = groups_of(rows, "key")
        geocodes = rows.column(GEOCODE).combine_chunks()
        bad = other_blocks(key, np.asarray(pc.not_equal(rows.column("key").combine_chunks(), "")), geocodes)
        yield from rows.combine_chunks().to_batches()
        numbers = array_of(rows, "row")[bad]
        yield tell(AREA_ROWS, _BY_BLOCK, [self.one.broken(len(numbers), numbers, geocodes.filter(pa.array(bad)))])


@dataclass(frozen=True, slots=True)
class BlockPass(Pass):
    """All that files tell of each block.

    Attributes:
        columns: What is told of them.
        once: File -> what is expected where a block stands in several rows of it.
        everywhere: File -> what is expected of the blocks of its states, and these.
    """

    keys = (GEOCODE, "file")

    columns: tuple[pa.Field, ...]
    once: Mapping[int, Rule]
    everywhere: Mapping[int, tuple[Rule, frozenset[str]]]

    @classmethod
    def of_areas(cls, once: Rule) -> BlockPass:
        """Blocks with their entities, of one file."""
        return cls(ENTITIES, {0: once}, {})

    @property
    def schema(self) -> pa.Schema:
        """Of blocks, and what is told of them."""
        return pa.schema([(GEOCODE, pa.string()), *self.columns, (TOLD, pa.string())])

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Make a row of each block, and tell what is wrong."""
        first, block = groups_of(rows, GEOCODE)
        number, file, row = len(first), array_of(rows, "file"), array_of(rows, "row")
        geocodes = rows.column(GEOCODE).combine_chunks()
        codes = geocodes.take(pa.array(first))
        problems = []
        for of, rule in self.once.items():
            rows_of_file = np.bincount(block[file == of], minlength=number)
            bad = (file == of) & (rows_of_file > 1)[block]
            problems.append(rule.broken(int(bad.sum()), row[bad], geocodes.filter(pa.array(bad))))
            if of in self.everywhere:
                expected, states = self.everywhere[of]
                here = pc.is_in(pc.utf8_slice_codeunits(codes, 0, 2), pa.array(sorted(states)))
                missing = (rows_of_file == 0) & np.asarray(here)
                lost = codes.filter(pa.array(missing))
                problems.append(expected.broken(len(lost), geounits=lost))
        columns = {column.name: _first_of(rows.column(column.name), block, number) for column in self.columns}
        known = {name: pc.fill_null(one, NOTHING[name]) if name in NOTHING else one for name, one in columns.items()}
        yield filled(self.schema, {GEOCODE: codes, **known}, number)
        yield tell(self.schema, _BY_BLOCK, problems, rows=len(block))


def _first_of(column: pa.ChunkedArray, block: Whole, number: int) -> pa.Array:
    """Of each block the first value that some row tells; null where none does."""
    values = column.combine_chunks()
    told = np.flatnonzero(np.asarray(values.is_valid()))[::-1]
    position = np.full(number, -1, dtype=np.int64)
    position[block[told]] = told
    return values.take(pa.array(position, mask=position < 0))


def read_blocks(
    spark: SparkSession, path: str, tables: Sequence[Reading], blocks: BlockPass | None, keys: KeyPass | None = None
) -> DataFrame:
    """Read tables of blocks, once to check them.

    Args:
        spark: The session.
        path: File or folder.
        tables: Of the same blocks.
        blocks: Brings their rows together; None where a block may have several.
        keys: Looks at the keys of blocks, where there are some.

    Returns:
        What is told of blocks; see `BlockPass.of`, and what the rows have besides where they do not come together.

    Raises:
        BadInputError: Rows are not as they must be.
        InputError: A table cannot be read, or holds no block.
    """
    with reading(path):
        rows = reduce(DataFrame.unionAll, [table.rows(spark) for table in tables])
        rows = rows if keys is None else keys.of(rows)
        made = rows if blocks is None else blocks.of(rows)
        facts = told_in(made)
    read, together = facts_of(READ, facts), facts_of(_BY_BLOCK, facts)
    refuse(problems_in(read), hint=_CODES_HINT, public=True)
    nothing = tables[0].resolve.nothing
    if nothing and not any(fact["others"] for fact in read):
        raise InputError(f"{path}: {nothing}", hint="is it the whole file?")
    refuse(problems_in(together), hint=_ROWS_HINT, public=True)
    arrived = sum(fact.get("rows", 0) for fact in together)
    if blocks is not None and arrived != sum(fact["others"] for fact in read):
        raise InputError(f"{path}: not all that was read has arrived", hint="run the same command again")
    return made.where(f"{TOLD} is null").drop(TOLD)


class AreaLines(LineResolve):
    """Lines of blocks with their entities."""

    __slots__ = ()
    schema = AREA_ROWS
    kinds = (Kind.GEOGRAPHY,)
    nothing = "no block, so no geounit exists"
