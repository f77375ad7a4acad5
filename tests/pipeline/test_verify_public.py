"""The verifier that imports nothing of das_spark finds planted faults, though all digests fit them.

Every fault names the rules that answer for it; others may fail, too.
"""

from __future__ import annotations

import ast
import hashlib
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
from eight_blocks import LEVELS, write_run_file

from das_spark.cli.main import main
from das_spark.store import PublicLayout, PublicManifest, RunLayout, public_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

PROGRAM = Path(__file__).parents[2] / "jobs" / "verify_public.py"


def made(folder: Path, *settings: str) -> PublicLayout:
    """Make a run of eight blocks with tables and both forms of microdata."""
    conf = write_run_file(folder, "40")
    formats = ["--set", 'output.microdata=["parquet","text"]']
    sets = [text for setting in settings for text in ("--set", setting)]
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open", *formats, *sets]) == 0
    return RunLayout.at(conf.parent / "runs", "whole").public


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark) -> PublicLayout:
    """A run whose only exact total is that of the county. Nobody may change it."""
    return made(tmp_path_factory.mktemp("outsider"))


@pytest.fixture(scope="module")
def flowing(tmp_path_factory, spark) -> PublicLayout:
    """A run with exact totals of tracts, hence with flows from them to the county. Nobody may change it."""
    return made(tmp_path_factory.mktemp("flowing"), "invariants.total_at=Tract")


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
    """Make all digests anew, so that the content alone is wrong."""
    manifest = PublicManifest.load(public.manifest)
    replace(manifest, files=public_files(public)).save(public.manifest)


def digests(public: PublicLayout) -> dict[str, str]:
    """Digest all files, the manifest included."""
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in public.path.rglob("*") if file.is_file()
    }


def in_table(table: str, level: str, change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[PublicLayout], None]:
    """Change the rows of a level of a table."""
    return in_parquet(f"{table}/level={level}/*.parquet", change)


def in_parquet(pattern: str, change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[PublicLayout], None]:
    """Change the rows of a Parquet file, the largest one of a pattern."""

    def edit(public: PublicLayout) -> None:
        file = max(public.path.glob(pattern), key=lambda path: path.stat().st_size)
        read = pq.read_table(file, partitioning=None)
        rows = read.to_pylist()
        change(rows)
        types = [pa.list_(kind.value_type) if pa.types.is_list(kind) else kind for kind in read.schema.types]
        nullable = pa.schema(zip(read.schema.names, types, strict=True))
        pq.write_table(pa.Table.from_pylist(rows, nullable), file)

    return edit


def everywhere(*edits: Callable[[PublicLayout], None]) -> Callable[[PublicLayout], None]:
    """Make several edits."""

    def edit(public: PublicLayout) -> None:
        for part in edits:
            part(public)

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


def zero_occupied(rows: list[dict[str, Any]]) -> None:
    """Move somebody into a cell of minors in nursing facilities: class 3 of 8, and the first of its 252 cells."""
    row = next(row for row in rows if row["counts"])
    counts = dict(zip(row["cells"], row["counts"], strict=True))
    first = min(counts)
    counts[first] -= 1
    counts[3 * 252] = counts.get(3 * 252, 0) + 1
    cells = sorted(cell for cell, count in counts.items() if count)
    row.update(cells=cells, counts=[counts[cell] for cell in cells])


def swapped(*names: str) -> Callable[[list[dict[str, Any]]], None]:
    """Swap the values of two columns in all rows."""

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row[names[0]], row[names[1]] = row[names[1]], row[names[0]]

    return change


def header_swapped(lines: list[str]) -> None:
    """Swap the names of two columns of a CSV file."""
    names = lines[0].split(",")
    names[1], names[3] = names[3], names[1]
    lines[0] = ",".join(names)


def more(value: list[int]) -> list[int]:
    """Count one more."""
    return [value[0] + 1, *value[1:]]


def far_off(value: list[int]) -> list[int]:
    """Move all noisy answers farther than noise does."""
    return [answer + 10**6 for answer in value]


#: What is done -> the edit, and the rules that answer for it.
FAULTS: dict[str, tuple[Callable[[PublicLayout], None], set[str]]] = {
    "a geounit stands twice": (
        in_table("geounits", "Tract", lambda rows: rows.append(rows[0])),
        {"numbers of rows", "geounits and their estimates"},
    ),
    "a geounit has another parent": (
        in_table("geounits", "Block", put("parent", "01001000900")),
        {"geounits and their estimates"},
    ),
    "a geounit has more children": (
        in_table("geounits", "Tract", put("children", lambda n: n + 1)),
        {"geounits and their estimates"},
    ),
    "an estimate is missing": (
        in_table("estimates", "Tract", lambda rows: rows.pop()),
        {"numbers of rows", "geounits and their estimates", "children sum to parents in estimates"},
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
        {"numbers of rows", "exact totals"},
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
        {"numbers of rows", "measurements"},
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
        {"constants and numbers of microdata/person.text"},
    ),
    "a unit has another kind": (
        in_text("microdata/unit.text/part-*", field(9, "701")),
        {"units of unit.text"},
    ),
    "a unit has another number": (
        in_text("microdata/unit.text/part-*", field(7, "99999")),
        {"constants and numbers of microdata/unit.text"},
    ),
    "a unit has more people": (
        in_text("microdata/unit.text/part-*", field(12, "98")),
        {"people in units of unit.text"},
    ),
    "a table says more": (
        in_text("tables/P1.csv/level=Tract/part-*", field(3, "12345", ",")),
        {"tables/P1.csv"},
    ),
    "a table has no such geounit": (
        in_text("tables/P3.csv/level=Block/part-*", lambda lines: lines.pop()),
        {"tables/P3.csv"},
    ),
    "a geounit stands in a table twice": (
        in_text("tables/P5.csv/level=Block/part-*", lambda lines: lines.append(lines[-1])),
        {"tables/P5.csv"},
    ),
    "a geounit lies under the other tract": (
        everywhere(
            in_table("geounits", "Block", put("parent", lambda parent: f"01001000{300 - int(parent[-3:]):03d}")),
            in_table("estimates", "Block", put("parent", lambda parent: f"01001000{300 - int(parent[-3:]):03d}")),
        ),
        {"geounits and their estimates"},
    ),
    **{
        f"a geounit of level {level} has one more person": (
            in_table("estimates", level, put("counts", more)),
            {"children sum to parents in estimates"},
        )
        for level in LEVELS
    },
    **{
        f"a noisy answer of level {level} is far off": (
            in_table("measurements", level, put("values", far_off)),
            {"differences of noise"},
        )
        for level in LEVELS
    },
    **{
        f"a table has another value at level {level}": (
            in_text(f"tables/P1.csv/level={level}/part-*", field(3, "12345", ",")),
            {"tables/P1.csv"},
        )
        for level in LEVELS
    },
    "a count is negative": (
        in_table("estimates", "Block", put("counts", lambda n: [-n[0], *n[1:]])),
        {"histograms of estimates"},
    ),
    "a cell is outside the schema": (
        in_table("estimates", "Block", put("cells", lambda cells: [*cells[:-1], 2016])),
        {"histograms of estimates"},
    ),
    "a cell occurs twice": (
        in_table("estimates", "Block", put("cells", lambda cells: [cells[0], cells[0], *cells[2:]])),
        {"histograms of estimates"},
    ),
    "a histogram lacks a count": (
        in_table("estimates", "Block", put("counts", lambda counts: counts[:-1])),
        {"histograms of estimates"},
    ),
    "a count is null": (
        in_table("estimates", "Block", put("counts", lambda counts: [None, *counts[1:]])),
        {"histograms of estimates"},
    ),
    "a histogram is null": (
        in_table("estimates", "Block", lambda rows: rows[0].update(cells=None, counts=None)),
        {"no nulls"},
    ),
    "a parent is null": (in_table("geounits", "Tract", put("parent", None)), {"no nulls"}),
    "a noisy answer is null": (
        in_table("measurements", "Tract", put("values", lambda values: [None, *values[1:]])),
        {"measurements"},
    ),
    "minors live in a nursing facility": (
        everywhere(*(in_table("estimates", level, zero_occupied) for level in LEVELS)),
        {"structural zeros"},
    ),
    "a bound of the total is looser": (
        in_table("bounds", "County", put("upper", more, "total")),
        {"exact totals"},
    ),
    "the bounds of a block are looser": (
        in_table("bounds", "Block", put("upper", more, "class")),
        {"bounds of class sum to parents"},
    ),
    "the bounds of a tract are looser": (
        in_table("bounds", "Tract", put("upper", more, "class")),
        {"bounds of class sum to parents"},
    ),
    "a bound has an answer more": (
        in_table(
            "bounds", "Block", lambda rows: rows[0].update(lower=[*rows[0]["lower"], 0], upper=[*rows[0]["upper"], 0])
        ),
        {"bounds of class"},
    ),
    "a bound is null": (in_table("bounds", "Block", put("lower", None, "class")), {"no nulls", "bounds of class"}),
    "a person occurs twice": (
        in_text("microdata/person.text/part-*", lambda lines: lines.append(lines[-1])),
        {"records of person.text", "people in units of unit.text", "numbers of rows"},
    ),
    "a field of a person is empty": (
        in_text("microdata/person.text/part-*", field(14, "")),
        {"records of person.text"},
    ),
    "a person is in another unit": (
        in_text("microdata/person.text/part-*", field(7, "0")),
        {"people in units of unit.text"},
    ),
    "columns of people are swapped": (
        in_parquet("microdata/person.parquet/*.parquet", swapped("CENHISP", "CENRACE")),
        {"records of person.parquet"},
    ),
    "a unit is gone": (
        in_text("microdata/unit.text/part-*", lambda lines: lines.pop()),
        {"units of unit.text", "numbers of rows"},
    ),
    "a unit occurs twice": (
        in_text("microdata/unit.text/part-*", lambda lines: lines.append(lines[-1])),
        {"units of unit.text", "constants and numbers of microdata/unit.text"},
    ),
    "a unit is in another block": (
        in_text("microdata/unit.text/part-*", field(6, "9999")),
        {"units of unit.text"},
    ),
    "columns of a table are swapped": (
        in_parquet("tables/P3.parquet/level=County/*.parquet", swapped("P0030001", "P0030003")),
        {"tables/P3.parquet"},
    ),
    "names of columns of a table are swapped": (
        in_text("tables/P3.csv/level=County/part-*", header_swapped),
        {"tables/P3.csv"},
    ),
    "a value of a table is null": (
        in_parquet("tables/P3.parquet/level=County/*.parquet", put("P0030001", None)),
        {"tables/P3.parquet"},
    ),
    "a table has a column more": (
        in_text("tables/P3.csv/level=County/part-*", lambda lines: lines.append(lines[-1].rstrip() + ",1\n")),
        {"tables/P3.csv"},
    ),
    "the ledger counted less": (
        in_manifest(lambda content: content["ledger"].update(total="1")),
        {"budget is what the ledger counted"},
    ),
    "a query spent more": (
        in_manifest(lambda content: content["config"]["budget"]["levels"][0]["queries"].update(detailed="9/10")),
        {"budget is what the ledger counted"},
    ),
    "the manifest counts other rows": (
        in_manifest(lambda content: content["rows"].update({"estimates/Block": 9})),
        {"numbers of rows"},
    ),
}

#: The same, of flows and of totals that several geounits have together.
FLOW_FAULTS: dict[str, tuple[Callable[[PublicLayout], None], set[str]]] = {
    "a flow is too narrow": (
        in_table("bounds", "County", put("upper", lambda high: [0, *high[1:]], "flow")),
        {"bounds of flow"},
    ),
    "a flow has another total": (
        in_table("bounds", "County", put("lower", lambda low: [*low[:-1], low[-1] + 1], "flow")),
        {"bounds of flow"},
    ),
    "a flow is of another geounit": (
        in_table("bounds", "County", put("member", "01001000900", "flow")),
        {"bounds of flow"},
    ),
    "a tract has another total": (
        in_table("invariants", "Tract", put("values", more, "total")),
        {"exact totals"},
    ),
    "a tract has no total": (in_table("invariants", "Tract", lambda rows: rows.pop()), {"exact totals"}),
}


def grouped(public: PublicLayout) -> None:
    """Give both tracts, whose geocodes end with 00, one total together: the area 00."""
    total = None

    def in_invariants(rows: list[dict[str, Any]]) -> None:
        nonlocal total
        total = sum(row["values"][0] for row in rows)
        for row in rows:
            row.update(name="group_total", values=[total])

    def in_bounds(rows: list[dict[str, Any]]) -> None:
        for row in (row for row in rows if row["name"] == "total"):
            row.update(name="group_total", member="00", lower=[total], upper=[total])

    def in_flows(rows: list[dict[str, Any]]) -> None:
        flows = [row for row in rows if row["name"] == "flow"]
        sums = {
            side: [sum(values) for values in zip(*(row[side] for row in flows), strict=True)]
            for side in ("lower", "upper")
        }
        flows[0].update(member="00", **sums)
        rows.remove(flows[1])

    in_table("invariants", "Tract", in_invariants)(public)
    in_table("bounds", "Tract", in_bounds)(public)
    in_table("bounds", "County", in_flows)(public)
    in_manifest(lambda content: content["rows"].update({"bounds/County": content["rows"]["bounds/County"] - 1}))(public)


GROUP_FAULTS: dict[str, tuple[Callable[[PublicLayout], None], set[str]]] = {
    "both parts of an area have one person more": (
        everywhere(
            in_table("invariants", "Tract", lambda rows: [row.update(values=more(row["values"])) for row in rows]),
            in_table(
                "bounds",
                "Tract",
                lambda rows: [
                    row.update(lower=more(row["lower"]), upper=more(row["upper"]))
                    for row in rows
                    if row["name"] == "group_total"
                ],
            ),
        ),
        {"exact totals"},
    ),
    "a part of an area has another total": (
        in_table("invariants", "Tract", put("values", more)),
        {"exact totals"},
    ),
    "a part belongs to another area": (
        in_table("bounds", "Tract", put("member", "01", "group_total")),
        {"exact totals"},
    ),
    "the flow of an area is too narrow": (
        in_table("bounds", "County", put("upper", lambda high: [0, *high[1:]], "flow")),
        {"bounds of flow"},
    ),
}


def test_a_run_passes_and_every_rule_looks_at_something(whole):
    code, verdicts = verified(whole.path)
    assert code == 0
    assert set(verdicts.values()) == {"ok"}
    assert len(verdicts) > 25


def found(public: PublicLayout, edit: Callable[[PublicLayout], None]) -> set[str]:
    """Plant a fault, and return the rules that fail."""
    before = digests(public)
    edit(public)
    assert digests(public) != before, "nothing was planted"
    relisted(public)
    code, verdicts = verified(public.path)
    failing = {rule for rule, verdict in verdicts.items() if verdict == "FAIL"}
    assert code == bool(failing)
    return failing


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_the_rules_that_answer_for_it(copied, name):
    edit, rules = FAULTS[name]
    failing = found(copied, edit)
    assert rules <= failing, failing


def test_flows_and_totals_of_areas_are_judged(flowing, tmp_path):
    code, verdicts = verified(flowing.path)
    assert code == 0
    assert verdicts["bounds of flow"] == "ok"
    shutil.copytree(flowing.path, tmp_path / "public")
    assert not found(PublicLayout(tmp_path / "public"), grouped)
    assert {"bounds of flow", "exact totals"} <= verified(tmp_path / "public")[1].keys()


@pytest.mark.parametrize("name", FLOW_FAULTS)
def test_a_fault_in_flows_is_found(flowing, tmp_path, name):
    public = PublicLayout(shutil.copytree(flowing.path, tmp_path / "public"))
    edit, rules = FLOW_FAULTS[name]
    failing = found(public, edit)
    assert rules <= failing, failing


@pytest.mark.parametrize("name", GROUP_FAULTS)
def test_a_fault_in_totals_of_areas_is_found(flowing, tmp_path, name):
    public = PublicLayout(shutil.copytree(flowing.path, tmp_path / "public"))
    grouped(public)
    edit, rules = GROUP_FAULTS[name]
    failing = found(public, edit)
    assert rules <= failing, failing


@pytest.mark.parametrize("table", ["bounds", "invariants"])
def test_it_is_said_what_is_not_judged(copied, table):
    in_table(table, "Block", lambda rows: rows.append({**rows[0], "name": "mystery"}))(copied)
    in_manifest(lambda content: content["rows"].update({f"{table}/Block": content["rows"][f"{table}/Block"] + 1}))(
        copied
    )
    relisted(copied)
    code, verdicts = verified(copied.path)
    assert code == 0
    assert {rule for rule, verdict in verdicts.items() if verdict == "-"} == {f"{table} of mystery"}


def test_an_older_dictionary_leaves_structural_zeros_and_says_so(copied):
    def older(content: dict[str, Any]) -> None:
        entries = content["data_dictionary"]
        content["data_dictionary"] = [entry for entry in entries if entry["path"] != "(structural_zeros)"]

    in_manifest(older)(copied)
    code, verdicts = verified(copied.path)
    assert code == 0
    assert verdicts["structural zeros"] == "-"


@pytest.mark.parametrize("name", ["../x", "estimates/../../x", "{elsewhere}"])
def test_a_manifest_that_names_a_file_elsewhere_is_refused(copied, name):
    file = copied.path.with_name("x")
    file.write_text("confidential")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    named = {"name": name.format(elsewhere=file), "size": file.stat().st_size, "sha256": digest}
    in_manifest(lambda content: content["files"].append(named))(copied)
    code, verdicts = verified(copied.path)
    assert code == 1
    assert verdicts["files and their digests"] == "FAIL"


def test_a_changed_file_is_found_before_anything_else_is_looked_at(copied):
    in_text("tables/P1.csv/level=Tract/part-*", field(3, "12345", ","))(copied)
    code, verdicts = verified(copied.path)
    assert code == 1
    assert verdicts == {
        "files and their digests": "FAIL",
        "": "files are not those of the manifest: nothing else is verified\n",
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


def test_without_duckdb_it_says_how_to_install_it():
    hidden = f"import runpy, sys; sys.modules['duckdb'] = None; runpy.run_path({str(PROGRAM)!r})"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"DuckDB is not installed; nothing else is needed: {sys.executable} -m pip install duckdb\n"
