"""Folders of measurement files: found, whole, of the right columns, and as they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError
from das_spark.io.noisy_files import (
    CONSTRAINT,
    DPQUERY,
    NoisyLayout,
    check_records,
    check_whole,
    find_dataset,
    row_files,
    written_schema,
)
from das_spark.spark.noisy_rows import read_rows
from das_spark.store import record_of

pytestmark = pytest.mark.slow

ATTRIBUTES = ("hhgq", "race")
LEVELS = ("State", "County")
ROW = {
    **{"geocode": "01", "query_name": "hhgq_dpq", "hhgq": "hhgq", "race": "*"},
    **{"query_shape": [2, 1], "value": [-1, 5], "variance": 2.0, "plb": "1/2", "sign": None},
}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two levels, one of them partitioned, with constraints at one."""
    places = ("State.parquet/DPQuery", "State.parquet/Constraint", "County.parquet/DPQuery/State=001/County=01001")
    for place in places:
        (tmp_path / "people" / place).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "people" / place / "part-00000.parquet")
        (tmp_path / "people" / place / "_SUCCESS").touch()
    return tmp_path / "people"


def test_a_dataset_is_the_folder_or_the_only_one_in_it(dataset):
    assert find_dataset(dataset, LEVELS) == find_dataset(dataset.parent, LEVELS) == dataset
    (dataset.parent / "units" / "State.parquet").mkdir(parents=True)
    with pytest.raises(InputError, match=r"several datasets \(people, units\)"):
        find_dataset(dataset.parent, LEVELS)
    with pytest.raises(InputError, match=r"expected folders Tract\.parquet"):
        find_dataset(dataset.parent, ("Tract",))
    with pytest.raises(InputError, match="no such folder"):
        find_dataset(dataset / "nowhere", LEVELS)


def test_files_are_found_partitioned_or_not_and_constraints_may_lack(dataset):
    files = row_files(dataset, LEVELS)
    assert [(file.level, file.kind) for file in files] == [
        *(("State", DPQUERY), ("State", CONSTRAINT), ("County", DPQUERY)),
    ]
    assert files[0].path == NoisyLayout(dataset.parent).rows("people", "State", DPQUERY) / "part-00000.parquet"
    check_whole(files, ATTRIBUTES, below=dataset)


def test_a_missing_level_is_named_with_those_that_are_there(dataset):
    with pytest.raises(InputError, match=r"geolevel Tract are missing .*there are County\.parquet, State\.parquet"):
        row_files(dataset, ("State", "Tract"))


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        (lambda table: table.drop_columns(["plb", "sign"]), ""),
        (lambda table: table.drop_columns(["race"]), "without race"),
        (lambda table: table.append_column("sex", pa.array(["*"])), "with sex"),
        (lambda table: table.drop_columns(["variance"]), "without variance"),
        (lambda table: table.set_column(5, "value", pa.array([[0.5]])), "lists of whole numbers"),
        (lambda table: table.set_column(5, "value", pa.array([3])), "lists of whole numbers"),
        (lambda table: table.set_column(6, "variance", pa.array(["2"])), "floating-point"),
    ],
)  # fmt: skip
def test_columns_must_be_those_of_the_product(dataset, change: Callable[[pa.Table], pa.Table], needle):
    assert pa.Table.from_pylist([ROW]).column_names == list(written_schema(ATTRIBUTES))
    files = row_files(dataset, LEVELS)
    pq.write_table(change(pa.Table.from_pylist([ROW])), files[0].path)
    if not needle:
        check_whole(files, ATTRIBUTES, below=dataset)
        return
    with pytest.raises(InputError, match=f"State.parquet/DPQuery/part-00000.parquet.*{needle}"):
        check_whole(files, ATTRIBUTES, below=dataset)


@pytest.mark.parametrize("left", [0, 3, 500])
def test_a_file_that_is_cut_off_is_not_whole(dataset, left):
    files = row_files(dataset, LEVELS)
    files[1].path.write_bytes(files[1].path.read_bytes()[:left])
    with pytest.raises(InputError, match="not a whole Parquet file"):
        check_whole(files, ATTRIBUTES, below=dataset)


def test_files_are_as_they_were_recorded_and_no_others(dataset):
    paths = [file.path for file in row_files(dataset, LEVELS)]
    records = tuple(record_of(path, str(path.relative_to(dataset))) for path in paths)
    check_records(dataset, records)
    with pytest.raises(InputError, match=r"part-00000\.parquet is not part of what was published"):
        check_records(dataset, records[1:])
    paths[0].write_bytes(paths[0].read_bytes() + b"x")
    with pytest.raises(InputError, match="not as it was published"):
        check_records(dataset, records)
    paths[0].unlink()
    with pytest.raises(InputError, match="is missing"):
        check_records(dataset, records)


@pytest.mark.spark
def test_a_kept_attribute_is_read_by_its_name_however_the_file_spells_it(dataset, spark):
    rows = [
        ROW,
        ROW | {"hhgq": "detailed"},
        ROW | {"query_name": "detailed_dpq", "hhgq": "detailed", "race": "detailed"},
        ROW | {"query_name": "some_dpq", "hhgq": "hhinstlevels", "race": None},
    ]
    (file,) = [file for file in row_files(dataset, LEVELS) if file.kind == CONSTRAINT]
    pq.write_table(pa.Table.from_pylist(rows), file.path)
    found = [row["bins"] for row in read_rows(spark, [file], ATTRIBUTES, 4).collect()]
    assert found == [["hhgq", "*"], ["hhgq", "*"], ["hhgq", "race"], ["hhinstlevels", None]]
