"""`experiment`: published studies done again, on invented populations."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.options import Json
from das_spark.studies import occupancy_command
from das_spark.studies.output import Out, Seed, deliver

app = typer.Typer(
    name="experiment",
    help="Do published studies of such systems again, on people whom nobody counted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("occupancy")(occupancy_command.occupancy)

Epsilons = Annotated[
    list[str] | None,
    typer.Option("--epsilon", metavar="NUMBER", help="Such as 1/40 or 0.025; may be repeated; those of the study."),
]
LawName = Annotated[
    str,
    typer.Option(
        "--law", metavar="NAME", help="Ratio of the noise: coded, 1 - z as in the programs; exact, exp(-z) as written."
    ),
]


@app.callback()
def _commands() -> None:
    """Do published studies again."""


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
    law: LawName = "coded",
    seed: Seed = 12345,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Empirical privacy loss of three mechanisms on a simulated hierarchy (Flaxman 2019): geometric, raked, averaged.

    Example: das-spark experiment flaxman --persons 100000 --levels 2 --replicates 2000 --out flaxman
    """
    from das_spark.studies.flaxman import flaxman as study  # noqa: PLC0415 - `das-spark --help` needs no experiment
    from das_spark.studies.flaxman_page import flaxman_page  # noqa: PLC0415
    from das_spark.studies.flaxman_population import EPSILONS, FlaxmanSettings  # noqa: PLC0415
    from das_spark.studies.noise import law_of  # noqa: PLC0415

    settings = FlaxmanSettings(
        persons, levels, mean_size, _exact(epsilon) or EPSILONS, parts, law_of(law), seed, replicates
    )
    found = study(settings)
    deliver("flaxman", found, lambda: flaxman_page(found), out, as_json=as_json, unprinted=("direct_points",))


@app.command("epl-appendix")
def epl_appendix(
    epsilon: Epsilons = None,
    replicates: Annotated[int, typer.Option("--replicates", help="Releases an epsilon.")] = 10,
    law: LawName = "coded",
    seed: Seed = 12345,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """How empirical privacy loss behaves (appendix to Petti and Flaxman 2020): three examples and table SA1.

    Example: das-spark experiment epl-appendix --epsilon 0.1 --epsilon 0.25 --replicates 200 --out appendix
    """
    from das_spark.studies.epl_appendix import GRID, AppendixSettings  # noqa: PLC0415
    from das_spark.studies.epl_appendix import epl_appendix as study  # noqa: PLC0415
    from das_spark.studies.epl_appendix_page import epl_appendix_page  # noqa: PLC0415
    from das_spark.studies.noise import law_of  # noqa: PLC0415

    settings = AppendixSettings(_exact(epsilon) or GRID, replicates, law_of(law), seed)
    found = study(settings)
    deliver("epl_appendix", found, lambda: epl_appendix_page(found), out, as_json=as_json)


@app.command("replication")
def replication(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="Folder of a finished sweep of e2e_1940.")],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The published study of the 1940 runs (Petti and Flaxman 2020) beside a sweep: every figure, and how close it is.

    Example: das-spark experiment replication sweep --out replication
    """
    from das_spark.studies.replication_page import replication_page  # noqa: PLC0415
    from das_spark.studies.replication_sweep import replicate  # noqa: PLC0415

    found = replicate(sweep)
    deliver(
        "replication",
        found,
        lambda: replication_page(found),
        out,
        as_json=as_json,
        unprinted=("figures",),
        restricted=True,
    )


def _exact(epsilons: list[str] | None) -> tuple[Fraction, ...]:
    from das_spark.privacy import exact  # noqa: PLC0415

    return tuple(exact(epsilon, "--epsilon") for epsilon in epsilons or ())
