"""A sweep of two budgets and two runs each: charged once, drawn once, resumed, evaluated, and bound to its grid."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das_spark.config import SweepPlan, load_sweep, plan_to_config
from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.evaluation import report_from_json
from das_spark.pipeline import run_sweep, sweep, verify_run
from das_spark.pipeline.input_record import fingerprint
from das_spark.pipeline.sweep import SweepSummary, carry_out
from das_spark.privacy import RunKey
from das_spark.store import (
    Journal,
    PublicManifest,
    RestrictedManifest,
    RunLayout,
    SweepLayout,
    SweepRecord,
    open_run,
    read_ledger,
)

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow, pytest.mark.verified]

KEY = "an open secret"
SHARES = ("1/10", "1/2")
#: At which draw the first call dies: the third run, its second level.
DEATH = 2 * 3 + 2


def plan_of(workshop: Any, **change: Any) -> SweepPlan:
    grid = {"epsilon": ["1/2", "16"], "runs": 2, "samples": SHARES, "settings": ["evaluation.enabled=true"]} | change
    return load_sweep(workshop.run_file(), **grid)


class DriverDied(BaseException):
    """Stands for SIGKILL: nothing in the product may catch it."""


@dataclass
class Swept:
    """A sweep that died once and then went on to its end."""

    workshop: Any
    plan: SweepPlan
    layout: SweepLayout
    charged_before: list[int]
    states_at_death: dict[str, str]
    drawn: list[tuple[str, str]]
    summary: SweepSummary

    def run(self, number: int) -> RunLayout:
        return self.summary.runs[number]


@pytest.fixture(scope="module")
def swept(tmp_path_factory, spark, tools) -> Swept:
    workshop = tools.Workshop(tmp_path_factory.mktemp("sweep"), spark)
    plan, layout = plan_of(workshop), SweepLayout(workshop.folder / "sweep")
    drawn: list[tuple[str, str]] = []
    charged: list[int] = []
    opened = Journal.open

    def noting(journal: Journal, geolevel: str, number: int) -> Any:
        drawn.append((journal.folder.parents[1].name, geolevel))
        if len(drawn) == DEATH:
            raise DriverDied
        return opened(journal, geolevel, number)

    def progress(line: str) -> None:
        if "together cost epsilon = 33, exactly" in line:
            charged.append(len(workshop.ledger()))

    def go() -> SweepSummary:
        return run_sweep(plan, layout.path, test_key=KEY, spark=spark, progress=progress)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "open", noting)
        with pytest.raises(DriverDied):
            go()
        states = json.loads(layout.record.read_text())["states"]
        return Swept(workshop, plan, layout, charged, states, drawn, go())


def test_the_cost_of_the_whole_grid_is_said_before_anything_is_charged(swept):
    assert swept.plan.cost == 33
    assert swept.charged_before[0] == 0
    assert len(swept.charged_before) == 2


def test_an_interrupted_sweep_goes_on_without_a_second_draw(swept):
    assert list(swept.states_at_death.values()) == ["finished", "finished", "begun", "waiting"]
    assert set(json.loads(swept.layout.record.read_text())["states"].values()) == {"finished"}
    died = swept.drawn[DEATH - 1]
    assert died == (swept.run(2).run_id, "County")
    ids = [run.run_id for run in swept.plan]
    every = [(name, level) for name in ids for level in ("State", "County", "Enumdist")]
    # The attempt that died was not yet in the journal: nothing was drawn, and its level is opened once more.
    assert swept.drawn[: DEATH - 1] + swept.drawn[DEATH:] == every


def test_the_ledger_has_every_run_once_and_sums_to_the_cost(swept):
    entries = read_ledger(swept.workshop.ledger_file).entries
    assert [entry.run_id.split("#")[0] for entry in entries] == [run.run_id for run in swept.plan]
    assert sum((entry.released for entry in entries), Fraction(0)) == swept.plan.cost
    assert all(entry.insecure for entry in entries)


def test_every_run_has_noise_of_its_own(swept, tools):
    answers = [
        tools.level_rows(run.public.path, ("measurements",))["measurements/Enumdist"] for run in swept.summary.runs
    ]
    for one in range(4):
        for other in range(one):
            same = [a == b for a, b in zip(answers[one], answers[other], strict=True)]
            assert np.mean(same) < 0.5, "one of many noisy vectors may agree by chance, not half of them"


def test_a_run_of_the_sweep_equals_the_same_run_alone(swept, calm, tools):
    run = list(swept.plan)[3]
    key = RunKey.insecure(f"{KEY}/epsilon=16/run=2")
    alone = swept.workshop.ingested("alone", calm, "evaluation.enabled=true", "budget.epsilon=16", key=key)
    tools.all_levels(alone)
    assert tools.level_rows(alone.layout.public.path) == tools.level_rows(swept.run(3).public.path)
    assert run.plan.config_hash == alone.plan.config_hash


def test_a_run_on_taken_over_input_is_verified(swept, spark):
    inodes = [
        {path.stat().st_ino for path in run.restricted.table("histograms").rglob("part-*")}
        for run in swept.summary.runs
    ]
    assert inodes[1:] == inodes[:1] * 3
    verified = verify_run(swept.run(3).folder, spark)
    assert verified.passed, verified.summary()


def rows_of(path: Path) -> list[dict[str, str]]:
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert {row["classification"] for row in rows} == {"RESTRICTED"}
    return rows


def test_the_curve_pools_the_runs_at_a_budget(swept):
    rows = rows_of(swept.layout.curve)
    assert {(row["kind"], row["size"]) for row in rows} == {
        ("release", "1/2"),
        ("release", "16"),
        *(("sample", share) for share in SHARES),
    }
    reports = [report_from_json(run.restricted.accuracy_json.read_text()) for run in swept.summary.runs]
    for row in rows:
        if row["kind"] == "release":
            two = reports[:2] if row["size"] == "1/2" else reports[2:]
            each = [report.entry(row["place"], row["measure"]).frequencies for report in two]
            residuals = np.concatenate([np.repeat(one.values, one.counts) for one in each])
            assert int(row["n"]) == len(residuals)
            assert float(row["median_absolute"]) == np.median(np.abs(residuals))


def test_more_budget_is_more_accurate_and_samples_are_of_the_same_geounits(swept):
    report = swept.summary.report
    for place in ("County", "Enumdist"):
        low, high = report.curve("release", place, "total")
        assert low.figures.mean_absolute > high.figures.mean_absolute
        for sample in report.curve("sample", place, "total"):
            assert sample.figures.n == low.figures.n, "as many samples as runs, of the same geounits"
    assert {line.closest.by_median_absolute for line in report.closest} <= set(map(Fraction, SHARES))


def test_everything_in_the_folder_is_for_its_owner_and_marked(swept):
    assert swept.layout.path.stat().st_mode & 0o777 == 0o700
    files = {path.name: path for path in swept.layout.path.iterdir()}
    assert set(files) == {
        "sweep.json",
        "samples.json",
        "curve.restricted.csv",
        "closest_samples.restricted.csv",
        "sweep.html",
    }
    for path in files.values():
        assert path.stat().st_mode & 0o777 == 0o600, path
        assert "RESTRICTED" in path.read_text(), path
    assert "INSECURE" in files["sweep.html"].read_text()
    assert KEY not in files["sweep.json"].read_text()


def test_a_finished_sweep_starts_no_run_and_gives_the_same_files(swept, monkeypatch):
    before = {path.name: path.read_bytes() for path in swept.layout.path.iterdir()}
    ledger = swept.workshop.ledger()
    monkeypatch.setattr("das_spark.pipeline.sweep.session", lambda *_: pytest.fail("needs no Spark"))
    lines: list[str] = []
    data = swept.layout.path.parent / "numbers"
    summary = run_sweep(swept.plan, swept.layout.path, test_key=KEY, progress=lines.append, data=data)
    assert summary.paths["tables and figures (restricted)"] == data
    assert all(path.name.endswith((".restricted.csv", ".restricted.parquet")) for path in data.iterdir())
    assert any(path.name.startswith("figure_") for path in data.iterdir())
    assert {path.name: path.read_bytes() for path in swept.layout.path.iterdir()} == before
    assert swept.workshop.ledger() == ledger
    assert lines[-1] == "4 of 4 are finished and are not run again"


def test_a_run_that_did_not_evaluate_itself_is_evaluated_by_the_sweep(swept, spark):
    before = swept.layout.curve.read_bytes()
    swept.run(1).restricted.accuracy_json.rename(swept.run(1).restricted.path / "away.json")
    run_sweep(swept.plan, swept.layout.path, test_key=KEY, spark=spark)
    (swept.run(1).restricted.path / "away.json").rename(swept.run(1).restricted.accuracy_json)
    assert swept.layout.curve.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "key", "differing"),
    [
        ({"epsilon": ["1/2", "8"]}, KEY, r'totals \(\["1/2", "16"\], and \["1/2", "8"\]\)'),
        ({"runs": 3}, KEY, r"runs \(2, and 3\)"),
        (
            {"settings": ["evaluation.enabled=true", "estimation.rounding=released"]},
            KEY,
            r"config\.estimation\.rounding",
        ),
        ({}, "another secret", r"key \("),
        ({}, None, r"key \("),
    ],
    ids=["budgets", "runs", "configuration", "key", "real key"],
)
def test_the_folder_of_another_sweep_is_refused_with_the_difference(swept, change, key, differing):
    ledger = swept.workshop.ledger()
    with pytest.raises(OutputError, match=f"another sweep; what differs is .*{differing}"):
        carry_out(plan_of(swept.workshop, **change), swept.layout, session=no_session, test_key=key)
    assert swept.workshop.ledger() == ledger


def test_another_input_is_refused(swept):
    units = swept.workshop.census / "units.parquet"
    before = units.read_bytes()
    units.write_bytes(before + b" ")
    try:
        with pytest.raises(OutputError, match=r"what differs is input"):
            carry_out(swept.plan, swept.layout, session=no_session, test_key=KEY)
    finally:
        units.write_bytes(before)


def test_a_run_that_fails_stops_the_sweep_and_says_how_to_go_on(dry_workshop, monkeypatch):
    plan, layout = plan_of(dry_workshop), SweepLayout(dry_workshop.folder / "sweep")
    begun: list[str] = []

    def failing(_: Any, *, run_id: str, **__: Any) -> None:
        begun.append(run_id)
        raise InputError("the unit file ends in the middle of a line", hint="fetch it again")

    monkeypatch.setattr(sweep, "run_stages", failing)
    with pytest.raises(InputError, match="stopped at run tiny-epsilon-1_2-run-1: the unit file ends") as caught:
        carry_out(plan, layout, session=lambda: None)
    assert caught.value.hint == "fetch it again; the same command goes on with this run"
    assert begun == ["tiny-epsilon-1_2-run-1"]
    assert list(json.loads(layout.record.read_text())["states"].values()) == ["begun", *["waiting"] * 3]


def test_settings_that_vary_are_run_apart_and_share_neither_noise_nor_ingested_input(dry_workshop, monkeypatch):
    vary = ["estimation.rounding=nearest,released"]
    plan, layout = plan_of(dry_workshop, vary=vary), SweepLayout(dry_workshop.folder / "varied")
    made: dict[str, tuple[str | None, str | None]] = {}

    def running(_: Any, *, run_id: str, test_key: str, options: Any, **__: Any) -> None:
        made[run_id] = (test_key, None if options.ingested_by is None else options.ingested_by.run_id)

    monkeypatch.setattr(sweep, "run_stages", running)
    monkeypatch.setattr(sweep, "holds_input", lambda where, _: where.run_id in made)
    lines: list[str] = []
    carry_out(plan, layout, session=lambda: None, test_key=KEY, progress=lines.append)
    runs = list(plan)
    assert list(made) == [run.run_id for run in runs]
    assert len({key for key, _ in made.values()}) == len(runs) == 2 * 2 * 2
    first = {run.point.variant: run.run_id for run in reversed(runs)}
    for run in runs:
        source = made[run.run_id][1]
        assert source == (None if run.run_id == first[run.point.variant] else first[run.point.variant])
    assert lines[1:3] == ["  under rounding nearest", "  under rounding released"]
    assert "together cost epsilon = 66, exactly" in lines[3]
    record = SweepRecord.load(layout.record)
    assert record.variants == {f"rounding {each}": [f"estimation.rounding={each}"] for each in ("nearest", "released")}
    other = plan_of(dry_workshop, vary=["measurement.rows=all,support"])
    with pytest.raises(OutputError, match=r"another sweep; what differs is"):
        carry_out(other, layout, session=no_session, test_key=KEY)


def test_a_record_of_a_sweep_from_before_settings_could_vary_is_read(tmp_path, dry_workshop, monkeypatch):
    plan, layout = plan_of(dry_workshop), SweepLayout(tmp_path / "old")
    monkeypatch.setattr(sweep, "run_stages", lambda *_, **__: None)
    carry_out(plan, layout, session=lambda: None, test_key=KEY)
    content = json.loads(layout.record.read_text())
    assert content.pop("variants") == {}
    layout.record.write_text(json.dumps(content))
    assert SweepRecord.load(layout.record).variants == {}


def test_ids_of_runs_that_came_to_nothing_are_free_for_all_runs_of_a_grid(dry_workshop):
    plan, lines = plan_of(dry_workshop), list[str]()
    runs = [run.run_id for run in plan]
    for run in runs:
        open_run(RunLayout.at(plan.base.output.root, run), "0" * 64, {"estimation": "another"})
    with pytest.raises(pytest.fail.Exception, match="nothing is run"):
        carry_out(
            plan,
            SweepLayout(dry_workshop.folder / "sweep"),
            session=no_session,
            test_key=KEY,
            progress=lines.append,
        )
    removed = [line.split(":")[0] for line in lines if line.endswith("which was never charged, is removed")]
    assert removed == [f"run {run}" for run in runs]


def finished_by_hand(run: Any, identity: str, *, insecure: bool = False) -> RunLayout:
    """What a finished run leaves that says so."""
    layout = RunLayout.at(run.plan.output.root, run.run_id)
    config, digest = plan_to_config(run.plan), run.plan.config_hash
    open_run(layout, digest, config)
    PublicManifest(run.run_id, "then", config=config, config_hash=digest, ledger={"insecure": insecure}).save(
        layout.public.manifest
    )
    RestrictedManifest(run.run_id, "then").save(layout.restricted.manifest)
    layout.restricted.input_record.write_text(json.dumps({"identity": identity}))
    layout.public.verification.write_text('{"passed": true, "checks": []}')
    return layout


def test_finished_runs_under_a_real_key_serve_another_folder_if_all_is_the_same(dry_workshop, monkeypatch):
    plan = plan_of(dry_workshop)
    identity, _ = fingerprint(plan.base.input)
    for run in plan:
        finished_by_hand(run, identity)
    layout = SweepLayout(dry_workshop.folder / "again")
    assert [each.run_id for each in carry_out(plan, layout, session=no_session)] == [run.run_id for run in plan]
    assert set(json.loads(layout.record.read_text())["states"].values()) == {"finished"}
    first = next(iter(plan))
    finished_by_hand(first, "another")
    with pytest.raises(OutputError, match="made from another input"):
        carry_out(plan, layout, session=no_session)
    finished_by_hand(first, identity, insecure=True)
    with pytest.raises(PrivacyGuardError, match="made under a test key"):
        carry_out(plan, layout, session=no_session)
    finished_by_hand(first, identity)
    other = plan_of(dry_workshop, settings=["estimation.rounding=released"])
    for is_charged in (lambda _: False, lambda _: True):  # runs that are not charged are looked at first
        monkeypatch.setattr(sweep, "is_charged", is_charged)
        with pytest.raises(OutputError, match=r"belongs to another run .*: estimation\.rounding is"):
            carry_out(other, SweepLayout(dry_workshop.folder / "other"), session=no_session)


def test_runs_of_another_sweep_are_not_taken_for_those_of_a_test_key(swept):
    elsewhere = SweepLayout(swept.workshop.folder / "elsewhere")
    with pytest.raises(OutputError, match="nothing says under which key"):
        carry_out(swept.plan, elsewhere, session=no_session, test_key=KEY)


def no_session() -> Any:
    pytest.fail("nothing is run")
