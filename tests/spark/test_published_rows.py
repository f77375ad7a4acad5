"""Files of published tables as tasks read them: values that are not zero, and what stands for those that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pyarrow import parquet

from das_spark.io.table_files import BROKEN
from das_spark.spark.published_rows import MISSING, TableFile, published_rows, table_rows
from das_spark.verification import ChildRows

COLUMNS = {"P1": (0, ("a", "b", "c")), "P2": (5, ("d",))}


def rows(*files: TableFile) -> dict[tuple[str, str, str | None], dict[int, int]]:
    """Format, level and geocode -> values by number of all rows of that geocode together."""
    found: dict[tuple[str, str, str | None], dict[int, int]] = {}
    for read in published_rows(files, COLUMNS, ChildRows("tables", None)):
        for table, level, batch in read():
            assert table == "tables"
            for row in batch.to_pylist():
                assert row["of_family"] == row["of_geounit"]
                pairs = dict(zip(row["items"], row["values"], strict=True))
                for format in row["formats"].split("\n"):
                    found.setdefault((format, level, row["of_geounit"]), {}).update(pairs)
    return found


def csv_file(folder: Path, text: str, table: str = "P1") -> TableFile:
    path = folder / f"{table}.csv"
    path.write_text(text)
    return TableFile(table, "csv", "County", path)


def parquet_file(folder: Path, **columns: list) -> TableFile:
    path = folder / "part-00000.parquet"
    parquet.write_table(pa.table(columns), path)
    return TableFile("P1", "parquet", "County", path)


def test_rows_of_both_formats_hold_their_values(tmp_path):
    files = (
        parquet_file(tmp_path, geocode=["01001", "01003"], a=[7, 0], b=[0, 0], c=[7, 0]),
        csv_file(tmp_path, "geocode,a,b,c\n01001,7,0,7\n01003,0,0,0\n"),
        csv_file(tmp_path, "geocode,d\n01001,3\n", "P2"),
    )
    whole = {0: 1, 1: 7, 2: 7, 4: 7}
    assert rows(*files) == {
        ("parquet", "County", "01001"): whole,
        ("parquet", "County", "01003"): {0: 1},
        ("csv", "County", "01001"): {**whole, 5: 1, 6: 3, 7: 3},
        ("csv", "County", "01003"): {0: 1},
    }


def test_what_is_no_whole_number_is_missing(tmp_path):
    text = csv_file(tmp_path, "geocode,a,b,c\n01001,x,,1.5\n01003,5,6,99999999999999999999\n")
    missing = MISSING
    assert rows(text) == {
        ("csv", "County", "01001"): {0: 1, 1: missing, 2: missing, 3: missing, 4: missing},
        ("csv", "County", "01003"): {0: 1, 1: 5, 2: 5, 3: 6, 4: missing},
    }
    null = parquet_file(tmp_path, geocode=["01001"], a=[None], b=["many"])
    assert rows(null) == {("parquet", "County", "01001"): {0: 1, 1: missing, 2: missing, 3: missing, 4: missing}}


@pytest.mark.parametrize("value", [" 5", "5 ", "\t5", "+5", "5.0", "1e2", "NA", "0x5", "0X5", "1_0"])
def test_a_number_is_its_digits_and_nothing_else(tmp_path, value):
    found = rows(csv_file(tmp_path, f"geocode,a,b,c\n01001,1,{value},2\n"))
    assert found == {("csv", "County", "01001"): {0: 1, 1: 1, 2: 1, 3: MISSING, 4: 2}}


@pytest.mark.parametrize("record", ['"01003"x,1,2,3', '01003,"5"1,2,3', '01003,1,2,"3', '"01"003,1,2,3'])
def test_quotes_that_are_not_around_a_value_break_the_record(tmp_path, record):
    found = rows(csv_file(tmp_path, f"geocode,a,b,c\n01001,1,2,3\n{record}\n"))
    assert {geocode for _, _, geocode in found} == {"01001", BROKEN}


def test_csv_is_read_by_the_order_of_its_columns(tmp_path):
    assert rows(csv_file(tmp_path, "geocode,b,a,c\n01001,1,2,3\n")) == {
        ("csv", "County", "01001"): {0: 1, 1: 1, 2: 1, 3: 2, 4: 3}
    }


@pytest.mark.parametrize("text", ["", "geocode,a,b,c\n"])
def test_a_file_without_rows_has_none(tmp_path, text):
    assert rows(csv_file(tmp_path, text)) == {}


@pytest.mark.parametrize("more", ["", "01005,7,8,9\n", "01005,x,8,9\n"])
@pytest.mark.parametrize("broken", ["01003,1,2\n", "01003,1,2,3,4\n"])
def test_a_row_that_is_none_is_of_no_geounit(tmp_path, broken, more):
    found = rows(csv_file(tmp_path, f"geocode,a,b,c\n{broken}{more}"))
    assert {geocode for _, _, geocode in found} == {BROKEN, *(["01005"] if more else [])}


@given(
    arrays(np.int64, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5), elements=st.integers(-3, 2**62)),
    st.integers(0, 1 << 20),
)
def test_rows_hold_what_is_not_zero_by_its_number(values, first):
    geocodes = pa.array([str(number) for number in range(len(values))])
    made = table_rows(["parquet", "csv"], geocodes, list(values.T), first)
    made.validate(full=True)
    assert made.column("formats").to_pylist() == ["parquet\ncsv"] * len(values)
    expected = [
        [(first + place, value) for place, value in enumerate([1, row[0], *row]) if value] for row in values.tolist()
    ]
    pairs = zip(made.column("items").to_pylist(), made.column("values").to_pylist(), strict=True)
    assert [list(zip(*pair, strict=True)) for pair in pairs] == expected


def both(folder: Path, rows: list[tuple[str, int, int, int]], text: list[tuple[str, int | str, int, int]]):
    names = ("geocode", "a", "b", "c")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pa.table(columns), folder / "part-00000.parquet")
    lines = "".join(",".join(map(str, row)) + "\n" for row in text)
    (folder / "part-00000.csv").write_text("geocode,a,b,c\n" + lines)
    return [TableFile("P1", format, "County", folder / f"part-00000.{format}") for format in ("parquet", "csv")]


def told(files: list[TableFile]) -> list[tuple[str, list[str]]]:
    """Formats, and geocodes of the rows that are given for them together."""
    return [
        (batch.column("formats")[0].as_py(), batch.column("of_geounit").to_pylist())
        for read in published_rows(files, COLUMNS, ChildRows("tables", None))
        for _, _, batch in read()
    ]


def test_rows_that_formats_agree_on_are_given_once(tmp_path):
    own = [("1", 7, 0, 7), ("2", 0, 0, 0), ("3", 1, 1, 0)]
    assert told(both(tmp_path, own, own)) == [("parquet\ncsv", ["1", "2", "3"])]


@pytest.mark.parametrize("other", [("2", 0, 1, 0), ("4", 0, 0, 0), ("2", "x", 0, 0)])
def test_rows_that_formats_differ_in_are_given_for_each(tmp_path, other):
    own = [("1", 7, 0, 7), ("2", 0, 0, 0)]
    files = both(tmp_path, own, [own[0], other])
    assert told(files) == [("parquet", ["1", "2"]), ("csv", ["1", other[0]])]
    expected = {("parquet", "County", "1"): {0: 1, 1: 7, 2: 7, 4: 7}, ("parquet", "County", "2"): {0: 1}}
    assert {key: value for key, value in rows(*files).items() if key[0] == "parquet"} == expected


@pytest.mark.parametrize("fewer", [0, 1, 2])
def test_rows_that_one_format_has_not_are_given_for_the_other(tmp_path, fewer):
    own = [("1", 7, 0, 7), ("2", 0, 0, 0)]
    files = both(tmp_path, own, own[:fewer])
    assert [code for formats, codes in told(files) if "csv" in formats for code in codes] == ["1", "2"][:fewer]
    assert [code for formats, codes in told(files) if "parquet" in formats for code in codes] == ["1", "2"]


def test_texts_behind_many_numbers_are_read_as_texts_from_there(tmp_path, monkeypatch):
    monkeypatch.setattr("das_spark.spark.published_rows._BLOCK", 64)
    lines = [f"{number},{number},0,0" for number in range(100)]
    lines[70] = "70,seventy,0,0"
    found = rows(csv_file(tmp_path, "\n".join(["geocode,a,b,c", *lines]) + "\n"))
    assert {code: pairs.get(2, 0) for (_, _, code), pairs in found.items()} == {
        str(number): MISSING if number == 70 else number for number in range(100)
    }
