"""`sweep`: runs at several budgets, and the accuracy-privacy curve that comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.interruption import resumable
from das_spark.cli.options import Conf, Overlays, Settings, TestKey, listed
from das_spark.cli.render import console, number, shown_places, table
from das_spark.cli.runs import warn_of_test_key

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.evaluation.sweep_report import SweepReport

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
    from das_spark.pipeline import run_sweep  # noqa: PLC0415

    screen = console()
    with resumable():
        summary = run_sweep(plan, out, test_key=test_key, progress=screen.print)
    print_sweep(summary.report, screen)
    screen.print(table("\nWritten", ("what", "where"), shown_places(summary.paths), left=2))
    warn_of_test_key(test_key)


def print_sweep(report: SweepReport, screen: Console) -> None:
    """Error, privacy loss and closest samples, a row a budget, place and measure.

    Args:
        report: Of a sweep.
        screen: Where to print.
    """
    from das_spark.evaluation.closest import percent  # noqa: PLC0415

    rows = []
    for place, measure in report.lines:
        for point in report.curve("release", place, measure):
            shown = point.figures
            errors = (shown.median_absolute, shown.p95_absolute, shown.rmse) if shown.n else (None, None, None)
            row = [place, measure, str(point.size), f"{shown.n:,}", *map(number, (*errors, point.loss.value))]
            closest = report.closest_to(point.size, place, measure)
            shares = (closest.by_median_absolute, closest.by_loss, closest.by_both) if closest else (None, None, None)
            rows.append([*row, *map(percent, shares)])
    columns = ("place", "measure", report.budget, "counts", "median |error|", "95th percentile", "RMSE", "privacy loss")
    title = f"\nError in {report.counted}, empirical privacy loss, closest sample (restricted: not protected by noise)"
    screen.print(table(title, (*columns, "closest by error", "by loss", "by both"), rows, left=3))
    for reason in dict.fromkeys(point.loss.why_undefined for point in report.points if point.loss.why_undefined):
        screen.print(f"privacy loss -: {reason}")
