"""`simulate`: a population that nobody lives in, as files that a run can read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.render import console
from das_spark.report import table


class FileLayout(StrEnum):
    """How a simulated population is written."""

    TIDY = "tidy"
    IPUMS = "ipums"
    CEF = "cef"


def simulate(
    like: Annotated[
        str, typer.Option("--like", metavar="NAME", help="quickstart, 1940, 2020, or 2020-state: one invented state.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write; must not exist, or be empty.")],
    share: Annotated[str, typer.Option("--share", metavar="SHARE", help="Share of the whole, such as 1/100.")] = "1",
    layout: Annotated[
        FileLayout,
        typer.Option(
            "--layout",
            help="tidy: Parquet tables. ipums: the file EXT1940USCB.dat, like 1940 alone. cef: person and unit records "
            "and their geography, like 2020 alone.",
        ),
    ] = FileLayout.TIDY,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Change it to get a different population.")] = 0,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the files of ipums and cef.")] = False,
) -> None:
    """Write an invented population.

    Example: das-spark simulate --like 2020 --share 1/1000 --layout cef --out population
    """
    from das_spark import simulation  # noqa: PLC0415 - `das-spark --help` needs neither Arrow nor the census figures
    from das_spark.io import population_files  # noqa: PLC0415

    exact_share = simulation.share_of(share, "--share")
    screen = console()
    with screen.status("simulating") as status:
        summary = population_files.simulate(
            out,
            like,
            exact_share,
            layout.value,
            seed,
            compress=compress,
            progress=lambda done, total: status.update(f"simulating: {done} of {total} parts"),
        )
    rows = [
        ("geounits", f"{summary.geounits:,}"),
        ("persons", f"{summary.persons:,}"),
        ("occupied units", f"{summary.units:,}"),
        ("vacant units", f"{summary.vacant:,}"),
        ("occupied cells", f"{summary.cells:,}"),
    ]
    screen.print(table(f"An invented population like {like}, in {out}", ("what", "how many"), rows))
    screen.print(f"files: {', '.join(summary.files)}")
