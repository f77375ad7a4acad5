"""`run`: a whole run, from records to verified microdata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.options import Conf, Overlays, Settings
from das_spark.cli.render import console, table
from das_spark.config.joint import load_run
from das_spark.config.plan import JointPlan

if TYPE_CHECKING:
    from rich.console import Console

TEST_KEY_WARNING = (
    "WARNING: a test key makes the noise predictable. This run protects nobody; every output is marked insecure."
)


def run(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="Name of the run folder; an unfinished run of it resumes."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Folder of the runs; the same as --set output.root=DIR."),
    ] = None,
    test_key: Annotated[
        str | None,
        typer.Option("--test-key", metavar="TEXT", help="INSECURE: noise from a text, to repeat a run exactly."),
    ] = None,
) -> None:
    """Read, measure, estimate, write, verify and report. Spends the budget of the run file, once.

    A run file with run.parts carries out all of them, with one ledger and a joint statement.

    Example: das-spark run conf/quickstart.toml --set budget.epsilon=1/2
    """
    chosen = list(settings or ())
    if output is not None:
        chosen.append(f"output.root={json.dumps(str(output))}")
    plan = load_run(conf, overlay or (), chosen)
    if test_key is not None:
        typer.secho(TEST_KEY_WARNING, fg=typer.colors.RED, bold=True, err=True)
    # A wrong run file is refused before Spark is imported.
    from das_spark.pipeline import run_parts, run_stages  # noqa: PLC0415

    out = console()
    if isinstance(plan, JointPlan):
        joint = run_parts(plan, run_id=run_id, test_key=test_key, progress=out.print)
        for summary in joint.parts.values():
            _print(out, summary.run_id, summary.figures, summary.paths)
        _print(out, joint.run_id, joint.figures, joint.paths)
    else:
        summary = run_stages(plan, run_id=run_id, test_key=test_key, progress=out.print)
        _print(out, summary.run_id, summary.figures, summary.paths)
    if test_key is not None:
        typer.secho(TEST_KEY_WARNING, fg=typer.colors.RED, bold=True, err=True)


def _print(out: Console, run_id: str, figures: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    out.print(table(f"\nRun {run_id}", ("figure", "value"), figures.items(), left=2))
    out.print(table("\nWritten", ("what", "where"), paths.items(), left=2))
