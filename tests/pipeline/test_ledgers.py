"""The ledger file of an input: where it lies, what identifies an input, and that a run stands in it once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
from dataclasses import replace
from fractions import Fraction
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from das_spark.config.plan import InputSettings
from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.io.layout import RunLayout
from das_spark.pipeline import ledgers
from das_spark.privacy import Budget, Framework, Ledger, LedgerEntry, LevelBudget, QueryShare

HALF = Fraction(1, 2)
LEVELS = tuple(LevelBudget(name, HALF, (QueryShare("detailed", Fraction(1)),)) for name in ("State", "County"))
BUDGET = Budget(Framework.PURE_DP, Fraction(1, 4), LEVELS)


def entry(run_id: str, *completed: str) -> LedgerEntry:
    return LedgerEntry(
        run_id, "2026-01-01T00:00:00+00:00", "p", "person", BUDGET, insecure=False, completed_levels=completed
    )


def settings(**given: Any) -> InputSettings:
    return InputSettings(**{"reader": "tidy_counts", **given})


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "in" / "census"
    folder.mkdir(parents=True)
    (folder / "persons.csv").write_text("persons")
    (folder / "units.csv").write_text("units")
    return folder


def test_the_identity_of_an_input_is_what_its_files_hold(tables, tmp_path):
    identity, files = ledgers.fingerprint(settings(path=str(tables)))
    assert [Path(str(each["file"])).name for each in files] == ["persons.csv", "units.csv"]
    assert [each["bytes"] for each in files] == [7, 5]
    one_by_one = settings(persons=f"{tables}/persons.csv", units=f"{tables}/units.csv")
    assert ledgers.fingerprint(one_by_one)[0] == identity
    elsewhere = tables.rename(tmp_path / "moved")
    assert ledgers.fingerprint(settings(path=str(elsewhere)))[0] == identity
    (elsewhere / "units.csv").write_text("unitz")
    assert ledgers.fingerprint(settings(path=str(elsewhere)))[0] != identity


def test_a_ledger_in_the_folder_does_not_change_the_identity(tables):
    before = ledgers.fingerprint(settings(path=str(tables)))
    (tables / ("persons.csv" + ledgers._SUFFIX)).write_text("{}")
    assert ledgers.fingerprint(settings(path=str(tables))) == before


def test_files_that_change_while_they_are_read_are_named(tables):
    given = settings(path=str(tables))
    _, files = ledgers.fingerprint(given)
    (tables / ("persons.csv" + ledgers._SUFFIX)).write_text("{}")  # a ledger is no input
    ledgers.require_unchanged(given, files)
    assert ledgers.is_unchanged(given, files)
    persons, units = tables / "persons.csv", tables / "units.csv"
    os.utime(persons, ns=(1, 1))
    with pytest.raises(InputError, match=r"persons\.csv: changed while it was read"):
        ledgers.require_unchanged(given, files)
    os.utime(persons, ns=(1, files[0]["mtime_ns"]))
    ledgers.require_unchanged(given, files)
    for change in (lambda: units.write_text("more units"), units.unlink):
        change()
        with pytest.raises(InputError, match=r"units\.csv: changed"):
            ledgers.require_unchanged(given, files)
    (tables / "a further delivery.csv").touch()
    with pytest.raises(InputError, match=r"a further delivery\.csv: changed"):
        ledgers.require_unchanged(given, files)
    assert not ledgers.is_unchanged(given, files)


def test_a_simulated_input_is_known_by_its_arguments():
    first, files = ledgers.fingerprint(settings(reader="simulated", simulate={"like": "1940", "seed": 1}))
    assert files == []
    again, _ = ledgers.fingerprint(settings(reader="simulated", simulate={"seed": 1, "like": "1940"}))
    other, _ = ledgers.fingerprint(settings(reader="simulated", simulate={"seed": 2, "like": "1940"}))
    assert first == again != other


def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such file"):
        ledgers.fingerprint(settings(path=str(tmp_path / "nowhere")))


def test_the_ledger_lies_with_the_runs_and_beside_the_input(tables, tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "r")
    plan = SimpleNamespace(input=settings(path=str(tables)))
    with_the_runs = tmp_path / "runs" / "ledgers" / f"{'f' * 32}{ledgers._SUFFIX}"
    beside = tables.parent / f"census{ledgers._SUFFIX}"
    assert ledgers.ledger_files(plan, layout, "f" * 64) == (with_the_runs, beside)
    by_file = SimpleNamespace(input=settings(persons=str(tables / "persons.csv")))
    assert ledgers.ledger_files(by_file, layout, "f" * 64)[1] == tables / f"persons.csv{ledgers._SUFFIX}"


def test_it_lies_beside_every_file_of_records_that_is_given(tables, tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "r")
    geography = tables / "geography.csv"
    geography.write_text("public")
    given = settings(reader="cef_2020", units=f"{tables}/units.csv", geography=str(geography))
    units = tables / f"units.csv{ledgers._SUFFIX}"
    assert ledgers.ledger_files(SimpleNamespace(input=given), layout, "f" * 64)[1:] == (units,)
    both = replace(given, persons=f"{tables}/persons.csv")
    persons = tables / f"persons.csv{ledgers._SUFFIX}"
    assert ledgers.ledger_files(SimpleNamespace(input=both), layout, "f" * 64)[1:] == (persons, units)


def test_a_ledger_that_is_there_counts_where_its_folder_cannot_be_written(tables, tmp_path):
    beside = tables.parent / f"census{ledgers._SUFFIX}"
    ledgers.commit(beside, entry("earlier"))
    tables.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        plan = SimpleNamespace(input=settings(path=str(tables)))
        assert ledgers.ledger_files(plan, RunLayout.at(tmp_path / "runs", "r"), "f" * 64)[1:] == (beside,)
    finally:
        tables.parent.chmod(0o700)


def test_a_run_that_cannot_be_entered_does_not_draw(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(ledgers.os, "open", refuse)
    with pytest.raises(OutputError, match=r"x: the privacy ledger .* cannot be charged"):
        ledgers.commit(tmp_path / "x", entry("a"))


@pytest.mark.parametrize("short", [0, 7, -1])
def test_a_disk_that_fills_leaves_the_ledger_as_it_was(tmp_path, monkeypatch, short):
    file = tmp_path / "x"
    ledgers.commit(file, entry("a"))
    before = file.read_bytes()

    class Full(FileIO):
        def write(self, line):
            return super().write(line[:short])

    with monkeypatch.context() as patch:
        patch.setattr(ledgers.os, "fdopen", lambda descriptor, *_, **__: Full(descriptor, "r+"))
        with pytest.raises(OutputError, match=r"no space left|No space left"):
            ledgers.commit(file, entry("b"))
    assert file.read_bytes() == before
    assert ledgers.commit(file, entry("b")).entries == (entry("a"), entry("b"))


def test_an_entry_that_lacks_its_end_of_line_is_not_glued_to_the_next(tmp_path):
    file = tmp_path / "x"
    ledgers.commit(file, entry("a"))
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    ledgers.commit(file, entry("b"))
    assert Ledger.from_json_lines(file.read_text()).entries == (entry("a"), entry("b"))


def test_runs_that_reach_one_input_by_two_paths_are_counted_together(tables, tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "r")
    whole = settings(path=str(tables))
    by_file = settings(persons=f"{tables}/persons.csv", units=f"{tables}/units.csv")
    totals = []
    for number, given in enumerate((whole, by_file)):
        files = ledgers.ledger_files(SimpleNamespace(input=given), layout, ledgers.fingerprint(given)[0])
        totals.append(ledgers.enter(files, entry(f"run {number}")).composition().epsilon)
    assert totals == [Fraction(1, 4), Fraction(1, 2)]


def test_a_copy_that_is_behind_catches_up(tmp_path):
    ahead, behind = tmp_path / "ahead", tmp_path / "behind"
    for file in (ahead, behind):
        ledgers.commit(file, entry("a"))
    ledgers.commit(ahead, entry("a", "State"))  # and here the driver died
    assert ledgers.enter((behind, ahead), entry("b")).entries == (entry("a", "State"), entry("b"))
    assert ledgers.enter((ahead, behind), entry("b")).entries == (entry("a", "State"), entry("b"))
    contradicting = Ledger((replace(entry("a"), insecure=True),))
    with pytest.raises(PrivacyGuardError):
        Ledger((entry("a"),)).union(contradicting)


def test_beside_a_simulated_or_read_only_input_it_lies_with_the_runs(tables, tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "r")
    expected = tmp_path / "runs" / "ledgers" / f"{'f' * 32}{ledgers._SUFFIX}"
    simulated = SimpleNamespace(input=settings(reader="simulated"))
    assert ledgers.ledger_files(simulated, layout, "f" * 64) == (expected,)
    tables.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        read_only = SimpleNamespace(input=settings(path=str(tables)))
        assert ledgers.ledger_files(read_only, layout, "f" * 64) == (expected,)
    finally:
        tables.parent.chmod(0o700)


def test_a_run_is_entered_once_and_its_progress_added(tmp_path):
    file = tmp_path / "ledgers" / "x"
    assert ledgers.commit(file, entry("a")) == Ledger((entry("a"),))
    ledgers.commit(file, entry("a"))
    assert len(file.read_text().splitlines()) == 1
    ledgers.commit(file, entry("b"))
    ledger = ledgers.commit(file, entry("a", "State"))
    assert ledger.entries == (entry("a", "State"), entry("b"))
    assert ledger == Ledger.from_json_lines(file.read_text())
    assert ledger.composition().epsilon == HALF
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        replace(entry("a", "State"), insecure=True),
        replace(entry("a", "State"), budget=replace(BUDGET, total=Fraction(1, 8))),
        entry("a"),
    ],
    ids=["key", "budget", "a level lost"],
)
def test_a_run_that_says_something_else_of_itself_is_refused(tmp_path, other):
    file = tmp_path / "x"
    ledgers.commit(file, entry("a", "State"))
    before = file.read_text()
    with pytest.raises(PrivacyGuardError):
        ledgers.commit(file, other)
    assert file.read_text() == before


@pytest.mark.parametrize(
    "torn",
    [
        entry("b").to_json().encode()[:-40],
        entry("\u00fcber").to_json().encode().partition(b"\xc3")[0] + b"\xc3",  # in the middle of a letter
        entry("b").to_json().encode() + b"\0" * 10,
        b"\0" * 100,
        b"\n" + entry("b").to_json().encode()[:20],
    ],
    ids=["text", "letter", "zeros behind it", "zeros", "empty line before it"],
)
def test_a_last_line_that_a_power_cut_tore_is_cut_off_and_bars_nobody(tmp_path, torn):
    file = tmp_path / "x"
    ledgers.commit(file, entry("a"))
    file.write_bytes(file.read_bytes() + torn)
    assert ledgers.read(file).entries == (entry("a"),)
    mended: list[Path] = []
    assert ledgers.commit(file, entry("c"), mended.append).entries == (entry("a"), entry("c"))
    assert mended == [file]
    assert ledgers.read(file) == Ledger.from_json_lines(file.read_text())
    ledgers.commit(file, entry("d"), mended.append)
    assert mended == [file]


def test_a_torn_first_line_is_no_entry(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b'{"format": 1, "run')
    assert ledgers.commit(file, entry("a")).entries == (entry("a"),)


@pytest.mark.parametrize(
    "broken",
    [
        entry("b").to_json().encode()[:-40] + b"\n",
        entry("b").to_json().encode()[:-40] + b"\n" + entry("c").to_json().encode()[:-40],
        entry("\u00fcber").to_json().encode().replace(b"\xc3", b"") + b"\n",
        b'{"format": 2}',
    ],
    ids=["ended", "another behind it", "no text", "another format"],
)
def test_any_other_broken_line_is_refused_with_its_number_and_left(tmp_path, broken):
    file = tmp_path / "x"
    ledgers.commit(file, entry("a"))
    before = file.read_bytes() + broken
    file.write_bytes(before)
    with pytest.raises(PrivacyGuardError, match="privacy ledger, line 2"):
        ledgers.commit(file, entry("d"))
    assert file.read_bytes() == before


def test_an_entry_is_durable_before_its_run_goes_on_whoever_wrote_it(tmp_path, monkeypatch):
    file, synced = tmp_path / "x", []
    real = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    ledgers.commit(file, entry("a"))
    assert synced[-1] == tmp_path, "the name of a new ledger"
    assert file in synced
    synced.clear()
    ledgers.commit(file, entry("a"))
    assert synced == [file], "a killed driver may have written the line, and nobody have synced it"


def _enter(file: Path, number: int) -> None:
    ledgers.commit(file, entry(f"run {number}"))


def test_runs_that_begin_together_are_all_entered(tmp_path):
    processes = [multiprocessing.get_context("fork").Process(target=_enter, args=(tmp_path / "x", n)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    entries = Ledger.from_json_lines((tmp_path / "x").read_text()).entries
    assert {each.run_id for each in entries} == {f"run {number}" for number in range(8)}
