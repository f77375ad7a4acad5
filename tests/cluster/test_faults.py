"""Whatever happens to a run on a real cluster, it ends with the same bytes, or fails clearly and resumes to them.

Seeds decide who dies and when. Every fault is written down with what became of the run; the table of them is printed at
the end, and stands, of one session, in README.md.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from outcomes import EAGER, Calm, check_end, check_left_over
from published_files import differences
from scenarios import (
    KEY,
    PATIENCE,
    VICTIMS,
    Scenario,
    a_frozen_executor,
    applications,
    draws,
    half_written,
    kill_group,
    kill_one,
    pipeline_tools,
    second_copies,
    signal_group,
)
from standalone import ROOT, standalone_cluster, wait_until

from das_spark.config import load_plan
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]

BROKEN_STORE = Path(__file__).parent / "broken_store"


@pytest.mark.parametrize("storm", range(3))
def test_workers_executors_and_python_processes_are_killed_in_every_stage(scenario, calm, storm):
    """One driver lives through a kill in each stage; over the three storms each stage meets each kind of victim."""
    dice = random.Random(1940 + storm)
    process = scenario.start()
    kinds = list(VICTIMS)
    for number, stage in enumerate(calm.stages):
        kind = kinds[(number + storm) % len(kinds)]
        met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number])
        if met == "the end":
            break
        kill_one(scenario.cluster, kind, dice)
        scenario.faults.append((f"{kind} killed", stage if met == stage else met, "went on, byte-equal"))
    scenario.finish(process)
    assert len(scenario.faults) >= len(calm.stages) - 1
    check_end(scenario, calm)


def test_the_driver_is_killed_in_every_stage(scenario, calm):
    dice = random.Random(2020)
    for number in range(len(calm.stages)):
        process = scenario.start()
        # What was finished before is skipped, and its line is said at once.
        met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number])
        kill_group(process)
        scenario.faults.append(("driver killed", met, "resumed by the same command, byte-equal"))
    scenario.finish()
    check_end(scenario, calm)


def test_under_a_real_key_no_second_draw_is_left_anywhere(cluster, tmp_path, calm):
    scenario = Scenario(cluster, tmp_path, key=None)
    dice = random.Random(2030)
    first: dict[str, str] = {}
    for number in (number for number, name in enumerate(calm.stages) if name.startswith("measure")):
        process = scenario.start()
        met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number])
        kill_group(process)
        draws(scenario.run)
        kept = scenario.measured()
        assert first.items() <= kept.items(), "what was published was drawn again"
        first = kept
        scenario.faults.append(("driver killed, real key", met, "resumed; one draw of every answer, none drawn again"))
    scenario.finish()
    assert first.items() <= scenario.measured().items()
    check_left_over(scenario)


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], Path]]:
    """A file system of 80 MB at a folder; what is yielded fills it up and returns the file to remove."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a disk that fills needs a mount, which is not permitted here: {done.stderr.strip()}")

    def fill() -> Path:
        filler = folder / "filler"
        # Without a buffer: closing the file would write what is left of it, for which there is no room.
        with filler.open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"\0" * 65536)
                except OSError:
                    return filler

    try:
        yield fill
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_in(scenario: Scenario, calm: Calm, number: int, fill: Callable[[], Path], kind: str) -> None:
    """A driver in one stage of which a disk fills, and has room again after its end."""
    process = scenario.start()
    if number == 0:
        wait_until((scenario.restricted / "run.lock").exists, "the run to begin")
        met = "ingest"
    else:
        met = scenario.wait_for(process, calm.stages, number, 0.0)
    filler = fill()
    code = process.wait(PATIENCE)
    if code == 0:
        outcome = "ended before it needed room"
    else:
        said = scenario.fails(process)
        assert "no space left" in said or "there is less room" in said, said
        outcome = "failed: no space left on the disk (exit 1); resumed, byte-equal"
    assert half_written(scenario.run) == []
    filler.unlink()
    scenario.faults.append((kind, met, outcome))


def test_the_disk_fills(scenario, calm):
    with small_disk(scenario.folder / "runs") as fill:
        for number in (0, 1, 4, 6, len(calm.stages) - 2):
            fill_in(scenario, calm, number, fill, "disk full")
        scenario.finish()
        check_end(scenario, calm)


def test_the_disk_of_scratch_files_fills(tmp_path, calm):
    """That of shuffle, spill and broadcast files, of the workers and of the driver; the disk of the run has room."""
    place = tmp_path / "cluster"
    with (
        small_disk(place / "local") as fill,
        standalone_cluster(place, python_path=str(ROOT), settings=EAGER) as cluster,
    ):
        scenario = Scenario(cluster, tmp_path / "scenario")
        for number in (0, 1, 4, 6):
            fill_in(scenario, calm, number, fill, "disk of Spark's scratch files full")
        scenario.finish()
        check_end(scenario, calm)


#: What fails, in the order in which a run comes to it; the run is resumed after each.
BROKEN = (
    ("rename fails (driver)", "rename:histograms/level=County:1"),
    ("read fails (driver)", "read:committed.jsonl:1"),
    ("rename fails (driver)", "rename:measurements/level=County:1"),
    ("read fails (driver)", "read:journal/Enumdist:1"),
    ("rename fails (driver)", "rename:estimates/level=Enumdist:1"),
    ("rename fails (driver)", "rename:manifest.json:1"),
)


def test_the_output_store_fails_the_driver(scenario, calm):
    for kind, broken in BROKEN:
        process = scenario.start({"DAS_SPARK_TEST_BROKEN": broken, "PYTHONPATH": f"{BROKEN_STORE}:{ROOT}"})
        said = scenario.fails(process)
        assert not (scenario.public / "verification.json").exists()
        scenario.faults.append((kind, broken.split(":")[1], f"failed ({said.split(',')[0]}); resumed, byte-equal"))
    scenario.finish()
    check_end(scenario, calm)


def test_the_output_store_fails_executors_on_read(scenario, calm):
    """A part file that tasks must read is not there, or ends too soon; then it is given back."""
    for stage, table, harm in (
        ("measure County", "restricted/histograms/level=County", "gone"),
        ("estimate Enumdist", "public/bounds/level=Enumdist", "cut short"),
    ):
        process = scenario.start()
        scenario.wait_for(process, calm.stages, calm.stages.index(stage) - 1, 0.0)
        part = max((scenario.run / table).glob("part-*"), key=lambda path: path.stat().st_size)
        kept = scenario.folder / "kept"
        shutil.copy(part, kept)
        if harm == "gone":
            part.unlink()
        else:
            os.truncate(part, part.stat().st_size // 2)
        said = scenario.fails(process)
        outcome = f"failed ({said.split(',')[0]}); file given back, resumed, byte-equal"
        scenario.faults.append((f"read fails (executors): file {harm}", stage, outcome))
        shutil.copy(kept, part)
    scenario.finish()
    check_end(scenario, calm)


@pytest.mark.parametrize(
    ("stage", "key"), [("measure County", KEY), ("estimate Enumdist", KEY), ("measure County", None)], ids=str
)
def test_the_output_store_fails_executors_on_rename(scenario, calm, stage, key):
    """Files that tasks write disappear before the driver gives them their names."""
    scenario.key, end = key, "byte-equal" if key else "one draw under a real key"
    process, gone = scenario.start(), 0
    scenario.wait_for(process, calm.stages, calm.stages.index(stage), 0.0)
    limit = time.monotonic() + 60
    while process.poll() is None and not gone and time.monotonic() < limit:
        for folder, _, names in os.walk(scenario.run):  # which may be gone, too, when it is come to
            for name in names:
                if name.startswith(".part-"):
                    Path(folder, name).unlink(missing_ok=True)
                    gone += 1
        time.sleep(0.001)
    assert gone, "nothing was taken away"
    code = process.wait(600)
    outcome = f"tasks were tried again, {end}"
    if code != 0:
        outcome = f"failed ({scenario.fails(process).split(',')[0]}); resumed, {end}"
        scenario.finish()
    scenario.faults.append(("rename fails: what a task has written is taken away", stage, outcome))
    check_end(scenario, calm)


def test_an_executor_hangs_and_its_tasks_run_twice(scenario, calm):
    """SIGSTOP to an executor and its Python: copies of its tasks run elsewhere; then it wakes up and ends its own."""
    before = applications(scenario.cluster)
    process = scenario.start()
    for stage in ("measure State", "estimate County", "verify"):
        met = scenario.wait_for(process, calm.stages, calm.stages.index(stage), 0.0)
        copies = len(second_copies(applications(scenario.cluster) - before))
        with a_frozen_executor(scenario.cluster):
            wait_until(
                lambda seen=copies: len(second_copies(applications(scenario.cluster) - before)) > seen,
                f"a second copy of a task in {met}",
                PATIENCE,
            )
        scenario.faults.append(("executor hangs until its tasks run elsewhere", met, "went on, byte-equal"))
    scenario.finish(process)
    check_end(scenario, calm)


@pytest.mark.parametrize(
    ("stage", "key"), [("measure County", KEY), ("estimate County", KEY), ("measure County", None)], ids=str
)
def test_a_zombie_driver_is_refused(scenario, calm, stage, key):
    """A stopped driver loses its run to a second one, by a lock that the store forgot; then it wakes up."""
    scenario.key, end = key, "results untouched" if key else "results untouched, one draw under a real key"
    one_core = scenario.cluster.with_settings("one-core", {"spark.cores.max": "1"})
    ghost = scenario.start({"DAS_SPARK_ENV": str(one_core)})
    number = calm.stages.index(stage)
    met = scenario.wait_for(ghost, calm.stages, number, random.Random(number).random() * calm.seconds[number] / 2)
    signal_group(ghost, signal.SIGSTOP)
    try:
        second = scenario.start({"DAS_SPARK_ENV": str(one_core)})
        assert "another driver is at work" in scenario.fails(second)
        scenario.faults.append(("second driver while the first lives", met, "refused (exit 1)"))
        (scenario.restricted / "run.lock").unlink()
        scenario.finish(scenario.start({"DAS_SPARK_ENV": str(one_core)}))
        check_end(scenario, calm)
    finally:
        signal_group(ghost, signal.SIGCONT)
    assert ghost.wait(600) in (1, 3), scenario.log.read_text()[-4000:]
    scenario.faults.append(("zombie driver wakes up after its run was taken over", met, f"refused; {end}"))
    check_end(scenario, calm)


def test_one_county_is_a_hundred_times_the_others(cluster, tmp_path, spark):
    """600 districts in one county beside 6 in each of the others, an executor killed meanwhile; as in local mode."""
    tools = pipeline_tools()
    persons, units = tools.census_tables()
    for table in (persons, units):
        chosen = [row for row, code in enumerate(table["geocode"]) if code.startswith("010030")]
        for copy in range(1, 100):
            for row in chosen:
                code = table["geocode"][row]
                for name, column in table.items():
                    column.append(f"{code[:6]}{copy:02d}{code[8:]}" if name == "geocode" else column[row])
    scenario = Scenario(cluster, tmp_path)
    tools.write_census(scenario.workshop.census, persons, units)
    process = scenario.start()
    wait_until(lambda: len(scenario.stages()) > 2, "the first level", 600)
    kill_one(cluster, "executor", random.Random(100))
    kind = "one county of 100 times the others, executor killed"
    scenario.faults.append((kind, "measure County", "went on, byte-equal to local mode"))
    scenario.finish(process)
    remote = scenario.result()
    scenario.run.rename(tmp_path / "remote")
    # The statement of a run names all runs on its input.
    shutil.rmtree(scenario.run.parent / "ledgers")
    run_stages(load_plan(scenario.run_file), run_id="run", test_key=KEY, spark=spark)
    assert differences(remote, scenario.result()) == []
    check_left_over(scenario)
