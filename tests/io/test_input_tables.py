"""Tables of the input as they are read: every value as it is written, or an error that names file and column."""

from __future__ import annotations

import decimal
import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError
from das_spark.io.csv_records import FIELDS, QUOTES
from das_spark.io.input_files import CsvForm
from das_spark.io.input_tables import MALFORMED, InputTable, columns_in
from das_spark.io.listed_files import ROW

Rows = list[dict[str, Any]]


def read(path: Path, form: CsvForm | None = None) -> Rows:
    table = InputTable.open(str(path), form or CsvForm())
    return [row for part in table.parts for batch in table.read(part) for row in batch.to_pylist()]


def values(path: Path, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in read(path)]


def written(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_csv_and_parquet_of_the_same_texts_are_read_alike(tmp_path):
    (tmp_path / "a.csv").write_text("geocode,name\n0101,x\n0102,\n")
    written(tmp_path / "a.parquet", geocode=["0101", "0102"], name=["x", None])
    expected = [("0101", "x"), ("0102", None)]
    assert values(tmp_path / "a.csv", "geocode", "name") == expected
    assert values(tmp_path / "a.parquet", "geocode", "name") == expected


def test_rows_are_numbered_in_their_files(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    for name, number in (("one", 2), ("two", 3)):
        (folder / f"{name}.csv").write_text("x\n" + "".join(f"{place}\n" for place in range(1, number + 1)))
    rows = read(folder)
    assert [(row["x"], row[ROW]) for row in rows] == [(str(number), number) for number in (1, 2, 1, 2, 3)]


def test_row_groups_are_parts_of_which_rows_keep_their_numbers(tmp_path):
    table = pa.table({"x": list(range(10))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    opened = InputTable.open(str(tmp_path / "a.parquet"))
    assert [part.rows for part in opened.parts] == [4, 4, 2]
    assert [(row["x"], row[ROW]) for row in read(tmp_path / "a.parquet")] == [
        (number, number + 1) for number in range(10)
    ]


WHOLE = [1, None, 3]
AS_READ = {
    **{str(kind): (pa.array(WHOLE, kind), WHOLE) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.int32())},
    **{str(kind): (pa.array(WHOLE, kind), WHOLE) for kind in (pa.uint16(), pa.uint32(), pa.uint64(), pa.int64())},
    **{str(kind): (pa.array([0.5, None], kind), [0.5, None]) for kind in (pa.float32(), pa.float64())},
    "decimal": (
        pa.array([decimal.Decimal("3.00"), None], pa.decimal128(9, 2)),
        [decimal.Decimal("3.00"), None],
    ),
    "texts": (pa.array(["01", None, ""]), ["01", None, ""]),
    "large texts": (pa.array(["01", None], pa.large_string()), ["01", None]),
    "a dictionary of texts": (pa.array(["01", None, "01"]).dictionary_encode(), ["01", None, "01"]),
    "a dictionary of numbers": (pa.array([7, None, 7], pa.int16()).dictionary_encode(), [7, None, 7]),
    "nothing": (pa.nulls(2), [None, None]),
}


@pytest.mark.parametrize("name", AS_READ)
def test_values_of_every_type_are_read_as_they_are(tmp_path, name):
    column, expected = AS_READ[name]
    assert [value for (value,) in values(written(tmp_path / "a.parquet", x=column), "x")] == expected


UNREAD = {
    "bytes": pa.array([b"x"]),
    "lists": pa.array([[1]]),
    "structs": pa.array([{"a": 1}]),
    "true or false": pa.array([True]),
    "times": pa.array([1], pa.timestamp("us")),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_column_that_nobody_needs_stops_nothing(tmp_path, name):
    path = written(tmp_path / "a.parquet", x=UNREAD[name], y=["kept"])
    assert values(path, "y") == [("kept",)]
    table = InputTable.open(str(path))
    assert (table.columns, table.unread) == (("x", "y"), {"x"})
    with pytest.raises(InputError, match="column 'x' holds neither texts nor numbers"):
        table.texts(["x"])


def test_a_number_beyond_64_bits_is_refused(tmp_path):
    path = written(tmp_path / "a.parquet", x=pa.array([2**63], pa.uint64()))
    with pytest.raises(InputError, match=r"a\.parquet: column 'x' holds values that int64 cannot hold exactly"):
        read(path)


def test_types_of_parts_may_differ_where_no_value_does(tmp_path):
    written(tmp_path / "t" / "a.parquet", x=pa.array([1], pa.int8()), y=["a"], z=pa.nulls(1))
    written(tmp_path / "t" / "b.parquet", x=pa.array([2**40]), y=pa.array(["b"]).dictionary_encode(), z=["c"])
    assert values(tmp_path / "t", "x", "y", "z") == [(1, "a", None), (2**40, "b", "c")]
    written(tmp_path / "u" / "a.parquet", x=pa.array([1], pa.int8()))
    written(tmp_path / "u" / "b.parquet", x=pa.array([0.5]))
    assert values(tmp_path / "u", "x") == [(1.0,), (0.5,)]


def test_types_of_parts_that_mean_other_values_are_refused(tmp_path):
    written(tmp_path / "t" / "a.parquet", geocode=["0101"])
    written(tmp_path / "t" / "b.parquet", geocode=pa.array([101]))
    with pytest.raises(
        InputError, match=r"b\.parquet: column 'geocode' holds values of type int64, and other .* string"
    ):
        InputTable.open(str(tmp_path / "t"))
    written(tmp_path / "u" / "a.parquet", x=pa.array([2**60 + 1]))
    written(tmp_path / "u" / "b.parquet", x=pa.array([0.5]))
    with pytest.raises(InputError, match=r"a\.parquet: column 'x' holds values that double cannot hold exactly"):
        read(tmp_path / "u")


def test_parts_have_the_same_columns(tmp_path):
    written(tmp_path / "t" / "a.parquet", x=[1], y=[2])
    written(tmp_path / "t" / "b.parquet", x=[1])
    with pytest.raises(InputError, match=r"b\.parquet: its columns are not those of .*a\.parquet"):
        InputTable.open(str(tmp_path / "t"))
    for name, text in (("a", "x,y\n1,2\n"), ("b", "SECRET,2\n")):
        (tmp_path / "c").mkdir(exist_ok=True)
        (tmp_path / "c" / f"{name}.csv").write_text(text)
    with pytest.raises(InputError, match=r"b\.csv: its first line is not that of .*a\.csv") as caught:
        InputTable.open(str(tmp_path / "c"))
    assert "SECRET" not in str(caught.value)


def test_names_of_folders_are_read_as_text(tmp_path):
    for state in ("01", "1"):
        written(tmp_path / "t" / f"state={state}" / "a.parquet", x=[1])
    assert values(tmp_path / "t", "state", "x") == [("01", 1), ("1", 1)]
    written(tmp_path / "u" / "x=1" / "a.parquet", x=[1])
    with pytest.raises(InputError, match="folders are called by column 'x', which their files have, too"):
        InputTable.open(str(tmp_path / "u"))


def test_a_record_that_breaks_a_rule_is_a_row_without_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n1,2\n3\n4,"5\n6,7\n')
    rows = read(path)
    assert [(row[ROW], row["x"], row[MALFORMED]) for row in rows] == [
        (1, "1", None),
        (2, None, FIELDS),
        (3, None, QUOTES),
    ]
    with pytest.raises(InputError, match="expected as many fields as the header; not so in record 2"):
        InputTable.open(str(path)).texts(["x"])


@pytest.mark.parametrize("parts", [1, 3])
def test_compressed_text_is_read_to_its_end(tmp_path, parts):
    texts = ["x\n", *(f"{number}\n" * 1000 for number in range(parts))]
    (tmp_path / "a.csv.gz").write_bytes(b"".join(gzip.compress(text.encode()) for text in texts))
    assert len(read(tmp_path / "a.csv.gz")) == 1000 * parts
    whole = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "b.csv.gz").write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"b\.csv\.gz: cannot be read"):
        read(tmp_path / "b.csv.gz")


def test_empty_parts_of_csv_are_none(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    for name, text in (("a", ""), ("b", "x\n"), ("c", "x\n7\n"), ("d", "")):
        (folder / f"{name}.csv").write_text(text)
    assert values(folder, "x") == [("7",)]
    (folder / "c.csv").unlink()
    assert InputTable.open(str(folder)).has_rows() is False
    (folder / "b.csv").unlink()
    with pytest.raises(InputError, match=r"a\.csv: is empty"):
        InputTable.open(str(folder))


def test_whether_there_is_a_row_is_seen_at_the_beginning(tmp_path):
    (tmp_path / "a.csv").write_text("x\n\n\n")
    assert InputTable.open(str(tmp_path / "a.csv")).has_rows() is False
    (tmp_path / "a.csv").write_text("x\n\n7\n")
    assert InputTable.open(str(tmp_path / "a.csv")).has_rows() is True
    assert InputTable.open(str(written(tmp_path / "a.parquet", x=pa.array([], pa.int64())))).has_rows() is False
    assert InputTable.open(str(written(tmp_path / "b.parquet", x=[1]))).has_rows() is True


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_another_file_of_the_same_name_is_refused(tmp_path, ending):
    def write(number: int) -> Path:
        path = tmp_path / f"a.{ending}"
        fresh = tmp_path / "fresh"
        if ending == "csv":
            fresh.write_text(f"x\n{number}\n")
        else:
            written(fresh, x=[number])
        fresh.replace(path)
        return path

    table = InputTable.open(str(write(1)))
    before = os.stat(table.files[0].path)
    os.utime(write(2), ns=(before.st_atime_ns, before.st_mtime_ns))  # of the same size and time
    with pytest.raises(InputError, match="changed while it was read; nothing of it is kept"):
        list(table.read(table.parts[0]))
    (tmp_path / f"a.{ending}").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        list(table.read(table.parts[0]))


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "7\n" * 10)
    table = InputTable.open(str(path))
    rows = table.read(table.parts[0])
    assert next(rows).num_rows == 10
    with path.open("a") as file:
        file.write("8\n")
    with pytest.raises(InputError, match="changed while it was read"):
        list(rows)


def test_names_may_stand_in_quotes_and_lines_end_as_they_may(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'"first, second","of two\nlines"\r1,2\r3,4')
    assert columns_in(str(tmp_path / "a.csv")) == ("first, second", "of two\nlines")
    assert values(tmp_path / "a.csv", "first, second") == [("1",), ("3",)]
