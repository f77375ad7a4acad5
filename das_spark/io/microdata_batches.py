"""Parts of microdata files read in batches of bounded size, whatever the flavour, with codes turned into numbers.

Nothing here is shared with the writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

Integers = NDArray[np.int64]

#: Rows of a batch of a Parquet file: a few dozen bytes a row and column.
_ROWS = 1 << 19
#: Bytes of a text file that are read at once: about as many rows.
_BYTES = 1 << 25
_TEXT = pa.dictionary(pa.int32(), pa.string())
#: Where a record has no text, which no code is.
_NOTHING = "?"


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of a file.

    Attributes:
        layout: Names of all columns of a text file, in order.
        texts: Columns that are read as texts.
        numbers: Columns that are read as whole numbers.
        delimiter: What stands between the fields of a text file.
        names_inside: Whether a text file begins with a line of the names of all its columns.
        commented: Whether lines that begin with "#" stand before that, or before the records.
        constants: Columns of a text file that hold one text throughout -> that text, to be looked at with `deviating`.
    """

    layout: tuple[str, ...]
    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    delimiter: str = "|"
    names_inside: bool = False
    commented: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Numbering:
    """Numbers for texts, in the order in which they appear.

    Attributes:
        known: Text -> number.
    """

    known: dict[str, int] = field(default_factory=dict)

    def of(self, texts: pa.Array) -> Integers:
        """The number of each text, shape (texts,); new texts get the next numbers.

        Args:
            texts: Without nulls.
        """
        encoded = texts.dictionary_encode()
        numbers = [self.known.setdefault(text, len(self.known)) for text in encoded.dictionary.to_pylist()]
        found: Integers = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
        return found

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self.known)


def read_batches(path: Path, flavour: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read a part of a microdata file.

    Args:
        path: The part.
        flavour: `parquet`, or one of text.
        columns: What to read; texts come as dictionaries.

    Raises:
        pyarrow.ArrowException: It is not such a file, a column is missing, another name stands in the line of names, or
            a number is none.
        OSError: It cannot be read.
    """
    if flavour == "parquet":
        yield from _parquet_batches(path, columns)
        return
    lines, first = _before_records(path, columns)
    if path.stat().st_size > first:  # a text without a line is a part without records
        yield from _text_batches(path, columns, lines)


def _parquet_batches(path: Path, columns: Columns) -> Iterator[pa.RecordBatch]:
    wanted = [*columns.texts, *columns.numbers]
    missing = sorted(set(wanted) - set(parquet.read_schema(path).names))
    if missing:
        raise pa.ArrowInvalid(f"no column {missing[0]}")
    with parquet.ParquetFile(path, read_dictionary=list(columns.texts)) as file:
        yield from file.iter_batches(_ROWS, columns=wanted, use_threads=False)


def _before_records(path: Path, columns: Columns) -> tuple[int, int]:
    """How many lines stand before the records, comments and names, and how many bytes they are."""
    lines, size = 0, 0
    with path.open("rb") as file:
        while columns.commented and file.peek(1)[:1] == b"#":
            size += len(file.readline())
            lines += 1
        if columns.names_inside:
            names = f"{columns.delimiter.join(columns.layout)}\n".encode("ascii")
            if file.read(len(names)) != names:
                raise pa.ArrowInvalid("the first line has other names than those of the columns")
            size += len(names)
            lines += 1
    return lines, size


def _text_batches(path: Path, columns: Columns, lines: int) -> Iterator[pa.RecordBatch]:
    kinds = dict.fromkeys(columns.texts, _TEXT) | dict.fromkeys(columns.numbers, pa.int64())
    kinds |= dict.fromkeys(columns.constants, pa.binary())  # compared as they are: half the time of decoding them
    yield from csv.open_csv(
        path,
        read_options=csv.ReadOptions(
            column_names=list(columns.layout),
            skip_rows=lines,
            block_size=_BYTES,
            use_threads=False,
        ),
        parse_options=csv.ParseOptions(delimiter=columns.delimiter, quote_char=False),
        convert_options=csv.ConvertOptions(column_types=kinds, include_columns=list(kinds)),
    )


def deviating(batch: pa.RecordBatch, constants: Mapping[str, str]) -> set[str]:
    """Names of the columns that do not hold their text in every record.

    Args:
        batch: The rows.
        constants: Column -> its text.
    """
    wanted = {name: pa.scalar(text.encode(), pa.binary()) for name, text in constants.items()}
    return {name for name, text in wanted.items() if not pc.all(pc.equal(batch.column(name), text)).as_py()}


def misdeclared(path: Path, expected: Mapping[str, bool]) -> set[str]:
    """Columns of a Parquet file that it lacks, has besides, or has at another place or of another type.

    Args:
        path: The file.
        expected: Every column that there must be, in order -> whether it holds whole numbers, and not texts.

    Raises:
        pyarrow.ArrowException: It is no Parquet file.
        OSError: It cannot be read.
    """
    found = parquet.read_schema(path)
    declared = [(name, pa.int32() if number else _TEXT) for name, number in expected.items()]
    return {name for name, _ in set(declared) ^ set(zip(found.names, found.types, strict=True))} or (
        set() if list(found.names) == list(expected) else {"(their order)"}
    )


def numbers_of(batch: pa.RecordBatch, column: str) -> Integers:
    """A column of whole numbers, shape (rows,); -1 where there is none.

    Args:
        batch: The rows.
        column: Name of a column of whole numbers, or of texts that spell them; nulls stand for none.
    """
    return np.asarray(pc.fill_null(batch.column(column).cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def joined_texts(batch: pa.RecordBatch, columns: Sequence[str], separator: str, numbering: Numbering) -> Integers:
    """The number of the text that each row's columns make when joined, shape (rows,).

    Texts are put together once for each run of equal rows: people of a geounit and of a cell stand together.

    Args:
        batch: The rows.
        columns: Names of the columns, in the order in which they are joined.
        separator: What stands between them.
        numbering: Knows the numbers of texts; new ones are added to it.
    """
    encoded = [_encoded(batch.column(name)) for name in columns]
    changed = np.zeros(batch.num_rows, dtype=bool)
    changed[:1] = True
    for column in encoded:
        index = column.indices.to_numpy()
        changed[1:] |= index[1:] != index[:-1]
    starts = np.flatnonzero(changed)
    firsts = [column.take(pa.array(starts)).cast(pa.string()) for column in encoded]
    number = numbering.of(pc.binary_join_element_wise(*firsts, separator))
    return np.repeat(number, np.diff(np.append(starts, batch.num_rows)))


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_dictionary(column.type) and not column.null_count:
        return column
    return pc.fill_null(column.cast(pa.string()), _NOTHING).dictionary_encode()
