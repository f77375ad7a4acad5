"""An input is charged with a run once, and a run keeps the budget that it was charged with."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from das_spark.config.plan import InputSettings
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.io.events import Event
from das_spark.io.layout import RunLayout, created_at, open_run
from das_spark.io.run_lock import hold_run
from das_spark.pipeline.charge import enter_level, enter_run
from das_spark.privacy import Budget, Framework, LedgerEntry, LevelBudget, QueryShare

LEVELS = tuple(
    LevelBudget(name, Fraction(1, 2), (QueryShare("detailed", Fraction(1)),)) for name in ("State", "County")
)
BUDGET = Budget(Framework.PURE_DP, Fraction(1, 4), LEVELS)


@pytest.fixture
def context(tmp_path) -> Any:
    layout = RunLayout.at(tmp_path / "runs", "first")
    open_run(layout, "0" * 64)
    plan = SimpleNamespace(
        budget=BUDGET, product=SimpleNamespace(name="p", record="person"), input=InputSettings(reader="simulated")
    )
    progress = SimpleNamespace(note=lambda *_, **__: None)
    return SimpleNamespace(
        plan=plan,
        layout=layout,
        is_insecure=False,
        joint_ledgers=(),
        progress=progress,
        created=created_at(layout),
        nonce="0f0f0f0f",
    )


def test_a_resumed_run_finds_its_entry_again(context):
    entry, ledger = enter_run(context, "f" * 64)
    assert ledger.entries == (entry,)
    assert enter_run(context, "f" * 64) == (entry, ledger)


@pytest.mark.parametrize(
    "change",
    [
        {"budget": replace(BUDGET, total=Fraction(1, 2))},
        {"product": SimpleNamespace(name="p", record="unit")},
        {"product": SimpleNamespace(name="q", record="person")},
    ],
)
def test_a_run_that_was_charged_with_another_budget_does_not_go_on(context, change):
    enter_run(context, "f" * 64)
    context.plan = SimpleNamespace(**vars(context.plan) | change)
    with pytest.raises(PrivacyGuardError, match="charged with another budget"):
        enter_run(context, "f" * 64)


def test_a_ledger_that_was_mended_is_told_of(context):
    said, noted = [], []
    context.progress = SimpleNamespace(say=said.append, note=lambda event, **fields: noted.append((event, fields)))
    entry, _ = enter_run(context, "f" * 64)
    (file,) = (context.layout.root / "ledgers").iterdir()
    with file.open("a") as ledger:
        ledger.write('{"format": 1, "run')
    assert enter_run(context, "f" * 64)[1].entries == (entry,)
    (line,) = said
    assert "half written" in line
    assert file.name not in line, "half of the checksum of the input is restricted"
    assert (Event.LEDGER_MENDED, {"file": str(file)}) in noted


def test_the_folder_of_the_ledgers_is_closed_to_others(context):
    folder = context.layout.root / "ledgers"
    enter_run(context, "f" * 64)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # as an earlier version made it
    enter_run(context, "f" * 64)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_driver_that_lost_its_run_writes_nothing_behind_the_back_of_the_other(context):
    own = context.layout.restricted.ledger_entry
    with hold_run(context.layout):
        entry, _ = enter_run(context, "f" * 64)
        ahead, _ = enter_level(context, "f" * 64, entry, "State")
        context.layout.restricted.lock.write_text("the word of another driver")
        with pytest.raises(OutputError, match="another driver has taken over"):
            enter_level(context, "f" * 64, entry, "State")
        assert ahead.completed_levels == ("State",)
        own.unlink()
        with pytest.raises(OutputError, match="another driver has taken over"):
            enter_run(context, "f" * 64)
    assert not own.exists()


def test_an_own_entry_that_a_late_driver_has_put_back_catches_up_with_the_ledger(context):
    own = context.layout.restricted.path / "ledger_entry.json"
    entry, _ = enter_run(context, "f" * 64)
    entry, _ = enter_level(context, "f" * 64, entry, "State")
    late = own.read_bytes()  # a driver sleeps while it writes this, and loses its run
    ahead, ledger = enter_level(context, "f" * 64, entry, "County")
    own.write_bytes(late)
    assert enter_run(context, "f" * 64) == (ahead, ledger)
    assert LedgerEntry.from_json(own.read_text()) == ahead
    own.write_text(replace(entry, created="another time").to_json())
    with pytest.raises(PrivacyGuardError):
        enter_run(context, "f" * 64)
