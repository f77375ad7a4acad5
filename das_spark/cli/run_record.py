"""What `show` adds where the restricted root may be read: times, Spark's figures, drivers; and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.cli.render import size, table
from das_spark.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.evaluation.run_record import RunRecord


def write(run: Path, page: Path, out: Console) -> None:
    """Write the page of a run, and say where it is and who may see it.

    Args:
        run: Folder of the run, or its public folder.
        page: The file.
        out: Standard output.
    """
    from das_spark.pipeline.run_record import page_of  # noqa: PLC0415 - `das-spark --help` needs no Spark

    record = page_of(run, page)
    out.print(f"{page}: run {record.run_id}, {record.state}{' (RESTRICTED)' if record.restricted else ''}")


def show(run: Path, out: Console) -> None:
    """Print what the restricted root tells of a run, finished or not.

    Args:
        run: Folder of the run.
        out: Standard output.

    Raises:
        OutputError: The restricted root is not there, or closed.
    """
    from das_spark.pipeline.run_record import known_run  # noqa: PLC0415

    record = known_run(run)
    if not record.restricted:
        raise OutputError(
            f"{run}: its restricted root cannot be read",
            hint="name the run's restricted root, or leave --restricted out",
        )
    out.print("RESTRICTED", style="bold red")
    for notice in record.notices:
        out.print(notice, style="bold red")
    facts = [("state", record.state), *record.facts.items()]
    out.print(table(f"Run {record.run_id}", ("what", "value"), facts, left=2))
    _stages(record, out)
    _families(record, out)
    _drivers(record, out)


def _stages(record: RunRecord, out: Console) -> None:
    columns = ["stage", "seconds", "entered", "failed", "cut short", "jobs", "tasks", "failed tasks", "task seconds"]
    columns += ["GC seconds", "slowest task", "shuffled", "spilled"]
    rows = []
    for stage in record.stages:
        row = [stage.name, f"{stage.seconds:,.1f}", stage.entered, stage.failed, stage.cut_short]
        if (cost := stage.metrics) is not None:
            row += [cost.jobs, f"{cost.tasks:,}", cost.failed_tasks, f"{cost.run_seconds:,.1f}"]
            row += [f"{cost.gc_seconds:,.1f}", f"{cost.slowest_task_seconds:,.1f}"]
            row += [size(cost.shuffle_write_bytes), size(cost.disk_spilled_bytes)]
        rows.append([*row, *["-"] * (len(columns) - len(row))])
    out.print(table("\nStages, all drivers together", columns, rows))


def _families(record: RunRecord, out: Console) -> None:
    columns = ("family", "geolevel", "seconds", "children", "unknowns", "iterations", "status", "solver")
    rows = [
        (
            each.family or "(root)",
            each.geolevel,
            "-" if each.seconds is None else f"{each.seconds:.3f}",
            each.children,
            each.variables,
            each.iterations,
            each.status,
            each.solver,
        )
        for each in record.slowest(10)
    ]
    out.print(table("\nSlowest families (seconds in their tasks, Spark left out)", columns, rows, left=2))


def _drivers(record: RunRecord, out: Console) -> None:
    rows = [(each.number, each.began, each.last, each.application or "-", each.end) for each in record.openings]
    out.print(table("\nDrivers", ("driver", "began", "last line", "Spark application", "end"), rows, left=5))
    incidents = [(each.time, each.event, each.text) for each in record.incidents]
    if incidents:
        out.print(table("\nWarnings and errors", ("time", "event", "what"), incidents, left=3))
    if record.torn:
        out.print(f"{record.torn} torn lines in the log")
