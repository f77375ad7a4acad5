"""Small texts of CSV as people and programs write them: read as they are written, or refused; and never quoted.

Each is tried as the table of persons, of units, and of geounits: what is lost of either would be missed by nobody.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from das_spark.errors import InputError

A, B, C = "5300100001", "5300100002", "5300100003"
#: Something that stands in a record, and must stand in no message.
CANARY = "3133700000"
TABLES = {
    "persons": [
        ["geocode", "hhgq", "age18plus", "hispanic", "race", "count", "note"],
        [A, "0", "0", "0", "0", "3", "x"],
        [A, "0", "1", "1", "5", "4", "y"],
        [B, "7", "1", "0", "2", "5", CANARY],
    ],
    "units": [
        ["geocode", "hhgq", "units", "note"],
        [A, "0", "2", "x"],
        [A, "7", "0", "y"],
        [B, "7", "1", CANARY],
    ],
    "geography": [["geocode", "note"], [A, "x"], [B, "y"], [C, CANARY]],
}
EXPECTED = {
    A: ({0: 3, 23: 4}, [2, 0, 0, 0, 0, 0, 0, 0], 0),
    B: ({182: 5}, [0, 0, 0, 0, 0, 0, 0, 1], 0),
    C: ({}, [0] * 8, 0),
}
Rows = list[list[str]]
#: From the rows of a table to the text of its file.
Write = Callable[[Rows], bytes]


def text(rows: Sequence[Sequence[str]], end: str = "\n", delimiter: str = ",") -> bytes:
    """A plain table."""
    return "".join(delimiter.join(row) + end for row in rows).encode()


def quoted(rows: Rows, end: str = "\r\n") -> bytes:
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    return made.getvalue().encode()


def noted(note: str) -> Write:
    """The last field of the first record holds something else, as it stands in the file."""
    return lambda rows: text([rows[0], [*rows[1][:-1], note], *rows[2:]])


def after(number: int, line: bytes, end: bytes = b"\n") -> Write:
    """A line more behind so many."""

    def write(rows: Rows) -> bytes:
        lines = text(rows).split(b"\n")[:-1]
        return end.join([*lines[:number], line, *lines[number:], b""])

    return write


def each(change: Callable[[list[str]], list[str]]) -> Write:
    """Another form of each record."""
    return lambda rows: text([rows[0], *map(change, rows[1:])])


def last(change: Callable[[bytes], bytes]) -> Write:
    """Another form of the last line."""

    def write(rows: Rows) -> bytes:
        lines = text(rows).split(b"\n")[:-1]
        return b"\n".join([*lines[:-1], change(lines[-1])])

    return write


READ: dict[str, Write] = {
    "plain": text,
    "a last line without an end": lambda rows: text(rows)[:-1],
    "returns and line feeds": lambda rows: text(rows, "\r\n"),
    "returns": lambda rows: text(rows, "\r"),
    "ends of several kinds": lambda rows: text(rows[:2], "\r\n") + text(rows[2:3], "\r") + text(rows[3:]),
    "blank lines before, between and behind": lambda rows: b"\n\r\n" + text(rows, "\n\n") + b"\n\n",
    "a mark of the order of bytes": lambda rows: b"\xef\xbb\xbf" + text(rows),
    "such a mark before quotes": lambda rows: b"\xef\xbb\xbf" + quoted(rows),
    "quotes around everything": quoted,
    "quotes around everything, and line feeds": lambda rows: quoted(rows, "\n"),
    "quotes around numbers alone": each(lambda row: [f'"{field}"' if field.isdigit() else field for field in row]),
    "zeros before numbers": each(lambda row: [row[0], *(f"00{x}" if x.isdigit() else x for x in row[1:])]),
    "signs before numbers": each(lambda row: [row[0], *(f"+{x}" if x.isdigit() else x for x in row[1:])]),
    "spaces around numbers": each(lambda row: [row[0], *(f" {x}  " if x.isdigit() else x for x in row[1:])]),
    "columns in another order": lambda rows: text([row[::-1] for row in rows]),
    "rows in another order": lambda rows: text([rows[0], *rows[:0:-1]]),
    "a column more": lambda rows: text([[*row, str(place)] for place, row in enumerate(rows)]),
    "a column without a name": lambda rows: text([["" if x == "note" else x for x in rows[0]], *rows[1:]]),
    "two columns of one name that nobody needs": lambda rows: text([[*row, row[-1]] for row in rows]),
    "a line end in quotes": noted('"one\ntwo"'),
    "a line end in quotes that looks like a record": noted(f'"x\n{A},0,0,0,0,{CANARY},z"'),
    "several line ends in quotes": noted('"\r\n\n\r"'),
    "delimiters in quotes": noted('",,,,"'),
    "doubled quotes": noted('"he said ""yes"""'),
    "nothing but quotes": noted('""""""'),
    "an empty text": noted('""'),
    "an empty field": noted(""),
    "a backslash at the end of a field": noted("C:\\"),
    "a backslash at the end of quotes": noted('"C:\\"'),
    "a backslash before a letter": noted("\\n\\t\\0"),
    "a single quote": noted("it's"),
    "a hash": noted("# no comment"),
    "a tab": noted("a\tb"),
    "letters that are not ASCII": noted("Ñuñoa, 東京"[:5]),
    "signs of many bytes": noted("🏠 مرحبا"),
    "a space without a break": noted("a\u00a0b"),
    "a separator of lines that is none of CSV": noted("a\u2028b\u0085c"),
    "a sign of replacement": noted("\ufffd"),
    "a word that others read as nothing": noted("NA"),
    "a word that others read as true": noted("TRUE"),
    "a formula": noted("=1+1"),
    "a field of a million letters": noted("x" * 1_000_000),
    "a quoted field of a million letters": noted('"' + "x,\n" * 300_000 + '"'),
}
#: What is written -> what is said of it.
REFUSED: dict[str, tuple[Write, str]] = {
    "a quote that is not closed": (noted('"x'), "quotes around whole fields alone"),
    "a quote that is not closed at the end": (last(lambda line: line[:-3] + b'"00'), "quotes around whole fields"),
    "a quote that is not closed before the last line": (after(3, b'"'), "quotes around whole fields|as in the header"),
    "text behind a closing quote": (noted('"ab"cd'), "quotes around whole fields alone"),
    "a space before a quote": (noted(' "x,y"'), "quotes around whole fields alone|as in the header"),
    "a space behind a quote": (noted('"x" '), "quotes around whole fields alone"),
    "a quote within a field": (noted('5" pipe'), "quotes around whole fields alone"),
    "a quote with a backslash": (noted('"a\\"b"'), "quotes around whole fields alone"),
    "a field too many": (noted("x,y"), "fields, as in the header"),
    "a field too few": (last(lambda line: line.rpartition(b",")[0]), "fields, as in the header"),
    "a delimiter at the end of each record": (each(lambda row: [*row, ""]), "fields, as in the header"),
    "a record that is cut short": (last(lambda line: line[:7]), "fields, as in the header"),
    "a line of spaces": (after(2, b"   "), "fields, as in the header"),
    "a comment": (after(2, b"# people of the second district"), "fields, as in the header"),
    "a line of totals": (after(4, b"total"), "fields, as in the header"),
    "the line of names again": (lambda rows: text([*rows[:2], *rows]), "expected a"),
    "two files one behind the other": (lambda rows: text(rows) + b"\xef\xbb\xbf" + text(rows), "expected a"),
    "another delimiter below the names": (
        lambda rows: text(rows[:1]) + text(rows[1:], delimiter=";"),
        "as in the head",
    ),
    "semicolons": (lambda rows: text(rows, delimiter=";"), "delimited by semicolons"),
    "tabs": (lambda rows: text(rows, delimiter="\t"), "delimited by tabs"),
    "vertical bars": (lambda rows: text(rows, delimiter="|"), "delimited by vertical bars"),
    "bytes of another encoding": (last(lambda line: line + b"\xe9"), "text in its encoding"),
    "half a letter": (last(lambda line: line + b"\xc3"), "text in its encoding"),
    "half of a pair of 16 bits": (last(lambda line: line + b"\xed\xa0\x80"), "text in its encoding"),
    "a NUL": (last(lambda line: line + b"\x00"), "no control characters"),
    "a NUL in quotes": (noted('"a\x00b"'), "no control characters"),
    "NULs at the end": (lambda rows: text(rows) + b"\x00" * 512, "no control characters|as in the header"),
    "an escape of a terminal": (noted("\x1b[2J"), "no control characters"),
    "a character that deletes": (noted("a\x7fb"), "no control characters"),
    "the end of a file of long ago": (lambda rows: text(rows) + b"\x1a", "no control characters|as in the header"),
    "UTF-16": (lambda rows: text(rows).decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": (lambda rows: text(rows).decode().encode("utf-16-le"), "UTF-16"),
    "no line of names": (lambda rows: text(rows[1:]), "no column"),
    "names in capitals": (lambda rows: text([[x.upper() for x in rows[0]], *rows[1:]]), "no column"),
    "names with spaces": (lambda rows: text([[f" {x} " for x in rows[0]], *rows[1:]]), "no column"),
    "a title above the names": (lambda rows: b"Census 2020\n" + text(rows), "no column"),
    "a column that is missing": (lambda rows: text([row[1:] for row in rows]), "no column 'geocode'"),
    "a column that stands twice": (lambda rows: text([[*row, row[0]] for row in rows]), "two columns are called"),
    "no byte": (lambda _: b"", "is empty"),
    "nothing but line ends": (lambda _: b"\n\r\n\n", "no column|has no rows"),
    "names alone": (lambda rows: text(rows[:1]), "has no rows"),
    "names alone without an end": (lambda rows: text(rows[:1])[:-1], "has no rows"),
    "Parquet by another name": (lambda _: b"PAR1" + b"\x00" * 40 + b"PAR1", "is a Parquet file"),
    "gzip by another name": (lambda rows: gzip.compress(text(rows)), "is compressed"),
    "a page of an error": (lambda _: b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "no column"),
    "a geocode without its zero": (each(lambda row: [row[0][1:], *row[1:]]), "a geocode of 10 digits"),
    "a geocode as a number of a spreadsheet": (each(lambda row: ["5.3001E+09", *row[1:]]), "a geocode of 10 digits"),
    "a geocode with a point": (each(lambda row: [f"{row[0]}.0", *row[1:]]), "a geocode of 10 digits"),
    "a geocode with a space": (each(lambda row: [f"{row[0]} ", *row[1:]]), "a geocode of 10 digits"),
    "a geocode with a line end": (each(lambda row: [f'"{row[0]}\n"', *row[1:]]), "a geocode of 10 digits"),
    "a geocode of wide digits": (each(lambda row: [row[0].replace("5", "\uff15"), *row[1:]]), "a geocode of 10 digits"),
    "a geocode with an apostrophe": (each(lambda row: [f"'{row[0]}", *row[1:]]), "a geocode of 10 digits"),
    "a geocode that is missing": (each(lambda row: ["", *row[1:]]), "a geocode of 10 digits"),
    "a geocode with a mark of bytes": (each(lambda row: [f"\ufeff{row[0]}", *row[1:]]), "a geocode of 10 digits"),
}


def in_number(form: str) -> Write:
    """The numbers of each record in another form; `{}` stands for one."""
    return each(lambda row: [row[0], *(form.format(x) if x.isdigit() and x != CANARY else x for x in row[1:])])


#: Numbers that are none for a table with numbers.
NO_NUMBERS = {
    "a point": "{}.0",
    "a comma in quotes": '"{},0"',
    "an exponent": "{}e0",
    "thousands in quotes": '"1,00{}"',
    "a unit": "{} persons",
    "an apostrophe": "'{}",
    "hexadecimal digits": "0x{}",
    "an underscore": "1_{}",
    "a sign twice": "+-{}",
    "a minus of typographers": "\u2212{}",
    "digits of another script": "\u0663",
    "a space without a break": "{}\u00a0",
    "a tab": "{}\t",
    "a line end in quotes": '"{}\n"',
    "nothing": "",
    "an empty text": '""',
    "a dot": ".",
    "a dash": "-",
    "not available": "NA",
    "not a number": "NaN",
    "infinity": "inf",
    "null": "NULL",
    "a formula": "=1+{}",
    "twenty digits": "9999999999999999999{}",
    "more than 64 bits hold": "9223372036854775808",
    "a negative number": "-1{}",
}


def deliver(folder: Path, name: str, content: bytes, ending: str = "csv") -> None:
    """Write all tables, one of them as it is given."""
    for table, rows in TABLES.items():
        (folder / f"{table}.{ending if table == name else 'csv'}").write_bytes(content if table == name else text(rows))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", READ)
def test_what_is_written_well_is_read_whole(tmp_path, ingested, name, table):
    deliver(tmp_path, table, READ[name](TABLES[table]))
    assert ingested() == EXPECTED


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_and_not_quoted(tmp_path, ingested, name, table):
    write, said = REFUSED[name]
    deliver(tmp_path, table, write(TABLES[table]))
    with pytest.raises(InputError, match=said) as caught:
        ingested()
    assert f"{table}.csv" in str(caught.value)
    assert CANARY not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("table", ["persons", "units"])
@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_refused(tmp_path, ingested, name, table):
    deliver(tmp_path, table, in_number(NO_NUMBERS[name])(TABLES[table]))
    with pytest.raises(InputError, match=r"expected a (whole number|number up to|code from|count)"):
        ingested()


def two_members(content: bytes) -> bytes:
    half = content.index(b"\n") + 1
    return gzip.compress(content[:half]) + gzip.compress(content[half:])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("ending", "pack"),
    {
        "csv.gz": gzip.compress,
        "CSV.GZ": gzip.compress,
        "csv.bz2": bz2.compress,
        "csv.zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
    }.items(),
    ids=["gz", "GZ", "bz2", "zst"],
)
def test_compressed_texts_are_read(tmp_path, ingested, table, ending, pack):
    deliver(tmp_path, table, pack(text(TABLES[table])), ending)
    place = {table: str(tmp_path / f"{table}.{ending}")}
    assert ingested(**place) == EXPECTED


def test_gzip_of_several_members_is_read_to_its_end(tmp_path, ingested):
    deliver(tmp_path, "persons", two_members(text(TABLES["persons"])), "csv.gz")
    assert ingested() == EXPECTED


#: Compressed, and not whole.
BROKEN = {
    "cut short": lambda content: gzip.compress(content)[:-12],
    "cut in the middle": lambda content: gzip.compress(content)[:30],
    "another checksum": lambda content: gzip.compress(content)[:-8] + b"\x00" * 8,
    "something behind it": lambda content: gzip.compress(content) + b"record,that,was,lost",
    "not compressed": lambda content: content,
}


@pytest.mark.parametrize("name", BROKEN)
def test_compressed_texts_that_are_not_whole_are_refused(tmp_path, ingested, name):
    deliver(tmp_path, "persons", BROKEN[name](text(TABLES["persons"])), "csv.gz")
    with pytest.raises(InputError, match=r"cannot be read|is not compressed so"):
        ingested()


def test_an_archive_is_no_table(tmp_path, ingested):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("persons.csv", text(TABLES["persons"]))
    deliver(tmp_path, "persons", made.getvalue())
    with pytest.raises(InputError, match="is compressed \\(ZIP\\)"):
        ingested()


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "~", " "])
def test_another_delimiter_is_read_where_it_is_given(tmp_path, ingested, delimiter):
    for table, rows in TABLES.items():
        (tmp_path / f"{table}.csv").write_bytes(text(rows, delimiter=delimiter))
    assert ingested(delimiter=delimiter) == EXPECTED


def test_another_encoding_is_read_where_it_is_given(tmp_path, ingested):
    content = noted("Ñuñoa")(TABLES["persons"]).decode().encode("latin-1")
    deliver(tmp_path, "persons", content)
    assert ingested(encoding="ISO-8859-1") == EXPECTED
    with pytest.raises(InputError, match="text in its encoding"):
        ingested()
