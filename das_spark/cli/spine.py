"""`spine`: spines from public geography, before any run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import AreaReader, Data, Json, Settings, console, group, print_found, refuse_address
from das_spark.config import absolute
from das_spark.places import place_of
from das_spark.report import number, table

if TYPE_CHECKING:
    from das_spark.places import Place
    from das_spark.store.spine import SpineRecord

app = group("spine", "Make and examine geographic spines.")


@app.command("build")
def build(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    geography: Annotated[str, typer.Option("--geography", metavar="PATH", help="Geographic file or folder.")],
    reader: AreaReader,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="New folder of the spine.")],
    kind: Annotated[str | None, typer.Option("--spine", metavar="KIND", help="census, aian, optimised or dhc.")] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="Settings of 2020: pl94_person, pl94_unit or dhc."),
    ] = None,
    shares: Annotated[
        Path | None,
        typer.Option(
            "--shares",
            metavar="CONF",
            help="Run file, TOML of budget.geolevels, or dhc_person_us and such.",
            callback=refuse_address,
        ),
    ] = None,
    product: Annotated[
        str | None,
        typer.Option(
            "--product",
            metavar="NAME",
            help="Product whose strategy gives the level shares.",
            autocompletion=completion.products,
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="Strategy of the product; by default its first.",
            autocompletion=completion.strategies,
        ),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option("--units", metavar="FILE", help="Table of group quarters by block: gq1 to gq7, or units_1 ..."),
    ] = None,
    crosswalk: Annotated[
        str | None,
        typer.Option("--crosswalk", metavar="FILE", help="Table of primitive geounits by block, for --spine dhc."),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Build a spine and write it: the path of every block, with geocodes and exact shares of the budget.

    Example: das-spark spine build --geography geography.txt --reader grfc --spine optimised
    --product pl94_2020_person --strategy us --set spine.fanout_cutoff=12 --out spine
    """
    from das_spark.config import choose_spine  # noqa: PLC0415 - `das-spark --help` needs no product

    choice = choose_spine(kind, preset, shares=shares, product_name=product, strategy=strategy, settings=settings or ())
    # Wrong options are refused before Spark is imported.
    from das_spark.pipeline.spines import SpineRequest, make_spine  # noqa: PLC0415
    from das_spark.spark.session import session  # noqa: PLC0415

    facts = {"reader": reader, **choice.facts}
    units, crosswalk = (None if path is None else absolute(path) for path in (units, crosswalk))
    request = SpineRequest(
        absolute(geography), reader, choice.settings, choice.shares, choice.framework, units, crosswalk, facts
    )
    folder = place_of(out).absolute()
    request.look(folder)
    record = make_spine(session("das-spark spine"), request, folder)
    if as_json:
        typer.echo(record.to_json(), nl=False)
    else:
        _print(record, folder)


def _print(record: SpineRecord, out: Place) -> None:
    screen = console()
    columns = ("geolevel", "share", "geounits", "largest fan-out", "mean fan-out", "bypassed", "unmeasured")
    rows = [
        (
            level.name,
            str(level.share),
            f"{level.geounits:,}",
            f"{level.most:,}" if level.children else "-",
            number(level.mean_fan_out) if level.children else "-",
            f"{level.bypassed:,}",
            f"{level.unmeasured:,}",
        )
        for level in record.levels
    ]
    screen.print(table(f"Spine {record.kind!r} of {record.blocks:,} blocks, {record.framework}", columns, rows))
    for note in record.notes:
        screen.print(f"note: {note}")
    screen.print(f"written: {out}")


@app.command("report")
def report(
    spine: Annotated[
        str, typer.Argument(metavar="SPINE", help="Folder of `spine build`, or of a run that has a spine.")
    ],
    geography: Annotated[str, typer.Option("--geography", metavar="PATH", help="Geography that it was made from.")],
    reader: AreaReader,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write spine_report.json and spine_report.html there."),
    ] = None,
    data: Data = None,
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
    from das_spark.evaluation import present_spine  # noqa: PLC0415 - `das-spark --help` needs no numbers
    from das_spark.geography import ENTITY_CATEGORIES  # noqa: PLC0415
    from das_spark.pipeline.spine_report import ReportRequest, report_spine, write_spine_report  # noqa: PLC0415
    from das_spark.privacy import exact  # noqa: PLC0415
    from das_spark.spark.session import session  # noqa: PLC0415

    if data is not None and out is None:
        raise typer.BadParameter("--data goes with --out")
    chosen = tuple(dict.fromkeys(categories)) if categories else tuple(ENTITY_CATEGORIES)
    request = ReportRequest(place_of(spine).absolute(), absolute(geography), reader, exact(budget, "--budget"), chosen)
    request.look()
    found = report_spine(session("das-spark spine report"), request)
    written, target = "", place_of(out)
    if target is not None:
        write_spine_report(found, target, place_of(data))
        written = f"{target}: spine_report.json, spine_report.html"
    print_found(found.to_json, partial(present_spine, found), written, as_json=as_json)
