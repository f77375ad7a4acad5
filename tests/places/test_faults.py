"""A store that fails now and then is asked again; one that fails for good is named, and nothing is lost."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa
import pytest
import servers
from faulty_proxy import Faults, faulty_proxy

from das_spark.errors import OutputError
from das_spark.places import place_of
from das_spark.store import (
    Journal,
    Lines,
    RunLayout,
    State,
    Step,
    create_exclusively,
    finished,
    hold_run,
    open_run,
    part_files,
    read_lines,
    record_of,
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
            writer = ParquetTables({"geounits": TableFolder(journal.staging(level, 1), GEOUNITS.schema)})
            row = pa.RecordBatch.from_pylist([{"geocode": "1", "parent": "", "children": 3}], schema=GEOUNITS.schema)
            report = [each for batch in writer([("geounits", file_name(0), row)]) for each in batch.to_pylist()]
            written = writer.place(report)["geounits"]
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
