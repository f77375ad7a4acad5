"""Tables of whole runs: made of public files alone, finished or not there, listed, verified, and made anew."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from eight_blocks import BLOCKS, FORMATS, GEOUNITS, LEVELS, PRODUCT, write_run_file

from das_spark.cli.main import main
from das_spark.config import config_hash
from das_spark.errors import ConfigurationError, OutputError
from das_spark.features import tables
from das_spark.features.tables.finished import tabulate_run
from das_spark.pipeline import table_writing as stage
from das_spark.pipeline import verify_run
from das_spark.pipeline.statement import INSECURE
from das_spark.pipeline.verified_files import REPORT, TIMES
from das_spark.products import PRODUCTS, product_data
from das_spark.store import PublicLayout, PublicManifest, RunLayout, TablesManifest, finished, part_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

TABLES = PRODUCT.tables
NAMES = ("P1", "P2", "P3", "P4", "P5")
ROWS = sum(GEOUNITS.values())


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("tables"), "40")


@pytest.fixture(scope="module")
def whole(conf, spark) -> RunLayout:
    """A whole run with tables, which nobody may change."""
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open"]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout:
    """The public root of the run alone, in another place."""
    # Without what a driver has left that a test has interrupted.
    shutil.copytree(whole.public.path, tmp_path / "public", ignore=shutil.ignore_patterns(".staging"))
    return PublicLayout(tmp_path / "public")


def level_files(layout: PublicLayout, table: str, format: str, level: str) -> tuple[Path, ...]:
    folder = layout.tables.level(table, format, level)
    assert finished(folder)
    return part_files(folder)


def parquet_rows(layout: PublicLayout, table: str, level: str) -> list[dict[str, Any]]:
    return [
        row for part in level_files(layout, table, "parquet", level) for row in pq.ParquetFile(part).read().to_pylist()
    ]


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def csv_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.csv") if path.is_file()}


def test_every_table_of_every_level_is_the_sum_of_the_estimates(whole):
    for level in LEVELS:
        estimates = {}
        for part in part_files(whole.public.level("estimates", level)):
            for row in pq.ParquetFile(part).read().to_pylist():
                estimates[row["geocode"]] = dict(zip(row["cells"], row["counts"], strict=True))
        assert len(estimates) == GEOUNITS[level]
        for table in TABLES:
            rows = parquet_rows(whole.public, table.name, level)
            assert [row["geocode"] for row in rows] == sorted(estimates)
            for column in table.columns:
                counted = set(np.flatnonzero(column.mask(PRODUCT.schema)))
                wanted = [sum(n for c, n in estimates[g].items() if c in counted) for g in sorted(estimates)]
                assert [row[column.name] for row in rows] == wanted


def test_a_csv_has_a_header_the_geocode_first_as_text_and_the_same_rows(whole):
    for table in TABLES:
        for level in LEVELS:
            (path,) = level_files(whole.public, table.name, "csv", level)
            content = path.read_text()
            assert '"' not in content
            header, *rows = csv.reader(content.splitlines())
            assert header == ["geocode", *table.names]
            assert all(row[0].startswith("01001") for row in rows)
            wanted = parquet_rows(whole.public, table.name, level)
            assert rows == [[str(row[name]) for name in header] for row in wanted]


def test_every_folder_says_what_its_table_is_and_that_the_run_is_insecure(whole):
    for table in TABLES:
        for format in FORMATS:
            text = (whole.public.tables.table(table.name, format) / "_about.txt").read_text()
            assert text.startswith(f"{table.name}. {table.title}\nUniverse: {table.universe}\n{INSECURE}\n")
            assert all(f"{column.name}  {'  ' * column.depth}{column.label}\n" in text for column in table.columns)
            assert str(whole.folder.parent) not in text


def test_a_table_of_all_levels_is_read_as_one_partitioned_folder(spark, whole):
    frame = spark.read.parquet(str(whole.public.tables.table("P1", "parquet")))
    assert {row["level"]: row["count"] for row in frame.groupBy("level").count().collect()} == GEOUNITS


def test_the_manifest_lists_tables_rows_and_columns(whole):
    manifest = PublicManifest.load(whole.public.manifest)
    names = [f"tables/{name}.{format}" for name in NAMES for format in FORMATS]
    assert {name: rows for name, rows in manifest.rows.items() if name in names} == dict.fromkeys(names, ROWS)
    assert [record.outputs for record in manifest.stages if record.name == "tabulate"] == [tuple(names)]
    assert manifest.config["output"]["tables"] == list(FORMATS)
    (told,) = [each for each in manifest.data_dictionary if each["path"].startswith("tables/P5")]
    assert told["title"] == TABLES[4].title
    assert told["columns"][3]["meaning"] == ("Total: Institutionalized population: Correctional facilities for adults")


def test_the_tables_are_verified(whole):
    report = json.loads(whole.public.verification.read_text())
    names = {check["name"] for check in report["checks"]}
    assert report["passed"]
    assert {"tables equal estimates", "table totals equal estimates", "headers of tables"} <= names
    assert {f"rows of tables/{name}.csv" for name in NAMES} <= names


def test_a_run_that_resumes_leaves_finished_tables_and_makes_the_others(whole, conf, tmp_path, monkeypatch):
    folder = whole.public.tables
    before, content = stamps(folder.path), csv_bytes(folder.path)
    monkeypatch.setattr("das_spark.pipeline.stages.verify.verify_public", lambda *_: pytest.fail("not reached"))
    monkeypatch.setattr("das_spark.pipeline.runner.publish_statement", lambda *_: (_ for _ in ()).throw(Stop))
    again = ["run", str(conf), "--run-id", "whole", "--test-key", "open"]
    with pytest.raises(Stop):
        main(again)
    assert stamps(folder.path) == before
    (folder.level("P3", "csv", "Tract") / "_SUCCESS").unlink()
    unpublished = stamps(folder.path)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "write_csv", lambda *_: whole.restricted.lock.write_text("the word of another driver"))
        assert main(again) == 1
    assert stamps(folder.path) == unpublished, "a driver that lost the run leaves the tables to the other one"
    with pytest.raises(Stop):
        main(again)
    changed = {name for name, stamp in stamps(folder.path).items() if before.get(name) != stamp}
    assert {name.split(".")[0] for name in changed} == {"P3"}
    assert csv_bytes(folder.path) == content


class Stop(BaseException):
    """Ends a run where a test has seen enough."""


def test_a_driver_that_dies_between_levels_leaves_no_folder_of_tables(copied, spark, tmp_path, monkeypatch):
    out, before = tmp_path / "out", stamps(copied.path)
    promoted: list[Path] = []
    real = stage.replace_folder

    def dying(staging: Path, target: Path, *files: object) -> None:
        if len(promoted) == 6:
            raise Stop
        promoted.append(target)
        real(staging, target, *files)

    monkeypatch.setattr(stage, "replace_folder", dying)
    with pytest.raises(Stop):
        tabulate_run(copied.path, out, spark)
    assert not out.exists()
    monkeypatch.setattr(stage, "replace_folder", real)
    tabulate_run(copied.path, out, spark)
    assert csv_bytes(out) == csv_bytes(copied.tables.path)
    assert stamps(copied.path) == before
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_tables_are_made_beside_the_run_with_a_manifest_of_their_own_and_the_run_stays_as_it_is(whole, capsys):
    before = stamps(whole.folder)
    assert main(["tabulate", str(whole.root / "latest")]) == 0
    assert "P5.csv" in capsys.readouterr().out
    assert stamps(whole.folder) == before
    made = whole.root / "whole.tables"
    assert csv_bytes(made) == csv_bytes(whole.public.tables.path)
    record = TablesManifest.load(made / "manifest.json")
    assert record.rows == {f"{name}.{format}": ROWS for name in NAMES for format in FORMATS}
    assert record.manifest == hashlib.sha256(whole.public.manifest.read_bytes()).hexdigest()
    assert record.notices == PublicManifest.load(whole.public.manifest).notices
    files = {path.relative_to(made).as_posix(): path for path in made.rglob("*") if path.is_file()}
    assert {file.name: file.sha256 for file in record.files} == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if name != "manifest.json"
    }
    assert record.data_dictionary[0]["path"] == "P1.<format>/level=<geolevel>"
    created = datetime.fromisoformat(record.created).timestamp()
    assert {path.stat().st_mtime for path in files.values()} == {created}
    assert main(["tabulate", str(whole.folder)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_tables_that_a_run_did_not_want_are_made_later(copied, spark):
    before = stamps(copied.path)
    manifest = json.loads(copied.manifest.read_text())
    manifest["config"]["output"]["tables"] = []
    manifest["config_hash"] = config_hash(manifest["config"])
    copied.manifest.write_text(json.dumps(manifest))
    shutil.rmtree(copied.tables.path)
    summary = tables.tabulate(copied.path, spark=spark)
    assert summary.folder == copied.path.with_name("public.tables")
    assert summary.rows == {f"{name}.{format}": ROWS for name in NAMES for format in FORMATS}
    assert not copied.tables.path.exists()
    assert {f"tables/{name}" for name in csv_bytes(summary.folder)} == {
        name for name in before if name.endswith(".csv")
    }


def test_changed_values_headers_and_rows_of_csv_files_fail_the_verification(copied, spark):
    value = copied.tables.level("P2", "csv", "County") / "part-00000.csv"
    lines = value.read_text().splitlines()
    fields = lines[1].split(",")
    fields[4] = str(int(fields[4]) + 1)
    value.write_text("\n".join([lines[0], ",".join(fields)]) + "\n")
    header = copied.tables.level("P4", "csv", "Tract") / "part-00000.csv"
    header.write_text(header.read_text().replace("P0040003,P0040004", "P0040004,P0040003", 1))
    rows = copied.tables.level("P5", "csv", "Block") / "part-00000.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    report = verify_run(copied.path, spark)
    failing = {(check.name, check.geolevel): check.failing for check in report.failures}
    # Its report and its times tell of the same.
    assert {failing.pop((name, ""))[0] for name in (REPORT, TIMES)} == {
        "verification.json: files are those of the manifest",
        "tables/P2.csv/level=County/part-00000.csv",
    }
    assert failing == {
        ("tables equal estimates", "County"): ("01001 P0020004",),
        ("tables equal estimates", "Block"): failing["tables equal estimates", "Block"],
        ("headers of tables", "Tract"): ("P4",),
        ("rows of tables/P5.csv", ""): ("tables/P5.csv",),
        ("files are those of the manifest", ""): tuple(
            sorted(str(path.relative_to(copied.path)) for path in (value, header, rows))
        ),
    } | {key: found for key, found in failing.items() if key == ("table totals equal estimates", "Block")}
    assert f"{BLOCKS[-1]} P5 (row)" in failing["tables equal estimates", "Block"]


def test_a_table_that_is_not_whole_is_not_read(copied):
    (copied.tables.level("P1", "parquet", "Tract") / "_SUCCESS").unlink()
    report = verify_run(copied.path, spark=_no_session())
    assert report.checks[0].failing == ("tables/P1.parquet/level=Tract",)


def _no_session() -> Any:
    return object()  # nothing may be asked of it


def test_a_run_without_estimates_or_without_tables_is_refused(copied, capsys):
    (copied.level("estimates", "Block") / "_SUCCESS").unlink()
    with pytest.raises(OutputError, match="no estimates of Block"):
        tabulate_run(copied.path)
    manifest = json.loads(copied.manifest.read_text())
    plain = product_data(replace(PRODUCTS[manifest["product"]], name="plain", tables=()))
    config = {**manifest["config"], "run": {**manifest["config"]["run"], "product": "plain"}, "product": plain}
    config["output"] = {**config["output"], "tables": []}
    copied.manifest.write_text(json.dumps({**manifest, "product": "plain", "config": config}))
    with pytest.raises(ConfigurationError, match="no tables"):
        tabulate_run(copied.path)
    assert main(["tabulate", str(copied.path)]) == 2
    assert main(["tabulate", str(copied.path / "nowhere")]) == 1
    assert "not a run folder" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_a_clear_error(copied, spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is there already"):
        tabulate_run(copied.path, tmp_path / "file", spark)
    with pytest.raises(OutputError, match="cannot be written"):
        tabulate_run(copied.path, tmp_path / "file" / "tables", spark)


def of_somebody_else(copied: PublicLayout, table: str, title: str = "A village") -> Path:
    """The folder of a run whose manifest defines its product, with a table of some name."""
    manifest = json.loads(copied.manifest.read_text())
    product = product_data(replace(PRODUCTS[manifest["product"]], name="village", title=title))
    product["tables"][0]["name"] = table
    config = {**manifest["config"], "run": {**manifest["config"]["run"], "product": "village"}, "product": product}
    copied.manifest.write_text(json.dumps({**manifest, "product": "village", "config": config}))
    return copied.path


@pytest.mark.parametrize("command", ["tabulate", "estimate"])
@pytest.mark.parametrize("name", ["../../outside/x", "{outside}/x", "..", "a\nb", "latest"])
def test_a_folder_of_somebody_else_has_nothing_written_elsewhere(copied, tmp_path, command, name, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = of_somebody_else(copied, name.format(outside=outside))
    before = stamps(tmp_path)
    more = ["--set", f"output.root={tmp_path / 'runs'}"] if command == "estimate" else []
    assert main([command, str(folder), *more]) == 2
    assert "is no name" in capsys.readouterr().err or name == "latest"
    assert stamps(tmp_path) == before


def test_a_title_of_somebody_else_is_one_line(copied):
    folder = of_somebody_else(copied, "P1")
    manifest = json.loads(copied.manifest.read_text())
    manifest["config"]["product"]["title"] = "A village\n## The claim\n\nepsilon = 0.01\n<!--"
    copied.manifest.write_text(json.dumps(manifest))
    with pytest.raises(ConfigurationError, match=r"title .* has the character U\+000A"):
        tabulate_run(folder)


@pytest.mark.parametrize("place", ["tables", "tables/P1.parquet", "tables/P1.csv/level=Tract"])
def test_no_link_in_a_folder_of_somebody_else_is_followed(copied, spark, tmp_path, place):
    outside = tmp_path / "outside"
    shutil.move(copied.path / place, outside)
    (copied.path / place).symlink_to(outside)
    before = stamps(outside)
    with pytest.raises(OutputError, match="symbolic link"):
        tabulate_run(copied.path, spark=spark)
    assert stamps(outside) == before
