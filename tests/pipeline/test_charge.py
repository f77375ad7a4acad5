"""A dataset is charged with a run once, before anything of it is public, and no run exceeds the cap."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from ledger_runs import BUDGET, Reported, epsilon, opened, plan_of

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.pipeline import charge as charge_module
from das_spark.pipeline.charge import (
    RunLedger,
    agree,
    enter_invariants,
    enter_level,
    enter_run,
    open_ledger,
    spending_against_caps,
)
from das_spark.pipeline.input_record import fingerprint
from das_spark.privacy import Cap, EntryState, Ledger, chained_lines
from das_spark.store import LEDGER_SUFFIX, Journal, OwnEntry, RunLayout, hold_run
from das_spark.telemetry import Event


def again(run: RunLedger, **change: Any) -> RunLedger:
    """The same run, opened by another driver."""
    plan = SimpleNamespace(**vars(run.plan) | change)
    return open_ledger(plan, run.layout, run.progress, insecure=run.insecure)  # type: ignore[arg-type]


def test_a_resumed_run_finds_its_entry_again(tmp_path):
    run = opened(tmp_path)
    entry, ledger = enter_run(run)
    assert ledger.entries == (entry,)
    assert enter_run(again(run)) == (entry, ledger)


@pytest.mark.parametrize(
    "change",
    [
        {"budget": replace(BUDGET, total=Fraction(1, 2))},
        {"product": plan_of(record="unit").product},
        {"product": SimpleNamespace(name="q", record="person", noun="person")},
    ],
)
def test_a_run_that_was_charged_with_another_budget_does_not_go_on(tmp_path, change):
    run = opened(tmp_path)
    enter_run(run)
    with pytest.raises(PrivacyGuardError, match="charged with another budget"):
        again(run, **change)
    with pytest.raises(PrivacyGuardError, match="charged with another budget"):
        enter_run(replace(run, plan=SimpleNamespace(**vars(run.plan) | change)))


def test_a_run_keeps_its_kind_of_key(tmp_path):
    run = opened(tmp_path)
    enter_run(run)
    with pytest.raises(PrivacyGuardError, match="begun under a real key"):
        open_ledger(run.plan, run.layout, run.progress, insecure=True)


def test_a_ledger_that_was_mended_is_told_of(tmp_path):
    run = opened(tmp_path, dataset=None)
    entry, _ = enter_run(run)
    with run.book.file.open("a") as ledger:
        ledger.write('{"format": 2, "run')
    told = Reported()
    assert enter_run(replace(run, progress=told))[1].entries == (entry,)
    (line,) = told.reported
    assert "half written" in line
    assert run.book.file.name not in line, "half of the checksum of the input is restricted"
    assert (Event.LEDGER_MENDED, {"file": str(run.book.file)}) in told.logged


def test_a_ledger_that_is_begun_says_so_where_nobody_can_miss_it(tmp_path):
    persons = tmp_path / "persons.csv"
    persons.write_text("geocode,cell,count\n")
    told = Reported()
    enter_run(opened(tmp_path / "real", "first", told=told, persons=persons))
    (line,) = told.reported
    assert line.startswith(f"WARNING: no release of dataset people was counted in {tmp_path / 'real'}")
    assert line.endswith("name the folder of their ledger: [ledger] path")
    told = Reported()
    entry, ledger = enter_run(opened(tmp_path, "first", told=told))
    assert told.reported == [], "of people that a seed has made nobody need know"
    assert next(event for event, _ in told.logged) is Event.LEDGER_BEGUN
    assert "This ledger was begun with this run" in ledger.describe(Fraction(1, 10**10), entry.run_id)
    second = Reported()
    entry, ledger = enter_run(opened(tmp_path, "second", told=second))
    assert second.reported == []
    assert "was begun" not in ledger.describe(Fraction(1, 10**10), entry.run_id)


def test_the_folder_of_the_ledgers_is_closed_to_others(tmp_path):
    folder = tmp_path / "ledgers"
    run = opened(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # as an earlier version made it
    opened(tmp_path, "second")
    assert folder.stat().st_mode & 0o777 == 0o700
    enter_run(run)
    assert run.book.file.stat().st_mode & 0o777 == 0o600


def test_a_driver_that_lost_its_run_writes_nothing_behind_the_back_of_the_other(tmp_path):
    run = opened(tmp_path)
    own = run.layout.restricted.ledger_entry
    with hold_run(run.layout):
        entry, _ = enter_run(run)
        ahead, _ = enter_level(run, entry, "State")
        run.layout.restricted.lock.write_text("the word of another driver")
        with pytest.raises(OutputError, match="another driver has taken over"):
            enter_level(run, entry, "State")
        assert ahead.completed_levels == ("State",)
        own.unlink()
        with pytest.raises(OutputError, match="another driver has taken over"):
            enter_run(run)
    assert not own.exists()


def test_an_own_entry_that_a_late_driver_has_put_back_catches_up_with_the_ledger(tmp_path):
    run = opened(tmp_path, cap=epsilon("3"))
    own = run.layout.restricted.ledger_entry
    enter_invariants(run)
    early = own.read_bytes()
    entry, _ = enter_run(run)
    entry, _ = enter_level(run, entry, "State")
    late = own.read_bytes()  # a driver sleeps while it writes this, and loses its run
    ahead, ledger = enter_level(run, entry, "County")
    for older in (late, early):
        own.write_bytes(older)
        assert enter_run(run) == (ahead, ledger)
        assert OwnEntry.find(run.layout.restricted) == OwnEntry(ahead, entered=True)
    OwnEntry(replace(entry, created="another time"), entered=True).save(run.layout.restricted)
    with pytest.raises(PrivacyGuardError, match="another budget or state"):
        enter_run(run)


def test_invariants_are_entered_before_they_are_public_and_cost_nothing(tmp_path):
    run = opened(tmp_path, cap=epsilon("1/4"))
    entry = enter_invariants(run)
    (found,) = run.book.read().entries
    assert found == entry
    assert (entry.state, entry.total, entry.cap) == (EntryState.INVARIANTS, 0, None)
    assert (entry.dataset, entry.invariants.total_at, entry.table) == ("people", "State", "person")
    assert "total number of persons in every geounit of the geolevel State" in entry.invariants.sentences[0]
    assert run.book.read().composition().epsilon == 0
    assert f"Invariants alone were published by: {entry.run_id}" in run.book.read().describe(Fraction(1, 100))
    charged, ledger = enter_run(again(run))
    assert charged.run_id == entry.run_id
    assert charged.cap == epsilon("1/4")
    assert ledger.composition().epsilon == Fraction(1, 4)
    assert enter_invariants(again(run)) == charged, "a charged run stays charged"


def test_nothing_is_drawn_before_the_run_is_charged(tmp_path):
    run = opened(tmp_path)
    enter_invariants(run)
    with pytest.raises(PrivacyGuardError, match="the run is not charged"):
        agree(run, Journal.of(run.layout), "State")


@pytest.mark.parametrize("place", [(OwnEntry, "save"), (charge_module, "update_ledger")], ids=["own", "ledger"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("entering", [enter_invariants, enter_run])
def test_a_run_whose_driver_dies_while_it_is_charged_is_charged_once(tmp_path, tools, place, when, nth, entering):
    run = opened(tmp_path)
    with tools.dying(*place, when, nth):
        entering(run)
        enter_run(run)
        entry, _ = enter_run(run)
        enter_level(run, entry, "State")
    entry, ledger = enter_run(again(run))
    assert ledger.entries == (entry,)
    assert OwnEntry.find(run.layout.restricted) == OwnEntry(entry, entered=True)


@pytest.mark.parametrize("lost", ["file", "folder", "older copy"])
def test_a_ledger_that_lost_a_run_is_refused_before_anything_is_read(tmp_path, lost):
    ledgers = tmp_path / "disk"
    ledgers.mkdir()
    enter_run(opened(tmp_path / "runs", "earlier", path=str(ledgers)))
    run = opened(tmp_path / "runs", path=str(ledgers))
    before = run.book.file.read_bytes()
    enter_run(run)
    if lost == "folder":
        ledgers.rename(tmp_path / "away")
    elif lost == "file":
        run.book.file.unlink()
    else:
        run.book.file.write_bytes(before)
    with pytest.raises(PrivacyGuardError, match=r"there is no folder|was lost or rolled back") as caught:
        again(run)
    assert "start a new run" in caught.value.hint or "begin a run of another name" in caught.value.hint
    if lost != "folder":
        with pytest.raises(PrivacyGuardError, match="was lost or rolled back"):
            enter_run(run)


def test_a_charged_line_of_another_run_cannot_be_deleted_to_make_room_below_the_cap(tmp_path):
    for name in ("a", "b"):
        run = opened(tmp_path, name, cap=epsilon("1/2"))
        enter_invariants(run)
        enter_run(run)
    with pytest.raises(PrivacyGuardError, match="the cap of this dataset would be exceeded"):
        opened(tmp_path, "c")
    file = run.book.file
    lines = file.read_bytes().splitlines(keepends=True)
    for place, line in enumerate(lines[:-1]):  # the last one is missed by its run
        file.write_bytes(b"".join(lines[:place] + lines[place + 1 :]))
        with pytest.raises(PrivacyGuardError, match=f"line {place + 1}: does not follow the lines above it") as caught:
            opened(tmp_path, f"c{place}")
        assert "restore it from its copy" in caught.value.hint
        assert json.loads(line)["run_id"].startswith(("a#", "b#"))


def computed_anew(content: bytes) -> bytes:
    """The ledger without its first line, with digests that fit."""
    ledger = Ledger.from_json_lines(content.decode())
    return chained_lines(ledger.entries[1:], b"")


def of_an_earlier_version(content: bytes) -> bytes:
    """The ledger without its first line, and without digests."""
    ledger = Ledger.from_json_lines(content.decode())
    return b"".join(entry.to_json().encode() + b"\n" for entry in ledger.entries[1:])


def test_a_driver_that_measures_nothing_writes_no_entry_that_says_nothing_new(tmp_path):
    """It may lack the right to write."""
    run = opened(tmp_path)
    entry, _ = enter_run(run)
    enter_run(opened(tmp_path, "other"))
    file = run.layout.restricted.ledger_entry
    before, ledger = file.read_bytes(), run.book.file.read_bytes()
    enter_run(replace(again(run), draws=False))
    assert (file.read_bytes(), run.book.file.read_bytes()) == (before, ledger)
    enter_run(again(run))
    assert file.read_bytes() != before, "the digest of the ledger as it is now"
    ahead, _ = enter_level(replace(again(run), draws=False), entry, "State")
    assert OwnEntry.find(run.layout.restricted).entry == ahead
    OwnEntry(ahead.with_completed("County"), entered=True).save(run.layout.restricted)  # died before the ledger had it
    _, ledger = enter_level(replace(again(run), draws=False), ahead, "County")
    assert OwnEntry.find(run.layout.restricted).sha256 == ledger.digests[-1]


@pytest.mark.parametrize("change", [computed_anew, of_an_earlier_version])
def test_a_ledger_that_was_computed_anew_is_missed_by_the_runs_that_wrote_to_it(tmp_path, change):
    enter_run(opened(tmp_path, "other"))
    run = opened(tmp_path)
    enter_run(run)
    run.book.file.write_bytes(change(run.book.file.read_bytes()))
    assert [entry.run_id[:2] for entry in run.book.read().entries] == ["r#"], "a ledger like any other"
    for going_on in (again, enter_run):
        with pytest.raises(
            PrivacyGuardError, match="does not begin with the lines that were there when run r"
        ) as caught:
            going_on(run)
        assert "restore it from its copy" in caught.value.hint


def test_a_ledger_that_was_cut_off_and_continued_is_missed_by_the_runs_that_wrote_later(tmp_path):
    run = opened(tmp_path)
    entry, _ = enter_run(run)
    enter_run(opened(tmp_path, "other"))
    content = run.book.file.read_bytes()
    enter_level(run, entry, "State")
    run.book.file.write_bytes(content)
    enter_run(opened(tmp_path, "later"))
    with pytest.raises(PrivacyGuardError, match="does not begin with the lines that were there when run r"):
        again(run)


def test_the_own_entry_keeps_the_digest_of_what_stood_in_the_ledger_and_runs_of_others_go_on(tmp_path):
    run = opened(tmp_path)
    entry, _ = enter_run(run)
    for level in ("State", "County"):
        other, _ = enter_run(opened(tmp_path, f"before-{level}"))
        entry, _ = enter_level(run, entry, level)
        own = OwnEntry.find(run.layout.restricted)
        assert own.sha256 == hashlib.sha256(run.book.file.read_bytes()).hexdigest()
        assert other.run_id in run.book.file.read_text()
    enter_run(opened(tmp_path, "after"))
    assert enter_run(again(run))[0] == entry


def test_an_entry_of_a_run_by_an_earlier_version_has_no_digest_and_goes_on(tmp_path):
    run = opened(tmp_path)
    entry, _ = enter_run(run)
    own = run.layout.restricted.ledger_entry
    record = json.loads(own.read_text())
    del record["ledger_sha256"]
    own.write_text(json.dumps(record))
    assert OwnEntry.find(run.layout.restricted).sha256 == ""
    assert enter_run(again(run))[0] == entry
    assert OwnEntry.find(run.layout.restricted).sha256


@pytest.mark.parametrize("key", ["beside the input", "by a checksum of the input"])
def test_runs_that_an_earlier_version_counted_elsewhere_are_counted_with_the_run(tmp_path, key):
    """They are there before the cap is asked, although the ledger of the dataset has chained lines of another file."""
    persons = tmp_path / "persons.csv"
    persons.write_text("people")
    enter_run(opened(tmp_path / "runs", "a", cap=epsilon("3/4")))
    (earlier,) = enter_run(opened(tmp_path / "old", "b"))[1].entries
    beside = persons.with_name(f"persons.csv{LEDGER_SUFFIX}")
    if key != "beside the input":
        beside = tmp_path / "runs" / "ledgers" / f"{fingerprint(plan_of(persons=persons).input)[0][:32]}{LEDGER_SUFFIX}"
    beside.write_text(json.dumps(replace(earlier, dataset="").as_record()) + "\n")
    told = Reported()
    run = opened(tmp_path / "runs", "c", persons=persons, told=told)
    assert (Event.LEDGER_COUNTED, {"entries": [earlier.run_id]}) in told.logged
    assert [line for line in told.reported if earlier.run_id in line]
    assert beside.name not in "".join(told.reported)
    _, ledger = enter_run(run)
    assert ledger.composition().epsilon == Fraction(3, 4)
    with pytest.raises(PrivacyGuardError, match="would be exceeded"):
        opened(tmp_path / "runs", "d", persons=persons)


def test_a_run_folder_in_another_root_keeps_its_ledger(tmp_path):
    ledgers = tmp_path / "disk"
    ledgers.mkdir()
    for root in ("one", "other"):
        _, ledger = enter_run(opened(tmp_path / root, path=str(ledgers)))
    assert ledger.composition().epsilon == Fraction(1, 2)
    assert not list(tmp_path.glob("*/ledgers"))


@pytest.mark.parametrize("broken", ['{"format": 1}\n', "no json\n"])
def test_a_ledger_that_cannot_be_understood_is_found_before_the_input_is_read(tmp_path, monkeypatch, broken):
    run = opened(tmp_path)
    run.book.file.write_text(broken)
    monkeypatch.setattr(charge_module, "identity_of_input", lambda *_: pytest.fail("the input was read"))
    with pytest.raises(PrivacyGuardError, match="privacy ledger, line 1"):
        again(run)


def test_a_ledger_that_cannot_be_written_is_found_before_the_input_is_read(tmp_path, monkeypatch):
    run = opened(tmp_path)
    enter_run(opened(tmp_path, "other"))
    monkeypatch.setattr(charge_module, "identity_of_input", lambda *_: pytest.fail("the input was read"))
    monkeypatch.setattr("os.access", lambda path, _: path != run.book.file)
    with pytest.raises(PrivacyGuardError, match="cannot be written"):
        again(run)


def test_records_that_are_counted_under_another_name_are_refused(tmp_path):
    persons = tmp_path / "persons.csv"
    persons.write_text("people")
    enter_run(opened(tmp_path / "runs", "a", persons=persons, dataset="census-2020"))
    with pytest.raises(PrivacyGuardError, match="counted under the dataset 'census-2020'"):
        opened(tmp_path / "runs", "b", persons=persons, dataset="2020-census")
    opened(tmp_path / "runs", "c", persons=persons, dataset="2020-census", insecure=True)
    moved = persons.rename(tmp_path / "moved.csv")
    _, ledger = enter_run(opened(tmp_path / "runs", "d", persons=moved, dataset="census-2020"))
    assert ledger.composition().epsilon == Fraction(1, 2)


def test_of_two_drivers_that_enter_the_same_records_under_two_names_at_once_none_draws(tmp_path):
    persons = tmp_path / "persons.csv"
    persons.write_text("people")
    one, other = (opened(tmp_path, name, persons=persons, dataset=name) for name in ("one", "other"))
    enter_run(one)
    with pytest.raises(PrivacyGuardError, match="counted under the dataset 'one'"):
        enter_run(other)
    with pytest.raises(PrivacyGuardError, match="the run is not charged"):
        agree(other, Journal.of(other.layout), "State")


def test_a_run_beyond_the_cap_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    for name in ("a", "b"):
        enter_run(opened(tmp_path, name, cap=epsilon("3/4")))
    enter_run(opened(tmp_path, "c", insecure=True))  # is not summed
    monkeypatch.setattr(charge_module, "identity_of_input", lambda *_: pytest.fail("the input was read"))
    with pytest.raises(PrivacyGuardError) as caught:
        opened(tmp_path, "d", total="1/2", cap=epsilon("3/4"))
    assert caught.value.exit_code == 3
    assert "3/4): spent so far 1/2, this run asks 1/2, together 1" in caught.value.message


def test_the_cap_is_asked_under_the_lock_in_which_the_run_is_entered(tmp_path):
    one, other = (opened(tmp_path, name, cap=epsilon("1/4")) for name in ("one", "other"))  # there is room for each
    enter_run(one)
    before = one.book.file.read_bytes()
    with pytest.raises(PrivacyGuardError, match="the cap of this dataset would be exceeded"):
        enter_run(other)
    assert one.book.file.read_bytes() == before
    assert enter_run(again(one))[1].composition().epsilon == Fraction(1, 4), "what is charged goes on"


def test_a_cap_of_an_earlier_run_holds_for_those_that_name_none(tmp_path):
    enter_run(opened(tmp_path, "a", cap=epsilon("1/2")))
    enter_run(opened(tmp_path, "b"))
    with pytest.raises(PrivacyGuardError, match="would be exceeded"):
        opened(tmp_path, "c")


def test_a_cap_of_a_run_under_a_test_key_holds_for_nobody_else(tmp_path):
    enter_run(opened(tmp_path, "a", insecure=True, cap=epsilon("1/4")))
    for name in ("b", "c"):
        enter_run(opened(tmp_path, name))


def test_a_cap_is_raised_by_whoever_names_the_old_one(tmp_path):
    enter_run(opened(tmp_path, "a", cap=epsilon("1/4")))
    with pytest.raises(PrivacyGuardError, match="higher than the cap that an earlier run") as caught:
        opened(tmp_path, "b", cap=epsilon("1"))
    assert 'ledger.cap_was = { epsilon = "1/4" }' in caught.value.hint
    with pytest.raises(PrivacyGuardError, match="higher than the cap"):
        opened(tmp_path, "b", cap=epsilon("1"), cap_was=epsilon("1/2"))
    enter_run(opened(tmp_path, "b", cap=epsilon("1"), cap_was=epsilon("1/4")))
    enter_run(opened(tmp_path, "c"))
    with pytest.raises(PrivacyGuardError, match=r"epsilon at delta 1e-10: 1\)"):
        opened(tmp_path, "d", total="1/2")


def test_caps_on_rho_and_on_epsilon_hold_both(tmp_path):
    enter_run(opened(tmp_path, "a", cap=Cap(rho=Fraction(1, 20))))  # 1/4 is rho 1/32
    with pytest.raises(PrivacyGuardError, match=r"rho: 1/20\): spent so far 1/32, this run asks 1/32, together 1/8"):
        opened(tmp_path, "b", cap=epsilon("10"))


def together(run: RunLedger, other: RunLedger) -> RunLedger:
    return replace(run, together=((other.plan, other.layout),))


def test_of_a_joint_run_no_part_is_charged_where_another_has_no_room(tmp_path):
    person = opened(tmp_path, "j-person", cap=epsilon("3/8"))
    unit = opened(tmp_path, "j-unit", record="unit", cap=epsilon("3/8"))
    for part, other in ((person, unit), (unit, person)):
        with pytest.raises(PrivacyGuardError, match="spent so far 0, this run asks 1/2"):
            enter_run(together(part, other))
    assert person.book.read().composition().epsilon == 0


@pytest.mark.parametrize("died", [False, True])
def test_a_joint_run_of_which_one_part_is_charged_goes_on(tmp_path, died):
    """The part that is charged already is not counted twice, also where its driver died before it knew."""
    person = opened(tmp_path, "j-person", cap=epsilon("1/2"))
    unit = opened(tmp_path, "j-unit", record="unit", cap=epsilon("1/2"))
    entry, _ = enter_run(together(person, unit))
    if died:
        OwnEntry(entry, entered=False).save(person.layout.restricted)
    for _ in range(2):
        _, ledger = enter_run(together(unit, person))
    assert ledger.composition().epsilon == Fraction(1, 2)


def test_the_sum_is_stated_over_the_union_of_what_runs_publish_exactly(tmp_path):
    enter_run(opened(tmp_path, "a", total_at="State"))
    enter_invariants(opened(tmp_path, "b", total_at="County"))
    _, ledger = enter_run(opened(tmp_path, "c", record="unit", total_at=None))
    text = ledger.describe(Fraction(1, 10**10))
    assert "differ in one person within the same County and one unit at the same time" in text
    assert "geolevel State" in text
    assert "geolevel County" in text, "what was published without a measurement counts as well"
    assert "person alone: epsilon = 1/4." in text
    assert "Invariants alone were published by: b#" in text
    enter_run(opened(tmp_path, "d", insecure=True, total_at="County"))
    assert len(ledger.invariants()) == 3


def test_what_runs_of_earlier_versions_publish_exactly_is_said_to_be_unknown(tmp_path):
    entry, ledger = enter_run(opened(tmp_path))
    older = replace(entry, run_id="older", invariants=None)
    assert "What the runs older publish exactly was not recorded" in Ledger((older, *ledger.entries)).describe(
        Fraction(1, 100)
    )


def test_an_own_entry_of_an_earlier_version_was_charged(tmp_path):
    run = opened(tmp_path)
    entry, _ = enter_run(run)
    run.layout.restricted.ledger_entry.write_text(entry.to_json())
    assert OwnEntry.find(run.layout.restricted) == OwnEntry(entry, entered=True)
    run.layout.restricted.ledger_entry.write_text(json.dumps({**entry.as_record(), "ledger": "perhaps"}))
    with pytest.raises(PrivacyGuardError, match="'perhaps' is no state"):
        again(run)


def test_a_sweep_says_what_all_of_it_costs_against_the_cap(tmp_path):
    enter_run(opened(tmp_path, "earlier", cap=epsilon("1")))
    first = opened(tmp_path, "first")
    enter_run(first)
    second = RunLayout.at(tmp_path, "second")
    plans = [(first.plan, first.layout), (plan_of(), second)]
    (line,) = spending_against_caps(plans, ())
    assert line == "cap of the dataset (epsilon at delta 1e-10: 1): spent so far 1/2, with all runs that are left 3/4"
    beyond = [*plans, (plan_of(total="3/2"), RunLayout.at(tmp_path, "third"))]
    assert spending_against_caps(beyond, ())[0].endswith("9/4; the run that exceeds it will be refused")
    assert spending_against_caps([(plan_of(dataset="others"), second)], ()) == ()
