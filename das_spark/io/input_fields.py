"""Fields of a table of the input as arrays, some rows at a time: what they must hold, and which rows are not so.

What is wrong is counted by field and rule, with the numbers of some rows; no value is kept. Columns of codes are read
by their distinct values, so that a row costs one look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK
from das_spark.io.csv_records import RULES_OF_CSV, expected_by
from das_spark.io.input_files import is_catalog_table
from das_spark.io.input_tables import MALFORMED
from das_spark.io.listed_files import ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.io.input_tables import InputTable
    from das_spark.products import CodedField

    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]

GEOCODE: Final = "geocode"
_BLOCK_FIELD: Final = "block"
#: The largest count that an int64 can hold.
LARGEST: Final = 2**63 - 1
#: Labels of an attribute that a message shows.
_SOME_LABELS: Final = 6
#: Row numbers, or geounits, that are kept of one problem.
MOST_EXAMPLES: Final = 10
#: Digits that every whole number of which an int64 holds has fewer of, or as many.
_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the fields in a table.

    Attributes:
        file: File, folder or table of a catalog.
        found: Names of its columns.
        table: Its key in the settings, such as `persons`.
        mapped: Field -> column, where the settings name one.
        of_table: Fields of which they do so for this table.
        code_base: Field -> first code.
        labels: Attributes whose fields hold labels.
        unread: Columns whose values are neither texts nor numbers.
        header: How many columns the header of its files names.
    """

    file: str
    found: tuple[str, ...]
    table: str
    mapped: Mapping[str, str] = field(default_factory=dict)
    of_table: frozenset[str] = frozenset()
    code_base: Mapping[str, int] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()
    header: int = 0

    @classmethod
    def of_file(cls, settings: InputSettings, key: str, table: InputTable) -> Names:
        """Return the names of a table of `[input]`."""
        names = cls.of_catalog(settings, key, table.path, table.columns)
        return replace(names, unread=table.unread, header=len(table.names))

    @classmethod
    def of_catalog(cls, settings: InputSettings, key: str, place: str, found: Sequence[str]) -> Names:
        """Return the names of a table of a catalog with some columns."""
        own = settings.columns.get(key)
        of_table = frozenset(own if isinstance(own, dict) else ())
        codes, labels = dict(settings.code_base), tuple(settings.labels)
        return cls(place, tuple(found), key, settings.columns_of(key), of_table, codes, labels)

    def of(self, name: str) -> str:
        """Return what the file calls a field."""
        return self._mapped(_BLOCK_FIELD if name == GEOCODE and self.by_block else name)

    @property
    def by_block(self) -> bool:
        """Whether census blocks of 15 digits stand for geocodes."""
        named = GEOCODE in self.of_table or self._mapped(GEOCODE) in self.found
        return not named and self._mapped(_BLOCK_FIELD) in self.found

    def _mapped(self, name: str) -> str:
        return self.mapped.get(name, name)

    def has(self, name: str) -> bool:
        """Say whether the file has a field."""
        return self.of(name) in self.found

    def has_optional(self, name: str) -> bool:
        """Say whether the file has a field that it may leave out.

        Raises:
            InputError: The settings name a column that is not there, or only the case of letters differs.
        """
        column = self.of(name)
        other = next((known for known in self.found if known.lower() == column.lower()), None)
        if column not in self.found and (name in self.mapped or other is not None):
            raise InputError(f"{self.file}: no column {column!r} for {name!r}", hint=self._near(column, name))
        return column in self.found

    def require(self, *fields: str) -> None:
        """Refuse a file that has not each of some fields, once.

        Raises:
            InputError: A column is missing, stands twice, or holds neither texts nor numbers.
        """
        for name in fields:
            column = self.of(name)
            if not self.has(name):
                raise InputError(f"{self.file}: no column {column!r} for {name!r}", hint=self._near(column, name))
            if self.found.count(column) > 1:
                raise InputError(f"{self.file}: two columns are called {column!r}", hint="give each a name of its own")
            if column in self.unread:
                raise InputError(
                    f"{self.file}: column {column!r} holds neither texts nor numbers", hint="write it as one of these"
                )

    def _near(self, column: str, name: str) -> str:
        """What to do about a missing column. Names are listed only where one is known: others may be a first record."""
        near = [known for known in self.found if known.lower() == column.lower()]
        near = near or get_close_matches(column, self.found, n=1)
        table = is_catalog_table(self.file)
        guess = f"did you mean {near[0]!r}? " if near else ""
        key = f"input.columns.{self.table}.{name}"
        if not near and not table and not {self._mapped(GEOCODE), self._mapped(_BLOCK_FIELD)} & set(self.found):
            return f"it has {len(self.found)} columns; does its first line hold their names? (input.columns maps them)"
        return f"{guess}the {'table' if table else 'file'} has {', '.join(self.found)}; map it as {key}"


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Whole numbers, shape ``(rows,)``.

    Attributes:
        value: The numbers; 0 where there is none.
        is_whole: Whether there is a whole number.
        fits: Whether an int64 holds it.
        is_missing: Whether the field is empty.
    """

    value: Whole
    is_whole: Flags
    fits: Flags
    is_missing: Flags

    def take(self, places: Whole) -> Numbers:
        """Return the numbers at some places."""
        return Numbers(self.value[places], self.is_whole[places], self.fits[places], self.is_missing[places])


@dataclass(slots=True, eq=False)
class Fault:
    """How many rows break a rule, and the numbers of the first of them in their file."""

    rows: int = 0
    examples: list[int] = field(default_factory=list)


class Rows:
    """Some rows of a table, whose fields are taken one after the other; what each must hold is checked meanwhile.

    Attributes:
        names: What the table calls its fields.
        faulty: Rows that break a rule of those that were asked for: shape ``(rows,)``.
    """

    def __init__(self, names: Names, batch: pa.RecordBatch, faults: dict[tuple[str, str], Fault]) -> None:
        """Begin with what holds of whole rows.

        Args:
            names: What the table calls its fields.
            batch: Columns by name, and `ROW`; `MALFORMED` of CSV.
            faults: What is wrong with the rows of the table before these, by field and rule; is added to.
        """
        self.names, self._batch, self._faults = names, batch, faults
        self.faulty = np.zeros(batch.num_rows, dtype=np.bool_)
        self._numbers = batch.column(ROW)
        if MALFORMED in batch.schema.names:
            broken = batch.column(MALFORMED)
            for rule in RULES_OF_CSV:
                self._add("row", expected_by(rule, names.header), _flags(pc.equal(broken, rule)))
        self.settle()

    def of(self, kept: Flags, columns: Mapping[str, pa.Array]) -> Rows:
        """Return some of the rows, with other columns; what is wrong with them is counted together.

        Args:
            kept: Which rows: shape ``(rows,)``.
            columns: By name, of these rows.
        """
        batch = pa.RecordBatch.from_pydict({**columns, ROW: self._numbers.filter(pa.array(kept))})
        return Rows(self.names, batch, self._faults)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.faulty)

    @property
    def numbers(self) -> Whole:
        """Of each row, its number in its file."""
        return np.asarray(self._numbers, dtype=np.int64)

    def check(self, name: str, expected: str, fails: Flags) -> None:
        """Add a rule that some rows break; of records that cannot be taken apart nothing more is said."""
        self._add(self.names.of(name), expected, fails & ~self._broken)

    def settle(self) -> None:
        """Say nothing more of the rows that break a rule by now."""
        self._broken = self.faulty.copy()

    def _add(self, column: str, expected: str, fails: Flags) -> None:
        fault = self._faults.setdefault((column, expected), Fault())
        self.faulty |= fails
        if fails.any():
            fault.rows += int(fails.sum())
            left = MOST_EXAMPLES - len(fault.examples)
            fault.examples += self.numbers[fails][:left].tolist()

    def column(self, name: str) -> pa.Array:
        """Return the column of a field."""
        return self._batch.column(self.names.of(name))

    def whole(self, name: str) -> Numbers:
        """Return the numbers of a field, which are whole ones however they are written.

        Raises:
            InputError: The column holds no numbers at all.
        """
        column = self.column(name)
        if pa.types.is_integer(column.type):
            missing = _flags(column.is_null())
            some = np.ones(len(column), dtype=np.bool_)
            return Numbers(np.asarray(column.fill_null(0).cast(pa.int64())), ~missing, some, missing)
        distinct, places = _distinct(column)
        return self._numbers_of(distinct, self.names.of(name)).take(places)

    def _numbers_of(self, values: pa.Array, column: str) -> Numbers:
        missing = _flags(values.is_null())
        if pa.types.is_null(values.type):
            return Numbers(np.zeros(len(values), dtype=np.int64), ~missing, ~missing, missing)
        if _is_text(values.type):
            value, is_whole, fits = _of_texts(values)
        elif pa.types.is_integer(values.type):
            value, is_whole = np.asarray(values.fill_null(0).cast(pa.int64())), ~missing
            fits = is_whole
        elif pa.types.is_floating(values.type):
            value, is_whole, fits = _of_floats(np.asarray(values.fill_null(0.5).cast(pa.float64())))
        elif pa.types.is_decimal(values.type):
            value, is_whole, fits = _of_decimals(values)
        else:
            raise InputError(f"{self.names.file}: column {column!r} holds no numbers", hint=f"it is {values.type}")
        return Numbers(value, is_whole & ~missing, fits & ~missing, missing)

    def count(self, name: str) -> Whole:
        """Return counts: whole, not negative, not beyond int64; shape ``(rows,)``."""
        number = self.whole(name)
        self.check(name, "a count in every row, none missing", number.is_missing)
        self.check(name, "a whole number", ~number.is_missing & ~number.is_whole)
        self.check(name, f"a number up to {LARGEST:,}", number.is_whole & ~number.fits)
        self.check(name, "a count of 0 or more", number.value < 0)
        return number.value

    def level(self, coded: CodedField, labels: Sequence[str], attribute: str = "") -> Whole:
        """Return the levels of a coded field: by its codes; or by the labels of the levels, where the settings say so.

        Codes that are the numbers of levels begin at the code base of the settings.

        Args:
            coded: The field.
            labels: Of the levels, as the product spells them.
            attribute: Of the product, whose labels a field may hold.

        Returns:
            Levels, shape ``(rows,)``; -1 where there is none.
        """
        distinct, places = _distinct(self.column(coded.name))
        if attribute in self.names.labels:
            known = pc.index_in(distinct.cast(pa.string()), pa.array(labels, pa.string()))
            level = np.asarray(known.fill_null(-1)).astype(np.int64)
            some = ", ".join(map(repr, labels[:_SOME_LABELS])) + (", ..." if len(labels) > _SOME_LABELS else "")
            expected = f"a label of {attribute}: {some}"
        else:
            base = self.names.code_base.get(coded.name, 0)
            number = self._numbers_of(distinct, self.names.of(coded.name))
            level = np.where(number.is_whole & number.fits, coded.level_of(number.value - base), -1)
            if coded.blank_level is not None:
                level[number.is_missing] = coded.blank_level
            expected = _codes(coded, base)
        level = level[places]
        self.check(coded.name, expected, level < 0)
        return level

    def geocode(self, spine: Spine) -> pa.Array:
        """Return geocodes: of the lowest level, or of census blocks of 15 digits where that is the level."""
        length = spine.leaf.length
        distinct, places = _distinct(self.column(GEOCODE))
        texts = distinct.cast(pa.string())
        if spine.leaf.code:  # what lies in what is said by a table of parents, and looked up behind the reader
            expected, pattern = "the code of a geounit, in every row", f"^{spine.characters}+$"
            of_blocks = False
        else:
            of_blocks = self.names.by_block and length == BLOCK and not spine.letters
            digits = CENSUS_BLOCK if of_blocks else max(length, 1)  # the root's geocode is "0"
            kind = "characters" if spine.letters else "digits"
            expected = f"a geocode of {digits} {kind}, as text with its leading zeros"
            pattern = f"^{spine.characters}{{{digits}}}$"
        good = matching(texts, pattern)
        self.check(GEOCODE, expected, ~good[places])
        return (sixteen(texts) if of_blocks else texts).take(pa.array(places))

    def identity(self, name: str, of: str, *, visible: str = "") -> pa.Array:
        """Return what identifies something in a field, as texts: texts as they are, or whole numbers.

        Args:
            name: Of the field.
            of: What is identified, for messages, such as `a unit`.
            visible: Expression of what must be in it.

        Raises:
            InputError: The column holds neither texts nor whole numbers.
        """
        column = self.column(name)
        kind = column.type
        whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
        if not (whole or _is_text(kind) or pa.types.is_null(kind)):
            raise InputError(
                f"{self.names.file}: column {self.names.of(name)!r} holds neither texts nor whole numbers",
                hint=f"it is {kind}, which does not tell {of} from all others",
            )
        texts = column.cast(pa.string())
        good = pc.match_substring_regex(texts, visible) if visible else texts.is_valid()
        self.check(name, f"what identifies {of} in every row", ~_flags(good))
        return texts


def _codes(coded: CodedField, base: int) -> str:
    """What the codes of a field are."""
    if coded.first is not None:
        return f"a code from {base + coded.first} to {base + coded.first + len(coded.levels) - 1}"
    ranges = [(low + base, high + base) for low, high, _ in coded.ranges()]
    return "a code of " + ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


def matching(texts: pa.Array, pattern: str) -> Flags:
    """Say which texts an expression matches; a null matches none."""
    return _flags(pc.match_substring_regex(texts, pattern))


def sixteen(blocks: pa.Array) -> pa.Array:
    """Return the geocodes of 16 digits of census blocks of 15: the block group is the first digit of the block."""
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(blocks, 0, 12), pc.utf8_slice_codeunits(blocks, 11), "")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _flags(column: pa.Array) -> Flags:
    """A column of truth values; null is false."""
    return np.asarray(column.fill_null(False))


def _distinct(column: pa.Array) -> tuple[pa.Array, Whole]:
    """Return the distinct values of a column, null last, and the place of each row's value among them."""
    coded = column.dictionary_encode()
    last = len(coded.dictionary)
    values = pa.concat_arrays([coded.dictionary, pa.nulls(1, coded.dictionary.type)])
    return values, np.asarray(coded.indices.fill_null(last)).astype(np.int64)


def _of_texts(texts: pa.Array) -> tuple[Whole, Flags, Flags]:
    trimmed = pc.utf8_trim(texts.cast(pa.string()), " ")
    is_whole = matching(trimmed, "^[+-]?[0-9]+$")
    plain = pc.replace_substring_regex(trimmed, r"^[+]?(-?)0*([0-9]+)$", r"\1\2")
    negative = _flags(pc.starts_with(plain, "-"))
    digits = pc.utf8_ltrim(plain, "-")
    length = np.asarray(pc.utf8_length(digits).fill_null(0))
    # Of as many digits, texts are in the order of their numbers.
    up_to = np.where(
        negative, _flags(pc.less_equal(digits, str(LARGEST + 1))), _flags(pc.less_equal(digits, str(LARGEST)))
    )
    fits = is_whole & ((length < _DIGITS) | ((length == _DIGITS) & up_to))
    known = pc.if_else(pa.array(fits), plain, "0")
    return np.asarray(known.cast(pa.int64())), is_whole, fits


def _of_floats(values: NDArray[np.float64]) -> tuple[Whole, Flags, Flags]:
    is_whole = np.isfinite(values) & (values == np.floor(values))
    fits = is_whole & (values >= -(2.0**63)) & (values < 2.0**63)
    return np.where(fits, values, 0).astype(np.int64), is_whole, fits


def _of_decimals(values: pa.Array) -> tuple[Whole, Flags, Flags]:
    exact = [0 if value is None else value for value in values.to_pylist()]
    is_whole = np.array([value == int(value) for value in exact], dtype=np.bool_)
    fits = np.array([-LARGEST - 1 <= value <= LARGEST for value in exact], dtype=np.bool_) & is_whole
    numbers = [int(value) if good else 0 for value, good in zip(exact, fits.tolist(), strict=True)]
    return np.array(numbers, dtype=np.int64), is_whole, fits
