"""Runs made up by hand that are charged and draw, without Spark: what the ledger allows is decided by files alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from das_spark.config import InputSettings, LedgerSettings
from das_spark.constraints import Invariants
from das_spark.pipeline import levels
from das_spark.pipeline.charge import RunLedger, open_ledger
from das_spark.privacy import Budget, Cap, Framework, LevelBudget, QueryShare
from das_spark.store import Journal, RunLayout, hold_run, ledger_folder, open_run

LEVELS = ("State", "County")
BUDGET = Budget(
    Framework.PURE_DP,
    Fraction(1, 4),
    tuple(LevelBudget(name, Fraction(1, 2), (QueryShare("detailed", Fraction(1)),)) for name in LEVELS),
)
CONFIG = "0" * 64


def plan_of(*, total: str = "1/4", record: str = "person", dataset: str | None = "people", **ledger: Any) -> Any:
    """What the ledger asks a plan for: a simulated input, unless `persons` names a file."""
    persons = ledger.pop("persons", None)
    reader = "simulated" if persons is None else "tidy_counts"
    product = SimpleNamespace(
        name=f"p_{record}", record=record, noun=record, unit_classes=(), counted_in_totals=f"{record}s"
    )
    spine = SimpleNamespace(
        names=LEVELS, leaf=SimpleNamespace(name=LEVELS[-1]), total_key_at=lambda _: None, index=LEVELS.index
    )
    return SimpleNamespace(
        budget=replace(BUDGET, total=Fraction(total)),
        product=product,
        spine=spine,
        invariants=Invariants(ledger.pop("total_at", "State"), units=False),
        input=InputSettings(reader=reader, dataset=dataset, persons=None if persons is None else str(persons)),
        ledger=LedgerSettings(**ledger),
        acknowledged=(),
        estimation=SimpleNamespace(estimator="top_down"),
    )


def epsilon(text: str) -> Cap:
    return Cap(epsilon=Fraction(text))


@dataclass
class Reported:
    """Takes the place of `Progress`."""

    reported: list[str] = field(default_factory=list)
    logged: list[tuple[Any, dict[str, object]]] = field(default_factory=list)

    def report(self, line: str) -> None:
        self.reported.append(line)

    def log(self, event: Any, **fields: object) -> None:
        self.logged.append((event, fields))


def opened(
    root: Path, run_id: str = "r", *, insecure: bool = False, told: Reported | None = None, **plan: Any
) -> RunLedger:
    """The ledger of a run, opened by a driver, as `driver_attempt` does it."""
    made, layout = plan_of(**plan), RunLayout.at(root, run_id)
    open_run(layout, CONFIG, ledger=str(ledger_folder(made, layout)))
    return open_ledger(made, layout, told or Reported(), insecure=insecure)  # type: ignore[arg-type]


class Draws:
    """Takes the place of what Spark draws and writes: other bytes each time, and says what was drawn."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def __call__(self, context: Any, geolevel: str, attempt: int, staging: Path) -> None:
        self.made.append((geolevel, attempt))
        staging.mkdir(parents=True)
        (staging / "part-0").write_bytes(os.urandom(16))


@contextmanager
def drawing(monkeypatch: Any) -> Iterator[Draws]:
    """Let `measure` draw without Spark."""
    draws = Draws()
    with monkeypatch.context() as patched:
        patched.setattr(levels, "_draw", draws)
        patched.setattr(levels, "_require_whole_input", lambda *_: None)
        patched.setattr(levels, "require_safe_session", lambda *_, **__: None)
        yield draws


def measure(run: RunLedger, geolevel: str) -> None:
    """The measure stage itself, of a run that holds its folder."""
    context = SimpleNamespace(
        plan=run.plan,
        spine=run.plan.spine,
        layout=run.layout,
        progress=run.progress,
        spark=None,
        is_insecure=run.insecure,
        required_ledger=lambda: run,
    )
    with hold_run(run.layout):
        levels.measure(context, geolevel)  # type: ignore[arg-type]


def states(layout: RunLayout, geolevel: str) -> list[str]:
    return [str(attempt.state) for attempt in Journal.of(layout).attempts(geolevel)]


def published(layout: RunLayout, geolevel: str) -> bytes:
    return (layout.public.level("measurements", geolevel) / "part-0").read_bytes()
