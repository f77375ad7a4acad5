"""Records of CSV, read strictly (RFC 4180) and in bounded memory, as texts.

The text is read twice, by rules that are independent of each other. A scan of its bytes finds where records and fields
end, counts both, and refuses quotes that are not around whole fields. Arrow splits the same bytes, and must find as
many records. Neither guesses anything: delimiter, encoding and names are given.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv

from das_spark.errors import InputError
from das_spark.io.text_lines import Decoder, line_ends, lines_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.io.input_files import CsvForm
    from das_spark.io.listed_files import HashedFile

    Places = NDArray[np.int64]

#: Bytes that are read at once, and those of the longest record.
_BLOCK: Final = 1 << 24
LONGEST_RECORD: Final = 1 << 24
_QUOTE, _LINE_FEED, _RETURN, _TAB = b'"\n\r\t'
_FIRST_PRINTED: Final = 0x20
_DELETE: Final = 0x7F

#: What a record may break.
QUOTES: Final = "quotes around whole fields alone, each closed, and doubled within"
CONTROL: Final = "no control characters"
TEXT: Final = "text in its encoding"
FIELDS: Final = "as many fields as the header"
RULES_OF_CSV: Final = (QUOTES, CONTROL, TEXT, FIELDS)


def expected_by(rule: str, fields: int) -> str:
    """Say what a rule expects of a record under a header of so many fields."""
    return f"{fields} fields, as in the header" if rule == FIELDS else rule


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """Some records of a file.

    Attributes:
        rows: Texts by column; null where a field is empty and has no quotes.
        numbers: Of each row the number of its record behind the header, from 1: shape ``(rows,)``.
        faults: Number of a record that is not among the rows -> what it breaks.
    """

    rows: pa.RecordBatch
    numbers: Places
    faults: Mapping[int, str]


def csv_records(
    stream: BinaryIO | HashedFile, names: Sequence[str], wanted: Sequence[str], form: CsvForm, size: int = _BLOCK
) -> Iterator[CsvRecords]:
    """Read the records behind the header; lines without a character are none.

    Behind a quote that stands where none may, or is never closed, nothing is read: where fields end is not known.

    Args:
        stream: The bytes of a file, unpacked.
        names: All its columns, in order.
        wanted: Those that are returned.
        form: Delimiter and encoding.
        size: Bytes that are read at once.

    Raises:
        InputError: The two readings disagree.
    """
    decode = Decoder(form.encoding, "surrogateescape")
    left, count, block = b"", 0, b"first"
    while block:
        block = stream.read(size)
        text = left + decode(block)
        scan = _Scan.of(text, ord(form.delimiter), whole=not block)
        faults = scan.faults(len(names))
        header = 1 if count == 0 and len(scan.begin) else 0
        kept = np.arange(len(scan.begin)) >= header
        kept[list(faults)] = False
        good = np.flatnonzero(kept)
        rows, number = _split(scan.text_of(good), names, wanted, form.delimiter, quoted=len(scan.quotes) > 0)
        if number != len(good):
            raise InputError(
                f"two readings of the records find {number} and {len(good)} in the same text",
                hint="tell the authors of das_spark how the file was written",
            )
        yield CsvRecords(rows, good + count, {count + place: fault for place, fault in faults.items()})
        count += len(scan.begin)
        left = text[scan.end :]
        if scan.is_broken:
            return
        if len(left) > LONGEST_RECORD:
            yield CsvRecords(rows.slice(0, 0), good[:0], {count: QUOTES})
            return


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    """Places of records, quotes and delimiters in a text that begins with a record.

    Attributes:
        text: The text.
        begin, stop: Of each record that is not blank, its first byte and the one behind its last: shape ``(records,)``.
        end: Behind the last whole record.
        quotes: Places of all quotes.
        delimiters: Places of delimiters outside of quotes.
        misplaced: Record -> fault of a quote; nothing behind it is read.
    """

    text: bytes
    begin: Places
    stop: Places
    end: int
    quotes: Places
    delimiters: Places
    misplaced: Mapping[int, str]
    allowed: bytes

    @classmethod
    def of(cls, text: bytes, delimiter: int, *, whole: bool) -> _Scan:
        """Scan a text.

        Args:
            text: Bytes of ASCII, or of UTF-8.
            delimiter: Byte between fields.
            whole: Whether nothing follows.
        """
        data = np.frombuffer(text, dtype=np.uint8)
        quotes = np.flatnonzero(data == _QUOTE)

        def outside(places: Places) -> Places:
            return places[np.searchsorted(quotes, places) % 2 == 0] if len(quotes) else places

        ends = outside(line_ends(data, whole=whole))
        begin, stop, _ = lines_of(data, ends, whole=whole)
        end = len(text) if whole else int(ends[-1]) + 1 if len(ends) else 0
        some = stop > begin
        begin, stop = begin[some], stop[some]
        own = quotes[quotes < end]
        signs = bytes([delimiter, _LINE_FEED, _RETURN, _QUOTE])
        around = np.frombuffer(signs, dtype=np.uint8)
        opening, closing = own[::2], own[1::2]
        wrong = [
            opening[(opening > 0) & ~np.isin(data[opening - 1], around)],
            closing[(closing + 1 < len(data)) & ~np.isin(data[np.minimum(closing + 1, len(data) - 1)], around)],
            own[-1:] if len(own) % 2 else own[:0],
        ]
        misplaced = {}
        bad = np.concatenate(wrong)
        if len(bad):
            record = int(np.searchsorted(begin, bad.min(), side="right")) - 1
            begin, stop, misplaced = begin[: record + 1], stop[: record + 1], {record: QUOTES}
        delimiters = outside(np.flatnonzero(data == delimiter))
        return cls(text, begin, stop, end, own, delimiters, misplaced, bytes([delimiter, _TAB, _LINE_FEED, _RETURN]))

    @property
    def is_broken(self) -> bool:
        """Whether nothing is known behind the last record."""
        return bool(self.misplaced)

    def faults(self, fields: int) -> dict[int, str]:
        """Return the records that break a rule, by their places."""
        delimiters = np.searchsorted(self.delimiters, self.stop) - np.searchsorted(self.delimiters, self.begin)
        found: dict[int, str] = dict.fromkeys(np.flatnonzero(delimiters != fields - 1).tolist(), FIELDS)
        data = np.frombuffer(self.text, dtype=np.uint8)[: self.end]
        is_control = data < _FIRST_PRINTED
        if _DELETE in self.text:
            is_control |= data == _DELETE
        control = np.flatnonzero(is_control)
        control = control[~np.isin(data[control], np.frombuffer(self.allowed, dtype=np.uint8))]
        found |= dict.fromkeys(self._records(control), CONTROL)
        found |= dict.fromkeys(self._without_text(), TEXT)
        return found | dict(self.misplaced)

    def _records(self, places: Places) -> list[int]:
        """Return the records that some bytes lie in."""
        record = np.searchsorted(self.begin, places, side="right") - 1
        inside = (record >= 0) & (places < self.stop[np.maximum(record, 0)]) if len(self.begin) else places < 0
        found: list[int] = np.unique(record[inside]).tolist()
        return found

    def _without_text(self) -> list[int]:
        """Return the records that are no UTF-8."""
        try:
            codecs.utf_8_decode(memoryview(self.text)[: self.end], "strict", True)
        except UnicodeDecodeError:
            pass
        else:
            return []
        bad = []
        for place, (begin, stop) in enumerate(zip(self.begin.tolist(), self.stop.tolist(), strict=True)):
            try:
                self.text[begin:stop].decode()
            except UnicodeDecodeError:
                bad.append(place)
        return bad

    def text_of(self, records: Places) -> pa.Buffer:
        """Return the text of some records, in order, each with its end."""
        whole = pa.py_buffer(self.text)
        if not len(records):
            return whole.slice(0, 0)
        first, last = int(records[0]), int(records[-1])
        if last - first + 1 == len(records):
            return whole.slice(int(self.begin[first]), int(self.stop[last] - self.begin[first]))
        lines = (self.text[self.begin[place] : self.stop[place]] for place in records.tolist())
        return pa.py_buffer(b"\n".join(lines))


def _split(
    text: pa.Buffer, names: Sequence[str], wanted: Sequence[str], delimiter: str, *, quoted: bool
) -> tuple[pa.RecordBatch, int]:
    """Split records into texts; return some columns of them, and how many there are."""
    # Columns are known by their places: two may be called alike.
    places = [str(list(names).index(name)) for name in wanted]
    schema = pa.schema([(name, pa.string()) for name in wanted])
    if not text.size:
        return pa.RecordBatch.from_pylist([], schema), 0
    table = csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(
            use_threads=False, column_names=[str(place) for place in range(len(names))], block_size=text.size
        ),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted),
        csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            include_columns=places or ["0"],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    arrays = [table.column(place).combine_chunks() for place in places]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), table.num_rows
