"""How every experiment is shown and written: its tables in the terminal, and JSON, CSV and one page in a folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from das_spark.cli.render import console, table

if TYPE_CHECKING:
    from das_spark.studies.table import Table

Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write JSON, CSV tables and a page with figures there.")
]
Seed = Annotated[int, typer.Option("--seed", help="Change it to get a different population and different noise.")]


class Result(Protocol):
    """What an experiment returns."""

    def tables(self) -> tuple[Table, ...]:
        """Its tables of raw values."""
        ...

    def to_json(self) -> str:
        """Everything that was found."""
        ...


def deliver(
    name: str,
    found: Result,
    page: Callable[[], str],
    out: Path | None,
    *,
    as_json: bool,
    unprinted: Collection[str] = (),
    restricted: bool = False,
) -> None:
    """Write what was found where a folder is named, and print it.

    Args:
        name: Of the experiment: its files begin with it.
        found: Its result.
        page: Renders the page; only called when it is written.
        out: Folder, made where it is not there yet.
        as_json: Print JSON instead of tables.
        unprinted: Names of tables that are too long for a terminal.
        restricted: Whether it tells of confidential counts: files are then for their owner alone.

    Raises:
        OutputError: The folder cannot be written.
    """
    tables = found.tables()
    files: Collection[str] = ()
    if out is not None:
        contents = {f"{name}.json": found.to_json(), f"{name}.html": page()}
        contents |= {f"{name}_{each.name}.csv": each.to_csv() for each in tables}
        files = _write(out, contents, restricted=restricted)
    if as_json:
        typer.echo(found.to_json(), nl=False)
        return
    from das_spark.studies.table import shown  # noqa: PLC0415 - `das-spark --help` needs no experiment

    screen = console()
    for place, each in enumerate(each for each in tables if each.name not in unprinted):
        rows = [[shown(cell) for cell in row] for row in each.rows]
        screen.print(table(f"\n{each.title}" if place else each.title, each.columns, rows, left=each.left))
        if each.note:
            screen.print(f"note: {each.note}")
    if files:
        screen.print(f"\nwritten to {out}: {', '.join(files)}")


def _write(out: Path, contents: Mapping[str, str], *, restricted: bool) -> Collection[str]:
    """Names of the files."""
    if restricted:
        from das_spark.pipeline.evaluation_files import write_restricted  # noqa: PLC0415

        return write_restricted(out, contents)
    from das_spark.store import disk_errors, write_durably  # noqa: PLC0415

    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        write_durably(out / file, content)
    return list(contents)
