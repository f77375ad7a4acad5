"""A store that fails now and then is asked again; one that fails for good is named, and nothing is lost."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
import servers
from faulty_proxy import Faults, faulty_proxy

from das_spark.errors import DasError, OutputError, PrivacyGuardError
from das_spark.places import place_of
from das_spark.store import (
    FileRecord,
    Journal,
    Lines,
    PublicLayout,
    PublicManifest,
    RunLayout,
    State,
    Step,
    create_exclusively,
    files_below,
    finished,
    hold_run,
    open_run,
    part_files,
    publish,
    read_lines,
    record_of,
    require_exclusive,
)
from das_spark.store.parquet import ParquetTables, TableFolder, file_name
from das_spark.store.tables import GEOUNITS


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def behind(server):
    """A place behind a proxy with faults."""
    with ExitStack() as opened:

        def through(faults):
            port = opened.enter_context(faulty_proxy(server.port, faults))
            opened.enter_context(servers.reached(servers.s3_environment(f"http://127.0.0.1:{port}")))
            return place_of(f"{server.url}/{secrets.token_hex(4)}")

        yield through


def draw(journal, level, number) -> tuple[FileRecord, ...]:
    """Write one row into the staging folder of an attempt, another one each time."""
    writer = ParquetTables({"geounits": TableFolder(journal.staging(level, number), GEOUNITS.schema)})
    row = {"geocode": secrets.token_hex(4), "parent": "", "children": 3}
    rows = pa.RecordBatch.from_pylist([row], schema=GEOUNITS.schema)
    report = [each for batch in writer([("geounits", file_name(0), rows)]) for each in batch.to_pylist()]
    return writer.place(report)["geounits"]


SOMETIMES = {"refused": 0.05, "failed": 0.05, "cut": 0.04, "lost": 0.04, "slow": 0.02}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_a_level_is_drawn_once_and_published_though_a_fifth_of_all_requests_fail(behind, seed):
    faults = Faults(seed, SOMETIMES)
    root = behind(faults)
    layout = RunLayout.at(root, "mine")
    open_run(layout, "hash")
    with hold_run(layout):
        journal = Journal.of(layout)
        for level in ("State", "County"):
            assert journal.next_step(level).step is Step.DRAW
            journal.open(level, 1)
            written = draw(journal, level, 1)
            journal.stage(level, 1, written)
            assert journal.promote(level, 1).state is State.PROMOTED
            target = layout.public.level("measurements", level)
            assert finished(target)
            assert tuple(map(record_of, part_files(target))) == written
    assert sum(faults.count.values()) > 80
    assert all(faults.count[kind] for kind in ("refused", "failed", "cut", "lost")), faults.count


def test_of_many_that_create_one_file_through_faults_one_does(behind):
    root = behind(Faults(4, SOMETIMES))
    for number in range(4):
        place, words = root / f"x{number}", [secrets.token_hex(8) for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            made = list(threads.map(lambda word, place=place: create_exclusively(place, word), words))
        assert [word for word, mine in zip(words, made, strict=True) if mine] == [place.read_text()]


def test_lines_that_are_added_through_faults_stand_there_once(behind):
    lines = Lines(behind(Faults(5, SOMETIMES)) / "log.jsonl")
    for number in range(20):
        lines.append(f"{number} {secrets.token_hex(4)}\n".encode())
    read = read_lines(lines.file).decode().splitlines()
    assert [int(line.split()[0]) for line in read] == list(range(20))


@pytest.mark.slow
def test_a_store_that_fails_for_good_is_named_and_nothing_is_taken_for_missing(behind):
    faults = Faults(6, {})
    root = behind(faults)
    create_exclusively(root / "marker", b"there")
    faults.shares = {"refused": 1.0}
    with pytest.raises(OSError, match=r"(?i)unavailable|slow ?down|reduce"):
        (root / "marker").is_file()
    with pytest.raises(OutputError, match=r"s3://.*(?i:unavailable|slow ?down|reduce)"):
        create_exclusively(root / "other", b"word")
    faults.shares = {}
    assert (root / "marker").is_file()
    assert not (root / "other").is_file()


@contextmanager
def lists_late(faults, seconds: float = 60.0) -> Iterator[None]:
    """Whoever asks for a list in the block is answered as in an earlier one."""
    faults.late = seconds
    try:
        yield
    finally:
        faults.late = 0.0


def test_a_store_that_lists_late_is_refused_before_anything_is_charged(behind):
    faults = Faults(7, {})
    root = behind(faults)
    require_exclusive(root)
    with lists_late(faults), pytest.raises(OutputError, match=r"s3://.*: a file is found after it was removed"):
        require_exclusive(root)
    assert faults.count["late"]


@pytest.mark.parametrize(
    ("seen", "done", "refusal"),
    [
        ("nothing", "opened", "attempt 1 was opened before"),
        ("nothing", "staged", "staged bytes exist that the journal does not know"),
        ("opened", "staged", "another driver has gone on with attempt 1; this one stops, and publishes nothing"),
        ("opened", "promoted", "measurements are published that the journal does not know"),
    ],
)
def test_a_driver_that_is_told_late_of_the_journal_neither_draws_nor_destroys(behind, seen, done, refusal):
    """Its lists are those of before another driver went on with the level."""
    faults = Faults(8, {})
    layout = RunLayout.at(behind(faults), "mine")
    open_run(layout, "hash")
    journal, written = Journal.of(layout), ()
    if seen == "opened":
        journal.open("State", 1)
    with lists_late(faults):
        assert len(journal.attempts("State")) == (seen == "opened")
    if seen == "nothing":
        journal.open("State", 1)
    if done != "opened":
        written = draw(journal, "State", 1)
        journal.stage("State", 1, written)
    if done == "promoted":
        journal.promote("State", 1)
    with lists_late(faults), pytest.raises((PrivacyGuardError, OutputError), match=refusal):
        journal.open("State", journal.next_step("State").number)
    assert faults.count["late"]
    (attempt,) = journal.attempts("State")
    assert (attempt.state, attempt.files) == (State(done), written)
    if done == "staged":
        assert journal.next_step("State").step is Step.PROMOTE
        journal.promote("State", 1)
    if done != "opened":
        assert tuple(map(record_of, part_files(layout.public.level("measurements", "State")))) == written


def test_a_level_is_published_as_one_attempt_drew_it_though_lists_are_late_for_a_while(behind):
    faults = Faults(9, {})
    layout = RunLayout.at(behind(faults), "mine")
    open_run(layout, "hash")
    journal, drawn, refusals = Journal.of(layout), dict[int, tuple[FileRecord, ...]](), list[str]()
    target, faults.late = layout.public.level("measurements", "State"), 1.0
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            decision = journal.next_step("State")
            if decision.step is Step.NOTHING:
                break
            if decision.step is Step.DRAW:
                journal.open("State", decision.number)
                assert decision.number not in drawn
                drawn[decision.number] = draw(journal, "State", decision.number)
                journal.stage("State", decision.number, drawn[decision.number])
            journal.promote("State", decision.number)
        except DasError as error:  # the driver stops with it, and is started again
            refusals.append(error.message)
            faults.late = 1.0 if len(refusals) < 3 else 0.0
    assert len(refusals) >= 3
    assert faults.count["late"]
    *destroyed, promoted = journal.attempts("State")
    assert promoted.state is State.PROMOTED
    assert all(attempt.state is State.DESTROYED for attempt in destroyed)
    assert tuple(map(record_of, part_files(target))) == promoted.files == drawn[promoted.number]


def test_a_run_is_published_whole_or_not_at_all_where_lists_are_late(behind):
    faults = Faults(10, {})
    root = behind(faults)
    layout = RunLayout.at(root / "work", "mine")
    final = PublicLayout(root / "public" / "mine")
    layout, made = replace(layout, published=final), layout.public
    open_run(layout, "hash")
    files = []
    for name in ("tables/a.csv", "tables/b.csv"):
        with lists_late(faults):
            files_below(made.path)
        made.path.system.write(str(made.file(name)), name.encode())
        files.append(record_of(made.file(name), name))
    PublicManifest(run_id="mine", created="then", files=tuple(files)).save(made.manifest)
    with (
        lists_late(faults),
        pytest.raises(OutputError, match=r"tables/.\.csv, which the manifest names, is not listed"),
    ):
        publish(layout)
    assert not files_below(final.path)
    publish(layout)
    assert files_below(final.path) == ["manifest.json", "run.json", "tables/a.csv", "tables/b.csv"]
