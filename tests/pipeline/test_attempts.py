"""A level is drawn once, wherever its run folder is copied to, restored from or rolled back: the ledger knows.

The measure stage itself is run; only what Spark would draw and write is made up, other bytes at each draw.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_runs import LEVELS, Draws, Reported, drawing, measure, opened, plan_of, published, states

from das_spark.errors import PrivacyGuardError
from das_spark.pipeline import levels
from das_spark.pipeline.charge import RunLedger, agree, enter_level, enter_run, identity_of_place, open_ledger
from das_spark.privacy import DrawState
from das_spark.store import Journal, hold_run

TOP, BELOW = LEVELS


@pytest.fixture
def draws(monkeypatch) -> Iterator[Draws]:
    with drawing(monkeypatch) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["real key", "test key"])
def run(tmp_path, request) -> RunLedger:
    """A run that is charged and has drawn nothing."""
    found = opened(tmp_path / "runs", insecure=request.param)
    enter_run(found)
    return found


def resumed(run: RunLedger) -> RunLedger:
    """The run, opened by another driver where its folder lies now."""
    return open_ledger(run.plan, run.layout, Reported(), insecure=run.insecure)  # type: ignore[arg-type]


def level(run: RunLedger, geolevel: str) -> None:
    """Measure a level and enter it, as the runner does."""
    measure(run, geolevel)
    entry, _ = enter_run(run)
    enter_level(run, entry, geolevel)


def every_level(run: RunLedger) -> None:
    for geolevel in LEVELS:
        measure(run, geolevel)


def known(run: RunLedger, geolevel: str) -> list[tuple[int, str]]:
    """Attempts in the ledger: number and state."""
    lines = [attempt for attempt in run.book.read().attempts if attempt.geolevel == geolevel]
    return [(line.number, str(line.state)) for line in lines]


class Copies:
    """The run folder and a copy of it, of which one at a time lies where the run is looked for."""

    def __init__(self, run: RunLedger) -> None:
        self.here = run.layout.folder
        self.away = self.here.with_name("away")
        shutil.copytree(self.here, self.away, copy_function=shutil.copy2)

    def swap(self) -> None:
        """Folders are renamed: no file in them becomes another one."""
        spare = self.here.with_name("spare")
        for source, target in ((self.here, spare), (self.away, self.here), (spare, self.away)):
            source.rename(target)


def refused(run: RunLedger, draws: Draws, reason: str) -> PrivacyGuardError:
    """The folder is refused when a driver opens it, and when one that had it open already comes to measure."""
    before, ledger = list(draws.made), run.book.file.read_bytes()
    with pytest.raises(PrivacyGuardError, match=reason) as caught:
        resumed(run)
    with pytest.raises(PrivacyGuardError, match=reason):
        every_level(run)
    assert draws.made == before
    assert run.book.file.read_bytes() == ledger
    assert caught.value.exit_code == 3
    assert "start a new run" in caught.value.hint
    return caught.value


def test_a_level_stands_in_the_ledger_before_it_is_drawn_and_before_it_is_public(run, draws, monkeypatch):
    seen = []
    draw, promote = levels._draw, Journal.promote
    with monkeypatch.context() as patched:  # undone before the draws themselves are
        patched.setattr(levels, "_draw", lambda *given: (seen.append(known(run, TOP)), draw(*given))[1])
        patched.setattr(Journal, "promote", lambda *given: (seen.append(known(run, TOP)), promote(*given))[1])
        measure(run, TOP)
    assert seen == [[(1, "opened")], [(1, "staged")]]


def test_a_copy_made_after_the_top_level_resumes_in_one_place_only(run, draws):
    """The reproduction of the fault: the level below was drawn in each copy, and charged once."""
    level(run, TOP)
    copies = Copies(run)
    level(resumed(run), BELOW)
    bytes_of_the_first = published(run.layout, BELOW)
    copies.swap()
    error = refused(run, draws, f"measurements of level {BELOW}: the ledger knows of attempt 1 as staged")
    assert "copied, restored or rolled back" in error.message
    assert not run.layout.public.level("measurements", BELOW).exists()
    copies.swap()
    assert draws.made == [(TOP, 1), (BELOW, 1)], "drawn once"
    assert known(run, BELOW) == [(1, "staged")]
    measure(resumed(run), BELOW)  # the first folder goes on
    assert published(run.layout, BELOW) == bytes_of_the_first


def test_two_work_folders_with_a_copy_each_share_the_ledger_that_the_run_was_begun_with(tmp_path, draws, monkeypatch):
    """A relative root is another folder in each; the ledger is not."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    monkeypatch.chdir(first)
    begun = opened(Path("runs"))
    enter_run(begun)
    level(begun, TOP)
    shutil.copytree(first, second)
    level(resumed(begun), BELOW)
    monkeypatch.chdir(second)
    with pytest.raises(PrivacyGuardError, match=f"measurements of level {BELOW}"):
        resumed(begun)
    shutil.rmtree(first)  # and without it nothing goes on by the copy of the ledger that came along
    with pytest.raises(PrivacyGuardError, match="was begun with the ledgers in"):
        resumed(begun)


@pytest.mark.parametrize("done", [0, 1])
def test_a_folder_restored_from_a_snapshot_that_is_older_than_the_ledger_is_refused(run, draws, done):
    for geolevel in LEVELS[:done]:
        level(run, geolevel)
    snapshot = Copies(run)
    level(run, LEVELS[done])
    snapshot.swap()
    refused(run, draws, "the journal of this folder does not know it")


@pytest.mark.parametrize("gone_on", [False, True])
def test_a_copy_taken_while_an_attempt_is_open_never_draws_it_again(run, draws, tools, gone_on):
    with tools.dying(Journal, "stage"):
        measure(run, TOP)  # drawn, and the driver is gone
    copies = Copies(run)
    if gone_on:
        measure(run, TOP)
        assert states(run.layout, TOP) == ["destroyed", "promoted"]
    copies.swap()
    reason = "attempt 1 as destroyed" if gone_on else "attempt 1 was opened in another place"
    refused(run, draws, reason)
    assert states(run.layout, TOP) == ["opened"], "its bytes may be published elsewhere: nothing is destroyed either"
    copies.swap()
    measure(resumed(run), TOP)
    assert known(run, TOP) == [(1, "destroyed"), (2, "staged")]


def test_a_copy_of_staged_bytes_publishes_the_same_draw(run, draws, tools):
    with tools.dying(Journal, "promote"):
        measure(run, TOP)
    copies = Copies(run)
    found = []
    for _ in range(2):
        measure(resumed(run), TOP)
        found.append(published(run.layout, TOP))
        copies.swap()
    assert found[0] == found[1]
    assert draws.made == [(TOP, 1)]
    level(resumed(run), BELOW)
    copies.swap()
    refused(run, draws, f"measurements of level {BELOW}")


def test_a_copy_that_goes_on_before_the_ledger_knew_of_the_attempt_leaves_the_other_one_behind(run, draws, tools):
    with tools.dying(levels, "agree", nth=3):  # opened in the journal, nowhere else
        measure(run, TOP)
    copies = Copies(run)
    assert known(run, TOP) == []
    copies.swap()
    measure(resumed(run), TOP)
    copies.swap()
    refused(run, draws, "attempt 1 as destroyed")
    assert draws.made == [(TOP, 2)]


def test_of_two_copies_at_work_at_once_one_draws(run, draws, monkeypatch):
    """Both have asked the ledger before either opened its attempt: the lock under which lines are added decides."""
    copies = Copies(run)
    opened_by_journal = Journal.open

    def overtaken(journal, geolevel, number):
        monkeypatch.setattr(Journal, "open", opened_by_journal)
        copies.swap()  # in the copy, another driver is a step ahead
        opened_by_journal(journal, geolevel, number)
        agree(run, journal, geolevel)
        copies.swap()
        return opened_by_journal(journal, geolevel, number)

    monkeypatch.setattr(Journal, "open", overtaken)
    with pytest.raises(PrivacyGuardError, match="has another one in its place"):
        measure(run, TOP)
    assert draws.made == []


STEPS = {
    "asked": (levels, "agree", "after", 1),
    "asked again": (levels, "agree", "after", 2),
    "opened in the journal": (Journal, "open", "after", 1),
    "opened in the ledger": (levels, "agree", "after", 3),
    "drawn": (Journal, "stage", "before", 1),
    "staged in the journal": (Journal, "stage", "after", 1),
    "staged in the ledger": (levels, "agree", "after", 4),
    "published": (Journal, "promote", "after", 1),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("twice", [False, True])
def test_a_driver_that_dies_between_any_two_steps_leaves_a_run_that_goes_on(run, draws, tools, step, twice):
    for _ in range(2 if twice else 1):
        place, name, when, nth = STEPS[step]
        if states(run.layout, TOP)[-1:] in (["staged"], ["promoted"]):
            break  # that far a level comes once
        with tools.dying(place, name, when, nth):
            measure(resumed(run), TOP)
    level(resumed(run), TOP)
    level(resumed(run), BELOW)
    assert states(run.layout, TOP)[-1] == "promoted"
    assert known(run, TOP) == [
        (number, "staged" if state == "promoted" else state) for number, state in enumerate(states(run.layout, TOP), 1)
    ]
    assert len([attempt for attempt in run.book.read().attempts if attempt.state is DrawState.STAGED]) == 2
    assert run.book.read().entries[0].completed_levels == LEVELS


@pytest.mark.parametrize("nth", [1, 2])
def test_a_driver_that_dies_while_an_attempt_is_destroyed_leaves_a_run_that_goes_on(run, draws, tools, nth):
    with tools.dying(Journal, "stage"):
        measure(run, TOP)
    with tools.dying(Journal, "_destroy" if nth == 1 else "open", "after" if nth == 1 else "before"):
        measure(resumed(run), TOP)
    measure(resumed(run), TOP)
    assert known(run, TOP) == [(1, "destroyed"), (2, "staged")]


def test_a_journal_file_that_a_power_cut_tore_needs_nothing_of_the_ledger(run, draws, tools):
    with tools.dying(Journal, "open", "after"):
        measure(run, TOP)
    file = run.layout.restricted.journal / f"{TOP}.1.json"
    file.write_bytes(file.read_bytes()[:-20])
    measure(resumed(run), TOP)
    assert states(run.layout, TOP) == ["destroyed", "promoted"]
    assert known(run, TOP) == [(2, "staged")], "nothing was drawn under the first"


@pytest.mark.parametrize("kept", ["the entry", "all but the last step"])
def test_a_ledger_that_was_rolled_back_is_refused(run, draws, kept):
    before = run.book.file.read_bytes()
    level(run, TOP)
    lines = run.book.file.read_bytes().splitlines(keepends=True)
    run.book.file.write_bytes(before if kept == "the entry" else b"".join(lines[:2]))
    with pytest.raises(PrivacyGuardError, match="The ledger was rolled back, or replaced by an older copy"):
        resumed(run)
    with pytest.raises(PrivacyGuardError, match="The ledger was rolled back"):
        measure(run, TOP)
    run.book.file.write_bytes(b"".join(lines))
    level(resumed(run), BELOW)


def test_a_journal_that_was_removed_is_refused(run, draws):
    level(run, TOP)
    shutil.rmtree(run.layout.restricted.journal)
    shutil.rmtree(run.layout.public.level("measurements", TOP))
    refused(run, draws, "does not know it")


def test_a_folder_that_is_moved_stays_the_same_place_and_a_copy_is_another_one(run):
    layout = run.layout
    before = identity_of_place(layout)
    moved = layout.folder.rename(layout.folder.with_name("elsewhere"))
    moved.rename(layout.folder)
    assert identity_of_place(layout) == before
    with hold_run(layout):  # closes everything to others
        assert identity_of_place(layout) == before
    copies = Copies(run)
    copies.swap()
    assert identity_of_place(layout) != before
    copies.swap()
    assert identity_of_place(layout) == before
    assert layout.restricted.instance.stat().st_mode & 0o777 == 0o600
    content = layout.restricted.instance.read_bytes()
    layout.restricted.instance.write_bytes(content)  # as a restored backup may have the number of the old file
    os.utime(layout.restricted.instance)
    assert identity_of_place(layout) != before


def test_another_run_on_the_same_dataset_has_attempts_of_its_own(tmp_path, run, draws):
    level(run, TOP)
    other = opened(tmp_path / "runs", "other", insecure=run.insecure)
    enter_run(other)
    level(other, TOP)
    assert known(run, TOP) == [(1, "staged"), (1, "staged")]


def test_another_plan_finds_the_same_attempts(tmp_path, run, draws):
    """Where the ledger lies is no part of a run's configuration; the one that it was begun with is asked."""
    level(run, TOP)
    copies = Copies(run)
    level(run, BELOW)
    copies.swap()
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(PrivacyGuardError, match="copied, restored or rolled back"):
        resumed(replace(run, plan=plan_of(path=str(other))))
