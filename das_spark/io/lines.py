"""Lines of delimited text files, composed and taken apart: compiled loops over bytes.

Records of a geounit and of a cell stand together and differ in their numbers alone. So the texts of a run of such lines
are put together, or read, once, and of its other lines only the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.compiled import compiled

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_NEWLINE: Final = 10
_ZERO: Final = 48
_NINE: Final = 57
#: Digits of the largest number that there is in 64 bits, and the most of which each number is one.
_DIGITS: Final = 19
_DIGITS_READ: Final = 18


@dataclass(slots=True, eq=False)
class LineComposer:
    """Composes lines; the memory is kept for the next ones, since to be given it anew costs more than to fill it."""

    delimiter: str  # one character between two fields
    _room: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def lines(
        self, texts: Sequence[str], fields: Integers, lengths: Integers, numbers: Sequence[Integers]
    ) -> memoryview:
        """The lines of runs of records that differ in their numbers alone, to be used before the next ones are.

        Args:
            texts: Texts of fields.
            fields: What stands in each field of the lines of a run, shape (runs, fields): a text by its place, or the
                number n as -1 - n.
            lengths: Lines of each run, shape (runs,).
            numbers: Numbers of each line, shape (lines,) each; not negative.
        """
        encoded = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, encoded)])
        sizes = np.where(fields >= 0, np.diff(ends, append=ends[-1])[fields], _DIGITS).sum(axis=1) + fields.shape[1]
        needed = int(sizes @ lengths)
        if len(self._room) < needed:
            self._room = np.empty(needed, dtype=np.uint8)
        written = _compose(
            np.frombuffer(b"".join(encoded), dtype=np.uint8),
            ends,
            fields,
            lengths,
            np.stack(numbers) if numbers else np.zeros((0, 0), dtype=np.int64),
            ord(self.delimiter),
            np.empty(int(sizes.max(initial=0)), dtype=np.uint8),
            self._room,
        )
        return self._room.data[:written]


@dataclass(frozen=True, slots=True, eq=False)
class LineRuns:
    """Lines in runs that are the same but for the digits of some numbers.

    Attributes:
        firsts: The first line of each run, with its newline.
        lengths: Lines of each run, shape (runs,).
        numbers: Numbers of each line, shape (numbers, lines); of the first line of a run, nothing.
    """

    firsts: memoryview
    lengths: Integers
    numbers: Integers

    @classmethod
    def of(cls, data: Bytes, delimiter: str, columns: Sequence[int], fields: int) -> LineRuns | None:
        """Take lines apart.

        Args:
            data: Whole lines, the last one with or without its newline.
            delimiter: One character between two fields.
            columns: Places of the columns of numbers in a line, ascending.
            fields: How many fields a line must have.

        Returns:
            The runs; None where there are more lines than such bytes can be.
        """
        # A field has a delimiter or a newline behind it.
        room = len(data) // max(fields, 1) + 1
        firsts, lengths = np.empty(len(data) + 1, dtype=np.uint8), np.empty(room, dtype=np.int64)
        numbers = np.empty((len(columns), room), dtype=np.int64)
        places = np.array(columns, dtype=np.int64)
        kept, runs, lines = _take_apart(data, ord(delimiter), places, firsts, lengths, numbers)
        return None if runs < 0 else cls(firsts.data[:kept], lengths[:runs], numbers[:, :lines])


# Each is one loop: a call for each line, with arrays for arguments, would cost several times what the line does.


@compiled
def _compose(  # noqa: C901, PLR0912 - one loop
    texts: Bytes,
    ends: Integers,
    fields: Integers,
    lengths: Integers,
    numbers: Integers,
    delimiter: int,
    line: Bytes,
    out: Bytes,
) -> int:
    """Write lines, and return how many bytes they are.

    Arguments as those of `LineComposer.lines`: texts one behind the other, and where each ends, with a 0 in front;
    numbers of shape (numbers, lines); room for the longest line, and for all.
    """
    written, row, size = 0, 0, 0
    first = np.zeros(len(numbers), dtype=np.int64)  # places of the digits of each number in the line
    after = np.zeros(len(numbers), dtype=np.int64)
    for run in range(len(lengths)):
        anew = True
        for _ in range(lengths[run]):
            # A number that is the same as in the line before, or one more with as many digits, is changed in its place.
            for number in range(0 if anew else len(numbers)):
                step = numbers[number, row] - numbers[number, row - 1]
                if step == 1:
                    place = after[number] - 1
                    while place >= first[number] and line[place] == _NINE:
                        line[place] = _ZERO
                        place -= 1
                    if place >= first[number]:
                        line[place] += 1
                    else:
                        anew = True
                elif step:
                    anew = True
            if anew:
                size = 0
                for field in range(fields.shape[1]):
                    text = fields[run, field]
                    if text >= 0:
                        for place in range(ends[text], ends[text + 1]):
                            line[size] = texts[place]
                            size += 1
                    else:
                        number = -1 - text
                        value, digits = numbers[number, row], 1
                        while digits < _DIGITS and value >= 10**digits:
                            digits += 1
                        first[number], after[number] = size, size + digits
                        for place in range(size + digits - 1, size - 1, -1):
                            line[place] = _ZERO + value % 10
                            value //= 10
                        size += digits
                    line[size] = delimiter
                    size += 1
                line[size - 1] = _NEWLINE
                anew = False
            target = out[written : written + size]
            for place in range(size):
                target[place] = line[place]
            written += size
            row += 1
    return written


@compiled
def _take_apart(  # noqa: C901 - one loop
    data: Bytes, delimiter: int, columns: Integers, firsts: Bytes, lengths: Integers, numbers: Integers
) -> tuple[int, int, int]:
    """Find runs of lines; return bytes of their first lines, runs, and lines; runs are -1 where there is no more room.

    Lines of a run are the first one byte by byte, but that numbers of as many digits may stand in its columns of
    numbers: whatever a reader finds in the first line it would find in all. A line that has anything but digits in such
    a column is a run of its own.
    """
    end, begin, kept, run, row = len(data), 0, 0, 0, 0
    first = np.zeros(len(columns), dtype=np.int64)  # of the digits of each number, from the begin of the line
    after = np.zeros(len(columns), dtype=np.int64)
    while begin < end:
        if row == len(lengths):
            return 0, -1, 0
        # The first line: its length, and where its numbers stand.
        size, field, found, start = 0, 0, 0, 0
        repeatable, ended = True, False
        while not ended:
            ended = begin + size == end or data[begin + size] == _NEWLINE
            if ended or data[begin + size] == delimiter:
                if found < len(columns) and columns[found] == field:
                    first[found], after[found] = start, size
                    repeatable &= 0 < size - start <= _DIGITS_READ
                    for place in range(begin + start, begin + size):
                        repeatable &= _ZERO <= data[place] <= _NINE
                    found += 1
                field, start = field + 1, size + 1
            firsts[kept + size] = _NEWLINE if ended else data[begin + size]
            size += not ended
        repeatable &= found == len(columns)
        kept += size + 1
        lengths[run] = 1
        row += 1
        following = begin + size + 1
        # Lines that are the same.
        while repeatable and following + size <= end and row < len(lengths):
            same = following + size == end or data[following + size] == _NEWLINE
            line, other = data[begin : begin + size], data[following : following + size]
            start, different = 0, np.uint8(0)
            for number in range(len(columns)):
                for place in range(start, first[number]):
                    different |= line[place] ^ other[place]
                value = np.int64(0)
                for place in range(first[number], after[number]):
                    digit = np.int64(other[place]) - _ZERO
                    same &= 0 <= digit <= _NINE - _ZERO
                    value = 10 * value + digit
                numbers[number, row] = value
                start = after[number]
            for place in range(start, size):
                different |= line[place] ^ other[place]
            if not same or different:
                break
            lengths[run] += 1
            row += 1
            following += size + 1
        begin = following
        run += 1
    return kept, run, row
