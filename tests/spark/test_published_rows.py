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

from das_spark.spark.published_rows import MISSING, TableFile, published_rows
from das_spark.verification import PACKED, packed_of, unpacked

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = {"P1": (0, ("a", "b", "c")), "P2": (5, ("d",))}


def rows(spark, *files: TableFile) -> dict[tuple[str, str, str | None], dict[int, int]]:
    """Format, level and geocode -> values by number of all rows of that geocode together."""
    found: dict[tuple[str, str, str | None], dict[int, int]] = {}
    for row in published_rows(spark, files, COLUMNS).collect():
        assert row["geocodes"] == [row["geocode"]]
        pairs = {item: value for _, item, value in np.frombuffer(row["packed"], PACKED).tolist()}
        found.setdefault((row["format"], row["level"], row["geocode"]), {}).update(pairs)
    return found


def csv_file(folder: Path, text: str, table: str = "P1") -> TableFile:
    path = folder / f"{table}.csv"
    path.write_text(text)
    return TableFile(table, "csv", "County", path)


def parquet_file(folder: Path, **columns: list) -> TableFile:
    path = folder / "part-00000.parquet"
    parquet.write_table(pa.table(columns), path)
    return TableFile("P1", "parquet", "County", path)


def test_rows_of_both_formats_hold_their_values(spark, tmp_path):
    files = (
        parquet_file(tmp_path, geocode=["01001", "01003"], a=[7, 0], b=[0, 0], c=[7, 0]),
        csv_file(tmp_path, "geocode,a,b,c\n01001,7,0,7\n01003,0,0,0\n"),
        csv_file(tmp_path, "geocode,d\n01001,3\n", "P2"),
    )
    whole = {0: 1, 1: 7, 2: 7, 4: 7}
    assert rows(spark, *files) == {
        ("parquet", "County", "01001"): whole,
        ("parquet", "County", "01003"): {0: 1},
        ("csv", "County", "01001"): {**whole, 5: 1, 6: 3, 7: 3},
        ("csv", "County", "01003"): {0: 1},
    }


def test_what_is_no_whole_number_is_missing(spark, tmp_path):
    text = csv_file(tmp_path, "geocode,a,b,c\n01001,x,,1.5\n01003,5,6,99999999999999999999\n")
    missing = MISSING
    assert rows(spark, text) == {
        ("csv", "County", "01001"): {0: 1, 1: missing, 2: missing, 3: missing, 4: missing},
        ("csv", "County", "01003"): {0: 1, 1: 5, 2: 5, 3: 6, 4: missing},
    }
    null = parquet_file(tmp_path, geocode=["01001"], a=[None], b=["many"])
    assert rows(spark, null) == {("parquet", "County", "01001"): {0: 1, 1: missing, 2: missing, 3: missing, 4: missing}}


def test_csv_is_read_by_the_order_of_its_columns(spark, tmp_path):
    assert rows(spark, csv_file(tmp_path, "geocode,b,a,c\n01001,1,2,3\n")) == {
        ("csv", "County", "01001"): {0: 1, 1: 1, 2: 1, 3: 2, 4: 3}
    }


@pytest.mark.parametrize("text", ["", "geocode,a,b,c\n", "geocode,a,b,c\n01001,1,2\n01003,1,2,3,4\n"])
def test_a_row_that_is_none_is_not_there(spark, tmp_path, text):
    assert rows(spark, csv_file(tmp_path, text)) == {}


@given(
    arrays(np.int64, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5), elements=st.integers(-3, 2**62)),
    st.sampled_from([None, 0, 1, 2]),
    st.data(),
)
def test_values_that_are_not_zero_are_put_together_by_the_parents_of_neighbours(values, above, data):
    items = np.arange(7, 7 + values.shape[1], dtype=np.int32) * 3
    codes = st.one_of(st.none(), st.sampled_from(["11", "12", "21"]))
    geocodes = data.draw(st.lists(codes, min_size=len(values), max_size=len(values)))
    made = packed_of(pa.array(geocodes, pa.string()), values, items, above)
    for column in made.values():
        column.validate(full=True)
    lengths, records = unpacked(made["packed"])
    found, begin = [], 0
    for first, names, length in zip(made["geocode"].to_pylist(), made["geocodes"].to_pylist(), lengths, strict=True):
        assert first == names[0]
        assert len(names) == 1 or (
            above is not None and "?" not in names and len({name[:above] for name in names}) == 1
        )
        own = records[begin : begin + length].tolist()
        found += [(name, [(item, value) for at, item, value in own if at == place]) for place, name in enumerate(names)]
        begin += length
    expected = [
        (name or "?", [(3 * place + 21, value) for place, value in enumerate(row) if value])
        for name, row in zip(geocodes, values.tolist(), strict=True)
    ]
    assert found == expected


def test_neighbours_with_one_parent_are_one_row():
    made = packed_of(pa.array(["11", "12", "21", "13"]), np.ones((4, 1), np.int64), np.zeros(1, np.int32), 1)
    assert made["geocodes"].to_pylist() == [["11", "12"], ["21"], ["13"]]


def test_rows_without_pairs_are_empty_when_they_are_packed():
    lengths, records = unpacked(pa.array([None, b""], pa.binary()))
    assert (lengths.tolist(), len(records)) == ([0, 0], 0)
    lengths, records = unpacked(pa.nulls(2, pa.binary()))
    assert (lengths.tolist(), len(records)) == ([0, 0], 0)
