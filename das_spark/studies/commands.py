"""Do published studies of such systems again, on people whom nobody counted."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.options import Json, console, group
from das_spark.places import place_of

if TYPE_CHECKING:
    from das_spark.studies.results import StudyResult

app = group("experiment", "Do published studies of such systems again, on people whom nobody counted.")

Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Write JSON, CSV tables and a page with figures there.")
]
Seed = Annotated[int, typer.Option("--seed", help="Change it to get a different population and different noise.")]
Epsilons = Annotated[
    list[str] | None,
    typer.Option("--epsilon", metavar="NUMBER", help="Such as 1/40 or 0.025; may be repeated; those of the study."),
]
RatioName = Annotated[
    str,
    typer.Option(
        "--law", metavar="NAME", help="Ratio of the noise: coded, 1 - z as in the programs; exact, exp(-z) as written."
    ),
]


@app.command("flaxman")
def flaxman(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    persons: Annotated[int, typer.Option("--persons", help="N, people in all.")] = 1_000_000,
    levels: Annotated[int, typer.Option("--levels", help="J, levels below the root.")] = 3,
    mean_size: Annotated[int, typer.Option("--mean-size", help="mu, people an area of the last level.")] = 100,
    epsilon: Epsilons = None,
    parts: Annotated[int, typer.Option("--parts", help="P, measurements that ADPC averages.")] = 4,
    replicates: Annotated[
        int, typer.Option("--replicates", help="R of the direct estimate, on each of two databases; 0 leaves it out.")
    ] = 500,
    law: RatioName = "coded",
    seed: Seed = 12345,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Empirical privacy loss of three mechanisms on a simulated hierarchy (Flaxman 2019): geometric, raked, averaged.

    Example: das-spark experiment flaxman --persons 100000 --levels 2 --replicates 2000 --out flaxman
    """
    from das_spark.studies import flaxman as study  # noqa: PLC0415 - `das-spark --help` needs no study
    from das_spark.studies.noise import ratio_of  # noqa: PLC0415

    epsilons = _exact(epsilon) or study.EPSILONS
    settings = study.FlaxmanSettings(persons, levels, mean_size, epsilons, parts, ratio_of(law), seed, replicates)
    _deliver("flaxman", study.flaxman(settings), out, as_json=as_json)


@app.command("epl-appendix")
def epl_appendix(
    epsilon: Epsilons = None,
    replicates: Annotated[int, typer.Option("--replicates", help="Releases an epsilon.")] = 10,
    law: RatioName = "coded",
    seed: Seed = 12345,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """How empirical privacy loss behaves (appendix to Petti and Flaxman 2020): three examples and table SA1.

    Example: das-spark experiment epl-appendix --epsilon 0.1 --epsilon 0.25 --replicates 200 --out appendix
    """
    from das_spark.studies import epl_appendix as study  # noqa: PLC0415
    from das_spark.studies.noise import ratio_of  # noqa: PLC0415

    settings = study.AppendixSettings(_exact(epsilon) or study.GRID, replicates, ratio_of(law), seed)
    _deliver("epl_appendix", study.epl_appendix(settings), out, as_json=as_json)


@app.command("occupancy")
def occupancy(  # noqa: PLR0913, PLR0917 - an option each
    states: Annotated[int, typer.Option("--states", help="Simulated states.")] = 5,
    counties: Annotated[int, typer.Option("--counties", help="Simulated counties of each state.")] = 62,
    follow_up_to: Annotated[
        int,
        typer.Option("--follow-up-to", metavar="UNITS", help="Follow counties of so many housing units to the block."),
    ] = 5_000,
    seed: Seed = 2010,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Look at this run of units or households instead. RESTRICTED."),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option("--truth", metavar="RUN", help="With --run: take the confidential histograms of that run."),
    ] = None,
    persons: Annotated[
        str | None,
        typer.Option("--persons", metavar="RUN", help="With --run: the run of its people, for persons per household."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Places that a release leaves without a vacant housing unit (Van Riper, Kugler and Ruggles 2020).

    Simulated counties under the published budget, and with one cause taken away at a time; or a run beside its truth.

    Example: das-spark experiment occupancy --states 2 --out occupancy
    """
    if run is not None:
        from das_spark.studies.run_occupancy import occupancy_of_run  # noqa: PLC0415 - needs Spark

        _deliver("occupancy", occupancy_of_run(place_of(run), place_of(truth), place_of(persons)), out, as_json=as_json)
        return
    if given := [name for name, value in (("--truth", truth), ("--persons", persons)) if value is not None]:
        raise typer.BadParameter(f"{given[0]} goes with --run")
    from das_spark.studies.occupancy import OccupancySettings  # noqa: PLC0415
    from das_spark.studies.occupancy_report import occupancy_experiment  # noqa: PLC0415

    settings = OccupancySettings(seed, states, counties, follow_up_to)
    found = occupancy_experiment(settings, lambda line: typer.echo(line, err=True))
    _deliver("occupancy", found, out, as_json=as_json)


@app.command("replication")
def replication(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="Folder of a finished sweep of e2e_1940.")],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The published study of the 1940 runs (Petti and Flaxman 2020) beside a sweep: every figure, and how close it is.

    Example: das-spark experiment replication sweep --out replication
    """
    from das_spark.studies.replication import replicate  # noqa: PLC0415

    _deliver("replication", replicate(place_of(sweep)), out, as_json=as_json)


def _exact(epsilons: list[str] | None) -> tuple[Fraction, ...]:
    from das_spark.privacy import exact  # noqa: PLC0415

    return tuple(exact(epsilon, "--epsilon") for epsilon in epsilons or ())


def _deliver(name: str, found: StudyResult, out: str | None, *, as_json: bool) -> None:
    """Write what was found where a folder is named, and print it; the names of the files begin with the study's."""
    from das_spark import report as reports  # noqa: PLC0415

    target, report = place_of(out), found.report(drawn=out is not None)
    if target is not None:
        contents = {f"{name}.json": found.to_json(), f"{name}.html": reports.page(report)}
        contents |= {f"{name}_{table.name}.csv": reports.csv_text(table) for table in report.tables("csv")}
        from das_spark.store import write_texts  # noqa: PLC0415

        write_texts(target, contents, restricted=bool(report.restricted))
    if as_json:
        typer.echo(found.to_json(), nl=False)
        return
    screen = console()
    reports.print_report(report, screen)
    if target is not None:
        screen.print(f"\nwritten to {target}: {', '.join(contents)}")
