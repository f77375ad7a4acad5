"""`experiment occupancy`: vacant housing units that a release loses, simulated or in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.options import Json
from das_spark.studies.output import Out, Seed, deliver


def occupancy(
    states: Annotated[int, typer.Option("--states", help="Simulated states.")] = 5,
    counties: Annotated[int, typer.Option("--counties", help="Simulated counties of each state.")] = 62,
    follow_up_to: Annotated[
        int,
        typer.Option("--follow-up-to", metavar="UNITS", help="Follow counties of so many housing units to the block."),
    ] = 5_000,
    seed: Seed = 2010,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="Look at this run of housing units instead. RESTRICTED."),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="RUN", help="With --run: take the confidential histograms of that run."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Places that a release leaves without a vacant housing unit (Van Riper, Kugler and Ruggles 2020).

    Simulated counties under the published budget, and with one cause taken away at a time; or a run beside its truth.

    Example: das-spark experiment occupancy --states 2 --out occupancy
    """
    if run is not None:
        _of_run(run, truth, out, as_json=as_json)
        return
    if truth is not None:
        raise typer.BadParameter("--truth goes with --run")
    from das_spark.studies.occupancy import OccupancySettings  # noqa: PLC0415 - `--help` needs no experiment
    from das_spark.studies.occupancy_page import occupancy_page  # noqa: PLC0415
    from das_spark.studies.occupancy_result import occupancy_experiment  # noqa: PLC0415

    settings = OccupancySettings(seed, states, counties, follow_up_to)
    found = occupancy_experiment(settings, lambda line: typer.echo(line, err=True))
    deliver("occupancy", found, lambda: occupancy_page(found), out, as_json=as_json, unprinted=("counties",))


def _of_run(run: Path, truth: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Look at a run."""
    from das_spark.studies.occupancy_page import run_occupancy_page  # noqa: PLC0415
    from das_spark.studies.occupancy_run import occupancy_of_run  # noqa: PLC0415 - needs Spark

    found = occupancy_of_run(run, truth)
    deliver("occupancy", found, lambda: run_occupancy_page(found), out, as_json=as_json, restricted=True)
