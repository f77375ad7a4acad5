"""`interval`: what the noisy measurements say of geounits, and of areas such as districts, with standard errors."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import External, Json, Overlays, Settings, console, print_json, warn
from das_spark.config import load_plan
from das_spark.report import csv_field, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from das_spark.pipeline import AreaInterval

#: How far a column may be indented in its table, and be printed: all columns go to a file.
_PRINTED_DEPTH = 2


def interval(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|MEASUREMENTS",
            help="Finished run, or folder of published measurements.",
            autocompletion=completion.runs,
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Published table, such as P1; may be repeated.",
            autocompletion=completion.tables,
        ),
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option("--areas", metavar="FILE", help="CSV of geocode and area: one row for each block of an area."),
    ] = None,
    geolevels: Annotated[
        list[str] | None,
        typer.Option(
            "--geolevel",
            metavar="NAME",
            help="Level of the geounits, without --areas; may be repeated.",
            autocompletion=completion.geolevels,
        ),
    ] = None,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="Probability that an interval covers the truth.")
    ] = "0.9",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="CSV to write, of areas; or folder to make, of geounits."),
    ] = None,
    wider_than: Annotated[
        str | None,
        typer.Option(
            "--wider-than",
            metavar="NUMBER|PERCENT",
            help="Count instead, by table and geolevel, the cells whose interval is wider, in people (or units),"
            ' such as 20, or beside the estimate, such as "20%"; --out is a CSV then, by column.',
        ),
    ] = None,
    conf: External = None,
    overlay: Overlays = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Estimates, standard errors and intervals of the truth, from the noisy measurements alone.

    Reads public files only. Intervals are of what was counted, not of how far the published tables are from it; those
    hold other, whole and nonnegative, estimates. The run must have kept every noisy answer: measurement.rows = "all".

    Example: das-spark interval runs/latest --table P1 --areas AREAS.csv
    Example: das-spark interval runs/latest --wider-than 20
    """
    _refuse_contradictions(areas, geolevels, wider_than, out)
    if (overlay or settings) and conf is None:
        raise typer.BadParameter("--overlay and --set go with --conf")
    from das_spark.evaluation import WidthLimit  # noqa: PLC0415 - the help needs no numbers; so below

    limit = None if wider_than is None else WidthLimit.of(wider_than)
    external = None if conf is None else load_plan(conf, overlay or (), settings or (), files=False)
    from das_spark.pipeline import area_intervals, geounit_intervals, open_intervals  # noqa: PLC0415

    measured = open_intervals(path, level, tables or (), geolevels or (), external)
    screen = console()
    warn(*measured.notices)
    if limit is not None:
        from das_spark.cli.wide_cells import show_wide_cells  # noqa: PLC0415

        show_wide_cells(measured, limit, out, as_json=as_json)
        return
    facts = {"level": level, "notices": measured.notices}
    if areas is None and out is not None:
        summary = geounit_intervals(measured, out)
        if as_json:
            print_json({**facts, "folder": summary.folder, "rows": summary.rows})
            return
        rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
        screen.print(table(f"Intervals in {summary.folder}", ("table", "rows"), rows))
    elif areas is not None and out is not None:
        number = _write(area_intervals(measured, areas, out), out)
        if as_json:
            print_json({**facts, "file": out, "rows": number})
        else:
            screen.print(f"{number:,} intervals in {out}")
    elif areas is not None:
        found = area_intervals(measured, areas)
        if as_json:
            print_json({**facts, "intervals": [asdict(each) for each in found]})
            return
        shown = [_line(each) for each in found if each.depth <= _PRINTED_DEPTH]
        names = ("area", "column", "what", "estimate", "standard error", "low", "high")
        screen.print(table(f"Intervals of {level} of the truth", names, shown, left=3))
        screen.print("columns that stand deeper in their tables go to a file only: --out FILE")


def _refuse_contradictions(
    areas: Path | None, geolevels: list[str] | None, wider_than: str | None, out: Path | None
) -> None:
    """Refuse options that do not go together, and ask for one that says what is wanted."""
    if areas is not None and geolevels:
        raise typer.BadParameter("--geolevel is of geounits, and goes without --areas")
    if areas is not None and wider_than is not None:
        raise typer.BadParameter("--wider-than counts cells of geounits, and goes without --areas")
    if areas is None and out is None and wider_than is None:
        raise typer.BadParameter(
            "name --areas FILE for intervals of areas, or --out DIR for those of all geounits, or --wider-than NUMBER"
            " to count wide ones"
        )


def _line(each: AreaInterval) -> tuple[str, ...]:
    numbers = (f"{each.estimate:,.1f}", f"{each.standard_error:,.2f}", f"{each.low:,}", f"{each.high:,}")
    return (each.area, each.column, each.label, *numbers)


def _write(found: Iterator[AreaInterval], out: Path) -> int:
    """Write a CSV whole or not at all."""
    from das_spark.store import disk_errors  # noqa: PLC0415 - `das-spark --help` needs no files

    part, count = out.with_name(f".{out.name}.part"), 0
    try:
        with disk_errors(out), part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for each in found:
                if not count:
                    names = [field.name for field in fields(each)]
                    writer.writerow(names)
                writer.writerow([csv_field(getattr(each, name)) for name in names])
                count += 1
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count
