"""A run that is made on a disk and lies on another file system: wherever its driver dies, the home is enough."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.errors import OutputError
from das_spark.store import (
    Home,
    Journal,
    RunLayout,
    State,
    Step,
    at_home,
    deliver,
    discard,
    fetch_public,
    finished,
    hold_run,
    open_run,
    part_files,
    replace_folder,
    require_held,
    try_home,
    write_durably,
)

_spec = importlib.util.spec_from_file_location("faulty_store", Path(__file__).with_name("faulty_store.py"))
faulty_store = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = faulty_store
_spec.loader.exec_module(faulty_store)
DyingStore, LateStore, Died = faulty_store.DyingStore, faulty_store.LateStore, faulty_store.Died

LEVELS = ("State", "County")
HASH = "hash"


def layout_in(folder: Path, store, *, public_alone: bool = False) -> RunLayout:
    """The layout of one run that is made in a folder and lies in a store."""
    there = RunLayout.at(store.at("bucket/runs"), "first")
    home = Home(there.public, None if public_alone else there.restricted)
    return replace(RunLayout.at(folder, "first"), home=home)


def put(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def measure(layout: RunLayout, level: str, draws: list[tuple[str, int]]) -> None:
    """What `pipeline.levels.measure` does, with the steps of the journal and a delivery after each of them."""
    journal = Journal.of(layout)
    decision = journal.next_step(level)
    deliver(layout)
    if decision.step is Step.DRAW:
        journal.open(level, decision.number)
        deliver(layout)
        draws.append((level, decision.number))
        put(journal.staging(level, decision.number), "part-0", f"{level} drawn {decision.number}".encode())
        journal.stage(level, decision.number)
        deliver(layout)
    if decision.step is not Step.NOTHING:
        journal.promote(level, decision.number)
        deliver(layout)


def carry_out(layout: RunLayout, draws: list[tuple[str, int]]) -> None:
    """A small run: the input, two levels, an estimate of each that is replaced once, a small file that grows."""
    with at_home(layout):
        open_run(layout, HASH, created="2020-04-01T00:00:00+00:00")
        with hold_run(layout):
            leaves = layout.restricted.table("leaves")
            if not finished(leaves):
                put(leaves.parent / ".staging" / "leaves", "part-0", b"people")
                replace_folder(leaves.parent / ".staging" / "leaves", leaves)
            deliver(layout)
            for level in LEVELS:
                measure(layout, level, draws)
                write_durably(layout.restricted.log, f"measured {level}\n")
                for rows in (b"first rows", b"other rows"):
                    staging = layout.public.path / ".staging" / "estimates"
                    put(staging, "part-0", level.encode() + rows)
                    put(staging, f"part-{rows[0]}", b"of one of them")
                    replace_folder(staging, layout.public.level("estimates", level))
                    deliver(layout)
            write_durably(layout.public.manifest, "{}")


EXPECTED = {
    "public/estimates/level=County/_SUCCESS": b"",
    "public/estimates/level=County/part-0": b"Countyother rows",
    "public/estimates/level=County/part-111": b"of one of them",
    "public/estimates/level=State/_SUCCESS": b"",
    "public/estimates/level=State/part-0": b"Stateother rows",
    "public/estimates/level=State/part-111": b"of one of them",
    "public/manifest.json": b"{}",
    "public/measurements/level=County/_SUCCESS": b"",
    "public/measurements/level=State/_SUCCESS": b"",
    "restricted/leaves/_SUCCESS": b"",
    "restricted/leaves/part-0": b"people",
    "restricted/log.jsonl": b"measured County\n",
}
OTHERS = {
    "restricted/committed.jsonl",
    "public/measurements/level=County/part-0",
    "public/measurements/level=State/part-0",
    "public/run.json",
    "restricted/inventory.json",
    "restricted/run.json",
}


def at_home_of(store) -> dict[str, bytes]:
    prefix = "bucket/runs/first/"
    return {key.removeprefix(prefix): content for key, content in store.objects.items()}


def journalled(found: dict[str, bytes]) -> set[str]:
    return {name for name in found if name.startswith("restricted/journal/")}


def test_a_whole_run_is_at_home_and_nothing_else(tmp_path):
    store, draws = DyingStore(), []
    carry_out(layout_in(tmp_path, store), draws)
    found = at_home_of(store)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found.keys() - EXPECTED.keys() - journalled(found) == OTHERS
    assert draws == [("State", 1), ("County", 1)]
    assert found["public/measurements/level=State/part-0"] == b"State drawn 1"


def interrupted(tmp_path: Path, lives: int, *, same_disk: bool) -> tuple[DyingStore, list[tuple[str, int]], bool]:
    """A run whose driver dies, and goes on in the same folder or on another disk; whether it died."""
    store, draws = DyingStore(), []
    store.lives = lives
    before = tmp_path / "before"
    died = False
    try:
        carry_out(layout_in(before, store), draws)
    except Died:
        died = True
    store.lives = None
    if not same_disk:
        store.remove("bucket/runs/first/restricted/run.lock")  # as the hint says
    carry_out(layout_in(before if same_disk else tmp_path / "after", store), draws)
    return store, draws, died


@pytest.mark.parametrize("same_disk", [True, False])
def test_wherever_a_driver_dies_the_run_goes_on_from_its_home_alone(tmp_path, same_disk):
    lives, died = 0, True
    while died:
        store, draws, died = interrupted(tmp_path / str(lives), lives, same_disk=same_disk)
        found = at_home_of(store)
        assert {name: found[name] for name in EXPECTED} == EXPECTED, lives
        assert found.keys() - EXPECTED.keys() - journalled(found) == OTHERS, lives
        for level in LEVELS:
            numbers = [number for name, number in draws if name == level]
            assert numbers == sorted(set(numbers)), "an attempt was drawn twice"
            published = found[f"public/measurements/level={level}/part-0"].decode()
            assert published == f"{level} drawn {numbers[-1]}", "what is public is not the last draw"
        lives += 1
    assert lives > 40, "every change at home was a place to die at"


def test_what_was_drawn_and_destroyed_is_at_home_no_more(tmp_path):
    store = DyingStore()
    layout = layout_in(tmp_path / "before", store)
    with suppress(Died), at_home(layout):
        open_run(layout, HASH)
        journal = Journal.of(layout)
        journal.open("State", 1)
        deliver(layout)
        put(journal.staging("State", 1), "part-0", b"the first draw")
        store.lives = 0
        deliver(layout)
        raise Died
    store.lives = None
    assert not [name for name in store.objects if "part-" in name], "nothing is brought home before it is staged"
    store.remove("bucket/runs/first/restricted/run.lock")
    layout = layout_in(tmp_path / "after", store)
    with at_home(layout):
        open_run(layout, HASH)
        assert Journal.of(layout).next_step("State").number == 2
        deliver(layout)
        assert [each.state for each in Journal.of(layout).attempts("State")] == [State.DESTROYED]
        assert b"destroyed" in store.objects["bucket/runs/first/restricted/journal/State.1.json"]


def test_a_home_has_one_driver(tmp_path):
    store = DyingStore()
    one, same, other = (
        layout_in(tmp_path / "a", store),
        layout_in(tmp_path / "a", store),
        layout_in(tmp_path / "b", store),
    )
    with at_home(one):
        open_run(one, HASH)
        with pytest.raises(OutputError, match="another driver is at work"), at_home(same):
            raise AssertionError("both hold it")
        with pytest.raises(OutputError, match="another driver is at work") as caught, at_home(other):
            raise AssertionError("both hold it")
        assert "remove objects://bucket/runs/first/restricted/run.lock" in caught.value.hint
        deliver(one)
    with at_home(other):
        assert open_run(other, HASH)


def test_a_driver_that_lost_its_home_brings_nothing_there(tmp_path):
    store = DyingStore()
    slept, other = layout_in(tmp_path / "a", store), layout_in(tmp_path / "b", store)

    def sleep() -> None:
        with at_home(slept):
            open_run(slept, HASH)
            with hold_run(slept):
                deliver(slept)
                store.remove("bucket/runs/first/restricted/run.lock")
                with at_home(other):
                    assert open_run(other, HASH)
                    with pytest.raises(OutputError, match="taken over"):
                        require_held(slept)
                    Journal.of(slept).open("State", 1)
                    with pytest.raises(OutputError, match="taken over"):
                        deliver(slept)

    with pytest.raises(OutputError, match="taken over"):
        sleep()
    assert not journalled(at_home_of(store))


def test_a_folder_in_which_a_run_was_made_gives_way_to_one_that_went_on(tmp_path):
    store, draws = DyingStore(), []
    first, second = layout_in(tmp_path / "a", store), layout_in(tmp_path / "b", store)
    with at_home(first):
        open_run(first, HASH)
        measure(first, "State", draws)
    with at_home(second):
        open_run(second, HASH)
        measure(second, "County", draws)
    with at_home(first):
        assert [path.read_bytes() for path in part_files(Journal.of(first).target("County"))] == [b"County drawn 1"]
        measure(first, "County", draws)
    assert draws == [("State", 1), ("County", 1)]


def test_what_was_lost_of_the_folder_in_which_a_run_is_made_is_fetched_and_not_removed_at_home(tmp_path):
    store, draws = DyingStore(), []
    for lost in ("restricted/journal", "public", "restricted", "."):
        layout = layout_in(tmp_path, store)
        carry_out(layout, draws)
        before = at_home_of(store)
        discard(layout.folder / lost)
        carry_out(layout, draws)
        after = at_home_of(store)
        assert after.keys() == before.keys()
        assert {name: after[name] for name in EXPECTED} == EXPECTED
        assert journalled(after) == journalled(before)
    assert draws == [("State", 1), ("County", 1)]


def test_what_is_public_elsewhere_is_not_begun_again_where_the_restricted_side_is_gone(tmp_path):
    store, draws = DyingStore(), []
    layout = layout_in(tmp_path, store, public_alone=True)
    carry_out(layout, draws)
    before = at_home_of(store)
    discard(layout.folder)
    with pytest.raises(OutputError, match="is not there, and what is public of the run is at"):
        carry_out(layout, draws)
    assert at_home_of(store) == before


def test_what_is_at_home_and_not_as_it_was_brought_there_is_refused(tmp_path):
    store, draws = DyingStore(), []
    carry_out(layout_in(tmp_path / "a", store), draws)
    store.put("bucket/runs/first/public/measurements/level=State/part-0", b"cut")
    with pytest.raises(OutputError, match="not as it was brought there"), at_home(layout_in(tmp_path / "b", store)):
        raise AssertionError("it was fetched")


def test_a_home_that_holds_something_else_is_refused(tmp_path):
    store = DyingStore()
    store.put("bucket/runs/first/public/notes.txt", b"mine")
    with pytest.raises(OutputError, match="no run that was brought there"), at_home(layout_in(tmp_path, store)):
        raise AssertionError("it was taken")
    assert store.objects == {"bucket/runs/first/public/notes.txt": b"mine"}


def test_the_public_side_alone_may_lie_elsewhere(tmp_path):
    store, draws = DyingStore(), []
    layout = layout_in(tmp_path, store, public_alone=True)
    carry_out(layout, draws)
    found = at_home_of(store)
    assert found.keys() == {name for name in {*EXPECTED, *OTHERS} if name.startswith("public/")}
    assert layout.restricted.table("leaves").is_dir()
    carry_out(layout, draws)
    assert draws == [("State", 1), ("County", 1)]


def test_a_store_that_lists_late_is_refused_and_would_do_no_harm(tmp_path):
    store, draws = LateStore(), []
    with pytest.raises(OutputError, match=r"later than it was written|after it was removed"):
        try_home(layout_in(tmp_path, store).home)
    store = LateStore()
    carry_out(layout_in(tmp_path / "a", store), draws)
    layout = layout_in(tmp_path / "b", store)
    with at_home(layout):  # files are fetched by name
        assert open_run(layout, HASH)
        assert layout.public.manifest.read_text() == "{}"
        for level in LEVELS:
            measure(layout, level, draws)
            assert finished(layout.public.level("estimates", level))
    assert draws == [("State", 1), ("County", 1)]


def test_a_store_that_can_do_all_is_left_as_it_was(tmp_path):
    store = DyingStore()
    try_home(layout_in(tmp_path, store).home)
    assert store.objects == {}


def test_a_store_that_creates_a_file_twice_is_refused(tmp_path, monkeypatch):
    store = DyingStore()
    monkeypatch.setattr(store, "create", lambda path, content, mode=0: store.put(path, content) or True)
    with pytest.raises(OutputError, match="where there was one"):
        try_home(layout_in(tmp_path, store).home)


def test_a_public_side_is_copied_to_be_read(tmp_path):
    store, draws = DyingStore(), []
    layout = layout_in(tmp_path / "a", store)
    carry_out(layout, draws)
    copied = fetch_public(layout.home.public.path, tmp_path / "copy")
    assert (copied / "estimates" / "level=State" / "part-0").read_bytes() == b"Stateother rows"
    discard(copied)
