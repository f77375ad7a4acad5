"""`spine report`: what a spine does for areas that are none of its geounits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.options import AreaReader, Json
from das_spark.cli.render import console
from das_spark.config import absolute


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
    from das_spark.evaluation import present_spine  # noqa: PLC0415 - `das-spark --help` needs no numbers
    from das_spark.geography import ENTITY_CATEGORIES  # noqa: PLC0415
    from das_spark.pipeline.spine_report import ReportRequest, report_spine, write_spine_report  # noqa: PLC0415
    from das_spark.privacy import exact  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415
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
    print_report(present_spine(found), console())
    if out is not None:
        console().print(f"\nwritten to {out}: spine_report.json, spine_report.html")
