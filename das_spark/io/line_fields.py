"""Fields of records of fixed width, cut out of lines: as columns of texts, each held to what it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.input_fields import Rows
from das_spark.io.text_lines import LINE

if TYPE_CHECKING:
    from das_spark.io.input_fields import Flags
    from das_spark.io.record_text import Record


def records_of(rows: Rows, record: Record, of: Flags, length: str) -> Rows:
    """Return the lines that are records of a kind, as rows with their fields.

    Fields of nothing but spaces are null.

    Args:
        rows: Lines.
        record: Fields, and how long a line is.
        of: Which lines are records of the kind: shape ``(rows,)``.
        length: How long they are, for messages.
    """
    lines = rows.column(LINE)
    whole = of & (np.asarray(pc.utf8_length(lines)) == record.length)
    rows.check("record length", length, of & ~whole)
    kept = lines.filter(pa.array(whole))
    columns = {field.name: _cut(kept, field.start, field.end, record.length) for field in record.fields}
    blank = {name: pc.equal(pc.utf8_trim(column, " "), "") for name, column in columns.items()}
    known = {name: pc.if_else(blank[name], pa.scalar(None, pa.string()), column) for name, column in columns.items()}
    made = rows.of(whole, known)
    for field in record.fields:
        good = pc.match_substring_regex(columns[field.name], f"^(?:{field.pattern})$")
        made.check(field.name, field.expected, ~np.asarray(good))
    made.settle()
    return made


def _cut(lines: pa.StringArray, start: int, end: int, length: int) -> pa.StringArray:
    """Cut some characters out of lines of as many characters."""
    size = len(lines)
    _, offsets, values = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[lines.offset : lines.offset + size + 1]
    if not size or int(ends[-1] - ends[0]) != size * length:  # some characters are of several bytes
        return pc.utf8_slice_codeunits(lines, start, end)
    text = np.frombuffer(values, dtype=np.uint8)[ends[0] : ends[-1]].reshape(size, length)[:, start:end]
    places = np.arange(size + 1, dtype=np.int32) * (end - start)
    return pa.StringArray.from_buffers(size, pa.py_buffer(places), pa.py_buffer(np.ascontiguousarray(text)))
