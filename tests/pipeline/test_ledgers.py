"""The ledger of a dataset: where it lies, what identifies an input, and that a run stands in it once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from dataclasses import replace
from fractions import Fraction
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from das_spark.config import InputSettings, LedgerSettings, SimulateSettings
from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.pipeline import input_record
from das_spark.pipeline.input_record import contents_of
from das_spark.privacy import (
    AttemptLine,
    Budget,
    DrawState,
    Framework,
    Ledger,
    LedgerEntry,
    LevelBudget,
    QueryShare,
    chained_lines,
)
from das_spark.privacy import ledger as ledger_text
from das_spark.store import LEDGER_SUFFIX, DatasetLedger, RunLayout, ledger_folder, left_behind, open_run
from das_spark.store import ledger as ledger_file

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
    identity, files = input_record.fingerprint(settings(path=str(tables)))
    assert [Path(str(file["file"])).name for file in files] == ["persons.csv", "units.csv"]
    assert [file["bytes"] for file in files] == [7, 5]
    one_by_one = settings(persons=f"{tables}/persons.csv", units=f"{tables}/units.csv")
    assert input_record.fingerprint(one_by_one)[0] == identity
    elsewhere = tables.rename(tmp_path / "moved")
    assert input_record.fingerprint(settings(path=str(elsewhere)))[0] == identity
    (elsewhere / "units.csv").write_text("unitz")
    assert input_record.fingerprint(settings(path=str(elsewhere)))[0] != identity


def test_a_ledger_in_the_folder_does_not_change_the_identity(tables):
    before = input_record.fingerprint(settings(path=str(tables)))
    (tables / ("persons.csv" + LEDGER_SUFFIX)).write_text("{}")
    assert input_record.fingerprint(settings(path=str(tables))) == before


def test_files_that_change_while_they_are_read_are_named(tables):
    given = settings(path=str(tables))
    _, files = input_record.fingerprint(given)
    (tables / ("persons.csv" + LEDGER_SUFFIX)).write_text("{}")  # a ledger is no input
    input_record.require_unchanged(given, files)
    assert input_record.is_unchanged(given, files)
    persons, units = tables / "persons.csv", tables / "units.csv"
    os.utime(persons, ns=(1, 1))
    with pytest.raises(InputError, match=r"persons\.csv: changed while it was read"):
        input_record.require_unchanged(given, files)
    os.utime(persons, ns=(1, files[0]["mtime_ns"]))
    input_record.require_unchanged(given, files)
    for change in (lambda: units.write_text("more units"), units.unlink):
        change()
        with pytest.raises(InputError, match=r"units\.csv: changed"):
            input_record.require_unchanged(given, files)
    assert not input_record.is_unchanged(given, files)
    (tables / "persons.parquet").touch()  # which one is the table?
    with pytest.raises(InputError, match=r"persons\.csv lies beside it"):
        input_record.require_unchanged(given, files)


@pytest.mark.parametrize(
    "beside", ["runs/mine/restricted/log.jsonl", "notes.md", "persons.csv~", "persons.csv/_SUCCESS", "ri2018.pl.zip"]
)
@pytest.mark.parametrize(
    ("reader", "record"),
    [
        ("tidy_records", "units.csv"),
        ("cef_2020", "units.txt"),
        ("pl94_summary", "riGeo2018.PL"),
        ("ipums_1940", "x.dat"),
    ],
)
def test_what_the_reader_does_not_read_is_no_input(tmp_path, reader, record, beside):
    (tmp_path / record).write_text("a record")
    given = settings(reader=reader, path=str(tmp_path))
    before = input_record.fingerprint(given)
    (tmp_path / beside).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / beside).write_text("a line")
    inside = reader == "ipums_1940" and beside != "notes.md"
    if inside or (reader == "tidy_records" and beside.startswith("persons.csv")):
        with pytest.raises(InputError, match=r"the folder holds|is called as the table"):
            input_record.fingerprint(given)
        return
    assert input_record.fingerprint(given) == before
    input_record.require_unchanged(given, before[1])


def test_a_simulated_input_is_known_by_its_arguments():
    first, files = input_record.fingerprint(settings(reader="simulated", simulate=SimulateSettings()))
    assert files == []
    again, _ = input_record.fingerprint(settings(reader="simulated"))
    other, _ = input_record.fingerprint(settings(reader="simulated", simulate=SimulateSettings(seed=2)))
    assert first == again != other


def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such file"):
        input_record.fingerprint(settings(path=str(tmp_path / "nowhere")))


def people_of(given: InputSettings) -> str:
    """Name of the ledger of an input that has no name of its own."""
    return DatasetLedger.of(Path(), given, contents_of(given, *input_record.fingerprint(given))).name


def test_a_readme_beside_the_tables_makes_no_other_people(tables):
    """It was another input by `path` than by `persons` and `units`, with a ledger of its own."""
    whole = settings(path=str(tables))
    by_file = settings(persons=f"{tables}/persons.csv", units=f"{tables}/units.csv")
    alone = people_of(whole)
    (tables / "README.md").write_text("how these tables were made")
    (tables / "geography.csv").write_text("public")
    assert people_of(whole) == people_of(by_file) == alone
    assert people_of(by_file.model_copy(update={"geography": str(tables / "geography.csv")})) == alone
    assert input_record.fingerprint(whole)[0] != input_record.fingerprint(by_file)[0], (
        "a resumed run must read the same geography"
    )
    (tables / "units.csv").write_text("other units")
    assert people_of(whole) == people_of(by_file) != alone


@pytest.mark.parametrize(
    ("reader", "records", "others"),
    [
        ("tidy_counts", ["persons.parquet/part-0.parquet", "units.csv.gz"], ["geography.csv", "notes.txt"]),
        ("tidy_records", ["households.csv", "living_quarters.csv"], ["geography.csv"]),
        ("tidy_counts", ["housing_units.parquet"], ["geography.csv"]),
        ("cef_2020", ["persons.txt.gz", "units.txt/part-1"], ["geography.txt"]),
        ("pl94_summary", ["rigeo2020.pl", "ri000012020.PL"], ["ri2020.zip"]),
        ("ipums_1940", ["any.dat"], ["README.md"]),
    ],
)
def test_of_a_folder_what_its_reader_reads_is_confidential(tmp_path, reader, records, others):
    for name in (*records, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    _, files = input_record.fingerprint(settings(reader=reader, path=str(tmp_path)))
    found = {str(Path(str(file["file"])).relative_to(tmp_path)) for file in files if file["confidential"]}
    assert found == set(records)


def test_a_folder_of_which_the_reader_reads_nothing_is_refused(tmp_path):
    (tmp_path / "strange.csv").write_text("x")
    with pytest.raises(InputError, match="holds nothing that the reader 'tidy_counts' reads"):
        input_record.fingerprint(settings(path=str(tmp_path)))


def test_a_named_dataset_is_one_ledger_whatever_files_it_is_read_from(tables, tmp_path):
    (tmp_path / "persons.parquet").write_text("the same people in another form")
    forms = [settings(path=str(tables)), settings(persons=str(tmp_path / "persons.parquet"))]
    names = {
        DatasetLedger.of(tmp_path, form.model_copy(update={"dataset": "census-2020"}), ("f" * 64,)).file
        for form in forms
    }
    assert names == {tmp_path / f"census-2020{LEDGER_SUFFIX}"}
    assert len({people_of(form) for form in forms}) == 2


def plan_with(ledger: Path | None = None, **given: Any) -> Any:
    return SimpleNamespace(input=settings(**given), ledger=LedgerSettings(None if ledger is None else str(ledger)))


def test_without_a_folder_of_its_own_the_ledger_lies_with_the_runs_and_nothing_beside_the_input(tables, tmp_path):
    folder = ledger_folder(plan_with(path=str(tables)), RunLayout.at(tmp_path / "runs", "r"))
    assert folder == tmp_path / "runs" / "ledgers"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in tables.parent.iterdir()) == ["census"]


def test_a_folder_that_is_named_is_never_made_and_must_be_writable(tmp_path):
    layout, named = RunLayout.at(tmp_path / "runs", "r"), tmp_path / "disk" / "ledgers"
    with pytest.raises(PrivacyGuardError, match="there is no folder") as caught:
        ledger_folder(plan_with(named), layout)
    assert caught.value.exit_code == 3
    assert not named.parent.exists()
    assert not (tmp_path / "runs").exists(), "nor is another one taken in its place"
    named.mkdir(parents=True)
    assert ledger_folder(plan_with(named), layout) == named


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PrivacyGuardError, match="cannot be written"):
        ledger_folder(plan_with(tmp_path), RunLayout.at(tmp_path / "runs", "r"))


def test_a_run_goes_on_with_the_ledger_that_it_was_begun_with_or_not_at_all(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    layout = RunLayout.at(tmp_path / "runs", "r")
    open_run(layout, "0" * 64, ledger=str(first))
    assert ledger_folder(plan_with(second), layout) == first
    assert ledger_folder(plan_with(), layout) == first
    first.rename(tmp_path / "unmounted")
    for asked in (plan_with(second), plan_with()):
        with pytest.raises(PrivacyGuardError, match=r"was begun with the ledgers in .*first, and there is no folder"):
            ledger_folder(asked, layout)
    assert not (tmp_path / "runs" / "ledgers").exists()


def test_the_same_records_under_another_name_are_refused_and_the_other_name_is_said(tmp_path):
    book = DatasetLedger(tmp_path, "census-2020")
    one = replace(entry("a"), dataset="census", contents=("a" * 64, "b" * 64))
    ledger_file.commit_entry(DatasetLedger(tmp_path, "census").file, one)
    with pytest.raises(PrivacyGuardError, match="counted under the dataset 'census': run a"):
        book.same_people(("b" * 64,), "f" * 64)
    book.same_people(("c" * 64,), "f" * 64)
    DatasetLedger(tmp_path, "census").same_people(("b" * 64,), "f" * 64)


def test_runs_of_earlier_versions_on_the_same_files_are_not_forgotten(tmp_path):
    """Their ledgers are called by a checksum of all files of the input, and their entries say nothing of contents."""
    earlier, book = DatasetLedger(tmp_path, "f" * 32).file, DatasetLedger(tmp_path, "census")
    earlier.write_text(json.dumps(entry("a").as_record()) + "\n")
    assert book.same_people(("b" * 64,), "f" * 64) == (earlier,)
    earlier.write_text(replace(entry("a"), insecure=True).to_json() + "\n")
    assert book.same_people(("b" * 64,), "f" * 64) == ()  # runs under test keys are not summed


def test_a_ledger_of_another_name_is_that_of_a_dataset_whichever_run_has_the_same_records(tmp_path):
    """Runs that were counted without a name keep having none."""
    other, nameless = DatasetLedger(tmp_path, "other"), replace(entry("a"), contents=("a" * 64,))
    ledger_file.update_ledger(other.file, lambda _: [nameless, replace(entry("b"), dataset="other")])
    with pytest.raises(PrivacyGuardError, match="counted under the dataset 'other': run a"):
        DatasetLedger(tmp_path, "census").same_people(("a" * 64,), "f" * 64)


def test_another_ledger_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / f"other{LEDGER_SUFFIX}").write_text('{"format": 7}\n')
    with pytest.raises(PrivacyGuardError, match="privacy ledger, line 1"):
        DatasetLedger(tmp_path, "census").same_people((), "f" * 64)


@pytest.mark.parametrize("key", ["path", "persons", "units"])
def test_a_ledger_that_an_earlier_version_left_beside_the_input_is_found(tables, key):
    place = tables if key == "path" else tables / f"{key}.csv"
    given = settings(**{key: str(place)})
    assert left_behind(given) == ()
    beside = place.with_name(place.name + LEDGER_SUFFIX)
    beside.write_text("")
    assert left_behind(given) == (beside,)


@pytest.mark.parametrize("there", ["nothing", "an older ledger", "a chained ledger"])
def test_runs_of_an_earlier_ledger_are_counted_whatever_the_ledger_of_the_dataset_is(tmp_path, there):
    beside, book = tmp_path / "beside", DatasetLedger(tmp_path, "census")
    beside.write_text(first_format(entry("earlier", "State")) + "\n")
    if there == "an older ledger":
        book.file.write_text(first_format(entry("other")) + "\n")
    elif there == "a chained ledger":
        ledger_file.commit_entry(book.file, entry("other"))
    before = book.read().entries
    content = book.file.read_bytes() if before else b""
    assert book.count_earlier([beside]) == ("earlier",)
    assert book.file.read_bytes().startswith(content)
    assert book.read().entries == (*before, entry("earlier", "State"))
    content = book.file.read_bytes()
    assert book.count_earlier([beside]) == ()
    assert book.file.read_bytes() == content, "they are counted once"
    assert beside.read_text() == first_format(entry("earlier", "State")) + "\n"
    ledger_file.commit_entry(book.file, entry("next"))
    assert book.read().composition().epsilon == (len(before) + 2) * BUDGET.total


def test_attempts_of_an_earlier_ledger_come_with_their_runs(tmp_path):
    """Their runs find them there when they go on; those of runs that are known are not touched."""
    earlier, book = DatasetLedger(tmp_path, "f" * 32).file, DatasetLedger(tmp_path, "census")
    attempts = [
        AttemptLine(run, "State", number, f"{run} {number}", state, "here")
        for run in ("a", "b")
        for number, state in enumerate(DrawState, start=1)
    ]
    lines = [line for end in attempts for line in (replace(end, state=DrawState.OPENED), end)]
    ledger_file.update_ledger(earlier, lambda _: [entry("a"), entry("b"), *lines])
    ledger_file.update_ledger(book.file, lambda _: [entry("b", "State")])
    assert book.count_earlier([earlier]) == ("a",)
    assert book.read() == Ledger((entry("b", "State"), entry("a")), tuple(attempts[:3]))


def test_a_ledger_of_runs_under_test_keys_alone_is_left_where_it_is(tmp_path):
    beside, book = tmp_path / "beside", DatasetLedger(tmp_path, "census")
    beside.write_text(first_format(replace(entry("test"), insecure=True)) + "\n")
    assert book.count_earlier([beside]) == ()
    assert not book.file.exists()


def with_lines(*lines: LedgerEntry | AttemptLine) -> Ledger:
    ledger = Ledger()
    for line in lines:
        ledger = ledger.with_line(line)
    return ledger


def first_format(one: LedgerEntry) -> str:
    """An entry as the first version wrote it."""
    known = ("run_id", "created", "product", "table", "framework", "total", "levels", "insecure", "completed_levels")
    record = one.as_record()
    return json.dumps({"format": 1, **{name: record[name] for name in known}})


def test_all_lines_of_a_change_are_added_or_none(tmp_path):
    file = tmp_path / "x"
    attempt = AttemptLine("a", "State", 1, "i", DrawState.OPENED, "here")
    assert ledger_file.update_ledger(file, lambda _: [entry("a"), attempt]).attempts == (attempt,)
    before = file.read_bytes()

    def refuse(ledger: Ledger) -> list[LedgerEntry]:
        assert ledger.entries == (entry("a"),), "what stands there is read under the lock"
        raise PrivacyGuardError("the cap")

    with pytest.raises(PrivacyGuardError, match="the cap"):
        ledger_file.update_ledger(file, refuse)
    with pytest.raises(PrivacyGuardError, match="does not stand in the privacy ledger"):
        ledger_file.update_ledger(file, lambda _: [entry("b"), replace(attempt, entry="c")])
    assert file.read_bytes() == before


def test_a_run_that_cannot_be_entered_does_not_draw(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(ledger_file.os, "open", refuse)
    with pytest.raises(PrivacyGuardError, match=r"x: the privacy ledger .* cannot be charged"):
        ledger_file.commit_entry(tmp_path / "x", entry("a"))


@pytest.mark.parametrize("short", [0, 7, -1])
def test_a_disk_that_fills_leaves_the_ledger_as_it_was(tmp_path, monkeypatch, short):
    file = tmp_path / "x"
    ledger_file.commit_entry(file, entry("a"))
    before = file.read_bytes()

    class Full(FileIO):
        def write(self, line):
            return super().write(line[:short])

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file.os, "fdopen", lambda descriptor, *_, **__: Full(descriptor, "r+"))
        with pytest.raises(OutputError, match=r"no space left|No space left"):
            ledger_file.commit_entry(file, entry("b"))
    assert file.read_bytes() == before
    assert ledger_file.commit_entry(file, entry("b")).entries == (entry("a"), entry("b"))


def test_an_entry_that_lacks_its_end_of_line_is_not_glued_to_the_next(tmp_path):
    file = tmp_path / "x"
    ledger_file.commit_entry(file, entry("a"))
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    ledger_file.commit_entry(file, entry("b"))
    assert Ledger.from_json_lines(file.read_text()).entries == (entry("a"), entry("b"))
    file.write_text(file.read_text().replace("State", "state"))
    with pytest.raises(PrivacyGuardError, match="line 2: does not follow"):
        ledger_file.commit_entry(file, entry("c"))


def test_every_line_of_a_ledger_is_parsed_once(tmp_path, monkeypatch):
    file = DatasetLedger(tmp_path, "people").file
    runs = [entry(f"run-{number}") for number in range(1000)]
    file.write_bytes(chained_lines([*runs, *(entry(run.run_id, "State") for run in runs)], b""))
    parsed = []
    line = ledger_text._line
    monkeypatch.setattr(ledger_text, "_line", lambda text: parsed.append(text) or line(text))
    assert DatasetLedger(tmp_path, "people").read().entries == tuple(entry(run.run_id, "State") for run in runs)
    for number in range(10):  # a run reads and writes its ledger some thirty times
        ledger_file.commit_entry(file, entry("last", *("State", "County")[: number // 4]))
        assert len(DatasetLedger(tmp_path, "people").read().entries) == 1001
    assert len(parsed) == len(set(parsed)) == len(file.read_text().splitlines()) == 2003
    file.write_text(file.read_text().replace('"State"', '"state"', 1))
    with pytest.raises(PrivacyGuardError, match="line 2: does not follow"):
        ledger_file.commit_entry(file, entry("another"))


def test_a_run_is_entered_once_and_its_progress_added(tmp_path):
    file = tmp_path / "x"
    assert ledger_file.commit_entry(file, entry("a")) == Ledger((entry("a"),))
    ledger_file.commit_entry(file, entry("a"))
    assert len(file.read_text().splitlines()) == 1
    ledger_file.commit_entry(file, entry("b"))
    ledger = ledger_file.commit_entry(file, entry("a", "State"))
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
    ledger_file.commit_entry(file, entry("a", "State"))
    before = file.read_text()
    with pytest.raises(PrivacyGuardError):
        ledger_file.commit_entry(file, other)
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
    ledger_file.commit_entry(file, entry("a"))
    file.write_bytes(file.read_bytes() + torn)
    assert ledger_file.read_ledger(file).entries == (entry("a"),)
    mended: list[Path] = []
    assert ledger_file.commit_entry(file, entry("c"), mended.append).entries == (entry("a"), entry("c"))
    assert mended == [file]
    assert ledger_file.read_ledger(file) == Ledger.from_json_lines(file.read_text())
    ledger_file.commit_entry(file, entry("d"), mended.append)
    assert mended == [file]


def test_a_ledger_that_was_cut_at_any_byte_of_its_last_lines_goes_on_with_its_chain(tmp_path):
    file = tmp_path / "x"
    lines = [entry("a"), entry("b"), AttemptLine("b", "State", 1, "i", DrawState.OPENED, "here"), entry("b", "State")]
    ends = []
    for line in lines:
        ledger_file.update_ledger(file, lambda _, line=line: [line])
        ends.append(file.stat().st_size)
    content = file.read_bytes()
    for cut in range(ends[0] - 1, len(content)):
        file.write_bytes(content[:cut])
        written = lines[: sum(cut >= end - 1 for end in ends)]  # without its newline, a line is whole
        assert ledger_file.commit_entry(file, entry("c")) == with_lines(*written, entry("c"))
        assert file.read_bytes().startswith(content[: ends[len(written) - 1]])
        assert ledger_file.read_ledger(file).find("c") == entry("c")


def test_a_driver_that_dies_after_a_torn_line_is_cut_off_leaves_a_chain(tmp_path, monkeypatch):
    file = tmp_path / "x"
    ledger_file.commit_entry(file, entry("a"))
    whole = file.read_bytes()
    file.write_bytes(whole + entry("b").to_json().encode()[:-40])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "_append", die)
        with pytest.raises(KeyboardInterrupt):
            ledger_file.commit_entry(file, entry("c"))
    assert file.read_bytes() == whole
    ledger_file.commit_entry(file, entry("c"))
    assert ledger_file.read_ledger(file).entries == (entry("a"), entry("c"))


def test_a_torn_first_line_is_no_entry(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b'{"format": 1, "run')
    assert ledger_file.commit_entry(file, entry("a")).entries == (entry("a"),)


@pytest.mark.parametrize(
    "broken",
    [
        entry("b").to_json().encode()[:-40] + b"\n",
        entry("b").to_json().encode()[:-40] + b"\n" + entry("c").to_json().encode()[:-40],
        entry("\u00fcber").to_json().encode().replace(b"\xc3", b"") + b"\n",
        b'{"format": 3}',
    ],
    ids=["ended", "another behind it", "no text", "another format"],
)
def test_any_other_broken_line_is_refused_with_its_number_and_left(tmp_path, broken):
    file = tmp_path / "x"
    ledger_file.commit_entry(file, entry("a"))
    before = file.read_bytes() + broken
    file.write_bytes(before)
    with pytest.raises(PrivacyGuardError, match="privacy ledger, line 2"):
        ledger_file.commit_entry(file, entry("d"))
    assert file.read_bytes() == before


def test_an_entry_is_durable_before_its_run_goes_on_whoever_wrote_it(tmp_path, monkeypatch):
    file, synced = tmp_path / "x", []
    real = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    ledger_file.commit_entry(file, entry("a"))
    assert synced[-1] == tmp_path, "the name of a new ledger"
    assert file in synced
    synced.clear()
    ledger_file.commit_entry(file, entry("a"))
    assert synced == [file], "a killed driver may have written the line, and nobody have synced it"


def _enter(file: Path, number: int) -> None:
    ledger_file.commit_entry(file, entry(f"run {number}"))


def test_runs_that_begin_together_are_all_entered(tmp_path):
    processes = [multiprocessing.get_context("fork").Process(target=_enter, args=(tmp_path / "x", n)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    entries = Ledger.from_json_lines((tmp_path / "x").read_text()).entries
    assert {each.run_id for each in entries} == {f"run {number}" for number in range(8)}
    assert all("sha256_before" in json.loads(line) for line in (tmp_path / "x").read_text().splitlines())
