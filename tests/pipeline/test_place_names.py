"""Tables with the names of geounits: what a run publishes of them, resuming, and planted faults."""

from __future__ import annotations

import csv
import io
import re
import shutil
from pathlib import Path

import pytest
from eight_blocks import BLOCKS, EMPTY, write_run_file

from das_spark import open_run
from das_spark.cli.main import main
from das_spark.features.place_names.tables import named_layout
from das_spark.pipeline import verify_run
from das_spark.store import PublicLayout, RunLayout

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

TRACTS = [BLOCKS[0][:11], BLOCKS[-1][:11]]
NAMES = {TRACTS[0]: 'Old "Mill", west', TRACTS[1]: "Doña Ana \\ north"}
MORE = """
[output.place_names]
path = "{path}"
tables = ["P1", "P5"]
geolevels = ["Tract", "Block"]
"""


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("place_names")
    with (folder / "names.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [("Tract", *each) for each in NAMES.items()] + [
            ("Block", BLOCKS[2], "Mill Street"),
            ("County", "1", "x"),
        ]
        csv.writer(file).writerows([("geolevel", "geocode", "name"), *rows])
    return write_run_file(folder, "4", MORE.format(path=folder / "names.csv"))


@pytest.fixture(scope="module")
def whole(conf, spark) -> RunLayout:
    """A whole run with names, which nobody may change."""
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open"]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout[Path]:
    shutil.copytree(whole.public.path, tmp_path / "public")
    return PublicLayout(tmp_path / "public")


def rows_of(public: PublicLayout[Path], table: str, level: str) -> list[dict[str, str]]:
    file = named_layout(public).level(table, "csv", level) / "part-00000.csv"
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline="")))


def test_one_file_of_a_geolevel_has_the_counts_of_the_table_and_names(whole):
    run = open_run(whole.root / "whole")
    for table in ("P1", "P5"):
        for level in ("Tract", "Block"):
            found = rows_of(whole.public, table, level)
            counts = run.table(table, level).arrow().to_pylist()
            without = [{name: value for name, value in row.items() if name != "name"} for row in found]
            assert without == [{name: str(value) for name, value in row.items()} for row in counts]
    assert {row["geocode"]: row["name"] for row in rows_of(whole.public, "P1", "Tract")} == NAMES
    names = {row["geocode"]: row["name"] for row in rows_of(whole.public, "P5", "Block")}
    assert names == {**dict.fromkeys(BLOCKS, ""), BLOCKS[2]: "Mill Street"}
    assert EMPTY in names
    assert not named_layout(whole.public).level("P1", "csv", "County").exists()


def test_manifest_and_dictionary_tell_of_them_but_not_where_the_names_lay(whole, conf):
    manifest = open_run(whole.root / "whole").manifest
    assert manifest.rows["place_names/P1.csv"] == len(TRACTS) + len(BLOCKS)
    assert manifest.config["output"]["place_names"]["path"] == "names.csv"
    assert str(conf.parent) not in whole.public.manifest.read_text()
    (first, _) = [each for each in manifest.data_dictionary if each["path"].startswith("place_names/")]
    assert [column["name"] for column in first["columns"]][:3] == ["geocode", "name", "P0010001"]


@pytest.mark.parametrize(
    ("table", "level", "pattern", "new", "failing"),
    [
        ("P1", "Tract", rf'(?m)^("{TRACTS[0]}","[^\n]*?",)(\d+)', r"\g<1>1\2", "tables equal estimates"),
        ("P5", "Block", rf'(?m)^"{BLOCKS[0]}".*\n', "", "tables equal estimates"),
        ("P1", "Block", r"geocode,name,P0010001,P0010002", "geocode,name,P0010002,P0010001", "headers of tables"),
        ("P1", "Tract", rf'(?m)^"{TRACTS[0]}".*$', r"\g<0>,7", "tables equal estimates"),
        ("P1", "Tract", rf'(?m)^"{TRACTS[0]}"', f'"{TRACTS[0]}"x', "tables equal estimates"),
        ("P1", "Block", "Mill Street", "Rich Street", "geounits have one name in all tables"),
        ("P1", "Block", rf'(?m)^("{BLOCKS[0]}".*\n)("{BLOCKS[1]}".*\n)', r"\2\1", "rows are in order"),
    ],
)
def test_what_was_changed_fails_the_verification(copied, spark, table, level, pattern, new, failing):
    path = named_layout(copied).level(table, "csv", level) / "part-00000.csv"
    text = path.read_text(encoding="utf-8")
    changed, number = re.subn(pattern, new, text)
    assert number == 1
    path.write_text(changed, encoding="utf-8")
    assert failing in {check.name for check in verify_run(copied.path, spark).failures}


def test_names_that_are_wrong_are_told_of_before_anything_is_spent(conf, tmp_path, capsys):
    (tmp_path / "names.csv").write_text("geolevel,geocode,name\nTract,1,a\nTract,1,b\n")
    more = ["--set", f"output.place_names.path={tmp_path / 'names.csv'}", "--set", f"output.root={tmp_path / 'runs'}"]
    assert main(["run", str(conf), "--run-id", "wrong", "--test-key", "open", *more]) == 1
    said = capsys.readouterr().err
    assert "output.place_names.path" in said
    assert "Tract 1 stands twice" in said
    assert not (tmp_path / "runs" / "wrong" / "public").exists()
