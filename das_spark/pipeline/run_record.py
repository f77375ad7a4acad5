"""Gather what is known of a run from its files, as far as it has come, and make its page. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from das_spark import report
from das_spark.errors import OutputError
from das_spark.evaluation import EstimatedLevel, RunRecord, ShareRow, SpendingRow, present_run
from das_spark.io.diagnostics_files import read_level_diagnostics
from das_spark.pipeline.statement import INSECURE
from das_spark.places import Place
from das_spark.privacy import LedgerEntry
from das_spark.store import (
    OwnEntry,
    PublicLayout,
    PublicManifest,
    RunLayout,
    find_run,
    finished,
    is_held,
    is_public_root,
    ledger_with,
    open_public,
    strict_json,
    write_durably,
)
from das_spark.telemetry import (
    FINISHED,
    LEFT,
    Event,
    driver_attempts,
    has_ended,
    logged_stages,
    read_log,
    slowest_families,
    warnings_of,
)

#: Families of most work that are kept of a level where times are not known.
MOST_FAMILIES: Final = 20
_BEGUN: Final = (Event.RUN_OPENED, Event.RUN_RESUMED)


def write_page(layout: RunLayout) -> Place:
    """Write the restricted page of a run."""
    write_durably(layout.restricted.page, report.page(present_run(run_record(layout))), mode=0o600)
    return layout.restricted.page


def page_of(run: Place, page: Place) -> RunRecord:
    """Write the page of a run to a file: with what is restricted where that can be read, and without it otherwise."""
    record = known_run(run)
    if record.restricted and _is_public(page):
        raise OutputError(
            f"{page}: lies in a public root, and the page holds restricted facts",
            hint="name another file, or make a public page: name the public folder of the run",
        )
    write_durably(page, report.page(present_run(record)), mode=0o600 if record.restricted else 0o666)
    return record


def known_run(run: Place) -> RunRecord:
    """What is known of a run whose folder is named."""
    try:
        layout = find_run(run)
    except OSError:  # no restricted root beside the public one, or one that is closed to the reader
        return public_record(open_public(run))
    return run_record(layout)


def public_record(layout: PublicLayout) -> RunRecord:
    """What everybody may know of a run."""
    manifest = _manifest(layout)
    entry = None if manifest is None else LedgerEntry.of(manifest.ledger)
    begun = strict_json(layout.marker.read_text(encoding="utf-8"))
    levels = () if entry is None else tuple(level.geolevel for level in entry.budget.levels)
    return RunRecord(
        run_id=str(begun["run_id"]),
        state=_verified(layout) or "unfinished",
        restricted=False,
        facts=_facts(layout, manifest, entry, begun),
        notices=_notices(manifest, insecure=entry is not None and entry.insecure),
        levels=_levels(layout, levels),
        shares=_shares(entry),
    )


def run_record(layout: RunLayout) -> RunRecord:
    """What is known of a run, from both roots."""
    log = read_log(layout.restricted.log)
    live = is_held(layout) and not has_ended(log.lines)
    drivers = driver_attempts(log.lines, live=live)
    state = _verified(layout.public)
    if drivers:
        ends = [driver.end for driver in drivers]
        looked_again = ends[-1] == LEFT and FINISHED in ends  # at an early stage of a run that is done
        if not state or (ends[-1] != FINISHED and not looked_again):
            state = ends[-1]
    begun: Mapping[str, Any] = next((line for line in reversed(log.lines) if line["event"] in _BEGUN), {})
    manifest, entry, slowest = _manifest(layout.public), _own_entry(layout), slowest_families(log.lines)
    return RunRecord(
        run_id=layout.run_id,
        state=state or "unfinished",
        restricted=True,
        facts=_facts(layout.public, manifest, entry, begun),
        notices=_notices(manifest, insecure=bool(begun.get("insecure"))),
        stages=logged_stages(log.lines, live=live),
        levels=tuple(
            replace(level, slowest=slowest.get(level.geolevel, level.slowest))
            for level in _levels(layout.public, begun.get("geolevels", ()))
        ),
        shares=_shares(entry),
        spending=_spending(layout),
        drivers=drivers,
        warnings=warnings_of(log.lines),
        torn=len(log.torn),
    )


def _manifest(layout: PublicLayout) -> PublicManifest | None:
    return PublicManifest.load(layout.manifest) if layout.manifest.is_file() else None


def _verified(layout: PublicLayout) -> str:
    """How verification came out; "" where it did not come to that."""
    if not layout.verification.is_file():
        return ""
    report = strict_json(layout.verification.read_text(encoding="utf-8"))
    return "finished and verified" if report.get("passed") else "finished, and verification failed"


def _own_entry(layout: RunLayout) -> LedgerEntry | None:
    """The run's entry as it was charged; of a run from measurements, that of the run that measured."""
    own = OwnEntry.find(layout.restricted)
    if own is not None:
        return own.entry
    file = layout.public.privacy_ledger
    return LedgerEntry.from_json(file.read_text(encoding="utf-8")) if file.is_file() else None


def _notices(manifest: PublicManifest | None, *, insecure: bool) -> tuple[str, ...]:
    if manifest is not None:
        return manifest.notices
    return (INSECURE,) if insecure else ()


def _facts(
    layout: PublicLayout, manifest: PublicManifest | None, entry: LedgerEntry | None, begun: Mapping[str, Any]
) -> dict[str, str]:
    facts = {}
    if entry is not None:
        budget = f"{entry.framework.symbol} = {entry.total}"
        facts = {"product": entry.product, "counted": entry.table, "budget": budget}
        facts |= _ledger_facts(entry)
        facts["begun"] = entry.created
    elif "product" in begun:
        facts = {"product": str(begun["product"]), "budget": "not charged yet"}
    facts["configuration"] = str(begun.get("config_hash", ""))
    if manifest is not None:
        facts["software"] = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
        facts["public rows"] = f"{sum(manifest.rows.values()):,} in {len(manifest.rows)} tables and files"
    elif "software" in begun:
        facts["software"] = f"das_spark {begun['software']}"
    if layout.verification.is_file():
        checks = strict_json(layout.verification.read_text(encoding="utf-8"))["checks"]
        facts["verification"] = f"{sum(check['passed'] for check in checks)} of {len(checks)} checks passed"
    return facts


def _ledger_facts(entry: LedgerEntry) -> dict[str, str]:
    """What the ledger of the dataset says of the run."""
    facts = {"dataset": entry.dataset or "without a name"}
    facts["ledger"] = f"{entry.run_id}, {'charged' if entry.is_charged else 'invariants alone: nothing is measured'}"
    if entry.cap is not None:
        facts["cap of all runs"] = str(entry.cap)
    if entry.invariants is not None:
        facts["published exactly"] = " ".join(entry.invariants.sentences)
    return facts


def _levels(layout: PublicLayout, names: Sequence[str]) -> tuple[EstimatedLevel, ...]:
    """Levels whose diagnostics are whole."""
    folders = [(name, layout.level("diagnostics", name)) for name in names]
    return tuple(read_level_diagnostics(folder, name, MOST_FAMILIES) for name, folder in folders if finished(folder))


def _shares(entry: LedgerEntry | None) -> tuple[ShareRow, ...]:
    if entry is None:
        return ()
    return tuple(
        ShareRow(
            level.geolevel,
            str(level.share),
            {query.query: str(query.share) for query in level.queries},
            level.geolevel in entry.completed_levels,
        )
        for level in entry.budget.levels
    )


def _spending(layout: RunLayout) -> tuple[SpendingRow, ...]:
    """The ledger of the dataset, where this run stands in it."""
    return tuple(
        SpendingRow(
            entry.run_id,
            entry.created,
            entry.product,
            entry.table,
            entry.framework.value,
            str(entry.total),
            str(entry.released),
            entry.insecure,
        )
        for entry in ledger_with(layout).entries
    )


def _is_public(page: Place) -> bool:
    """Whether a file lies below the public root of any run."""
    folder, above = page.resolve(), page.resolve().parent
    while folder != above:
        if is_public_root(above):
            return True
        folder, above = above, above.parent
    return False
