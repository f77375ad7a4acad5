"""Every command that prints a result prints it as one JSON document, too, and nothing else on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import das_spark.pipeline
from das_spark.cli import main as door
from das_spark.cli.main import main
from das_spark.evaluation import AccuracyReport, Entry, frequencies_of, sweep_report
from das_spark.io.population_files import simulate
from das_spark.pipeline import SweepSummary
from das_spark.studies import replication

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART = str(CONF / "quickstart.toml")


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the application with the words that call it."""
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, (*before, name))
        else:
            yield (*before, name), found


EVERY = dict(commands(typer.main.get_command(door.app)))


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_the_option(words):
    assert "--json" in [option for parameter in EVERY[words].params for option in parameter.opts]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("json")


@pytest.fixture(scope="module")
def run(place, spark) -> Path:
    """A finished run with all noisy answers."""
    settings = ["--set", "measurement.rows=all", "--set", f"output.root={place / 'runs'}"]
    assert main(["run", QUICKSTART, "--test-key", "k", "--run-id", "first", *settings]) == 0
    return place / "runs" / "first"


@pytest.fixture
def printed(capsys) -> Callable[..., dict[str, Any]]:
    """What a command prints on standard output, which is one document."""

    def call(*words: str | Path, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return call


def test_before_a_run(printed, place):
    written = printed("init", place / "my.toml", "--product", "e2e_2018", "--reader", "simulated")
    assert (written["path"], written["reader"]) == (str(place / "my.toml"), "simulated")
    checked = printed("check", QUICKSTART)
    assert checked["problems"] == []
    assert checked["runs"][0]["total"] == "2"
    assert printed("plan", QUICKSTART)["total"] == "2"
    assert printed("plan", "stages", QUICKSTART)[0] == "ingest"
    assert printed("plan", "show", QUICKSTART) == printed("plan", QUICKSTART)
    assert printed("plan", "compare", QUICKSTART, QUICKSTART)["only_in"] == [[], []]
    assert printed("plan", "resources", QUICKSTART, "--records", "8087")["records"] == 8087
    assert printed("budget", "total", CONF / "pl94_2020_person.toml", "--epsilon", "5")["epsilon"] == "5"
    counts = ("Local_Authority=4", "MSOA=12", "LSOA=48", "Output_Area=240")
    geounits = [word for count in counts for word in ("--geounits", count)]
    assert printed("plan", "width", CONF / "england_and_wales_like.toml", "--wider-than", "9", *geounits)["tables"]
    target = ("--target", "total@Output_Area:sd<=5")
    suggested = printed("budget", "suggest", CONF / "england_and_wales_like.toml", *target, *geounits)
    assert suggested["targets"][0]["geolevel"] == "Output_Area"
    for kind in ("products", "strategies", "readers", "writers", "solvers", "configurations"):
        (rows,) = printed("list", kind).values()
        assert rows[0].keys() >= {"name"} or kind == "strategies"
    assert printed("product", "new", place / "mine.toml")["path"] == str(place / "mine.toml")
    assert printed("product", "check", place / "mine.toml")["problems"] == []
    assert printed("product", "show", "e2e_1940")["name"] == "e2e_1940"
    assert printed("input", "list", QUICKSTART) == []  # a synthetic population has no files
    made = printed("simulate", "--like", "1940", "--share", "1/100000", "--out", place / "people")
    assert made["persons"] > 0
    assert made["files"]


@pytest.mark.spark
def test_of_the_machine(printed, spark):
    found = printed("doctor")
    assert found["passed"]
    assert {row["what"] for row in found["findings"]} >= {"python", "java", "pyspark"}


@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.whole_run
@pytest.mark.slow
def test_a_run_and_what_is_made_of_it(printed, run, place):
    again = printed("run", QUICKSTART, "--run-id", "first", "--test-key", "k", *_settings(run))
    assert (again["run_id"], again["finished"]) == ("first", True)
    assert Path(again["paths"]["manifest"]).is_file()
    assert printed("verify", run)["passed"]
    assert printed("show", run)["run_id"] == "first"
    assert printed("show", run, "--restricted")["stages"]
    assert printed("show", run, "--page", place / "page.html")["restricted"]
    assert {row["what"] for row in printed("show", run, "--retention")["confidential"]} >= {"histograms"}
    assert printed("tabulate", run, "--out", place / "tables")["rows"]["P1.csv"] > 0
    published = printed("measurements", run, "--out", place / "measurements")
    assert len(published["sha256"]) == 64
    assert published["notices"]
    estimated = printed("estimate", run, "--run-id", "second", "--output", run.parent)
    assert estimated["insecure"]
    assert printed("tidy", run)["orphans"] == []
    assert printed("evaluate", run)["product"] == "e2e_2018"
    assert printed("evaluate", run, run.parent / "second", "--compare", "--truth", run)["lines"]


def _settings(run: Path) -> list[str]:
    return ["--set", "measurement.rows=all", "--set", f"output.root={run.parent}"]


@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.whole_run
@pytest.mark.slow
def test_intervals(printed, run, place):
    assert printed("interval", run, "--table", "P1", "--out", place / "intervals")["rows"]
    blocks = das_spark.open_run(run).estimates("Block").pandas()["geocode"].unique()
    areas = place / "areas.csv"
    areas.write_text("geocode,area\n" + "".join(f"{code},north\n" for code in blocks[:3]))
    found = printed("interval", run, "--table", "P1", "--areas", areas)
    assert {interval["area"] for interval in found["intervals"]} == {"north"}
    assert printed("interval", run, "--table", "P1", "--areas", areas, "--out", place / "areas-out.csv")["rows"] > 1


@pytest.mark.slow
def test_attacks(printed, run):
    assert printed("attack", run, "--only", "linkage")["linkage"]["rows"]


def test_audits(printed):
    small = ["--runs", "4", "--draws", "50", "--stage", "measurement", "--test-key", "k"]
    assert printed("audit", QUICKSTART, *small)["convicts"] is False


@pytest.mark.spark
@pytest.mark.slow
def test_spines(printed, place, spark):
    simulate(place / "cef", "2020", Fraction(1, 20_000), "cef")
    geography = ["--geography", place / "cef" / "geography.txt", "--reader", "grfc"]
    shares = ["--product", "pl94_2020_person", "--strategy", "us", "--spine", "census"]
    assert printed("spine", "build", *geography, *shares, "--out", place / "spine")["kind"] == "census"
    assert printed("spine", "report", place / "spine", *geography, "--category", "place")["kind"] == "census"


def test_sweeps(printed, place, monkeypatch):
    report = sweep_report({Fraction(1, 4): [_accuracy()]}, None, "epsilon")
    made = SweepSummary((), report, {"page": place / "sweep.html"}, insecure=False)
    monkeypatch.setattr(das_spark.pipeline, "run_sweep", lambda *_, **__: made)
    found = printed("sweep", QUICKSTART, "--epsilon", "1/4", "--out", place / "sweep")
    assert (found["cost"], found["runs"][0]["total"], found["curve"][0]["place"]) == ("1/4", "1/4", "County")


def _accuracy() -> AccuracyReport:
    import numpy as np

    return AccuracyReport("e2e_2018", ("a",), (Entry("County", "total", frequencies_of(np.arange(-5, 6))),))


@pytest.mark.slow
def test_experiments(printed, monkeypatch, place):
    small = ["--persons", "2000", "--levels", "2", "--replicates", "2"]
    assert printed("experiment", "flaxman", *small)
    assert printed("experiment", "epl-appendix", "--epsilon", "0.25", "--replicates", "2")
    assert printed("experiment", "occupancy", "--states", "1", "--counties", "3")
    monkeypatch.setattr(replication, "replicate", lambda _: SimpleNamespace(report=_no_report, to_json=lambda: "{}\n"))
    assert printed("experiment", "replication", place) == {}


def _no_report(*, drawn: bool) -> SimpleNamespace:
    assert not drawn
    return SimpleNamespace()


@pytest.mark.parametrize("command", ["run", "estimate"])
def test_one_document_and_events_are_not_printed_at_once(command, capsys, tmp_path):
    what = QUICKSTART if command == "run" else str(tmp_path)
    assert main([command, what, "--json", "--log-format", "json"]) == 2
    assert "take one" in capsys.readouterr().err


def test_what_is_wrong_leaves_standard_output_empty(capsys):
    assert main(["check", QUICKSTART, "--json", "--set", "run.product=x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "unknown product" in captured.err


def test_the_tests_here_call_every_command():
    text = Path(__file__).read_text(encoding="utf-8")
    called = {words for words in EVERY if 'printed("' + '", "'.join(words) + '"' in text}
    assert called == set(EVERY)
