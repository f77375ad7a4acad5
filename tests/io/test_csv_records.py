"""CSV is read as it is written, or refused by the record that breaks a rule; never half, and never twice."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.io import csv_records as reader
from das_spark.io.csv_records import CONTROL, FIELDS, QUOTES, TEXT, csv_records
from das_spark.io.input_files import CsvForm

NAMES = ("a", "b", "c")
HEADER = b"a,b,c\n"
#: Bytes that are read at once: all, and so few that records are cut everywhere.
BLOCKS = (1 << 24, 64, 7, 1)
Row = tuple[str | None, ...]


def read(
    text: bytes,
    names: tuple[str, ...] = NAMES,
    form: CsvForm | None = None,
    wanted: tuple[str, ...] = (),
    size: int = BLOCKS[0],
) -> tuple[list[Row], dict[int, str]]:
    rows: list[Row] = []
    numbers: list[int] = []
    faults: dict[int, str] = {}
    for some in csv_records(io.BytesIO(text), names, wanted or names, form or CsvForm(), size=size):
        columns = [column.to_pylist() for column in some.rows.columns]
        rows += list(zip(*columns, strict=True))
        numbers += some.numbers.tolist()
        faults |= some.faults
    assert sorted({*numbers, *faults}) == sorted([*numbers, *faults])  # no record is two
    return rows, faults


ONE, TWO = ("1", "2", "3"), ("4", "5", "6")
#: What is written behind the header -> what is read of it: the files of which readers say different things.
READ: dict[str, tuple[bytes, list[Row]]] = {
    "plain": (b"1,2,3\n4,5,6\n", [ONE, TWO]),
    "a last line without an end": (b"1,2,3\n4,5,6", [ONE, TWO]),
    "returns and line feeds": (b"1,2,3\r\n4,5,6\r\n", [ONE, TWO]),
    "returns alone": (b"1,2,3\r4,5,6\r", [ONE, TWO]),
    "mixed ends": (b"1,2,3\r\n4,5,6\n", [ONE, TWO]),
    "blank lines": (b"\n1,2,3\n\r\n\n4,5,6\n\n", [ONE, TWO]),
    "a delimiter in quotes": (b'1,"x,y",3\n', [("1", "x,y", "3")]),
    "a line end in quotes": (b'1,"x\ny\r\nz",3\n4,5,6\n', [("1", "x\ny\r\nz", "3"), TWO]),
    "a line end in quotes that looks like a record": (b'1,"x\n9,9,9",3\n', [("1", "x\n9,9,9", "3")]),
    "doubled quotes": (b'1,"x""y",3\n"""x""",2,""""\n', [("1", 'x"y', "3"), ('"x"', "2", '"')]),
    "a backslash at the end of a field": (b'1,"a\\",3\n\\,5,6\n', [("1", "a\\", "3"), ("\\", "5", "6")]),
    "empty fields": (b'1,,3\n1,"",3\n,,\n', [("1", None, "3"), ("1", "", "3"), (None, None, None)]),
    "quotes around everything": (b'"1","2","3"\r\n"4","5","6"', [ONE, TWO]),
    "spaces": (b" 1,2 ,3\n", [(" 1", "2 ", "3")]),
    "letters that are not ASCII": ("1,é,𝛿\n".encode(), [("1", "é", "𝛿")]),
    "nothing": (b"", []),
    "tabs in fields": (b"1,a\tb,3\n", [("1", "a\tb", "3")]),
}
#: What is written behind the header -> records that break a rule, and what is read of the others.
REFUSED: dict[str, tuple[bytes, list[Row], dict[int, str]]] = {
    "a quote that is not closed": (b'1,2,3\n4,"5,6\n7,8,9\n', [ONE], {2: QUOTES}),
    "a quote that is not closed in the last record": (b'1,2,3\n4,5,"6', [ONE], {2: QUOTES}),
    "text behind a closing quote": (b'1,2,3\n4,"ab"cd,6\n7,8,9\n', [ONE], {2: QUOTES}),
    "a space before a quote": (b'1,2,3\n1, "x,y",1\n', [ONE], {2: QUOTES}),
    "a space behind a quote": (b'1,2,3\n1,"x" ,1\n', [ONE], {2: QUOTES}),
    "a quote within a field": (b'5" pipe,2,3\n4,5,6\n', [], {1: QUOTES}),
    "a quote that is escaped by a backslash": (b'1,"a\\"b",3\n', [], {1: QUOTES}),
    "too many fields": (b"1,2,3,4\n4,5,6\n", [TWO], {1: FIELDS}),
    "too few fields": (b"1,2,3\n4,5\n", [ONE], {2: FIELDS}),
    "a line of spaces": (b"1,2,3\n   \n4,5,6\n", [ONE, TWO], {2: FIELDS}),
    "another delimiter": (b"1;2;3\n", [], {1: FIELDS}),
    "bytes of another encoding": (b"1,2,3\n4,\xe9,6\n", [ONE], {2: TEXT}),
    "a NUL": (b"1,\x00,3\n4,5,6\n", [TWO], {1: CONTROL}),
    "a control character": (b"1,2,3\n4,\x1b[2J,6\n", [ONE], {2: CONTROL}),
    "a NUL in quotes": (b'1,"\x00",3\n4,5,6\n', [TWO], {1: CONTROL}),
}


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("name", READ)
def test_what_is_written_well_is_read(name, size):
    text, rows = READ[name]
    assert read(HEADER + text, size=size) == (rows, {})
    assert read(b"\xef\xbb\xbf" + HEADER + text, size=size) == (rows, {})  # a mark of the order of bytes is no text


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_a_rule_is_named_by_its_record(name, size):
    text, rows, faults = REFUSED[name]
    assert read(HEADER + text, size=size) == (rows, faults)


def test_some_columns_are_read_by_their_places():
    assert read(HEADER + b"1,2,3\n", wanted=("c", "a")) == ([("3", "1")], {})
    assert read(b"a,a,b\n1,2,3\n", ("a", "a", "b"), wanted=("b",)) == ([("3",)], {})


def test_another_delimiter_and_encoding_are_read_where_they_are_given():
    text = "a\tb\tc\n1\té\t3\n".encode("latin-1")
    assert read(text, form=CsvForm("\t", "ISO-8859-1")) == ([("1", "é", "3")], {})
    assert read("a;b;c\n1;é;3\n".encode("cp1252"), form=CsvForm(";", "cp1252")) == ([("1", "é", "3")], {})
    assert read(b"a,b,c\n1,\x81,3\n", form=CsvForm(",", "cp1252")) == ([], {1: TEXT})  # a byte of no character there


def test_records_are_counted_where_no_column_is_wanted():
    counted = csv_records(io.BytesIO(HEADER + b"1,2,3\n4,5,6\n"), NAMES, (), CsvForm())
    assert sum(len(some.numbers) for some in counted) == 2


def test_one_column_has_no_delimiter():
    assert read(b"a\n1\n\n2\n", ("a",)) == ([("1",), ("2",)], {})


def test_a_record_without_an_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(reader, "LONGEST_RECORD", 100)
    rows, faults = read(HEADER + b'1,2,3\n4,"' + b"5,6\n" * 10_000, size=64)
    assert (rows, faults) == ([ONE], {2: QUOTES})


def test_two_readings_that_disagree_are_an_error(monkeypatch):
    split = reader._split

    def lost(*given: Any, **chosen: Any) -> tuple[Any, int]:
        rows, number = split(*given, **chosen)
        return rows.slice(1), number - 1

    monkeypatch.setattr(reader, "_split", lost)
    with pytest.raises(InputError, match="two readings of the records find 1 and 2"):
        read(HEADER + b"1,2,3\n4,5,6\n")


FIELD = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('",\n\r\t;| \\'), max_size=6)
ROWS = st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    rows=ROWS,
    end=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from(",;|\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    size=st.sampled_from(BLOCKS),
)
def test_random_tables_come_back_as_they_were_written(rows, end, delimiter, quoting, size):
    """Written by Python's own writer; an empty field that it writes without quotes is read as none."""
    # Python's writer leaves a return without quotes where its lines end otherwise: then it ends a record.
    assume(quoting == csv.QUOTE_ALL or end == "\r\n" or not any("\r" in field for row in rows for field in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, delimiter=delimiter, quoting=quoting)
    writer.writerow(NAMES)
    writer.writerows(rows)
    found, faults = read(text.getvalue().encode(), form=CsvForm(delimiter), size=size)
    assert faults == {}
    assert [tuple(field or "" for field in row) for row in found] == rows


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from('ab",\n\r '), max_size=40), size=st.sampled_from(BLOCKS))
def test_random_texts_are_read_as_others_read_them_or_refused(text, size):
    """Whatever is not refused, Python's reader, which forgives more, reads alike; and blocks decide nothing."""
    rows, faults = read(HEADER + text.encode())
    assert read(HEADER + text.encode(), size=size) == (rows, faults)
    if QUOTES not in faults.values():
        others = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        good = [row for row in others if len(row) == len(NAMES)]
        assert [tuple(field or "" for field in row) for row in rows] == [tuple(row) for row in good]
        assert len(faults) == len(others) - len(good)
