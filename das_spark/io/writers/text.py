"""Microdata as text: the exact layout, fields joined by its delimiter, no quotes; comments in a file `metadata`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.writers._columns import NUMBERS, Column, FileColumns, Scope
from das_spark.io.writers.base import Rows, Sink

#: Rows that are made into text at once: bounds memory (a hundred bytes a row, several copies).
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class TextFlavour:
    """Pipe-delimited text files."""

    name: str = "text"
    suffix: str = ".txt"
    has_metadata_file: bool = True

    def open(self, path: Path, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file; see `das_spark.io.writers.base.Flavour`.

        Args:
            path: The file; it must not exist.
            columns: What it holds.
            notices: Not used: they stand in the metadata file.
        """
        return text_sink(path, columns)


def text_sink(path: Path, columns: FileColumns) -> Sink:
    """Begin a text file.

    Args:
        path: The file.
        columns: What it holds, what stands between, and whether their names come first.
    """
    delimiter = columns.delimiter
    runs = [(scope, tuple(run)) for scope, run in groupby(_with_scopes(columns.columns), key=lambda pair: pair[0])]
    segments = tuple(_segment(scope, tuple(column for _, column in run), delimiter) for scope, run in runs)
    file = path.open("wb")
    if columns.names_inside:
        file.write(name_line(columns).encode("ascii"))
    return _TextSink(file, segments, delimiter)


def name_line(columns: FileColumns) -> str:
    """The names of the columns, as a line of a text file.

    Args:
        columns: What the file holds, and what stands between.

    Returns:
        One line with its end.
    """
    return columns.delimiter.join(column.name for column in columns.columns) + "\n"


Segment = Callable[[Rows], pa.Array]


@dataclass(frozen=True, slots=True, eq=False)
class _TextSink:
    file: BinaryIO
    segments: tuple[Segment, ...]
    delimiter: str

    def write(self, rows: Rows) -> None:
        for begin in range(0, len(rows.owner), _CHUNK):
            cut = slice(begin, begin + _CHUNK)
            numbers = {scope: values[cut] for scope, values in rows.numbers.items()}
            part = Rows(rows.geocodes, rows.owner[cut], rows.code[cut], numbers)
            fields = [segment(part) for segment in self.segments]
            line_end = pa.scalar("\n")
            joined = pc.binary_join_element_wise(*fields, pa.scalar(self.delimiter))
            lines = pc.binary_join_element_wise(joined, pa.scalar(""), line_end)
            self.file.write(_bytes_of(lines))

    def close(self) -> None:
        self.file.close()


def _with_scopes(columns: tuple[Column, ...]) -> list[tuple[Scope, Column]]:
    """Pair each column with the scope of the segment that it joins: constants join what stands before them."""
    first = next((column.scope for column in columns if column.produced), Scope.CONSTANT)
    paired: list[tuple[Scope, Column]] = []
    for column in columns:
        before = paired[-1][0] if paired else first
        if column.produced:
            paired.append((column.scope, column))
        else:
            paired.append((Scope.CODE if before in NUMBERS else before, column))
    return paired


def _segment(scope: Scope, columns: tuple[Column, ...], delimiter: str) -> Segment:
    """A function from rows to the text of neighbouring columns that depend on the same thing."""
    if scope in NUMBERS:
        return lambda rows: pc.cast(pa.array(rows.numbers[scope]), pa.string())
    if scope is Scope.GEOCODE:
        return lambda rows: pa.array([_place(geocode, columns, delimiter) for geocode in rows.geocodes]).take(
            pa.array(rows.owner)
        )
    size = max((len(column.values) for column in columns if column.produced), default=1)
    values = [column.values if column.produced else column.values * size for column in columns]
    table = pa.array([delimiter.join(codes) for codes in zip(*values, strict=True)], pa.string())
    if size == 1:
        return lambda rows: pa.repeat(table[0], len(rows.owner))
    return lambda rows: table.take(pa.array(rows.code))


def _place(geocode: str, columns: tuple[Column, ...], delimiter: str) -> str:
    return delimiter.join(
        geocode[column.begin : column.end] if column.produced else column.values[0] for column in columns
    )


def _bytes_of(lines: pa.Array) -> memoryview:
    """The text of a string array as it lies in memory, without a copy."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[int(ends[0]) : int(ends[-1])]
