"""A run carried out stage by stage, each in a call of its own, as schedulers do it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from das_spark.cli.main import main
from das_spark.config import stage_names
from das_spark.errors import ConfigurationError, PrivacyGuardError, VerificationError
from das_spark.features.microdata.feature import Microdata
from das_spark.pipeline import Check, RunSummary, VerificationReport, driver, levels, run_stages, runner
from das_spark.pipeline.run_record import run_record
from das_spark.pipeline.stages import evaluate as evaluate_stage
from das_spark.pipeline.stages import verify as verify_stage
from das_spark.privacy import EntryState
from das_spark.spark.run_tables import LevelTables
from das_spark.store import Journal, RunLayout, read_ledger

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

REPORTED = "evaluation.enabled=true"


def go(workshop: Any, until: str | None, *settings: str, run_id: str = "steps", key: str | None = "s") -> RunSummary:
    plan = workshop.plan(*settings)
    return run_stages(plan, run_id=run_id, test_key=key, spark=workshop.spark, until=until)


@pytest.fixture
def counted(monkeypatch) -> dict[str, int]:
    """How often verification and evaluation really look; both take long and have tests of their own."""
    calls = {"verify": 0, "evaluate": 0}

    def verify(_: object, public: Any, *__: object) -> VerificationReport:
        calls["verify"] += 1
        public.verification.write_text("{}")
        return VerificationReport((Check("left out", "", True, 0),))

    def evaluate(context: Any) -> dict[str, str]:
        calls["evaluate"] += 1
        context.layout.restricted.accuracy_json.write_text("{}")
        context.layout.restricted.accuracy_html.write_text("")
        return {"an error": "7"}

    monkeypatch.setattr(verify_stage, "verify_public", verify)
    monkeypatch.setattr(evaluate_stage, "evaluate_run", evaluate)
    return calls


@pytest.fixture(scope="module")
def stepped(tmp_path_factory, spark, tools) -> Any:
    """A run of which each stage was a call, nothing left out, and what every call said."""
    workshop = tools.Workshop(tmp_path_factory.mktemp("stepped"), spark)
    stages = stage_names(workshop.plan(REPORTED))
    said = [go(workshop, stage, REPORTED, key=tools.TEST_KEY).figures for stage in stages]
    return workshop, stages, said


def test_a_run_in_steps_gives_the_same_bytes_as_its_stages_in_one_go(stepped, reference, tools):
    workshop, _, _ = stepped
    assert tools.level_rows(workshop.layout("steps").public.path) == reference


def test_a_run_in_steps_is_verified_and_evaluated_like_another(stepped):
    layout = stepped[0].layout("steps")
    assert json.loads(layout.public.verification.read_text())["passed"] is True
    assert layout.restricted.accuracy_html.is_file()
    restricted = json.loads(layout.restricted.manifest.read_text())
    assert restricted["accuracy"]
    assert restricted["input_files"]
    stages = json.loads(layout.public.manifest.read_text())["stages"]
    assert [stage["name"] for stage in stages] == ["ingest", *["measure", "estimate"] * 3, "microdata"]


def test_every_call_says_what_is_done_and_what_comes_next(stepped):
    _, stages, said = stepped
    for place, figures in enumerate(said[:-1], start=1):
        assert figures == {"stages done": ", ".join(stages[:place]), "next stage": stages[place]}
    assert said[-1]["verification"].endswith("checks passed")


def test_a_run_in_steps_is_charged_once_and_draws_each_level_once(stepped, tools):
    workshop, _, _ = stepped
    assert len({json.loads(line)["run_id"] for line in workshop.ledger()}) == 1
    assert json.loads(workshop.ledger()[-1])["completed_levels"] == list(tools.LEVELS)
    journal = Journal.of(workshop.context("steps", REPORTED).layout)
    for level in tools.LEVELS:
        assert [str(attempt.state) for attempt in journal.attempts(level)] == ["promoted"]


def test_an_earlier_stage_of_a_finished_run_does_nothing(stepped, tools, monkeypatch):
    workshop, stages, _ = stepped
    layout, ledger = workshop.layout("steps"), workshop.ledger()
    before = written(layout)
    for module, name in (
        (levels, "measurements"),
        (levels, "estimates"),
        (Microdata, "publish"),
        (runner, "publish_statement"),
        (verify_stage, "verify_public"),
    ):
        monkeypatch.setattr(module, name, lambda *_, name=name, **__: pytest.fail(f"{name} was called"))
    for until in ("ingest", "estimate County", "measure Enumdist"):
        figures = go(workshop, until, REPORTED, key=tools.TEST_KEY).figures
        assert figures["next stage"] == stages[stages.index(until) + 1]
    assert written(layout) == before
    assert workshop.ledger() == ledger


def written(layout: RunLayout) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every file but those that say who works on the run, how, and what it has paid."""
    files = (path for path in layout.folder.rglob("*") if path.is_file())
    own = {"run.lock", "ledger_entry.json", "log.jsonl", "run.html"}
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files if path.name not in own}


def test_a_run_whose_levels_are_measured_needs_its_input_no_longer(stepped, tools):
    workshop, stages, _ = stepped
    path = workshop.run_file()
    arguments = ["run", str(path), "--run-id", "steps", "--resume", "--set", REPORTED, "--test-key", tools.TEST_KEY]
    withdrawn = workshop.census.rename(workshop.folder / "withdrawn")
    try:
        assert main([*arguments, "--until", stages[-2]]) == 0
        assert json.loads(workshop.layout("steps").restricted.manifest.read_text())["input_files"]
    finally:
        withdrawn.rename(workshop.census)


def test_a_run_that_stops_before_it_measures_has_spent_nothing(workshop):
    summary = go(workshop, "ingest")
    assert summary.figures["next stage"] == "measure State"
    assert not workshop.layout("steps").public.table("measurements").exists()
    ledger = read_ledger(workshop.ledger_file)
    (entry,) = ledger.entries
    assert (entry.state, entry.total, ledger.attempts) == (EntryState.INVARIANTS, 0, ())
    assert entry.invariants.total_at == "State"
    assert not (workshop.root / "latest").exists()


def test_invariants_stand_in_the_ledger_before_they_are_public(workshop, calm, monkeypatch):
    context = workshop.ingested("steps", calm)
    public = context.layout.public
    for level in (*context.plan.spine.names,):
        shutil.rmtree(public.level("invariants", level))
    promoted, seen = LevelTables.promote_levels, []

    def noting(tables: LevelTables, table: str, *given: Any) -> None:
        if table == "invariants":
            assert not any(public.table("invariants").iterdir())
            seen.append(len(workshop.ledger()))
        promoted(tables, table, *given)

    monkeypatch.setattr(LevelTables, "promote_levels", noting)
    go(workshop, "ingest")
    assert seen == [1]
    assert "invariants alone" in run_record(context.layout).facts["ledger"]


def test_a_measured_level_is_charged_and_the_next_one_is_not_begun(workshop, calm, tools, monkeypatch):
    workshop.ingested("steps", calm)
    go(workshop, "measure State")
    assert (workshop.root / "latest").resolve() == workshop.layout("steps").folder.resolve()
    (workshop.root / "latest").unlink()
    (entry,) = {json.loads(line)["run_id"] for line in workshop.ledger()}
    assert json.loads(workshop.ledger()[-1])["completed_levels"] == ["State"]
    assert not workshop.layout("steps").public.table("estimates").exists()
    monkeypatch.setattr(Journal, "open", lambda *_: pytest.fail("drawn again"))
    go(workshop, "estimate State")
    assert not (workshop.root / "latest").exists(), "it has not measured again"
    assert {json.loads(line)["run_id"] for line in workshop.ledger()} == {entry}


def test_steps_of_a_run_are_all_under_one_kind_of_key(workshop, calm, monkeypatch):
    workshop.ingested("steps", calm)
    go(workshop, "measure State")
    monkeypatch.setattr(driver, "require_safe_session", lambda *_, **__: None)
    with pytest.raises(PrivacyGuardError, match="test key"):
        go(workshop, "estimate State", key=None)


def test_an_unknown_stage_is_refused_before_a_folder_is_made(dry_workshop, monkeypatch):
    monkeypatch.setattr(driver, "session", lambda *_, **__: pytest.fail("Spark was asked for"))
    with pytest.raises(ConfigurationError, match="ingest; measure State"):
        go(dry_workshop, "measure Block")
    assert not dry_workshop.root.exists()


@pytest.fixture
def estimated(workshop, calm, counted) -> Any:
    """A run of which all levels are estimated."""
    workshop.ingested("steps", calm, REPORTED)
    go(workshop, "estimate Enumdist", REPORTED)
    return workshop


def test_what_is_verified_and_evaluated_is_not_done_again(estimated, counted):
    for until in ("verify", "evaluate", "evaluate", None):
        summary = go(estimated, until, REPORTED)
    assert counted == {"verify": 1, "evaluate": 1}
    assert summary.figures["verification"] == "1 checks passed"
    assert summary.restricted == {"an error": "7"}
    assert "an error" not in summary.figures, "figures are printed where others may read them"
    manifest = json.loads(estimated.layout("steps").restricted.manifest.read_text())
    assert manifest["accuracy"] == {"an error": "7"}


@pytest.mark.parametrize(
    ("change", "times"),
    [("other bytes", (1, 1)), ("same bytes", (1, 1)), ("removed", (1, 1)), ("report removed", (2, 1))],
)
def test_what_has_changed_since_is_refused_and_a_report_that_is_missing_made_again(estimated, counted, change, times):
    go(estimated, None, REPORTED)
    public = estimated.layout("steps").public
    if change == "report removed":
        public.verification.unlink()
    else:
        (part, *_) = sorted((public.path / "microdata").rglob("part-*"))
        content = part.read_bytes()
        part.unlink()
        if change != "removed":
            part.write_bytes(content if change == "same bytes" else content[:-1] + b"2")
    if change in ("other bytes", "removed"):
        with pytest.raises(PrivacyGuardError, match="since the run committed it"):
            go(estimated, None, REPORTED)
    else:
        go(estimated, None, REPORTED)
    assert counted == dict(zip(("verify", "evaluate"), times, strict=True))


def test_a_failed_verification_fails_its_own_step_and_is_repeated(estimated, counted, monkeypatch):
    passing = verify_stage.verify_public
    failing = VerificationReport((Check("sums", "State", False, 3, ("01",)),))
    monkeypatch.setattr(verify_stage, "verify_public", lambda *_: failing)
    for until in ("verify", "verify", None):
        with pytest.raises(VerificationError, match="sums State"):
            go(estimated, until, REPORTED)
    monkeypatch.setattr(verify_stage, "verify_public", passing)
    assert go(estimated, None, REPORTED).figures["verification"] == "1 checks passed"
    assert counted["verify"] == 1


def test_manifest_and_statement_are_written_when_all_that_they_tell_of_is_there(estimated):
    public: Path = estimated.layout("steps").public
    go(estimated, "microdata", REPORTED)
    assert not public.manifest.exists()
    assert not public.privacy_statement.exists()
    go(estimated, "verify", REPORTED)
    assert public.manifest.is_file()
    assert public.privacy_statement.is_file()
