"""`tidy`: what belongs to no result of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from das_spark.cli.options import Json, Run, console, print_json
from das_spark.errors import OutputError
from das_spark.places import place_of
from das_spark.report import size, table


def tidy(
    run: Run,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it. There is no way back.")] = False,
    as_json: Json = False,
) -> None:
    """List what killed drivers and tasks have left of a run, and that belongs to no result.

    No driver may be at work on the run. Nothing of a result is ever listed.

    Example: das-spark tidy s3://bucket/runs/ID
    """
    from das_spark.store import (  # noqa: PLC0415 - `--help` needs none of it
        find_run,
        hold_run,
        is_held,
        orphans_of,
        remove_whole,
    )

    layout = find_run(place_of(run))
    if is_held(layout):
        raise OutputError(f"{layout.folder}: a driver is at work on this run", hint="wait until it ends")
    found = orphans_of(layout)
    if remove:
        with hold_run(layout):
            for orphan in found:
                remove_whole(orphan.place)
    if as_json:
        orphans = [{"place": each.place, "why": each.why, "bytes": each.size} for each in found]
        print_json({"run_id": layout.run_id, "orphans": orphans, "removed": remove})
        return
    out, rows = console(), [(str(each.place), each.why, size(each.size)) for each in found]
    if rows:
        out.print(table(f"Of no result of {run}", ("where", "what it was", "bytes"), rows, left=2))
    out.print(f"{len(found)} {'removed' if remove else 'found'}")
