"""Estimates, standard errors and intervals of the truth."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from io import TextIOWrapper
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import (
    External,
    Json,
    Overlays,
    Settings,
    console,
    print_json,
    require_new,
    warn,
    write_new,
)
from das_spark.config import load_plan
from das_spark.places import disk_errors, place_of, system_of
from das_spark.report import ReportTable, csv_field, csv_text, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from das_spark.features.intervals.finished import AreaInterval, IntervalSource
    from das_spark.features.intervals.wide_cells import WideCells, WidthLimit
    from das_spark.places import Place

#: How far a column may be indented in its table, and be printed: all columns go to a file.
_PRINTED_DEPTH = 2
_COLUMNS = ("of", "level", "table", "geolevel", "column", "label", "cells", "wider", "share")


def interval(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    path: Annotated[
        str,
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
        str | None,
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
        str | None,
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
    from das_spark.features.intervals.wide_cells import WidthLimit  # noqa: PLC0415 - the help needs no numbers; so below

    limit = None if wider_than is None else WidthLimit.of(wider_than)
    external = None if conf is None else load_plan(conf, overlay or (), settings or (), files=False)
    from das_spark.features.intervals.finished import (  # noqa: PLC0415
        area_intervals,
        geounit_intervals,
        open_intervals,
    )

    target, of_areas = place_of(out), place_of(areas)
    measured = open_intervals(place_of(path), level, tables or (), geolevels or (), external)
    screen = console()
    warn(*measured.notices)
    if limit is not None:
        _show_wide_cells(measured, limit, target, as_json=as_json)
        return
    facts = {"level": level, "notices": measured.notices}
    if of_areas is None and target is not None:
        summary = geounit_intervals(measured, target)
        if as_json:
            print_json({**facts, "folder": summary.folder, "rows": summary.rows})
            return
        rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
        screen.print(table(f"Intervals in {summary.folder}", ("table", "rows"), rows))
    elif of_areas is not None and target is not None:
        number = _write(area_intervals(measured, of_areas, target), target)
        if as_json:
            print_json({**facts, "file": target, "rows": number})
        else:
            screen.print(f"{number:,} intervals in {target}")
    elif of_areas is not None:
        found = area_intervals(measured, of_areas)
        if as_json:
            print_json({**facts, "intervals": [asdict(each) for each in found]})
            return
        shown = [_line(each) for each in found if each.depth <= _PRINTED_DEPTH]
        names = ("area", "column", "what", "estimate", "standard error", "low", "high")
        screen.print(table(f"Intervals of {level} of the truth", names, shown, left=3))
        screen.print("columns that stand deeper in their tables go to a file only: --out FILE")


def _refuse_contradictions(areas: object, geolevels: list[str] | None, wider_than: str | None, out: object) -> None:
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


def _write(found: Iterator[AreaInterval], out: Place) -> int:
    """Write a CSV whole or not at all."""
    part, count = out.with_name(f".{out.name}.part"), 0
    system = system_of(part)
    try:
        with disk_errors(out), system.open_output(str(part)) as raw:
            file = TextIOWrapper(raw, "utf-8", newline="")
            writer = csv.writer(file, lineterminator="\n")
            for each in found:
                if not count:
                    names = [field.name for field in fields(each)]
                    writer.writerow(names)
                writer.writerow([csv_field(getattr(each, name)) for name in names])
                count += 1
            file.flush()
            file.detach()  # what is left half written by an error is no file of a store
        with disk_errors(out):
            system.move(str(part), str(out))
    finally:
        if part.is_file():
            system.remove(str(part))
    return count


def _show_wide_cells(measured: IntervalSource, limit: WidthLimit, out: Place | None, *, as_json: bool) -> None:
    """Count wide intervals and print them, by column as JSON or CSV, by table and geolevel for people.

    Args:
        measured: What is known, and wanted.
        limit: What is wider.
        out: CSV to write, if any; it must not be there.
        as_json: Print JSON instead of tables.
    """
    if out is not None:
        require_new(out)
    from das_spark.features.intervals.finished import wide_intervals  # noqa: PLC0415 - wrong options are refused first

    found = wide_intervals(measured, limit)
    if out is not None:
        write_new(out, csv_text(ReportTable.of("wide_cells", "", _COLUMNS, [each.to_json() for each in found])))
    if as_json:
        facts = {"wider_than": str(limit), "notices": measured.notices, "file": out}
        print_json({**facts, "cells": [each.to_json() for each in found]})
        return
    _print(found, limit, measured.plan.product.counted, console())
    if out is not None:
        console().print(f"by column in {out}")


def _print(found: Sequence[WideCells], limit: WidthLimit, counted: str, out: Console) -> None:
    from das_spark.evaluation import MEASUREMENTS  # noqa: PLC0415 - the help needs no numbers

    for (of, level), cells in groupby(found, key=lambda each: (each.of, each.level)):
        rows = []
        for (name, geolevel), own in groupby(cells, key=lambda each: (each.table, each.geolevel)):
            columns = list(own)
            count, wider = (sum(getattr(column, key) for column in columns) for key in ("cells", "wider"))
            worst = max(columns, key=lambda column: column.share)
            share = f"{worst.column} ({worst.share:.1%})" if worst.wider else ""
            rows.append((name, geolevel, f"{count:,}", f"{wider:,}", f"{wider / count:.1%}" if count else "-", share))
        meant = (
            "of the truth, by the measurements alone" if of == MEASUREMENTS else "of published counts, by replicates"
        )
        unit = "" if limit.is_share else f" {counted}"
        title = f"Cells whose {100 * level:g} % interval is wider than {limit}{unit}; {meant}"
        out.print(table(title, ("table", "geolevel", "cells", "wider", "share", "most of them"), rows, left=2))
    out.print("a cell is a column of a geounit; its width is the greatest count of the interval minus the least one")


COMMAND = interval
