"""Write the published tables of a finished run into a folder."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from das_spark.cli.options import Json, Run, console, print_json
from das_spark.places import place_of
from das_spark.report import table


def tabulate(
    run: Run,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder to make for the tables; by default RUN.tables, beside the run."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the published tables of a finished run into a folder of their own, from its public files alone.

    The run stays as it is. The folder has a manifest, which names that of the run by its SHA-256.

    Example: das-spark tabulate runs/latest --out tables
    """
    from das_spark.features.tables.finished import tabulate_run  # noqa: PLC0415 - `das-spark --help` needs no Spark

    summary = tabulate_run(place_of(run), place_of(out))
    if as_json:
        print_json(asdict(summary))
        return
    rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
    printer = console()
    printer.print(table(f"Tables in {summary.folder}", ("table", "rows"), rows))
    printer.print("manifest.json lists them, and names the manifest of the run by its SHA-256")


COMMAND = tabulate
