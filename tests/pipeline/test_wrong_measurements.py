"""Measurements with something wrong are refused with one clear error, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.errors import InputError
from das_spark.pipeline import estimate_from, open_source
from das_spark.store import RunLayout, record_of

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow]

FAILED = 1


@pytest.fixture
def folder(measured, tmp_path) -> Path:
    """A copy of the folder that a test may spoil."""
    return Path(shutil.copytree(measured.folder / "nmf", tmp_path / "nmf"))


def spoil(folder: Path, level: str, kind: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a level, and make the checksums of the record agree with that."""
    place = folder / "e2e_1940" / f"{level}.parquet" / kind
    table = pa.concat_tables([pq.ParquetFile(part).read() for part in sorted(place.glob("part-*"))])
    for part in place.glob("part-*"):
        part.unlink()
    pq.write_table(change(table), place / "part-00000.parquet")
    sign(folder)


def sign(folder: Path, **changes: Any) -> None:
    """Record the checksums of the files as they are."""
    record = json.loads((folder / "measurements.json").read_text())
    paths = sorted(path for path in folder.rglob("part-*"))
    files = [record_of(path, str(path.relative_to(folder))) for path in paths]
    record["files"] = [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files]
    (folder / "measurements.json").write_text(json.dumps(record | changes))


def list_as_it_is(public: Path, part: Path) -> None:
    """Let the manifest of a run list a file that was changed."""
    manifest, name = json.loads((public / "manifest.json").read_text()), str(part.relative_to(public))
    record = record_of(part, name)
    (place,) = (place for place, file in enumerate(manifest["files"]) if file["name"] == name)
    manifest["files"][place] = {"name": name, "size": record.size, "sha256": record.sha256}
    (public / "manifest.json").write_text(json.dumps(manifest))


def column(name: str, function: Callable[[Any, dict[str, Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column, row by row."""

    def change(table: pa.Table) -> pa.Table:
        values = [function(row[name], row) for row in table.to_pylist()]
        place = table.schema.get_field_index(name)
        return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return change


def without_query(name: str) -> Callable[[pa.Table], pa.Table]:
    """A change that leaves the rows of a query out."""
    return lambda table: table.filter(pc.not_equal(table.column("query_name"), name))


def cut_off(folder: Path) -> None:
    path = next(folder.rglob("County.parquet/DPQuery/part-*"))
    path.write_bytes(path.read_bytes()[:-100])


#: Faults that are found together: level and change -> what is said of it.
FAULTS = [
    {
        ("State", column("query_name", lambda name, _: name.replace("hhgq", "hgq"))): "names 'hgq'",
        ("County", lambda table: table.slice(1)): "expected one of each 5",
        ("Enumdist", column("hhgq", lambda _, __: "*")): "its binning is",
    },
    {
        ("State", column("variance", lambda value, _: value * (1 + 1e-9))): "follows from the budget",
        ("County", lambda table: pa.concat_tables([table, table.slice(0, 1)])): "expected one of each 5",
        ("Enumdist", column("query_shape", lambda shape, _: shape[::-1])): "its shape is",
    },
    {
        ("State", column("query_name", lambda name, _: name.removesuffix("_dpq"))): "must end with _dpq",
        ("County", without_query("hhgq_dpq")): "the measurements of query 'hhgq' are missing",
        ("Enumdist", column("value", lambda value, _: value[:-1])): "values a geounit, expected",
    },
    {
        ("State", column("query_name", lambda name, _: name.replace("hhgq", "race"))): "the budget has no such query",
        ("County", column("plb", lambda _, __: "1")): "plb says",
    },
    {("State", column("geocode", lambda code, _: code.replace("02", "03"))): "geounit 03, which does not exist"},
]


class TestRefused:
    """Whatever is wrong is one clear error; nothing is written."""

    @pytest.fixture
    def refused(self, folder, tmp_path, spark, capsys) -> Callable[..., None]:
        def check(*needles: str) -> None:
            arguments = ["estimate", "--from-measurements", str(folder), "--run-id", "bad"]
            assert main([*arguments, "--output", str(tmp_path / "runs")]) == FAILED
            said = capsys.readouterr().err
            assert said.count("das-spark: error: [DAS2") == 1
            for needle in needles:
                assert needle in said, said
            assert not (tmp_path / "runs").exists()

        return check

    def test_one_changed_byte(self, folder, refused):
        path = next(folder.rglob("State.parquet/DPQuery/part-*"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
        refused("is not as it was published", str(path.relative_to(folder)))

    def test_a_missing_file(self, folder, refused):
        next(folder.rglob("State.parquet/DPQuery/part-*")).unlink()
        refused("is missing")

    def test_a_file_that_was_not_there(self, folder, refused):
        shutil.copy(next(folder.rglob("part-*")), folder / "e2e_1940" / "State.parquet" / "DPQuery" / "part-9.parquet")
        refused("part-9.parquet is not part of what was published")

    def test_a_file_that_is_cut_off(self, folder, refused):
        cut_off(folder)
        refused("checksum")
        sign(folder)
        refused("is not a whole Parquet file", "County.parquet")

    def test_a_missing_level(self, folder, refused):
        shutil.rmtree(folder / "e2e_1940" / "County.parquet")
        sign(folder)
        refused("geolevel County are missing")

    def test_a_missing_table_of_geounits(self, folder, refused):
        shutil.rmtree(folder / "geounits" / "level=County")
        sign(folder)
        refused("geounits of geolevel County are missing")

    def test_a_folder_without_record(self, folder, refused):
        (folder / "measurements.json").unlink()
        refused("measurements.json", "--conf")

    @pytest.mark.parametrize(
        ("changes", "needle"),
        [
            ({"product": "e2e_1950"}, "which does not exist here"),
            ({"product": "e2e_2018"}, "product, configuration and ledger entry are of different products"),
            ({"schema_version": 9}, "version 9"),
            ({"schema": [{"name": "age"}]}, "schema"),
            ({"config_hash": "0"}, "configuration has been changed"),
            ({"ledger": {}}, "not an entry of a privacy ledger"),
            ({"surprise": 1}, "surprise"),
        ],
    )
    def test_a_record_of_something_else(self, folder, refused, changes, needle):
        sign(folder, **changes)
        refused(needle)

    def test_a_record_of_fewer_attributes(self, folder, refused):
        record = json.loads((folder / "measurements.json").read_text())
        sign(folder, schema=record["schema"][:-1])
        refused("its schema is not that of product e2e_1940")

    def test_a_record_that_claims_another_budget(self, folder, refused):
        record = json.loads((folder / "measurements.json").read_text())
        sign(folder, ledger=record["ledger"] | {"total": "5"})
        refused("do not agree on the budget")

    def test_columns_of_another_schema(self, folder, refused):
        spoil(
            folder,
            "State",
            "DPQuery",
            lambda table: table.rename_columns(
                ["votingage" if name == "age18plus" else name for name in table.column_names]
            ),
        )
        refused("without age18plus", "with votingage")

    def test_values_that_are_no_whole_numbers(self, folder, refused):
        def change(table: pa.Table) -> pa.Table:
            values = table.column("value").cast(pa.list_(pa.float64()))
            return table.set_column(table.schema.get_field_index("value"), "value", values)

        spoil(folder, "State", "DPQuery", change)
        refused("lists of whole numbers")

    @pytest.mark.parametrize("faults", FAULTS, ids=[" and ".join(fault.values()) for fault in FAULTS])
    def test_rows_that_are_not_those_of_the_budget(self, folder, refused, faults):
        for (level, change), _ in faults.items():
            spoil(folder, level, "DPQuery", change)
        refused(*(f"geolevel {level}" for level, _ in faults), *faults.values())

    def test_a_constraint_that_does_not_follow_from_the_invariants(self, folder, tmp_path, capsys):
        def change(value: list[int], row: dict[str, Any]) -> list[int]:
            return [value[0] + 1] if (row["query_name"], row["geocode"]) == ("total_con", "01") else value

        spoil(folder, "State", "Constraint", column("value", change))
        arguments = ["estimate", "--from-measurements", str(folder), "--run-id", "bad"]
        assert main([*arguments, "--output", str(tmp_path / "runs")]) == FAILED
        assert "total_con of geounit 01 (State) does not follow" in capsys.readouterr().err
        public = RunLayout.at(tmp_path / "runs", "bad").public.path
        assert [path.name for path in public.rglob("part-*")] == []

    def test_measurements_of_a_run_that_differ_from_its_budget(self, measured, tmp_path, spark):
        public = Path(shutil.copytree(measured.layout("whole").public.path, tmp_path / "public"))
        part = min((public / "measurements" / "level=State").glob("part-*"))
        settings = [f'output.root="{tmp_path}/runs"']

        def refused(message):
            with pytest.raises(InputError, match=message):
                estimate_from(open_source(public, None, settings), run_id="bad", spark=spark)

        pq.write_table(column("variance", lambda value, _: value / 2)(pq.ParquetFile(part).read()), part)
        refused("is not the file that the manifest lists")
        list_as_it_is(public, part)
        refused("follows from the budget")
        part.write_bytes(part.read_bytes()[:-10])
        list_as_it_is(public, part)
        refused("whole Parquet file")
        assert not (tmp_path / "runs").exists()
