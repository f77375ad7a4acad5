"""The verifier that imports nothing of das_spark finds planted faults, though every digest was made anew."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eight_blocks import write_run_file

from das_spark.cli.main import main
from das_spark.store import PublicLayout, PublicManifest, RunLayout, public_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

PROGRAM = Path(__file__).parents[2] / "jobs" / "verify_public.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark) -> PublicLayout:
    """A run with tables and both kinds of microdata, which nobody may change."""
    conf = write_run_file(tmp_path_factory.mktemp("outsider"), "40")
    formats = ["--set", 'output.microdata=["parquet","text"]']
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open", *formats]) == 0
    return RunLayout.at(conf.parent / "runs", "whole").public


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout:
    shutil.copytree(whole.path, tmp_path / "public")
    return PublicLayout(tmp_path / "public")


def verified(run: Path) -> tuple[int, dict[str, str]]:
    """The exit code, and rule -> verdict."""
    done = subprocess.run([sys.executable, PROGRAM, run], check=False, capture_output=True, text=True)
    assert not done.stderr.startswith("Traceback"), done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    return done.returncode, {rest.split(":")[0]: verdict for verdict, rest in lines} | (
        {"": done.stderr} if done.stderr else {}
    )


def relisted(public: PublicLayout) -> None:
    manifest = PublicManifest.load(public.manifest)
    replace(manifest, files=public_files(public)).save(public.manifest)


def in_table(table: str, level: str, change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[PublicLayout], None]:
    """Change the rows of a level of a table."""

    def edit(public: PublicLayout) -> None:
        file = max(public.level(table, level).glob("*.parquet"), key=lambda path: path.stat().st_size)
        read = pq.read_table(file, partitioning=None)
        rows = read.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, read.schema), file)

    return edit


def in_text(pattern: str, change: Callable[[list[str]], Any]) -> Callable[[PublicLayout], None]:
    """Change the lines of a text file, the largest one of a pattern."""

    def edit(public: PublicLayout) -> None:
        file = max(public.path.glob(pattern), key=lambda path: path.stat().st_size)
        lines = file.read_text().splitlines(keepends=True)
        change(lines)
        file.write_text("".join(lines))

    return edit


def in_manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[PublicLayout], None]:
    def edit(public: PublicLayout) -> None:
        content = json.loads(public.manifest.read_text())
        change(content)
        public.manifest.write_text(json.dumps(content))

    return edit


def put(name: str, value: Any, where: str = "") -> Callable[[list[dict[str, Any]]], None]:
    """Give the first row (of a name) another value, which may depend on the one that it has."""

    def change(rows: list[dict[str, Any]]) -> None:
        row = next(row for row in rows if where in ("", row.get("name")) and row.get("cells", [1]))
        row[name] = value(row[name]) if callable(value) else value

    return change


def moved(rows: list[dict[str, Any]]) -> None:
    """One person of the first geounit with people becomes one of the last."""
    first, last = [row for row in rows if row["counts"] and max(row["counts"]) > 1][:: len(rows)] * 2
    last = [row for row in rows if row["counts"]][-1]
    place = first["counts"].index(max(first["counts"]))
    first["counts"][place] -= 1
    last["counts"][0] += 1


def field(number: int, value: str, delimiter: str = "|") -> Callable[[list[str]], None]:
    """Give a field of the last line another value."""

    def change(lines: list[str]) -> None:
        fields = lines[-1].rstrip("\n").split(delimiter)
        assert fields[number] != value
        fields[number] = value
        lines[-1] = delimiter.join(fields) + "\n"

    return change


#: What is done -> the edit, and the rules that find it.
FAULTS: dict[str, tuple[Callable[[PublicLayout], None], set[str]]] = {
    "a geounit stands twice": (
        in_table("geounits", "Tract", lambda rows: rows.append(rows[0])),
        {"rows of geounits", "geounits of the spine", "an estimate for each geounit"},
    ),
    "a geounit has another parent": (
        in_table("geounits", "Block", put("parent", "01001000900")),
        {"geounits of the spine", "an estimate for each geounit"},
    ),
    "a geounit has more children": (
        in_table("geounits", "Tract", put("children", lambda n: n + 1)),
        {"geounits of the spine"},
    ),
    "an estimate is missing": (
        in_table("estimates", "Tract", lambda rows: rows.pop()),
        {"rows of estimates", "an estimate for each geounit", "children sum to parents in estimates"},
    ),
    "cells are out of order": (
        in_table("estimates", "Block", put("cells", lambda cells: cells[::-1])),
        {"histograms of estimates", "children sum to parents in estimates"},
    ),
    "a count is 0": (
        in_table("estimates", "Block", put("counts", lambda counts: [0, *counts[1:]])),
        {"histograms of estimates", "children sum to parents in estimates"},
    ),
    "a person is elsewhere": (in_table("estimates", "Block", moved), {"records of person.parquet"}),
    "the total of the top is another one": (
        in_table("invariants", "County", put("values", lambda values: [values[0] + 1], "total")),
        {"exact totals"},
    ),
    "the top has no total": (
        in_table("invariants", "County", lambda rows: rows.pop()),
        {"rows of invariants", "exact totals"},
    ),
    "a block has more units": (
        in_table("invariants", "Block", put("values", lambda values: [values[0] + 1, *values[1:]], "units")),
        {"units of unit.parquet", "units of unit.text"},
    ),
    "a block has more vacant units": (
        in_table("invariants", "Block", put("values", lambda values: [values[0] + 1], "vacant")),
        {"units of unit.parquet", "units of unit.text"},
    ),
    "a bound is too tight": (
        in_table("bounds", "Block", put("upper", lambda upper: [0] * len(upper), "class")),
        {"bounds of class"},
    ),
    "a bound has too few answers": (
        in_table("bounds", "Block", put("lower", lambda lower: [*lower[:-1], 10**9], "class")),
        {"bounds of class"},
    ),
    "a measurement has an answer more": (
        in_table("measurements", "County", put("values", lambda values: [*values, 0])),
        {"measurements"},
    ),
    "a measurement stands twice": (
        in_table("measurements", "County", lambda rows: rows.append(rows[0])),
        {"rows of measurements", "measurements"},
    ),
    "a measurement has no noise": (in_table("measurements", "County", put("variance", 0.0)), {"measurements"}),
    "a measurement of another query": (in_table("measurements", "County", put("query", "sex")), {"measurements"}),
    "all answers are a million": (
        in_table(
            "measurements", "Block", lambda rows: [row.update(values=[10**6] * len(row["values"])) for row in rows]
        ),
        {"differences of noise"},
    ),
    "a person is of another race": (
        in_text("microdata/person.text/part-*", field(14, "63")),
        {"records of person.text"},
    ),
    "a person is on another block": (
        in_text("microdata/person.text/part-*", field(6, "9999")),
        {"records of person.text", "people in units of unit.text"},
    ),
    "a person has another number": (
        in_text("microdata/person.text/part-*", field(8, "77")),
        {"people in units of unit.text"},
    ),
    "a person is gone": (
        in_text("microdata/person.text/part-*", lambda lines: lines.pop()),
        {"records of person.text", "people in units of unit.text"},
    ),
    "a constant is another one": (
        in_text("microdata/person.text/part-*", field(10, "01")),
        {"constants of person.text"},
    ),
    "a unit has another kind": (
        in_text("microdata/unit.text/part-*", field(9, "701")),
        {"units of unit.text"},
    ),
    "a unit has another number": (
        in_text("microdata/unit.text/part-*", field(7, "99999")),
        {"unit_number of unit.text"},
    ),
    "a unit has more people": (
        in_text("microdata/unit.text/part-*", field(12, "98")),
        {"people in units of unit.text"},
    ),
    "a table says more": (
        in_text("tables/P1.csv/level=Tract/part-*", field(3, "12345", ",")),
        {"table P1.csv"},
    ),
    "a table has no such geounit": (
        in_text("tables/P3.csv/level=Block/part-*", lambda lines: lines.pop()),
        {"table P3.csv"},
    ),
    "a geounit stands in a table twice": (
        in_text("tables/P5.csv/level=Block/part-*", lambda lines: lines.append(lines[-1])),
        {"table P5.csv"},
    ),
    "the ledger counted less": (
        in_manifest(lambda content: content["ledger"].update(total="1")),
        {"budget is what the ledger counted"},
    ),
    "a query spent more": (
        in_manifest(lambda content: content["config"]["budget"]["levels"][0]["queries"].update(detailed="9/10")),
        {"budget is what the ledger counted"},
    ),
}


def test_a_run_passes_and_every_rule_looks_at_something(whole):
    code, verdicts = verified(whole.path)
    assert code == 0
    assert set(verdicts.values()) == {"ok"}
    assert len(verdicts) > 30


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_the_rules_that_answer_for_it(copied, name):
    edit, rules = FAULTS[name]
    edit(copied)
    relisted(copied)
    code, verdicts = verified(copied.path)
    failing = {rule for rule, verdict in verdicts.items() if verdict == "FAIL"}
    assert code == 1
    assert rules <= failing, failing


def test_a_changed_file_is_found_before_anything_else_is_looked_at(copied):
    in_text("tables/P1.csv/level=Tract/part-*", field(3, "12345", ","))(copied)
    code, verdicts = verified(copied.path)
    assert code == 1
    assert verdicts == {
        "files and their digests": "FAIL",
        "": "files are not those of the manifest: nothing else is looked at\n",
    }


@pytest.mark.parametrize("harm", ["added", "removed", "link"])
def test_a_file_that_is_added_removed_or_a_link_is_found(copied, harm):
    file = next(copied.path.glob("tables/P1.csv/level=Tract/part-*"))
    if harm == "added":
        shutil.copy(file, file.with_name("part-99999.csv"))
    elif harm == "removed":
        file.unlink()
    else:
        shutil.move(file, copied.path.with_name("elsewhere"))
        file.symlink_to(copied.path.with_name("elsewhere"))
    assert verified(copied.path)[1]["files and their digests"] == "FAIL"


def test_a_name_that_is_more_than_a_name_is_refused(copied):
    def rename(content: dict[str, Any]) -> None:
        content["config"]["budget"]["levels"][0]["geolevel"] = "County' UNION SELECT 1 --"

    in_manifest(rename)(copied)
    code, verdicts = verified(copied.path)
    assert code == 1
    assert "cannot stand in a query" in verdicts[""]


def test_it_is_said_what_is_no_run(tmp_path):
    assert "no manifest.json" in verified(tmp_path)[1][""]


def test_it_imports_nothing_of_das_spark():
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(PROGRAM.read_text()))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"duckdb"}
