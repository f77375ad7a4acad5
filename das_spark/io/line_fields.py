"""Fields of records of fixed width, cut out of lines: as columns of texts, each held to what it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.input_fields import Rows
from das_spark.io.text_lines import LINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from das_spark.io.input_fields import Flags
    from das_spark.io.record_text import Field, Record


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
    odd = ~_is_right(kept, columns, record)
    fails = np.zeros(len(made), dtype=np.bool_)
    for field in record.fields:
        if odd.any():
            some = columns[field.name].filter(pa.array(odd))
            fails[odd] = ~np.asarray(pc.match_substring_regex(some, _whole(field)))
        made.check(field.name, field.expected, fails)
    made.settle()
    return made


def _whole(field: Field) -> str:
    return f"^(?:{field.pattern})$"


def _is_right(lines: pa.StringArray, columns: Mapping[str, pa.StringArray], record: Record) -> Flags:
    """Whether all fields of lines are right: found by one expression, and one a number of any size."""
    right: Flags = np.asarray(pc.match_substring_regex(lines, record.pattern))
    for field in record.fields:
        if field.is_any_number:
            right = right & np.asarray(pc.match_substring_regex(columns[field.name], _whole(field)))
    return right


def padded(lines: pa.StringArray, record: Record, delimiter: str) -> pa.StringArray:
    """Return lines of which some have delimited fields, all in fixed width.

    A line with another number of fields, or one that is too long, becomes an empty one.

    Args:
        lines: Of records of a kind.
        record: Of its fields.
        delimiter: Between them.
    """
    delimited = np.asarray(pc.match_substring(lines, delimiter))
    if not delimited.any():
        return lines
    parts = pc.split_pattern(lines, delimiter)
    whole = delimited & (np.asarray(pc.list_value_length(parts)) == len(record.fields))
    fields = pc.utf8_trim(parts.filter(pa.array(whole)).flatten(), " ")
    number, size = int(whole.sum()), len(record.fields)
    columns, fits = [], np.ones(number, dtype=np.bool_)
    for place, field in enumerate(record.fields):
        column = fields.take(pa.array(np.arange(number) * size + place))
        fits &= np.asarray(pc.utf8_length(column)) <= field.width
        columns.append(pc.utf8_lpad(column, field.width, " "))
    made = pc.if_else(pa.array(fits), pc.binary_join_element_wise(*columns, ""), "")
    known = pc.if_else(pa.array(delimited), "", lines)
    return pc.replace_with_mask(known, pa.array(whole), made)


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
