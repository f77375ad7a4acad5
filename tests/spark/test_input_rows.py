"""Rows of the input as tasks read them: those of the files that were listed, each once, wherever they lie."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError
from das_spark.io.input_tables import InputTable
from das_spark.spark.input_rows import table_rows
from das_spark.spark.problems import reading

pytestmark = pytest.mark.spark


def test_every_part_is_read_once(spark, tmp_path):
    folder = tmp_path / "census[12]"  # no pattern
    for state in ("01", "02"):
        (folder / f"state={state}").mkdir(parents=True)
        for part in range(7):
            rows = pa.table({"x": [part, part + 100, part + 200]})
            pq.write_table(rows, folder / f"state={state}" / f"part-{part}.parquet", row_group_size=1)
    (tmp_path / "census1").mkdir()
    pq.write_table(pa.table({"x": [7]}), tmp_path / "census1" / "a.parquet")
    found = table_rows(spark, InputTable.open(str(folder))).collect()
    expected = [(state, part + more) for state in ("01", "02") for part in range(7) for more in (0, 100, 200)]
    assert sorted((row["state"], row["x"]) for row in found) == sorted(expected)


def test_what_a_task_says_of_a_file_is_what_is_said(spark, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    rows = table_rows(spark, InputTable.open(str(path)))
    path.write_text("x\n1\n2\n")
    with (
        pytest.raises(InputError, match=r"a\.csv: changed while it was read; nothing of it is kept") as caught,
        reading("t"),
    ):
        rows.collect()
    assert "let no file be delivered" in caught.value.hint
