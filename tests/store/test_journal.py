"""At most one draw of a measurement survives, whenever the driver dies; what does not fit exits with code 3."""

import json
import os
from pathlib import Path

import pytest

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.store import Journal, State, Step, create_exclusively, finished, part_files, succeed
from das_spark.store import journal as journal_module

LEVEL = "County"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    (tmp_path / "restricted").mkdir()
    return Journal(
        tmp_path / "restricted" / "journal",
        lambda level, attempt: tmp_path / "restricted" / "staging" / f"{level}.{attempt}",
        lambda level: tmp_path / "public" / f"level={level}",
    )


def draw(journal: Journal, number: int, *, whole: bool = True) -> None:
    folder = journal.staging(LEVEL, number)
    folder.mkdir(parents=True)
    for part in range(2 if whole else 1):
        (folder / f"part-{part}").write_text(f"draw {number} part {part} {os.urandom(8).hex()}")


def texts(folder: Path) -> list[str]:
    return [path.read_text() for path in part_files(folder)]


def test_the_first_step_is_to_draw_attempt_one(journal):
    decision = journal.next_step(LEVEL)
    assert (decision.step, decision.number) == (Step.DRAW, 1)


def test_a_level_goes_from_opened_to_staged_to_promoted(journal):
    journal.open(LEVEL, 1)
    draw(journal, 1)
    before = texts(journal.staging(LEVEL, 1))
    assert journal.stage(LEVEL, 1).state is State.STAGED
    assert journal.promote(LEVEL, 1).state is State.PROMOTED
    assert finished(journal.target(LEVEL))
    assert texts(journal.target(LEVEL)) == before
    assert journal.next_step(LEVEL).step is Step.NOTHING


def test_public_measurements_are_known_to_the_journal_or_refused(journal):
    journal.require_known(LEVEL)
    journal.open(LEVEL, 1)
    draw(journal, 1)
    journal.stage(LEVEL, 1)
    journal.promote(LEVEL, 1)
    journal.require_known(LEVEL)
    journal.folder.rename(journal.folder.with_name("lost"))
    with pytest.raises(PrivacyGuardError, match="published that the journal does not know"):
        journal.require_known(LEVEL)


def test_what_is_published_can_be_read_though_it_was_staged_behind_closed_doors(journal):
    journal.open(LEVEL, 1)
    draw(journal, 1)
    for path in part_files(journal.staging(LEVEL, 1)):
        path.chmod(0o600)
    journal.stage(LEVEL, 1)
    before = os.umask(0o027)
    try:
        journal.promote(LEVEL, 1)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in part_files(journal.target(LEVEL))} == {0o640}


def test_a_driver_that_dies_while_drawing_leaves_no_bytes_but_a_tombstone(journal):
    journal.open(LEVEL, 1)
    draw(journal, 1, whole=False)
    decision = journal.next_step(LEVEL)
    assert (decision.step, decision.number) == (Step.DRAW, 2)
    assert journal.attempts(LEVEL)[0].state is State.DESTROYED
    assert not list(journal.folder.parent.rglob("part-*"))
    with pytest.raises(OSError, match="Not a directory"):
        (journal.staging(LEVEL, 1) / "part-late").write_text("late")
    assert journal.next_step(LEVEL).number == 2  # dying once more before attempt 2 is opened changes nothing


@pytest.mark.parametrize("step", ["stage", "promote"])
def test_a_driver_that_sleeps_in_its_last_write_changes_nothing_behind_the_back_of_the_other(
    journal, monkeypatch, step
):
    journal.open(LEVEL, 1)
    draw(journal, 1)
    if step == "promote":
        journal.stage(LEVEL, 1)
    states = {}

    def taken_over(*given, **named):
        monkeypatch.undo()
        decision = journal.next_step(LEVEL)
        if decision.step is Step.DRAW:
            journal.open(LEVEL, decision.number)
        states.update({path.name: path.read_text() for path in journal.folder.iterdir()})
        return create_exclusively(*given, **named)

    monkeypatch.setattr(journal_module, "create_exclusively", taken_over)
    with pytest.raises(OutputError, match="another driver has gone on with attempt 1"):
        getattr(journal, step)(LEVEL, 1)
    assert {path.name: path.read_text() for path in journal.folder.iterdir()} == states
    after = {"stage": ("destroyed", "opened"), "promote": ("promoted",)}
    assert tuple(str(attempt.state) for attempt in journal.attempts(LEVEL)) == after[step]


def test_staged_bytes_are_promoted_and_never_drawn_again(journal):
    journal.open(LEVEL, 1)
    draw(journal, 1)
    before = texts(journal.staging(LEVEL, 1))
    journal.stage(LEVEL, 1)
    decision = journal.next_step(LEVEL)
    assert (decision.step, decision.number) == (Step.PROMOTE, 1)
    journal.promote(LEVEL, 1)
    assert texts(journal.target(LEVEL)) == before


@pytest.mark.parametrize("moved", [0, 1, 2])
@pytest.mark.parametrize("marked", [False, True])
def test_promotion_that_was_killed_is_finished_with_the_same_bytes(journal, moved, marked):
    journal.open(LEVEL, 1)
    draw(journal, 1)
    journal.stage(LEVEL, 1)
    staging, target = journal.staging(LEVEL, 1), journal.target(LEVEL)
    before = texts(staging)
    target.mkdir(parents=True)
    for path in part_files(staging)[:moved]:
        path.replace(target / path.name)
    if marked and moved == 2:
        succeed(target)
        assert journal.next_step(LEVEL).step is Step.NOTHING
    else:
        assert journal.next_step(LEVEL).step is Step.PROMOTE
        journal.promote(LEVEL, 1)
    assert texts(target) == before
    assert journal.attempts(LEVEL)[0].state is State.PROMOTED


def test_an_attempt_is_opened_once(journal):
    journal.open(LEVEL, 1)
    with pytest.raises(PrivacyGuardError, match="not the next"):
        journal.open(LEVEL, 1)
    with pytest.raises(PrivacyGuardError, match="not the next"):
        journal.open(LEVEL, 3)


def test_the_exclusive_file_decides_even_when_two_drivers_look_at_once(journal, monkeypatch):
    journal.open(LEVEL, 1)
    monkeypatch.setattr(Journal, "attempts", lambda _self, _level: ())
    with pytest.raises(PrivacyGuardError, match="opened before"):
        journal.open(LEVEL, 1)


def test_a_journal_file_that_was_cut_short_counts_as_opened(journal):
    journal.open(LEVEL, 1)
    path = journal.folder / f"{LEVEL}.1.json"
    path.write_bytes(path.read_bytes()[:10])
    assert journal.next_step(LEVEL).number == 2
    path.write_bytes(b"")
    assert journal.next_step(LEVEL).number == 2


def promoted(journal: Journal) -> None:
    journal.open(LEVEL, 1)
    draw(journal, 1)
    journal.stage(LEVEL, 1)
    journal.promote(LEVEL, 1)


def staged(journal: Journal) -> None:
    journal.open(LEVEL, 1)
    draw(journal, 1)
    journal.stage(LEVEL, 1)


def unknown_staged(journal):
    draw(journal, 1)


def unknown_published(journal):
    journal.target(LEVEL).mkdir(parents=True)
    (journal.target(LEVEL) / "part-0").write_text("x")


def unknown_finished(journal):
    unknown_published(journal)
    succeed(journal.target(LEVEL))


def marker_lost(journal):
    promoted(journal)
    (journal.target(LEVEL) / "_SUCCESS").unlink()


def published_lost(journal):
    promoted(journal)
    (journal.target(LEVEL) / "part-0").unlink()


def staged_changed(journal):
    staged(journal)
    (journal.staging(LEVEL, 1) / "part-0").write_text("other")


def staged_lost(journal):
    staged(journal)
    (journal.staging(LEVEL, 1) / "part-0").unlink()


def published_while_opened(journal):
    journal.open(LEVEL, 1)
    unknown_published(journal)


def finished_while_opened(journal):
    journal.open(LEVEL, 1)
    unknown_finished(journal)


def journal_lost(journal):
    promoted(journal)
    (journal.folder / f"{LEVEL}.1.json").unlink()


def state_lost(journal):
    promoted(journal)
    (journal.folder / f"{LEVEL}.1-2.json").unlink()


def attempt_lost(journal):
    journal.open(LEVEL, 1)
    journal.next_step(LEVEL)
    journal.open(LEVEL, 2)
    (journal.folder / f"{LEVEL}.1.json").unlink()


def state_unknown(journal):
    journal.open(LEVEL, 1)
    path = journal.folder / f"{LEVEL}.1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "fine"}))


def version_unknown(journal):
    journal.open(LEVEL, 1)
    path = journal.folder / f"{LEVEL}.1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 9}))


def garbage(journal):
    journal.open(LEVEL, 1)
    (journal.folder / f"{LEVEL}.1.json").write_text("not json")


def renamed(journal):
    journal.open(LEVEL, 1)
    path = journal.folder / f"{LEVEL}.1.json"
    path.write_text(path.read_text().replace(LEVEL, "State"))


DISORDER = [
    unknown_staged,
    unknown_published,
    unknown_finished,
    marker_lost,
    published_lost,
    staged_changed,
    staged_lost,
    published_while_opened,
    finished_while_opened,
    journal_lost,
    state_lost,
    attempt_lost,
    state_unknown,
    version_unknown,
    garbage,
    renamed,
]


@pytest.mark.parametrize("disorder", DISORDER)
def test_what_does_not_fit_is_refused_with_exit_code_three(journal, disorder):
    disorder(journal)
    with pytest.raises(PrivacyGuardError) as caught:
        journal.next_step(LEVEL)
    assert caught.value.exit_code == 3


def test_levels_whose_names_begin_alike_do_not_meet(journal):
    promoted(journal)
    assert journal.next_step("Count").number == 1
    assert journal.attempts("County.x") == ()


def test_staging_needs_files_and_an_open_attempt(journal):
    with pytest.raises(PrivacyGuardError, match="not opened"):
        journal.stage(LEVEL, 1)
    journal.open(LEVEL, 1)
    with pytest.raises(PrivacyGuardError, match="no files"):
        journal.stage(LEVEL, 1)
    with pytest.raises(PrivacyGuardError, match="not staged"):
        journal.promote(LEVEL, 1)
