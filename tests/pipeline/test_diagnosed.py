"""Families that failed, and the slowest ones, are found in the files of a level."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.pipeline.diagnosed import failed_families, slowest_families
from das_spark.store.tables import TABLES

STATUS = {"d": "optimal", "b": "infeasible", "c": "failed", "a": "optimal", "e": "infeasible"}
SECONDS = {"a": 3.0, "b": 1.0, "c": 9.0, "d": 3.0, "e": 2.0}


def written(folder, table, rows, files=2):
    """Rows in files, in turn."""
    folder.mkdir()
    for number in range(files):
        part = pa.Table.from_pylist(rows[number::files], schema=TABLES[table].schema)
        pq.write_table(part, folder / f"part-{number:05d}.parquet")
    return folder


@pytest.fixture
def diagnostics(tmp_path):
    usual = {"string": "", "int64": 1, "double": 0.5, "bool": False, "binary": b"problem"}
    columns = {column.name: usual[str(column.type)] for column in TABLES["diagnostics"].schema}
    rows = [columns | {"family": family, "status": status} for family, status in STATUS.items()]
    return written(tmp_path / "diagnostics", "diagnostics", rows)


@pytest.mark.parametrize("number", [1, 2, 9])
def test_families_that_failed_are_counted_and_the_first_are_named(diagnostics, number):
    count, rows = failed_families(diagnostics, number)
    assert (count, [row["family"] for row in rows]) == (3, ["b", "c", "e"][:number])
    assert rows[0]["problem"] == b"problem"


def test_the_slowest_families_come_with_their_figures(diagnostics, tmp_path):
    rows = [{"family": family, "seconds": seconds} for family, seconds in SECONDS.items()]
    seconds = written(tmp_path / "seconds", "seconds", rows)
    found = slowest_families(diagnostics, seconds, 4)
    assert [row["family"] for row in found] == ["c", "a", "d", "e"]
    assert found[0]["status"] == "failed"
    assert [row["seconds"] for row in found] == [9.0, 3.0, 3.0, 2.0]


def test_a_level_without_families_has_no_slowest_ones(tmp_path):
    folders = [written(tmp_path / name, name, [], files=1) for name in ("diagnostics", "seconds")]
    assert slowest_families(*folders, number=4) == []
    assert failed_families(folders[0], 4) == (0, [])
