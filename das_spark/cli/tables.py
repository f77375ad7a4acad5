"""`tabulate`: the published tables of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.options import Run
from das_spark.cli.render import console
from das_spark.report import table


def tabulate(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the tables; by default those of the run are replaced."),
    ] = None,
) -> None:
    """Write the published tables of a finished run anew, as Parquet and CSV, from its public files alone.

    Example: das-spark tabulate runs/latest --out tables
    """
    from das_spark.pipeline import tabulate_run  # noqa: PLC0415 - `das-spark --help` needs no Spark

    summary = tabulate_run(run, out)
    rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
    printer = console()
    printer.print(table(f"Tables in {summary.folder}", ("table", "rows"), rows))
    if out is None:
        printer.print(f"the manifest lists them; `das-spark verify {run}` compares them with the estimates")
