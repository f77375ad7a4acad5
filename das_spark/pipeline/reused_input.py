"""The ingested input of another run: reused where nothing but the budget differs, so that it is not read again.

Everything that ingestion writes follows from the input and from the configuration without the total of the budget. The
files are shared by hard links: they are written once, and each run can destroy its own names of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import difference, plan_from_config, without_total
from das_spark.errors import InputError, OutputError
from das_spark.pipeline.spines import copy_spine
from das_spark.places import Place
from das_spark.store import (
    PublicManifest,
    discard,
    finished,
    hold_run,
    link_parts,
    part_files,
    replace_folder,
    require_held,
    staging_of,
    write_durably,
)
from das_spark.store.tables import TABLES

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.store import PublicLayout, RestrictedLayout, RunLayout

#: Tables by level that ingestion writes, in its order; those of a spine of areas stand first.
_OF_SPINE: Final = ("shares",)
_BY_LEVEL: Final = ("geounits", "histograms", "invariants", "bounds")
#: Key of the input record that says which run read the input.
READ_BY: Final = "read_by"


def holds_input(layout: RunLayout, plan: RunPlan) -> bool:
    """Whether everything that ingestion wrote for a run is there, and still is."""
    of_level = all(finished(_folder(layout, *level)) for level in _levels(plan))
    return of_level and finished(layout.restricted.table("leaves")) and layout.restricted.input_record.is_file()


def reuse_input(context: RunContext, source: RunLayout, identity: str) -> None:
    """Give a run what another one has ingested; what the run has already stays as it is.

    Raises:
        InputError: The input has changed since the other run read it.
        OutputError: The other run is not finished, is at work, or is of another configuration, or its ingested input
            was removed; or the disk is full, or another driver has taken over this run.
    """
    mine = context.layout
    if holds_input(mine, context.plan):
        return
    with hold_run(source):  # nothing of it is removed meanwhile
        record = _checked(context, source, identity)
        copy_spine(context, source.public)
        leaves = mine.restricted.table("leaves")
        if not finished(leaves):
            require_held(mine)
            # The record goes first, as in ingestion: leaves without it belong to no input.
            write_durably(mine.restricted.input_record, json.dumps(record, indent=1))
            _link(source.restricted.table("leaves"), leaves, mine, mine.restricted)
        for table, geolevel in _levels(context.plan):
            target = _folder(mine, table, geolevel)
            if not finished(target):
                _link(_folder(source, table, geolevel), target, mine, mine.side(restricted=TABLES[table].restricted))


def _checked(context: RunContext, source: RunLayout, identity: str) -> dict[str, Any]:
    """The input record of the other run, which may be reused."""
    manifest = PublicManifest.load(source.public.manifest)
    theirs = plan_from_config(manifest.config, source=str(source.public.manifest))
    differing = difference(without_total(theirs), without_total(context.plan))
    if differing:
        raise OutputError(
            f"the input of run {source.run_id} cannot be reused: besides the budget there is another {differing}",
            hint="let the run read its input itself",
        )
    if not holds_input(source, context.plan):
        raise OutputError(
            f"{source.folder}: not all is there of what it ingested", hint="let the run read its input itself"
        )
    record: dict[str, Any] = json.loads(source.restricted.input_record.read_text(encoding="utf-8"))
    if record["identity"] != identity:
        raise InputError(
            f"the input has changed since run {source.run_id} read it",
            hint="put back the files that the run began with, or start new runs on the new ones",
        )
    return {READ_BY: source.run_id, **record}


def _levels(plan: RunPlan) -> list[tuple[str, str]]:
    """Every table by level that ingestion writes, and each of its levels."""
    written = _BY_LEVEL if plan.spine.is_census else (*_OF_SPINE, *_BY_LEVEL)
    return [(table, name) for table in written for name in plan.spine.names]


def _folder(layout: RunLayout, table: str, geolevel: str) -> Place:
    return layout.side(restricted=TABLES[table].restricted).level(table, geolevel)


def _link(source: Place, target: Place, mine: RunLayout, side: PublicLayout | RestrictedLayout) -> None:
    staging = staging_of(mine, side) / "reused"
    discard(staging)
    link_parts(source, staging)
    require_held(mine)
    replace_folder(staging, target, None if part_files(source) else ())  # a driver may have died before
