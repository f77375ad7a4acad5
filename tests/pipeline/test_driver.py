"""A driver opens and holds the folders of a run, and goes on only where nobody else has made it another run."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from made_runs import SPARK
from pyspark import SparkContext

from das_spark.config import load_plan, plan_to_config
from das_spark.errors import EngineEndedError, EnvironmentProblemError, InputError, OutputError, PrivacyGuardError
from das_spark.pipeline import driver, estimate_from, run_stages, runner
from das_spark.pipeline.driver import driver_attempt
from das_spark.pipeline.progress import Progress
from das_spark.privacy import LedgerEntry, RunKey
from das_spark.process import Ended
from das_spark.spark.executors import TIMEOUT
from das_spark.store import OwnEntry, RunLayout, RunMarker, hold_run, is_held, lock, make_way, open_run, write_durably
from das_spark.telemetry import Event, read_log

ENTRY = SimpleNamespace(insecure=True)


@pytest.fixture(autouse=True)
def no_properties(monkeypatch):
    """The session is made up: nothing can be set in it."""
    monkeypatch.setattr(driver, "fitted", lambda *_, **__: nullcontext())


def run_of(workshop: Any) -> None:
    run_stages(workshop.plan(), run_id="mine", test_key="x", spark=SPARK)


def estimate_of(workshop: Any) -> None:
    def write_tables(_: Any) -> None:
        pytest.fail("at work in another run")

    source = SimpleNamespace(plan=workshop.plan(), entry=ENTRY, check=lambda _: None, write_tables=write_tables)
    estimate_from(source, run_id="mine", spark=SPARK)


@pytest.mark.parametrize("begin", [run_of, estimate_of])
def test_a_driver_whose_run_was_made_another_before_it_held_it_stops(
    dry_workshop, monkeypatch, begin: Callable[[Any], None]
):
    @contextmanager
    def held_late(layout: RunLayout) -> Iterator[None]:
        for marker in (layout.restricted.marker, layout.public.marker):
            write_durably(marker, json.dumps({**json.loads(marker.read_text()), "config_hash": "of others"}))
        with hold_run(layout):
            yield

    monkeypatch.setattr(driver, "hold_run", held_late)
    monkeypatch.setattr(runner, "carry_out", lambda *_: pytest.fail("at work in another run"))
    with pytest.raises(OutputError, match="belongs to another run"):
        begin(dry_workshop)
    assert not is_held(dry_workshop.layout("mine"))


@pytest.mark.parametrize("begin", [run_of, estimate_of])
def test_a_finished_run_whose_confidential_side_was_removed_is_not_begun_again(dry_workshop, begin):
    layout = dry_workshop.layout("mine")
    open_run(layout, dry_workshop.plan().config_hash)
    layout.restricted.removed.write_text('{"removed": "2030-01-01"}')
    with pytest.raises(OutputError, match="removed on 2030-01-01"):
        begin(dry_workshop)


def test_a_session_is_asked_to_protect_what_is_confidential_and_nothing_else(dry_workshop):
    plan, layout = dry_workshop.plan(), dry_workshop.layout("mine")
    progress = Progress(lambda _: None, "mine")
    with driver_attempt(plan, layout, progress, measured_by=ENTRY, spark=SPARK) as context:
        assert context.key is None
        assert context.ledger is None
        assert context.is_insecure
        assert is_held(layout)
    with (
        pytest.raises(PrivacyGuardError, match="does not protect key and confidential data"),
        driver_attempt(plan, layout, progress, key=RunKey.from_system(), spark=SPARK),
    ):
        pytest.fail("at work")
    with driver_attempt(plan, layout, progress, key=RunKey.insecure("x"), spark=SPARK) as context:
        assert context.is_insecure


def test_a_session_of_the_callers_own_serves_for_synthetic_people(tmp_path):
    plan = load_plan("quickstart", settings=[f"output.root={tmp_path}"])
    layout, progress = RunLayout.of(plan.output, "mine"), Progress(lambda _: None, "mine")
    with driver_attempt(plan, layout, progress, key=RunKey.from_system(), spark=SPARK) as context:
        assert not context.is_insecure


@pytest.mark.parametrize("broken", ["ledger", "cap", "path", "input"])
def test_what_the_ledger_forbids_is_found_before_spark_is_started_and_is_not_the_latest_run(
    dry_workshop, monkeypatch, broken
):
    settings = {"cap": "ledger.cap.rho=1/1000", "path": "ledger.path=nowhere"}
    plan, layout = dry_workshop.plan(*filter(None, [settings.get(broken)])), dry_workshop.layout("mine")
    if broken == "ledger":
        dry_workshop.ledger_file.parent.mkdir(parents=True)
        dry_workshop.ledger_file.write_text("no ledger\n")
    if broken == "input":
        dry_workshop.census.rename(dry_workshop.folder / "away")
    monkeypatch.setattr(driver, "session", lambda *_, **__: pytest.fail("Spark was started"))
    error = InputError if broken == "input" else PrivacyGuardError
    with (
        pytest.raises(error) as caught,
        driver_attempt(plan, layout, Progress(lambda _: None, "mine"), key=RunKey.insecure("x")),
    ):
        pytest.fail("at work")
    assert caught.value.exit_code == (1 if broken == "input" else 3)
    assert not (dry_workshop.root / "latest").is_symlink()
    monkeypatch.setattr(driver, "session", lambda *_, **__: SPARK)
    if broken == "ledger":
        dry_workshop.ledger_file.unlink()
    if broken == "input":
        (dry_workshop.folder / "away").rename(dry_workshop.census)
    with driver_attempt(dry_workshop.plan(), layout, Progress(lambda _: None, "mine"), key=RunKey.insecure("x")):
        assert layout.public.marker.is_file(), "mended, the run of this name goes on"
    assert not (dry_workshop.root / "latest").is_symlink(), "it has not measured"


def test_a_wrong_property_is_found_before_any_stage(dry_workshop, monkeypatch):
    plan, layout = dry_workshop.plan(), dry_workshop.layout("mine")
    monkeypatch.setattr(SPARK.sparkContext, "getConf", lambda: {TIMEOUT: "soon"})
    with (
        pytest.raises(EnvironmentProblemError, match=f"{TIMEOUT} is 'soon'"),
        driver_attempt(plan, layout, Progress(lambda _: None, "mine"), measured_by=ENTRY, spark=SPARK),
    ):
        pytest.fail("at work")


ENDS = (Event.RUN_INTERRUPTED, Event.RUN_FAILED)


def raised_over(cause: BaseException, error: Exception) -> None:
    try:
        raise cause
    finally:
        raise error


@pytest.mark.parametrize(
    ("cause", "kind", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), EngineEndedError, {"code": "DAS620", "exit_code": 1}),
        (Ended(signal.SIGTERM), ValueError, {"signal": "SIGTERM"}),
        (KeyboardInterrupt(), ValueError, {"signal": "SIGINT"}),
        (LookupError("x"), ValueError, {"error": "ValueError", "exit_code": 1}),
    ],
    ids=["the JVM ended", "SIGTERM", "Ctrl-C", "another error"],
)
def test_the_log_says_what_ended_the_driver_and_not_what_failed_over_it(dry_workshop, monkeypatch, cause, kind, said):
    ended = subprocess.Popen(["sh", "-c", "kill -KILL $$"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))
    plan, layout = dry_workshop.plan(), dry_workshop.layout("mine")
    with (
        pytest.raises(kind),
        driver_attempt(plan, layout, Progress(lambda _: None, "mine"), key=RunKey.insecure("x"), spark=SPARK),
    ):
        raised_over(cause, ValueError("torn down"))
    (line,) = (line for line in read_log(layout.restricted.log).lines if line["event"] in ENDS)
    assert said.items() <= line.items()
    assert line["event"] == (Event.RUN_INTERRUPTED if "signal" in said else Event.RUN_FAILED)


def test_a_run_that_a_guard_refuses_is_nobodys_last_run(dry_workshop):
    plan, layout, progress = dry_workshop.plan(), dry_workshop.layout("mine"), Progress(lambda _: None, "mine")
    with (
        pytest.raises(PrivacyGuardError, match="does not protect key and confidential data"),
        driver_attempt(plan, layout, progress, key=RunKey.from_system(), spark=SPARK),
    ):
        pytest.fail("at work")
    assert not (dry_workshop.root / "latest").is_symlink()
    (dry_workshop.root / "latest").mkdir()
    with (
        pytest.raises(OutputError, match="latest is not a link"),
        driver_attempt(plan, layout, progress, key=RunKey.insecure("x"), spark=SPARK),
    ):
        pytest.fail("a name that is taken is found when the run has measured")


def enter(workshop: Any, _: ExitStack) -> None:
    entry = LedgerEntry("mine#1", "2030-01-01T00:00:00+00:00", "p", "person", workshop.plan().budget, insecure=True)
    OwnEntry(entry, entered=False).save(workshop.layout("mine").restricted)


def publish(workshop: Any, _: ExitStack) -> None:
    workshop.layout("mine").public.table("geounits").mkdir()


def hold(workshop: Any, stack: ExitStack) -> None:
    stack.enter_context(hold_run(workshop.layout("mine")))


@pytest.mark.parametrize("take", [enter, publish, hold])
@pytest.mark.parametrize("begin", [run_of, estimate_of])
def test_a_run_whose_id_is_taken_is_refused_before_anything_is_tried(dry_workshop, monkeypatch, begin, take):
    layout = dry_workshop.layout("mine")
    open_run(layout, "of others")
    monkeypatch.setattr(driver, "try_stages", lambda *_, **__: pytest.fail("tried for a minute"))
    monkeypatch.setattr(driver, "open_run", lambda *_, **__: pytest.fail("opened"))
    with ExitStack() as stack:
        take(dry_workshop, stack)
        before = sorted(layout.folder.rglob("*"))
        with pytest.raises(OutputError, match=r"belongs to another run|another driver is at work"):
            begin(dry_workshop)
    assert sorted(layout.folder.rglob("*")) == before


@pytest.mark.parametrize("begin", [run_of, estimate_of])
def test_an_id_whose_run_came_to_nothing_is_free(dry_workshop, monkeypatch, begin):
    """The first run has read its input, and failed before it was entered in the ledger."""
    layout, tried = dry_workshop.layout("mine"), []
    open_run(layout, "of others")
    (layout.restricted.path / "leaves").mkdir()
    layout.restricted.log.write_text("{}\n")
    monkeypatch.setattr(driver, "try_stages", lambda *_, **__: tried.append(layout.restricted.path.exists()))
    monkeypatch.setattr(runner, "carry_out", lambda *_: None)
    with suppress(pytest.fail.Exception):  # what writes tables of another run fails the test
        begin(dry_workshop)
    assert tried == [False]
    assert RunMarker.find(layout.restricted.path).config_hash == dry_workshop.plan().config_hash
    assert not (layout.restricted.path / "leaves").exists()
    assert dry_workshop.ledger() == []


def test_of_two_who_take_an_id_at_once_one_begins(dry_workshop, monkeypatch):
    """The other one waited for a lock file that is gone with its run."""
    layout, config = dry_workshop.layout("mine"), plan_to_config(dry_workshop.plan())
    open_run(layout, "of others")
    discarded = []

    @contextmanager
    def held_late(layout: RunLayout, word: str) -> Iterator[None]:
        layout.restricted.lock.write_text("of whoever was quicker")
        yield

    monkeypatch.setattr(lock, "_held", held_late)
    monkeypatch.setattr(lock, "discard", discarded.append)
    assert not make_way(layout, dry_workshop.plan().config_hash, config)
    assert discarded == []
