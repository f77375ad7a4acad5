"""Persons and housing units of a synthetic state in one run: one ledger, one statement, the whole system of 2020."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow.parquet as pq
import pytest
import servers
from pyarrow import csv

from das_spark.cli.main import main
from das_spark.config import JointPlan, load_parts, stage_names
from das_spark.errors import OutputError
from das_spark.features.microdata.feature import Microdata
from das_spark.features.tables.feature import Tables
from das_spark.pipeline import (
    estimate_from,
    joint,
    joint_release,
    levels,
    open_source,
    publish_measurements,
    run_parts,
    runner,
    verify_run,
)
from das_spark.pipeline.stages import verify
from das_spark.pipeline.verified_joint import CONTRADICTIONS, NAMES, TEXTS, joint_report
from das_spark.places import place_of
from das_spark.privacy import Ledger
from das_spark.store import JointLayout, find_run, open_public

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]

CONF = Path(__file__).parents[2] / "conf" / "pl94_2020.toml"
KEY = "an open secret"
#: SHA-256 of all noisy answers of a part, as text: exact integers from a test key, the same on every machine.
GOLDEN = {
    "person": "36c53af543f6838410f448a51cc8ecb6ec721001e8ea6fee24d142920b9dd128",
    "unit": "0f5b9e6cb43715fbfe2d6881a6c5c106973fc446ed91c6797c741a2b933c1acc",
}


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Path:
    """Some 20,000 people of a synthetic state, as CEF records."""
    place = tmp_path_factory.mktemp("joint") / "population"
    asked = ["--like", "2020-state", "--share", "1/500", "--layout", "cef", "--out", str(place)]
    assert main(["simulate", *asked]) == 0
    return place


def settings(population: Path, root: Path) -> list[str]:
    return [
        "input.reader=cef_2020",
        'privacy.acknowledge=["unit_conflicts_from_people"]',
        f"input.path={population}",
        f"output.root={root}",
        "budget.strategy=state",
        "measurement.rows=all",
        "evaluation.enabled=false",
    ]


def plan_in(population: Path, root: Path) -> JointPlan:
    return load_parts(CONF, settings=settings(population, root))


@pytest.fixture(scope="module")
def whole(population, tmp_path_factory, spark) -> Path:
    """A joint run by the command; the folder of its runs."""
    root = tmp_path_factory.mktemp("whole")
    given = [part for setting in settings(population, root) for part in ("--set", setting)]
    assert main(["run", str(CONF), "--run-id", "both", "--test-key", KEY, *given]) == 0
    return root


def answers(public: Path) -> str:
    """Digest of every noisy answer, by geocode and query."""
    rows = []
    for file in sorted((public / "measurements").rglob("part-*.parquet")):
        level = file.parent.name
        read = pq.ParquetFile(file).read(columns=["geocode", "query", "values"]).to_pylist()
        rows += [f"{level} {row['geocode']} {row['query']} {row['values']}" for row in read]
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


def estimates(public: Path) -> dict[str, list[tuple[str, tuple[int, ...], tuple[int, ...]]]]:
    found = {}
    for folder in sorted((public / "estimates").glob("level=*")):
        rows = [row for file in folder.glob("part-*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
        found[folder.name] = sorted((row["geocode"], tuple(row["cells"]), tuple(row["counts"])) for row in rows)
    return found


def test_both_parts_are_verified_and_their_noise_is_golden(whole):
    for record, golden in GOLDEN.items():
        public = whole / f"both-{record}" / "public"
        report = json.loads((public / "verification.json").read_text())
        assert report["passed"] is True
        manifest = json.loads((public / "manifest.json").read_text())
        families = [status for level in manifest["solver_status"].values() for status in level]
        assert families
        assert all(status.split()[0] in {"optimal", "only_child"} for status in families), families
        assert answers(public) == golden


def test_the_joint_statement_and_ledger_sum_up_both(whole):
    record = json.loads((whole / "both" / "privacy_ledger.json").read_text())
    assert [part["product"] for part in record["parts"]] == ["pl94_2020_person", "pl94_2020_unit"]
    assert sum(Fraction(part["total"]) for part in record["parts"]) == Fraction(record["together"]["rho"])
    statement = (whole / "both" / "privacy_statement.md").read_text()
    assert "INSECURE" in statement
    assert f"**rho = {record['together']['rho']}**" in statement
    said = "in every Block whose units and people contradict each other, the nearest number of units that its people"
    assert statement.count(said) == 1
    assert statement.index("PUBLISHED NEARLY EXACTLY") < statement.index(said) < statement.index("No claim is made for")
    for part, void in (("person", True), ("unit", False)):
        public = whole / f"both-{part}" / "public"
        of_part = (public / "privacy_statement.md").read_text()
        assert (said in of_part) == ("No claim is made for what" in of_part) == void
        notices = json.loads((public / "manifest.json").read_text())["notices"]
        assert any(said in notice for notice in notices) == void


def test_the_ledger_of_the_input_has_both_runs(whole, population):
    (file,) = whole.glob("ledgers/*")
    assert not list(population.parent.glob("*.jsonl")), "nothing is written beside the input"
    ledger = Ledger.from_json_lines(file.read_text())
    assert sorted(entry.product for entry in ledger.entries) == ["pl94_2020_person", "pl94_2020_unit"]
    assert all(len(entry.completed_levels) == 5 for entry in ledger.entries)


def test_the_tables_count_the_people_of_the_microdata(whole):
    public = whole / "both-person" / "public"
    people: Counter[str] = Counter()
    folder = public / "microdata" / "person.text"
    names = (folder / "1_header").read_text().strip().split("|")
    options = csv.ParseOptions(delimiter="|")
    texts = dict.fromkeys(names, "string")
    for part in sorted(folder.glob("part-*")):
        read = csv.ReadOptions(column_names=names)
        table = csv.read_csv(part, read, options, csv.ConvertOptions(column_types=texts))
        people.update(
            state + county
            for state, county in zip(table["TABBLKST"].to_pylist(), table["TABBLKCOU"].to_pylist(), strict=True)
        )
    found: dict[str, int] = {}
    for file in (public / "tables" / "P1.parquet" / "level=County").glob("part-*.parquet"):
        read_back = pq.ParquetFile(file).read().to_pylist()
        found |= {row["geocode"]: row["P0010001"] for row in read_back}
    assert found
    assert {code: count for code, count in found.items() if count} == dict(people)


def totals(public: Path, table: str, column: str) -> dict[str, int]:
    """Block -> one column of a published table."""
    folder = public / "tables" / f"{table}.parquet" / "level=Block"
    rows = [row for file in folder.glob("part-*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
    return {row["geocode"]: row[column] for row in rows}


def test_people_without_an_occupied_unit_and_the_reverse_are_counted(whole):
    people, units = (whole / f"both-{part}" / "public" for part in ("person", "unit"))
    everybody, quarters = totals(people, "P1", "P0010001"), totals(people, "P5", "P0050001")
    occupied = totals(units, "H1", "H0010002")
    living = {block: everybody[block] - quarters[block] for block in everybody}
    record = json.loads((whole / "both" / "contradictions.json").read_text())
    assert (record["leaf"], record["geounits"]) == ("Block", len(occupied))
    expected = [
        sum(occupied[block] > 0 and not living[block] for block in occupied),
        sum(living[block] > 0 and not occupied[block] for block in occupied),
    ]
    assert list(record["numbers"].values()) == expected
    assert sum(expected)
    statement = (whole / "both" / "privacy_statement.md").read_text()
    for sentence, number in record["numbers"].items():
        assert f"- in {number:,} of {len(occupied):,} geounits of geolevel Block: {sentence}\n" in statement


def test_the_joint_run_is_no_run_and_says_which_are(whole):
    with pytest.raises(OutputError, match="a joint run") as caught:
        find_run(whole / "both")
    assert "both-person" in caught.value.hint
    assert "both-unit" in caught.value.hint


def test_verification_judges_all_parts_and_what_is_said_of_them_together(whole, spark, capsys):
    report = verify_run(whole / "both", spark)
    assert report.passed, report.summary()
    of_parts = {part: json.loads((whole / f"both-{part}/public/verification.json").read_text()) for part in GOLDEN}
    for part, found in of_parts.items():
        names = [check.name for check in report.checks if check.name.startswith(f"{part}: ")]
        assert len(names) >= len(found["checks"])
    (check,) = (check for check in report.checks if check.name == CONTRADICTIONS)
    record = json.loads((whole / "both" / "contradictions.json").read_text())
    assert check.checked == record["geounits"]
    for number in record["numbers"].values():
        assert f"in {number:,} of {record['geounits']:,} geounits" in check.note
    assert main(["verify", str(whole / "both"), "--manifest-sha256", "0" * 64]) == 1
    assert "each of its parts has a manifest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new", "failing"),
    [
        ("contradictions.json", '"geounits": ', '"geounits": 1', CONTRADICTIONS),
        ("privacy_ledger.json", '"rho": "', '"rho": "1', TEXTS),
        ("privacy_statement.md", "rho = ", "rho = 1", TEXTS),
        ("privacy_statement.md", "## All runs on this input", "## No runs\n\n## All runs on this input", TEXTS),
        ("joint.json", '-person"', '-unit"', NAMES),
    ],
)
def test_what_a_joint_run_says_is_written_again_from_its_parts(whole, tmp_path, spark, name, old, new, failing):
    copytree(whole / "both", tmp_path / "both")
    text = (tmp_path / "both" / name).read_text()
    assert old in text
    (tmp_path / "both" / name).write_text(text.replace(old, new, 1))
    publics = {record: open_public(whole / f"both-{record}") for record in GOLDEN}
    layout = JointLayout.find(tmp_path / "both")
    report = joint_report(layout, publics, {}, spark)
    assert {check.name for check in report.failures} == {failing}


@pytest.mark.parametrize("parts", ['{"person": "../elsewhere"}', '["both-person"]', '"both"'])
def test_a_marker_that_leads_elsewhere_is_refused(tmp_path, parts):
    (tmp_path / "joint.json").write_text(f'{{"run_id": "both", "created": "now", "parts": {parts}}}')
    with pytest.raises(OutputError, match="not readable as the marker of a joint run"):
        JointLayout.find(tmp_path).parts()


def test_published_measurements_give_the_same_estimates(whole, tmp_path, spark):
    given = publish_measurements(whole / "both-person", tmp_path / "measurements", spark)
    assert given.rows
    source = open_source(None, given.folder, [f"output.root={tmp_path}"])
    summary = estimate_from(source, run_id="again", spark=spark)
    assert estimates(summary.layout.public.path) == estimates(whole / "both-person" / "public")


@pytest.mark.slow
def test_a_joint_run_lies_at_an_address(whole, population, tmp_path, spark):
    with servers.s3_server(tmp_path) as server, servers.reached(server.environment, spark):
        address = f"{server.url}/runs"
        plan = load_parts(CONF, settings=[*settings(population, tmp_path), f"output.root={address}"])
        summary = run_parts(plan, run_id="both", test_key=KEY, spark=spark)
        assert str(summary.paths["joint privacy ledger"]) == f"{address}/both/privacy_ledger.json"
        there = place_of(address)
        assert {place.name for place in there.iterdir()} == {
            "both",
            "ledgers",
            *(f"both-{part}" for part in plan.parts),
        }
        assert {place.name for place in (there / "both").iterdir()} == {
            path.name for path in (whole / "both").iterdir()
        }
        for record in plan.parts:
            far = servers.fetched(there / f"both-{record}" / "public", tmp_path / "far" / record)
            on_disk = whole / f"both-{record}" / "public"
            assert answers(far) == answers(on_disk)
            assert estimates(far) == estimates(on_disk)
        report = verify_run(there / "both", spark)
    assert report.passed, report.summary()
    assert CONTRADICTIONS in {check.name for check in report.checks}


def test_a_joint_run_that_dies_in_every_stage_ends_with_the_same_bytes(whole, population, tmp_path, spark, tools):
    plan = plan_in(population, tmp_path)

    def go() -> object:
        return run_parts(plan, run_id="both", test_key=KEY, spark=spark)

    with tools.dying(joint, "read_input", nth=2):
        go()
    (file,) = tmp_path.glob("ledgers/*")
    (entry,) = Ledger.from_json_lines(file.read_text()).entries
    assert not entry.is_charged, "the units were not read, so that nothing may be charged"
    deaths = [(levels, "measure", 2), (levels, "estimate", 1), (levels, "estimate", 3), (Microdata, "publish", 1)]
    deaths += [(Tables, "publish", 1), (runner, "publish_statement", 1), (verify, "verify_public", 1)]
    for place, name, nth in [*deaths, (levels, "measure", 7)]:
        with tools.dying(place, name, nth=nth):
            go()
    with tools.dying(joint_release, "joint_statement", nth=1):
        go()
    assert not (tmp_path / "both" / "privacy_statement.md").exists()
    go()
    assert (tmp_path / "both" / "privacy_statement.md").exists()
    for record in plan.parts:
        again, first = (root / f"both-{record}" / "public" for root in (tmp_path, whole))
        assert answers(again) == answers(first)
        assert estimates(again) == estimates(first)


@pytest.mark.parametrize(
    ("until", "prepared", "carried_out"),
    [
        ("person: ingest", {"person": "ingest"}, {}),
        ("unit: ingest", {"person": "ingest", "unit": "ingest"}, {}),
        ("person: measure State", {"person": "measure State", "unit": "ingest"}, {"person": "measure State"}),
        ("unit: microdata", {"person": "verify", "unit": "microdata"}, {"person": "verify", "unit": "microdata"}),
    ],
)
def test_a_joint_run_stops_after_a_stage_of_a_part(population, tmp_path, monkeypatch, until, prepared, carried_out):
    plan = plan_in(population, tmp_path)
    asked: dict[str, dict[str, str]] = {"read_input": {}, "carry_out": {}}
    charged: list[str] = []

    def noting(name: str) -> Any:
        return lambda record, until: asked[name].update({record: until})

    # A part that is open is only its record here: what is asked of it is noted, and nothing done.
    monkeypatch.setattr(joint, "opened_run", lambda part, *_: nullcontext(part.product.record))
    for name in asked:
        monkeypatch.setattr(joint, name, noting(name))
    monkeypatch.setattr(joint, "charge", charged.append)
    summary = run_parts(plan, run_id="both", test_key=KEY, until=until)
    assert asked == {"read_input": prepared, "carry_out": carried_out}
    assert charged == (["person", "unit"] if carried_out else []), "all parts before any draws"
    stages = stage_names(plan)
    assert summary.figures["next stage"] == stages[stages.index(until) + 1]
    assert not (tmp_path / "both" / "privacy_statement.md").exists()
