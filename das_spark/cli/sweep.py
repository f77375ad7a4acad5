"""`sweep`: runs at several budgets, and the accuracy-privacy curve that comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.interruption import resumable
from das_spark.cli.options import Conf, Overlays, Settings, TestKey, listed
from das_spark.cli.render import console, shown_places
from das_spark.cli.runs import warn_of_test_key
from das_spark.report import table

#: What `--samples` says where nothing is to be compared with.
NONE = "none"


def sweep(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the sweep; the same one goes on where it stopped.")
    ],
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", metavar="LIST", help="Budgets, exact: 0.25,0.5,1 or 1/4,1/2,1.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option("--rho", metavar="LIST", help="The same, where the strategy is one of zCDP.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="NUMBER", help="Runs at each budget.")] = 4,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples",
            metavar="LIST",
            help="Shares of the simple random samples to compare with, such as 0.05,0.1; 5 % to 95 % by default; "
            f"{NONE} for no comparison.",
        ),
    ] = None,
    overlay: Overlays = None,
    settings: Settings = None,
    test_key: TestKey = None,
) -> None:
    """Run a grid of budgets, and compare accuracy and privacy with simple random samples. RESTRICTED results.

    Says what all runs cost together before it spends anything; finished runs are not run again.

    Example: das-spark sweep conf/quickstart.toml --epsilon 0.25,1,4 --runs 2 --out sweep
    """
    from das_spark.config import load_sweep  # noqa: PLC0415 - `das-spark --help` needs no product

    plan = load_sweep(
        conf,
        epsilon=listed(epsilon),
        rho=listed(rho),
        runs=runs,
        samples=None if samples is None else () if samples == NONE else listed(samples),
        overlays=overlay or (),
        settings=settings or (),
    )
    warn_of_test_key(test_key)
    # A wrong grid is refused before Spark is imported.
    from das_spark.evaluation import present_sweep  # noqa: PLC0415
    from das_spark.pipeline import run_sweep  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415

    screen = console()
    with resumable():
        summary = run_sweep(plan, out, test_key=test_key, progress=screen.print)
    print_report(present_sweep(summary.report), screen)
    screen.print(table("\nWritten", ("what", "where"), shown_places(summary.paths), left=2))
    warn_of_test_key(test_key)
