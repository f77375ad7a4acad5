"""`spine report`: what a spine does for areas that are none of its geounits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.options import AreaReader, Json
from das_spark.cli.render import console, number, table
from das_spark.config import absolute

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.evaluation import SpineReport

#: Paths of shares that are printed; all are in the JSON file.
_MOST_PATHS = 12


def report(
    spine: Annotated[
        Path, typer.Argument(metavar="SPINE", help="Folder of `spine build`, or of a run that has a spine.")
    ],
    geography: Annotated[str, typer.Option("--geography", metavar="PATH", help="Geography that it was made from.")],
    reader: AreaReader,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write spine_report.json and spine_report.html there."),
    ] = None,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="NUMBER", help="rho or epsilon of the standard deviations, such as 1/2."),
    ] = "1",
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", metavar="NAME", help="Such as place; may be repeated; all by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a spine with the census spine of the same blocks: distances of areas, accuracy of totals, fan-outs.

    Example: das-spark spine report spine --geography geography.txt --reader grfc --category place --out report
    """
    from das_spark.geography import ENTITY_CATEGORIES  # noqa: PLC0415 - `das-spark --help` needs no geography
    from das_spark.pipeline.spine_report import ReportRequest, report_spine, write_spine_report  # noqa: PLC0415
    from das_spark.privacy import exact  # noqa: PLC0415
    from das_spark.spark.session import session  # noqa: PLC0415

    chosen = tuple(dict.fromkeys(categories)) if categories else tuple(ENTITY_CATEGORIES)
    request = ReportRequest(spine.absolute(), absolute(geography), reader, exact(budget, "--budget"), chosen)
    request.look()
    found = report_spine(session("das-spark spine report"), request)
    if out is not None:
        write_spine_report(found, out)
    if as_json:
        typer.echo(found.to_json(), nl=False)
        return
    _print(found, console())
    if out is not None:
        console().print(f"\nwritten to {out}: spine_report.json, spine_report.html")


def _print(found: SpineReport, screen: Console) -> None:
    from das_spark.evaluation import budget_text  # noqa: PLC0415

    _print_levels(found, screen)
    _print_budget(found, screen)
    _print_distances(found, screen)
    rows = [
        (line.category, f"{line.entities:,}", number(line.deviation_before), number(line.deviation_after))
        for line in found.figures
        if line.entities
    ]
    title = f"\nMedian standard deviation of totals, people ({budget_text(found)}, as if only totals were measured)"
    screen.print(table(title, ("category", "entities", "census spine", "this spine"), rows))
    for note in found.notes:
        screen.print(f"note: {note}")


def _print_levels(found: SpineReport, screen: Console) -> None:
    from das_spark.evaluation import merged_levels  # noqa: PLC0415

    before, after = ({line.name: line for line in lines} for lines in (found.before, found.after))
    rows = []
    for name in merged_levels(found.before, found.after):
        sides = (before.get(name), after.get(name))
        cells = [name, *("-" if line is None else f"{line.geounits:,}" for line in sides)]
        cells += ["-" if line is None or not line.children else number(line.mean_fan_out) for line in sides]
        cells += ["-" if line is None or not line.children else f"{line.most:,}" for line in sides]
        last = after.get(name)
        cells += ["-", "-"] if last is None else [f"{last.bypassed:,}", f"{last.unmeasured:,}"]
        rows.append(cells)
    columns = ("geolevel", "geounits: census", "here", "mean fan-out: census", "here", "largest: census", "here")
    title = f"Spine {found.kind!r} of {found.blocks:,} blocks, {found.framework}, beside the census spine"
    screen.print(table(title, (*columns, "bypassed", "unmeasured"), rows))


def _print_budget(found: SpineReport, screen: Console) -> None:
    moved = [
        (move.level, *(f"{float(part):.4f}" for part in (move.share, move.received, move.given, move.after)))
        for move in found.moves
    ]
    columns = ("geolevel", "share of the level", "received", "given away", "mean share of a block's geounit")
    screen.print(table("\nWhere the budget went (shares of it, mean over blocks)", columns, moved))
    paths = [(f"{path.blocks:,}", *map(str, path.shares)) for path in found.paths[:_MOST_PATHS]]
    rest = len(found.paths) - len(paths)
    title = "\nShares from the root to a block" + (f" (and {rest:,} other paths)" if rest else "")
    screen.print(table(title, ("blocks", *(line.name for line in found.after)), paths))


def _print_distances(found: SpineReport, screen: Console) -> None:
    rows = []
    for line in found.figures:
        if not line.entities:
            continue
        pairs = (line.before.median, line.after.median, line.before.mean, line.after.mean)
        ends = (line.before.p90, line.after.p90, line.before.worst, line.after.worst)
        moved = (f"{share:.1%}" for share in (line.nearer, line.same, line.farther))
        rows.append((line.category, f"{line.entities:,}", *map(number, (*pairs, *ends)), *moved))
    columns = ("median: census", "here", "mean: census", "here", "90th: census", "here", "worst: census", "here")
    title = "\nOff-spine distance: geounits to add or subtract to make up an entity"
    screen.print(table(title, ("category", "entities", *columns, "nearer", "same", "farther"), rows))
