"""Charge an input with a run: once, before anything is drawn, and level by level as measurements become public."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import PrivacyGuardError
from das_spark.io.events import Event
from das_spark.io.files import write_durably
from das_spark.io.run_lock import require_held
from das_spark.pipeline import ledgers
from das_spark.privacy import Ledger, LedgerEntry

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext


def enter_run(context: RunContext, identity: str) -> tuple[LedgerEntry, Ledger]:
    """Charge the input with this run before anything is drawn; a resumed run finds its own entry again.

    Args:
        context: The run.
        identity: Of its input, as `ledgers.fingerprint` gives it.

    Returns:
        The entry of the run, and the whole ledger of its input.

    Raises:
        PrivacyGuardError: If the run was begun under another kind of key, or charged with another budget.
        OutputError: If another driver has taken over the run, or a ledger cannot be written.
    """
    plan = context.plan
    entry = _own_entry(context)
    if entry is not None:
        charged = (entry.budget, entry.product, entry.table)
        if charged != (plan.budget, plan.product.name, plan.product.record):
            raise PrivacyGuardError(
                f"run {context.layout.run_id} was charged with another budget than that of its configuration",
                hint="something changed its folder; start a new run (it spends its own budget)",
            )
        if entry.insecure != context.is_insecure:
            kind = "a test key" if entry.insecure else "a real key"
            raise PrivacyGuardError(
                f"run {context.layout.run_id} was begun under {kind} and cannot go on under the other kind",
                hint="resume it as it was begun, or start a new run",
            )
        entry = _caught_up(context, identity, entry)
    else:
        require_held(context.layout)
        entry = LedgerEntry(
            # Two runs of one name in two folders are two runs.
            run_id=f"{context.layout.run_id}#{context.nonce}",
            created=context.created,
            product=plan.product.name,
            table=plan.product.record,
            budget=plan.budget,
            insecure=context.is_insecure,
        )
        write_durably(context.layout.restricted.ledger_entry, entry.to_json())
    ledger = _entered(context, identity, entry)
    cost = {"framework": entry.framework.value, "total": str(entry.total)}
    context.progress.note(Event.LEDGER_ENTERED, entry=entry.run_id, **cost)
    return entry, ledger


def enter_level(context: RunContext, identity: str, entry: LedgerEntry, geolevel: str) -> tuple[LedgerEntry, Ledger]:
    """Enter in the ledger that the measurements of a level are public.

    Args:
        context: The run.
        identity: Of its input.
        entry: The entry of the run so far.
        geolevel: The level.

    Returns:
        As `enter_run`.
    """
    require_held(context.layout)  # another driver may be further
    entry = entry.with_completed(geolevel)
    # The run's own entry goes first: it is never behind the ledger, which refuses to lose a level.
    write_durably(context.layout.restricted.ledger_entry, entry.to_json())
    ledger = _entered(context, identity, entry)
    context.progress.note(Event.LEDGER_COMPLETED, geolevel=geolevel)
    return entry, ledger


def _entered(context: RunContext, identity: str, entry: LedgerEntry) -> Ledger:
    """Enter the run in every ledger of its input; a ledger that was mended is told of."""

    def tell(file: Path) -> None:
        context.progress.say("ledger: a last line that was half written is cut off; nothing was drawn under it")
        context.progress.note(Event.LEDGER_MENDED, file=str(file))

    ledgers.make_folder(context.layout)
    return ledgers.enter(_ledgers(context, identity), entry, tell)


def is_measured(context: RunContext) -> bool:
    """Whether the measurements of every level are public, by the run's own entry: nothing is drawn any more.

    Args:
        context: The run.

    Raises:
        PrivacyGuardError: The entry cannot be understood.
    """
    entry = _own_entry(context)
    levels = {level.geolevel for level in context.plan.budget.levels}
    return entry is not None and set(entry.completed_levels) >= levels


def _own_entry(context: RunContext) -> LedgerEntry | None:
    """The run's own entry as it was last written; None where the run is not charged yet."""
    own = context.layout.restricted.ledger_entry
    return LedgerEntry.from_json(own.read_text(encoding="utf-8")) if own.is_file() else None


def _caught_up(context: RunContext, identity: str, entry: LedgerEntry) -> LedgerEntry:
    """The run's own entry with all levels that a ledger knows.

    A driver that slept while it wrote the own entry, and had lost the run, has put its older state in the place of that
    of the driver which took over.
    """
    for known in ledgers.entries_of(_ledgers(context, identity), entry.run_id):
        ahead = set(known.completed_levels) > set(entry.completed_levels)
        if ahead and replace(known, completed_levels=entry.completed_levels) == entry:
            require_held(context.layout)
            write_durably(context.layout.restricted.ledger_entry, known.to_json())
            entry = known
    return entry


def _ledgers(context: RunContext, identity: str) -> tuple[Path, ...]:
    own = ledgers.ledger_files(context.plan, context.layout, identity)
    return tuple(dict.fromkeys((*own, *context.joint_ledgers)))
