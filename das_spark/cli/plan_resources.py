"""`plan resources`: cores, memory, disk and hours that a run needs, from what measured runs took."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from das_spark.cli.options import Conf, Geounits, Json, Overlays, Settings, console, print_json
from das_spark.config import RunPlan, load_run
from das_spark.errors import ConfigurationError
from das_spark.report import size, table

if TYPE_CHECKING:
    from rich.console import Console


#: More records than any census has.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,11}")


def resources(
    conf: Conf,
    records: Annotated[
        list[str],
        typer.Option(
            "--records",
            metavar="[PART=]RECORDS",
            help="How many people, units or households are read; of a joint run, once for each part, such as"
            " person=331000000.",
        ),
    ],
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Geounits = None,
    as_json: Json = False,
) -> None:
    """Show what a run needs: cores, memory, disk and hours, by the costs of measured runs.

    Example: das-spark plan resources conf/quickstart.toml --records 8087
    """
    # What it stands on takes longer to import than other plans to be made.
    from das_spark.planning.resources import resources_record  # noqa: PLC0415

    loaded = load_run(conf, overlay or (), settings or (), files=False)
    plans = {"": loaded} if isinstance(loaded, RunPlan) else loaded.parts
    counts = _records(records, list(plans))
    needed = [resources_record(plan, counts[part], geounits or ()) for part, plan in plans.items()]
    if as_json:
        print_json(needed[0] if isinstance(loaded, RunPlan) else {"parts": needed})
        return
    for record in needed:
        _print(record, console())


def _records(said: Sequence[str], parts: Sequence[str]) -> dict[str, int]:
    """How many records each part of a run reads."""
    hint = "write a number" if parts == [""] else f"write {' '.join(f'--records {part}=NUMBER' for part in parts)}"
    counts = {}
    for text in said:
        part, _, number = text.rpartition("=")
        if part not in parts or part in counts or not _NUMBER.fullmatch(number):
            said_twice = "is said twice" if part in counts else "not a number of records"
            raise ConfigurationError(f"--records {text}: {said_twice}", hint=hint)
        counts[part] = int(number)
    if missing := [part for part in parts if part not in counts]:
        raise ConfigurationError(f"--records: nothing is said of {', '.join(missing)}", hint=hint)
    return counts


def _print(record: Mapping[str, Any], out: Console) -> None:
    title = f"{record['run']}: {record['records']:,} records, {max(record['geounits'].values()):,} geounits at the most"
    stages = [
        (stage["stage"], f"{stage['cpu_seconds']:,.0f}", f"{stage['longest_task_seconds']:,.0f}")
        for stage in record["stages"]
        if stage["cpu_seconds"] >= 1
    ]
    out.print(table(title, ("stage", "CPU s", "longest task, s"), stages) if stages else title)
    hours = [
        (cores, f"{needed:,.1f}" if needed >= 1 else f"{needed * 60:,.0f} min")
        for cores, needed in record["hours"].items()
    ]
    out.print(table("\nHow long", ("cores", "hours"), hours, left=0))
    memory, disk = record["memory"], record["disk"]
    out.print(f"\nmemory: {size(memory['jvm_bytes'])} for each JVM, and {size(memory['bytes_per_core'])} for each core")
    out.print(
        f"disk, at most: {size(disk['public_bytes'])} public, {size(disk['restricted_bytes'])} restricted,"
        f" {size(disk['scratch_bytes'])} for scratch files of Spark"
    )
    if record["not_counted"]:
        out.print(f"not counted, for want of a measured run: {', '.join(record['not_counted'])}")
    out.print("by the costs of runs that were measured; of those, times come out within a factor of two")
