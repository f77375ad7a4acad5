"""`evaluate`: how good finished runs are, beside the confidential counts and beside each other."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import Data, Json, console, listed
from das_spark.places import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.evaluation import AccuracyReport, Boundaries, Study
    from das_spark.evaluation.comparison import Over

#: What `--samples` says for the shares of the study of the 1940 runs.
EVERY = "every"


class OverChoice(StrEnum):
    """What the intervals of a comparison cover."""

    RUNS = "runs"
    GEOUNITS = "geounits"


def evaluate(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs of one configuration, which are pooled.",
            autocompletion=completion.runs,
        ),
    ],
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            metavar="RUN",
            help="Take the confidential histograms of this run for all.",
            autocompletion=completion.runs,
        ),
    ] = None,
    areas: Annotated[
        str | None, typer.Option("--areas", metavar="FILE", help="CSV of leaf geocode and area, such as a precinct.")
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples",
            metavar="LIST",
            help=f"Set simple random samples beside the runs: shares such as 0.05,1/2, or {EVERY} for 5 % to 95 %.",
        ),
    ] = None,
    sample_seeds: Annotated[
        int | None,
        typer.Option(
            "--sample-seeds", min=1, help="Samples of every share; as many as there are runs, where not given."
        ),
    ] = None,
    boundaries: Annotated[
        str | None,
        typer.Option(
            "--boundaries",
            metavar="FILE",
            help="With --out: a map of errors in these areas (GeoJSON or shapefile); tiles where not given.",
        ),
    ] = None,
    boundary_key: Annotated[
        str,
        typer.Option("--boundary-key", metavar="NAME", help="Property of the areas that holds geocodes; else GEOID."),
    ] = "",
    compare: Annotated[
        bool, typer.Option("--compare", help="Set the runs of two configurations (or two runs) side by side.")
    ] = False,
    over: Annotated[
        OverChoice | None,
        typer.Option("--over", help="With --compare: what intervals cover; runs, where there are several of each."),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="With --compare: pair runs in the order given, which share a test key.")
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write every figure there: JSON, CSV and one page.")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compare estimates with the confidential histograms. RESTRICTED: the figures are not protected by noise.

    Error, bias by homogeneity, and empirical privacy loss of total and stratified counts, pooled over runs.

    Example: das-spark evaluate runs/a runs/b --samples every --out accuracy
    """
    apart = (
        (compare and (areas or samples), "--compare goes with --truth, --over, --paired, --out and --data alone"),
        (boundaries and (compare or not out), "--boundaries goes with --out, and not with --compare"),
        (data and not out, "--data goes with --out"),
        (boundary_key and not boundaries, "--boundary-key goes with --boundaries"),
        (not compare and (over or paired), "--over and --paired go with --compare"),
    )
    for wrong, why in apart:
        if wrong:
            raise typer.BadParameter(why)
    folders, holder = [place_of(run) for run in runs], place_of(truth)
    target, of_data = place_of(out), place_of(data)
    if compare:
        over_what: Over | None = None if over is None else over.value
        written = _compare(folders, holder, over_what, target, of_data, paired=paired, as_json=as_json)
    else:
        from das_spark.config import sample_shares  # noqa: PLC0415 - `das-spark --help` needs no Spark
        from das_spark.io.boundary_files import read_boundaries  # noqa: PLC0415
        from das_spark.pipeline import study_runs  # noqa: PLC0415

        areas_of_map = None if boundaries is None else read_boundaries(place_of(boundaries), boundary_key)
        shares = () if samples is None else sample_shares(None if samples == EVERY else listed(samples))
        reports, study = study_runs(folders, areas=place_of(areas), truth=holder, shares=shares, seeds=sample_seeds)
        _print_study(reports, study, as_json=as_json)
        written = () if target is None else _write_study(folders, holder, reports, study, areas_of_map, target, of_data)
    if target is not None and not as_json:
        console().print(f"\nwritten to {target} (restricted): {', '.join(written)}")


def _compare(
    runs: list[Place],
    truth: Place | None,
    over: Over | None,
    out: Place | None,
    data: Place | None,
    *,
    paired: bool,
    as_json: bool,
) -> Sequence[str]:
    """Print two configurations side by side, and write them where that is asked for; the names of the files."""
    from das_spark.evaluation import present_comparison  # noqa: PLC0415
    from das_spark.pipeline import compare_runs  # noqa: PLC0415
    from das_spark.pipeline.evaluation_files import write_comparison  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415

    comparison = compare_runs(runs, truth, over, paired=paired)
    if as_json:
        typer.echo(comparison.to_json(), nl=False)
    else:
        print_report(present_comparison(comparison), console())
    return () if out is None else write_comparison(comparison, out, data)


def _print_study(reports: Sequence[AccuracyReport], study: Study, *, as_json: bool) -> None:
    from das_spark.evaluation import present_accuracy, spread  # noqa: PLC0415
    from das_spark.report import print_report, table_records  # noqa: PLC0415

    found = present_accuracy(study.report, spread(reports) if len(reports) > 1 else (), study)
    if as_json:
        typer.echo(study.report.to_json(table_records(found.tables("json"))), nl=False)
    else:
        print_report(found, console())


def _write_study(
    runs: list[Place],
    truth: Place | None,
    reports: Sequence[AccuracyReport],
    study: Study,
    areas_of_map: Boundaries | None,
    out: Place,
    data: Place | None,
) -> Sequence[str]:
    from das_spark.pipeline import map_runs  # noqa: PLC0415
    from das_spark.pipeline.evaluation_files import write_accuracy  # noqa: PLC0415

    return write_accuracy(reports, study, out, map_runs(runs, truth, areas_of_map), data)
