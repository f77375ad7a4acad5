"""Files of tables: the same rows give the same bytes, however they arrive and whoever writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from das_spark.store import parquet as parquet_tables
from das_spark.store import part_files, record_of, set_times
from das_spark.store.parquet import ParquetTables, TableFolder, batches_of, below, file_name

SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.string(), nullable=False),
        pa.field("values", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        pa.field("rows", pa.list_(pa.int32())),
    ]
)


def rows_of(lengths: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "geocode": [f"{place:05d}" for place in range(len(lengths))],
            "values": [list(range(length)) for length in lengths],
            "rows": [None if length % 2 else [1, 2] for length in lengths],
        },
        schema=SCHEMA,
    )


def written(folder: Path, batches: list[pa.RecordBatch], file: str = "part-00000") -> bytes:
    writer = ParquetTables({"t": TableFolder(folder, SCHEMA)})
    report = [row for batch in writer(("t", file, batch) for batch in batches) for row in batch.to_pylist()]
    (record,) = writer.place(report)["t"]
    assert record == record_of(folder / record.name)
    return (folder / record.name).read_bytes()


def cut(batch: pa.RecordBatch, edges: list[int]) -> list[pa.RecordBatch]:
    return [batch.slice(begin, end - begin) for begin, end in pairwise([0, *sorted(edges), batch.num_rows])]


@given(
    lengths=st.lists(st.integers(0, 40), max_size=60),
    data=st.data(),
    rows=st.integers(1, 20),
    values=st.integers(1, 100),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_where_batches_are_cut_changes_no_byte(tmp_path_factory, lengths, data, rows, values) -> None:
    batch = rows_of(lengths)
    edges = data.draw(st.lists(st.integers(0, len(lengths)), max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_tables, "_GROUP_ROWS", rows)
        patch.setattr(parquet_tables, "_GROUP_VALUES", values)
        whole = written(tmp_path_factory.mktemp("whole"), [batch])
        again = tmp_path_factory.mktemp("cut")
        assert written(again, cut(batch, edges)) == whole
    found = pq.ParquetFile(again / "part-00000.parquet")
    assert found.read().to_pylist() == batch.to_pylist()
    weights = np.array(lengths) + np.where(np.array(lengths) % 2, 0, 2) if lengths else np.zeros(0)
    begin = 0
    for group in range(found.num_row_groups):
        size = found.metadata.row_group(group).num_rows
        assert size <= rows
        assert weights[begin : begin + size].sum() <= values or size == 1
        begin += size


def test_a_task_writes_several_files_of_several_tables(tmp_path: Path) -> None:
    folders = {name: TableFolder(tmp_path / name, SCHEMA) for name in ("one", "two", "none")}
    writer, batch = ParquetTables(folders), rows_of([1, 2, 3])
    files = [f"level={level}/{file_name(number)}" for level in ("A", "B") for number in (0, 3)]
    stream = [(table, file, batch) for file in files for table in ("one", "two")]
    placed = writer.place(row for report in writer(stream) for row in report.to_pylist())
    for table in ("one", "two"):
        assert [each.name for each in placed[table]] == [f"{file}.parquet" for file in files]
        assert [each.name for each in below("level=B", placed[table])] == ["part-00000.parquet", "part-00003.parquet"]
        assert all(pq.read_table(tmp_path / table / each.name).num_rows == 3 for each in placed[table])
    assert [each.name for each in placed["none"]] == ["part-00000.parquet"]
    assert pq.read_table(tmp_path / "none" / "part-00000.parquet").num_rows == 0
    assert pq.read_schema(tmp_path / "none" / "part-00000.parquet").equals(SCHEMA)


def test_files_that_the_driver_was_not_told_of_get_no_name(tmp_path: Path) -> None:
    """A task that died, or a second attempt that lost, leaves what it wrote under a name that nobody reads."""
    writer = ParquetTables({"t": TableFolder(tmp_path, SCHEMA)})
    list(writer([("t", "part-00000", rows_of([1]))]))
    assert part_files(tmp_path) == ()
    assert writer.place([])["t"][0].size > 0, "the table is empty, and has a file that says so"


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="absolute"):
        TableFolder(Path("here"), SCHEMA)


def test_times_of_change_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    instant = datetime(2026, 5, 1, 12, 30, 7, tzinfo=UTC)
    set_times(tmp_path, instant)
    for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "file"):
        assert path.stat().st_mtime_ns == int(instant.timestamp()) * 10**9


def test_a_piece_of_a_file_never_holds_more_than_a_row_group(tmp_path: Path) -> None:
    """Row groups end where the values of a row are many: pyarrow would join them."""
    rows = pa.table({"geocode": list("abcdefg"), "values": [[1, 2]] * 7})
    pq.write_table(rows, tmp_path / "part-0.parquet", row_group_size=3)
    found = list(batches_of(tmp_path / "part-0.parquet", ["geocode"]))
    assert [batch.column(0).to_pylist() for batch in found] == [list("abc"), list("def"), ["g"]]
