"""A run folder and a ledger as das_spark wrote them before lines of ledgers were chained: both stay readable for good.

The files in `frozen` are never made anew. They hold a whole run of a small product under a real key and with a cap,
and its ledger, in which a run of another product under a test key follows: it acknowledges what it gives up, raises
the cap, and its first attempt was destroyed. In their texts `@FOLDER@` stands for the folder in which they were made.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from ledger_runs import opened

import das_spark
from das_spark.cli.main import main
from das_spark.errors import PrivacyGuardError
from das_spark.pipeline import driver, levels
from das_spark.pipeline.charge import enter_run
from das_spark.privacy import Cap, DrawState
from das_spark.store import OwnEntry, RunLayout, read_ledger

FROZEN = Path(__file__).parent / "frozen"
FOLDER = "@FOLDER@"
GEOUNITS = {"Country": 1, "District": 2, "Village": 4}
LEVELS = tuple(GEOUNITS)
PEOPLE = 59


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    """The run file, the census, the ledger and the run folder, where a run of this configuration has them."""
    shutil.copytree(FROZEN / "census", tmp_path / "census")
    shutil.copytree(FROZEN / "ledgers", tmp_path / "runs" / "ledgers")
    shutil.copytree(FROZEN / "run", tmp_path / "runs" / "frozen")
    shutil.copy(FROZEN / "people.toml", tmp_path)
    shutil.copy(FROZEN / "run.toml", tmp_path)
    for path in (tmp_path / "run.toml", *(tmp_path / "runs" / "frozen" / "restricted").glob("*.json*")):
        path.write_text(path.read_text().replace(FOLDER, str(tmp_path)))
    return tmp_path


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a real key in the session of the tests, whose properties are those of quick tests."""
    for module in (driver, levels):
        monkeypatch.setattr(module, "require_safe_session", lambda *_, **__: None)


def ledger_of(folder: Path) -> Path:
    return folder / "runs" / "ledgers" / "frozen.privacy-ledger.jsonl"


def test_a_frozen_ledger_is_read(frozen):
    ledger = read_ledger(ledger_of(frozen))
    first, second = ledger.entries
    assert first.run_id.startswith("frozen#")
    assert (first.insecure, second.insecure) == (False, True)
    assert (str(first.total), first.completed_levels, second.completed_levels) == ("1/2", LEVELS, ("County",))
    assert second.acknowledged == ("unit_conflicts_from_people",)
    assert ledger.caps() == (first.cap,) == (Cap(rho=Fraction(10)),)
    assert second.cap_was == first.cap
    drawn = ledger.attempts_at(second.run_id, "County")
    assert [(line.number, line.state) for line in drawn] == [(1, DrawState.DESTROYED), (2, DrawState.STAGED)]
    assert [line.state for line in ledger.attempts_at(first.run_id, "Village")] == [DrawState.STAGED]
    assert ledger.composition().rho == Fraction(1, 2)


def test_a_frozen_ledger_is_continued_and_sealed_by_the_next_run(frozen):
    before = ledger_of(frozen).read_bytes()
    entry, ledger = enter_run(opened(frozen / "runs", "next", dataset="frozen"))
    with pytest.raises(PrivacyGuardError, match="cap of this dataset would be exceeded"):
        opened(frozen / "runs", "too-much", dataset="frozen", total="5")
    assert ledger == read_ledger(ledger_of(frozen))
    assert ledger.entries == (*read_ledger(FROZEN / "ledgers" / ledger_of(frozen).name).entries, entry)
    after = ledger_of(frozen).read_bytes()
    assert after.startswith(before)
    added = [json.loads(line) for line in after.removeprefix(before).splitlines()]
    assert added[0]["sha256_before"] == hashlib.sha256(before).hexdigest()
    old = before.splitlines(keepends=True)
    for place in range(len(old)):
        ledger_of(frozen).write_bytes(b"".join(old[:place] + old[place + 1 :]) + after.removeprefix(before))
        with pytest.raises(PrivacyGuardError, match="privacy ledger, line"):
            read_ledger(ledger_of(frozen))


def test_a_frozen_run_is_opened_and_says_what_it_published(frozen):
    run = das_spark.open_run(frozen / "runs" / "frozen")
    assert (run.name, run.geolevels, run.verified) == ("frozen", LEVELS, True)
    assert list(run.tables) == ["T1"]
    for level, geounits in GEOUNITS.items():
        assert run.estimates(level).pandas()["count"].sum() == PEOPLE
        assert run.measurements(level, "total").arrow().num_rows == geounits
        assert run.table("T1", level).arrow().num_rows == geounits
        assert run.beside("intervals", "T1", level).arrow().num_rows
    assert run.microdata().arrow().num_rows == PEOPLE
    assert run.statement.startswith("#")
    own = OwnEntry.find(RunLayout.at(frozen / "runs", "frozen").restricted)
    assert own is not None
    assert own.is_charged
    assert own.entry == read_ledger(ledger_of(frozen)).entries[0]


def test_a_frozen_run_is_shown(frozen, capsys):
    folder = str(frozen / "runs" / "frozen")
    assert main(["show", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "frozen"
    assert main(["show", folder, "--restricted", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["state"] == "finished and verified"
    assert [row["run_id"][:7] for row in shown["spending"]] == ["frozen#", "stopped"]


@pytest.mark.spark
def test_a_frozen_run_is_verified_and_tabulated_from(frozen, spark, capsys):
    folder = frozen / "runs" / "frozen"
    assert main(["verify", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"]
    assert report["checks"]
    assert main(["tabulate", str(folder), "--out", str(frozen / "again")]) == 0
    made, published = frozen / "again", folder / "public" / "tables"
    texts = {str(path.relative_to(published)): path.read_bytes() for path in published.rglob("part-*.csv")}
    assert texts == {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("part-*.csv")}
    assert len(texts) == len(LEVELS)


@pytest.mark.spark
@pytest.mark.usefixtures("tried")
def test_a_frozen_run_that_is_run_again_is_finished(frozen, spark, capsys, monkeypatch):
    monkeypatch.setattr(levels, "_draw", lambda *_: pytest.fail("drawn again"))
    before = ledger_of(frozen).read_bytes()
    assert main(["run", str(frozen / "run.toml"), "--run-id", "frozen", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is True
    assert ledger_of(frozen).read_bytes().startswith(before)
    assert read_ledger(ledger_of(frozen)).composition().rho == Fraction(1, 2)
