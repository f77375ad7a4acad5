"""Whatever dies while a run is made, its measurements and estimates are the same bytes, and nothing is drawn twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.io import microdata_files as microdata_writer
from das_spark.pipeline import charge as charge_module
from das_spark.pipeline import driver as driver_module
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline import input_record, levels, run_stages, runner
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.levels import LevelJobs
from das_spark.pipeline.stages import verify
from das_spark.spark import run_tables
from das_spark.spark.family_rows import FamilySpread
from das_spark.store import Journal, RunLayout, State, finished
from das_spark.store import commit as files
from das_spark.store import journal as journal_module

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

HERE = Path(__file__).parent
PATIENCE = 240.0


def of_table(table: str) -> Callable[..., bool]:
    """Whether a moved file belongs to a table: `_promote_file(source, target, ...)`."""
    return lambda _, target, *__, **___: table in Path(target).parts[-3:]


def into(table: str) -> Callable[..., bool]:
    """Whether a folder of a table is promoted: `promote(source, target)`."""
    return lambda _, target, *__, **___: table in str(target)


DEATHS = {
    "leaves written, not promoted": (ingest_stage, "replace_folder"),
    "what stood there discarded, no leaves promoted": (files, "promote", "before", 1, into("leaves")),
    "half of the leaves promoted": (files, "_promote_file", "after"),
    "one level of the geounits promoted": (run_tables, "replace_folder", "after"),
    "one level of the histograms promoted": (files, "_promote_file", "after", 1, of_table("histograms")),
    "the bounds written, not promoted": (run_tables, "replace_folder", "before", 1, into("bounds")),
    "a ledger entry made, not entered": (charge_module, "update_ledger"),
    "an attempt opened, nothing drawn": (levels, "measurements"),
    "drawn, not listed": (Journal, "stage"),
    "listed, not promoted": (Journal, "promote"),
    "half of the measurements promoted": (files, "_promote_file", "after"),
    "estimates written, not promoted": (levels, "replace_folder"),
    "diagnostics promoted, estimates not": (levels, "replace_folder", "after"),
    "half of the estimates promoted": (files, "_promote_file", "after", 1, of_table("estimates")),
    "the second level drawn, not listed": (Journal, "stage"),
    "promoted, the journal not told": (journal_module, "promote", "after"),
    "one file of the microdata promoted": (microdata_writer, "promote", "after"),
    "no statement": (runner, "publish_statement"),
    "no verification": (verify, "verify_public"),
}


def test_a_run_whose_driver_dies_at_every_step_ends_with_the_same_bytes(workshop, reference, tools):
    plan, layout = workshop.plan(), workshop.layout("haunted")
    measured: dict[str, str] = {}
    for reason, death in DEATHS.items():
        with tools.dying(*death):
            run_stages(plan, run_id="haunted", test_key=tools.TEST_KEY, spark=workshop.spark)
            pytest.fail(f"the run never came to: {reason}")
        promoted = tools.checksums(layout.public.table("measurements")) if measured_levels(layout) else {}
        assert measured.items() <= promoted.items(), reason
        measured = {name: sha for name, sha in promoted.items() if name.split("/")[0] in measured_levels(layout)}
    run_stages(plan, run_id="haunted", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.level_rows(layout.public.path) == reference
    assert measured == tools.checksums(layout.public.table("measurements"))
    assert len({json.loads(line)["run_id"] for line in workshop.ledger()}) == 1
    assert not list(layout.folder.rglob("*.destroyed"))


def measured_levels(layout: RunLayout) -> set[str]:
    return {folder.name for folder in layout.public.table("measurements").glob("level=*") if finished(folder)}


@pytest.fixture
def believed_safe(monkeypatch):
    """Runs under a real key in the session of the tests, whose properties are those of quick tests."""
    monkeypatch.setattr(levels, "require_safe_session", lambda *_, **__: None)
    monkeypatch.setattr(driver_module, "require_safe_session", lambda *_, **__: None)


@pytest.mark.usefixtures("believed_safe")
def test_under_a_real_key_all_bytes_left_behind_hold_at_most_one_draw(workshop, calm, tools):
    context = workshop.ingested("real", calm)
    plan, layout = context.plan, context.layout
    deaths = [
        (levels, "measurements"),
        (Journal, "stage"),
        (Journal, "stage"),
        (Journal, "promote"),
        (files, "_promote_file", "after"),
        (Journal, "stage"),
    ]
    first: dict[str, str] = {}
    for death in deaths:
        with tools.dying(*death):
            run_stages(plan, run_id="real", spark=workshop.spark)
        assert_one_draw(layout.folder)
        if measured_levels(layout):
            kept = tools.checksums(layout.public.level("measurements", "State"))
            assert not first or kept == first, "a promoted level was drawn again"
            first = kept
    run_stages(plan, run_id="real", spark=workshop.spark)
    assert_one_draw(layout.folder)
    assert tools.checksums(layout.public.level("measurements", "State")) == first
    assert attempts(layout, "State") == ["destroyed"] * 3 + ["promoted"]
    assert attempts(layout, "County") == ["destroyed", "promoted"]
    tombstones = [layout.restricted.staging("measurements", "State", number) for number in (1, 2, 3)]
    assert all(tombstone.is_file() and tombstone.stat().st_size == 0 for tombstone in tombstones)
    assert len({json.loads(line)["run_id"] for line in workshop.ledger()}) == 1


def attempts(layout: RunLayout, level: str) -> list[str]:
    return [str(attempt.state) for attempt in Journal.of(layout).attempts(level)]


def assert_one_draw(*roots: Path) -> None:
    """Every file anywhere with noisy answers of a level belongs to one attempt, and no answer stands there twice."""
    homes: dict[str, set[str]] = {}
    seen: dict[tuple[str, str], str] = {}
    for path in (path for root in roots for path in root.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                continue
        level = next((part for part in path.parts if part.startswith("level=")), "")
        if "measurements" not in path.parts:
            continue
        name, _, attempt = level.removeprefix("level=").partition(".attempt=")
        homes.setdefault(name, set()).add(attempt)
        with suppress(pa.ArrowInvalid):  # cut short while it was written
            for row in pq.ParquetFile(path).read(columns=["geocode", "query"]).to_pylist():
                key = (row["geocode"], row["query"])
                assert key not in seen, f"{path} and {seen[key]} hold draws of one answer"
                seen[key] = str(path)
    for name, found in homes.items():
        assert len(found - {""}) <= 1, f"bytes of several attempts at {name}: {found}"


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_partitions_change_no_byte(workshop, calm, reference, tools, monkeypatch, partitions):
    spread = LevelJobs.spread

    def cut(*given: Any, **chosen: Any) -> FamilySpread:
        found = spread(*given, **chosen)
        return replace(found, partitions=min(found.files, partitions))

    monkeypatch.setattr(LevelJobs, "spread", cut)
    before = workshop.spark.conf.get("spark.sql.shuffle.partitions")
    workshop.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    try:
        # Ingestion is repeated once, in the most pieces.
        context = workshop.context("cut") if partitions == 7 else workshop.ingested("cut", calm)
        tools.all_levels(context)
    finally:
        workshop.spark.conf.set("spark.sql.shuffle.partitions", before)
    assert tools.level_rows(context.layout.public.path) == reference


def environment(folder: Path) -> dict[str, str]:
    """Of a driver in a process of its own: its scratch lies in the test's folder and survives a kill."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "DAS_SPARK_ENV": "test",
        "SPARK_MASTER": "local[2]",
        # Quick to start: these JVMs do not grow old.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
    }


def driver(workshop: Any, run_id: str, *options: str) -> subprocess.Popen[bytes]:
    """`das-spark run` in a process group of its own."""
    command = [sys.executable, "-c", "import sys; from das_spark.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    arguments = ["run", str(workshop.run_file()), "--run-id", run_id, *options]
    log = (workshop.folder / "driver.log").open("ab")
    with log:
        return subprocess.Popen(
            [*command, *arguments],
            env=environment(workshop.folder),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


#: A command whose JVM is killed where it would read the input, as the system does that needs memory.
WITHOUT_MEMORY = """
import os, signal, sys
from pyspark import SparkContext
from das_spark.cli.main import main
from das_spark.pipeline import runner

def read_input(context, until):
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    context.spark.range(3).count()

runner.read_input = read_input
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
def test_a_jvm_that_is_killed_is_said_to_have_ended(workshop):
    command = [sys.executable, "-c", WITHOUT_MEMORY, "run", str(workshop.run_file()), "--test-key", "x"]
    done = subprocess.run(
        [*command, "--run-id", "mine"],
        env=environment(workshop.folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    message = (
        "Spark's JVM, which does the work, has ended (by signal 9, SIGKILL: probably by the system, for want of memory)"
    )
    hint = "see that the machine has memory left, and run the same command again: it goes on with what is finished"
    assert done.stderr.splitlines()[-1] == f"das-spark: error: [DAS620] {message} Hint: {hint} (--run-id mine)"
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    log = workshop.layout("mine").restricted.log.read_text().splitlines()
    (failed,) = (line for line in map(json.loads, log) if line["event"] == "run.failed")
    assert (failed["code"], failed["message"], failed["hint"]) == ("DAS620", message, hint)


def kill_when(process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> None:
    """SIGKILL to driver, JVM and workers as soon as something is seen: the power cut."""
    limit = time.monotonic() + PATIENCE
    try:
        while not seen():
            assert process.poll() is None, "the driver ended before it came to the stage"
            assert time.monotonic() < limit, "the driver never came to the stage"
            time.sleep(0.002)
    finally:
        # Spark's daemons of Python workers lead sessions of their own; they end when the JVM does.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    while any(alive(process.pid)):
        assert time.monotonic() < limit
        time.sleep(0.01)


def alive(group: int) -> Iterator[int]:
    """Processes of a process group, from /proc."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group and fields[0] != "Z":
                yield int(place.name)


@pytest.mark.long
def test_a_driver_killed_in_every_stage_leaves_a_run_that_ends_with_the_same_bytes(workshop, reference, tools):
    layout = workshop.layout("killed")
    restricted, public = layout.restricted, layout.public
    scenes = {
        "ingest": (restricted.path / ".staging").exists,
        "measure": lambda: restricted.staging("measurements", "County", 1).exists(),
        "estimate": lambda: any(public.path.glob(".staging/*/estimates/level=Enumdist")),
        "microdata": lambda: any(public.path.glob(".staging/*/microdata")),
        "verify": lambda: public.manifest.exists() and not public.verification.exists(),
    }
    for scene in scenes.values():
        kill_when(driver(workshop, "killed", "--test-key", tools.TEST_KEY), scene)
        assert not public.verification.exists()
        identity, _ = input_record.fingerprint(workshop.plan().input)
        ingest(workshop.context("killed"), identity)  # resumed here, where no JVM has to be started for it
    assert main(["run", str(workshop.run_file()), "--run-id", "killed", "--test-key", tools.TEST_KEY]) == 0
    assert tools.level_rows(public.path) == reference
    report = json.loads(public.verification.read_text())
    assert report["passed"] is True
    assert attempts(layout, "County") == [str(State.DESTROYED), str(State.PROMOTED)]
    assert attempts(layout, "State") == attempts(layout, "Enumdist") == [str(State.PROMOTED)]


@pytest.mark.long
@pytest.mark.usefixtures("believed_safe")
def test_a_real_key_leaves_one_draw_when_everything_is_killed_while_it_measures(workshop, tools):
    layout = workshop.layout("power-cut")
    staged = layout.restricted.staging("measurements", "Enumdist", 1)
    kill_when(driver(workshop, "power-cut"), lambda: not all(map(is_empty, staged.rglob("part-*"))))
    assert_one_draw(layout.folder, workshop.folder / "local")
    kept = tools.checksums(layout.public.path / "measurements")
    # Files are named by number: only bytes tell of which attempt they are, and of a file without rows nothing does.
    left = {digest for name, digest in tools.checksums(staged).items() if not is_empty(staged / name)}
    assert left
    assert not finished(layout.public.level("measurements", "Enumdist"))
    # Encrypted shuffle files may be left behind, and no geocode can be read in them.
    assert geocodes_in(workshop.folder / "local") == set()
    run_stages(workshop.plan(), run_id="power-cut", spark=workshop.spark)
    assert_one_draw(layout.folder)
    after = tools.checksums(layout.public.path / "measurements")
    assert kept.items() <= after.items()
    assert not left & set(tools.checksums(layout.folder).values())
    assert attempts(layout, "Enumdist") == ["destroyed", "promoted"]
    assert len({json.loads(line)["run_id"] for line in workshop.ledger()}) == 1


def is_empty(path: Path) -> bool:
    """Whether a Parquet file is whole and has no rows, or has not been begun."""
    try:
        return not path.stat().st_size or pq.read_metadata(path).num_rows == 0
    except pa.ArrowInvalid:  # cut short while it was written
        return False


def geocodes_in(folder: Path) -> set[str]:
    """Files in which the geocode of a district stands in the clear."""
    return {str(path) for path in folder.rglob("*") if path.is_file() and b"0200200000" in path.read_bytes()}


@pytest.fixture(scope="module")
def faulty_cluster(tmp_path_factory, calm, tools) -> dict[str, Any]:
    """The scenarios of faulty_cluster.py on a small cluster of processes, once for all tests that look at them."""
    folder = tmp_path_factory.mktemp("cluster")
    tools.write_census(folder / "census")
    done = subprocess.run(
        [sys.executable, str(HERE / "faulty_cluster.py"), str(folder), str(calm.folder), tools.TEST_KEY],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((folder / "scenarios.json").read_text())
    return {**found, "folder": folder}


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["killed workers", "doubled tasks", "lost executor"])
def test_tasks_that_are_tried_again_or_twice_change_no_byte(faulty_cluster, reference, tools, scenario):
    found = faulty_cluster["scenarios"][scenario]
    assert len(found["faults"]) == 6, "one fault in measure and one in estimate of every level"
    assert faulty_cluster["copies"] > 0
    assert tools.level_rows(Path(found["public"])) == reference


@pytest.mark.long
def test_no_key_is_found_in_what_a_run_leaves_on_disk(faulty_cluster):
    assert faulty_cluster["searched"] > 50
    assert faulty_cluster["planted"] == 1, "the search itself works"
    assert faulty_cluster["keys"] == []
