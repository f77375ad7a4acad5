"""What every file system must do for the store: disks of this machine, and one without renames and locks."""

from __future__ import annotations

import errno
import json
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa
import pytest
import servers

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.places import POSIX, Location, copy_file, move_file, place_of, system_of
from das_spark.store import (
    Journal,
    RunLayout,
    State,
    Step,
    copy_parts,
    create_exclusively,
    discard,
    find_run,
    finished,
    guarded_staging,
    hold_run,
    is_held,
    link_parts,
    open_public,
    open_run,
    part_files,
    promote,
    promote_empty,
    public_files,
    record_of,
    replace_folder,
    require_held,
    write_durably,
)
from das_spark.store.parquet import ParquetTables, TableFolder, count_rows, file_name, read_batches
from das_spark.store.tables import GEOUNITS


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


DISKS = ["posix", "posix without links"]
#: In turns but for one: what differs between them is what they promise, not what is asked of them.
SERVERS = [name if name == "s3" else pytest.param(name, marks=pytest.mark.slow) for name in servers.SERVERS]


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """Starts a server once."""
    with ExitStack() as running:
        started: dict[str, servers.Server] = {}

        def serve(name: str) -> servers.Server:
            if name not in started:
                started[name] = running.enter_context(servers.SERVERS[name](tmp_path_factory.mktemp(name)))
            return started[name]

        yield serve


@pytest.fixture(params=[*DISKS, "memory", *SERVERS])
def root(request, tmp_path, monkeypatch, serving):
    """A folder in each file system."""
    if request.param in servers.SERVERS:
        server = serving(request.param)
        with servers.reached(server.environment):
            yield place_of(f"{server.url}/{secrets.token_hex(4)}/runs")
        return
    if request.param == "memory":
        yield place_of(f"memory://{secrets.token_hex(4)}/runs")
        return
    if request.param == "posix without links":
        monkeypatch.setattr(os, "link", no_links)
    yield tmp_path / "runs"


@pytest.fixture
def system(root):
    return system_of(root)


@pytest.fixture
def folder(root, system):
    system.make_folder(str(root / "folder"))
    return root / "folder"


def put(place, content: bytes):
    with system_of(place).open_output(str(place)) as file:
        file.write(content)
    return place


# The operations.


def test_of_many_that_create_a_file_one_does_and_nothing_is_replaced(folder, system):
    place, words = folder / "x", [f"word {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda word: create_exclusively(place, word), words))
    assert [place.read_text()] == [word for word, mine in zip(words, made, strict=True) if mine]
    assert system.names(str(folder)) == {"x"}
    assert not create_exclusively(place, b"")
    assert place.read_text()


def test_a_small_file_is_replaced_as_a_whole(folder, system):
    place = folder / "state.json"
    write_durably(place, "old")
    write_durably(place, "new")
    assert system.read(str(place)) == b"new"
    assert system.names(str(folder)) == {"state.json"}


def test_a_file_that_is_missing_is_said_to_be(folder, system):
    for read in (system.read, system.open_input, system.size):
        with pytest.raises(FileNotFoundError):
            read(str(folder / "nothing"))
    assert not system.is_file(str(folder / "nothing"))
    assert not system.is_folder(str(folder / "nothing"))
    assert system.names(str(folder / "nothing")) == set()
    system.remove(str(folder / "nothing"))
    system.destroy(str(folder / "nothing"))


def test_files_are_written_read_listed_and_measured(folder, system):
    put(folder / "a" / "b", b"0123456789")
    assert system.names(str(folder)) == {"a"}
    assert system.is_folder(str(folder / "a"))
    assert not system.is_file(str(folder / "a"))
    assert system.size(str(folder / "a" / "b")) == 10
    with system.open_input(str(folder / "a" / "b")) as file:
        file.seek(4)
        assert file.read(3) == b"456"
    system.sync(str(folder / "a" / "b"))
    before = system.version(str(folder / "a" / "b"))
    put(folder / "a" / "b", b"other bytes")
    assert system.version(str(folder / "a" / "b")) != before
    system.remove(str(folder / "a" / "b"))
    assert not system.is_file(str(folder / "a" / "b"))


def test_a_file_moves_in_the_place_of_another(folder, system):
    put(folder / "new", b"new")
    put(folder / "old", b"old")
    system.move(str(folder / "new"), str(folder / "old"))
    assert system.names(str(folder)) == {"old"}
    assert system.read(str(folder / "old")) == b"new"


@pytest.mark.parametrize("twice", [link_parts, copy_parts])
def test_shared_and_copied_files_are_destroyed_one_by_one(folder, twice):
    put(folder / "one" / "part-0", b"rows")
    twice(folder / "one", folder / "two")
    discard(folder / "one")
    assert [path.read_bytes() for path in part_files(folder / "two")] == [b"rows"]


def test_a_folder_is_destroyed_with_all_that_it_holds(folder, system):
    put(folder / "a" / "b" / "c", b"")
    put(folder / "ab", b"")
    system.destroy(str(folder / "a"))
    assert system.names(str(folder)) == {"ab"}
    system.remove_empty(str(folder))
    assert system.is_file(str(folder / "ab"))


def test_where_tombstones_are_a_late_task_cannot_write(folder, system):
    put(folder / "staging" / "part-0", b"the first draw")
    discard(folder / "staging", tombstone=True)
    assert part_files(folder / "staging") == ()
    if system.capabilities.tombstones:
        with pytest.raises(OSError, match=r"Not a directory|File exists"):
            put(folder / "staging" / "part-1", b"late")


def test_free_space_is_a_number_or_nothing_limits_it(folder, system):
    free = system.free_space(str(folder / "not" / "there"))
    assert free is None or free > 0


def test_a_lock_has_one_holder_whose_word_it_holds(folder, system):
    lock = str(folder / "run.lock")
    with system.hold(lock, "first"):
        assert system.holder(lock) == "first"
        assert system.is_held(lock)
        with pytest.raises(BlockingIOError), system.hold(lock, "second"):
            raise AssertionError("both hold it")
        assert system.holder(lock) == "first"
    assert not system.is_held(lock)
    with system.hold(lock, "second"):
        assert system.holder(lock) == "second"


# What the store does with them.


def test_a_folder_is_a_result_only_when_its_marker_is_there_and_the_marker_comes_last(folder, system):
    for name in ("part-0", "part-1"):
        put(folder / "staging" / name, name.encode())
    records = tuple(record_of(path) for path in part_files(folder / "staging"))
    assert not finished(folder / "target")
    assert promote(folder / "staging", folder / "target", records) == records
    assert finished(folder / "target")
    assert not system.is_folder(str(folder / "staging"))
    assert [path.name for path in part_files(folder / "target")] == ["part-0", "part-1"]


def test_promotion_goes_on_where_a_driver_died(folder, system):
    for name in ("part-0", "part-1"):
        put(folder / "staging" / name, name.encode())
    records = tuple(record_of(path) for path in part_files(folder / "staging"))
    system.make_folder(str(folder / "target"))
    system.move(str(folder / "staging" / "part-0"), str(folder / "target" / "part-0"))
    promote(folder / "staging", folder / "target", records)
    assert finished(folder / "target")
    assert [record_of(path) for path in part_files(folder / "target")] == list(records)


def test_a_folder_is_replaced_as_a_whole(folder):
    put(folder / "target" / "part-7", b"half of a table")
    put(folder / "staging" / "part-0", b"rows")
    replace_folder(folder / "staging", folder / "target")
    assert [path.name for path in part_files(folder / "target")] == ["part-0"]
    with pytest.raises(OutputError, match="gone"):
        replace_folder(folder / "staging", folder / "target")
    assert finished(folder / "target")


@pytest.fixture
def layout(root):
    found = RunLayout.at(root, "first")
    assert not open_run(found, "hash")
    return found


def test_a_run_is_begun_found_and_held_by_one_driver(layout):
    assert open_run(layout, "hash")
    with pytest.raises(OutputError, match="another run"):
        open_run(layout, "other")
    assert find_run(layout.folder).run_id == "first"
    assert open_public(layout.folder).path == layout.public.path
    assert not is_held(layout)
    with hold_run(layout):
        assert is_held(layout)
        require_held(layout)
        with pytest.raises(OutputError, match="another driver"), hold_run(layout):
            raise AssertionError("both hold it")
        staging = guarded_staging(layout, layout.public, "verification")
        put(staging.folder / "part-0", b"")
    with hold_run(layout):
        assert not staging.folder.exists(), "what an earlier driver left is discarded"


def test_a_driver_that_lost_its_run_publishes_nothing(layout):
    with hold_run(layout):
        lock = layout.restricted.lock
        if isinstance(lock, Location):  # whoever takes over creates the next number
            write_durably(lock / "00000002", json.dumps({"word": "another", "process": ""}))
        else:
            write_durably(lock, "another")
        with pytest.raises(OutputError, match="taken over"):
            require_held(layout)


def rows(*geocodes: str) -> pa.RecordBatch:
    columns = [pa.array(geocodes), pa.array([""] * len(geocodes)), pa.array([3] * len(geocodes))]
    return pa.RecordBatch.from_arrays(columns, schema=GEOUNITS.schema)


def drawn(journal: Journal, geolevel: str, number: int, *geocodes: str):
    """Write a level into the staging folder of an attempt as a job does, with checksums made while writing."""
    writer = ParquetTables({"geounits": TableFolder(journal.staging(geolevel, number), GEOUNITS.schema)})
    report = [row for batch in writer([("geounits", file_name(0), rows(*geocodes))]) for row in batch.to_pylist()]
    return writer.place(report)["geounits"]


def test_a_level_is_drawn_journalled_published_and_read(layout, root):
    journal = Journal.of(layout)
    assert journal.next_step("County").step is Step.DRAW
    journal.open("County", 1)
    with pytest.raises(PrivacyGuardError, match="not the next one"):
        journal.open("County", 1)
    written = drawn(journal, "County", 1, "101", "102")
    assert written == tuple(record_of(path) for path in part_files(journal.staging("County", 1)))
    assert journal.stage("County", 1).files == written
    assert journal.next_step("County").step is Step.PROMOTE
    assert journal.promote("County", 1).state is State.PROMOTED
    assert journal.next_step("County").step is Step.NOTHING

    level = layout.public.level("measurements", "County")
    assert finished(level)
    assert count_rows(level) == 2
    assert pa.Table.from_batches(read_batches(level, ["geocode"])).column(0).to_pylist() == ["101", "102"]
    assert not layout.restricted.staging("measurements", "County", 1).is_dir()
    listed = {file.name: file for file in public_files(layout.public)}
    assert listed["measurements/level=County/part-00000.parquet"].sha256 == written[0].sha256
    assert "run.json" in listed
    assert public_files(layout.public, as_written=True) == tuple(listed.values())


def test_what_was_promoted_is_listed_as_it_was_written_and_refused_where_it_changed(layout):
    name = "estimates/level=County/part-0"
    with hold_run(layout):
        place = layout.public.level("estimates", "County")
        put(layout.public.path / ".staging" / "part-0", b"rows")
        (written,) = replace_folder(layout.public.path / ".staging", place)
        as_written = {file.name: file for file in public_files(layout.public, as_written=True)}
        assert as_written[name].sha256 == written.sha256
        put(place / "part-0", b"ROWS")  # a disk that errs
        with pytest.raises(PrivacyGuardError, match="was changed since the run committed it"):
            public_files(layout.public, as_written=True)
        read = {file.name: file for file in public_files(layout.public)}
        assert read[name].sha256 != written.sha256
    with hold_run(layout), pytest.raises(PrivacyGuardError, match="was changed"):
        public_files(layout.public, as_written=True)


def test_an_attempt_that_died_is_destroyed_before_the_level_is_drawn_again(layout):
    journal = Journal.of(layout)
    journal.open("County", 1)
    drawn(journal, "County", 1, "101")
    assert journal.next_step("County").number == 2
    assert part_files(journal.staging("County", 1)) == ()
    assert [attempt.state for attempt in journal.attempts("County")] == [State.DESTROYED]
    journal.open("County", 2)
    written = drawn(journal, "County", 2, "101")
    journal.stage("County", 2)
    system = system_of(layout.folder)
    if not system.capabilities.tombstones:  # a task of the first attempt was late
        put(journal.staging("County", 1) / "part-00000.parquet", b"the first draw")
    journal.promote("County", 2)
    assert tuple(map(record_of, part_files(journal.target("County")))) == written


def test_published_measurements_that_are_gone_are_never_drawn_again(layout):
    journal = Journal.of(layout)
    journal.open("County", 1)
    drawn(journal, "County", 1, "101")
    journal.stage("County", 1)
    journal.promote("County", 1)
    discard(journal.target("County"))
    with pytest.raises(PrivacyGuardError, match="no longer there"):
        journal.next_step("County")


@pytest.mark.parametrize("twice", [link_parts, copy_parts])
def test_a_table_without_rows_is_taken_over_as_one(folder, twice):
    promote_empty(folder / "one")
    put(folder / "two" / "part-0", b"of a driver that died")
    twice(folder / "one", folder / "staging")
    replace_folder(folder / "staging", folder / "two", None if part_files(folder / "one") else ())
    assert finished(folder / "two")
    assert part_files(folder / "two") == ()


def test_files_travel_between_a_disk_and_any_file_system(folder, tmp_path):
    here, there = put(tmp_path / "here", bytes(range(256)) * 50_000), folder / "there"
    copy_file(here, there)
    copy_file(there, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == here.read_bytes()
    move_file(here, folder / "moved")
    assert not here.exists()
    assert record_of(folder / "moved", "x") == record_of(there, "x")
    (tmp_path / "staging").mkdir()
    put(tmp_path / "staging" / "part-0", b"rows")
    records = promote(tmp_path / "staging", folder / "table")
    assert [path.read_bytes() for path in part_files(folder / "table")] == [b"rows"]
    assert promote(folder / "table", tmp_path / "table", records) == records
    assert (tmp_path / "table" / "part-0").read_bytes() == b"rows"


def test_disks_of_this_machine_can_do_everything():
    assert POSIX.capabilities.renames
    assert POSIX.capabilities.locks
