"""`run`: a whole run, from records to verified microdata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from das_spark.cli.interruption import resumable
from das_spark.cli.log_format import Format, LogFormat, print_event, progress_lines
from das_spark.cli.options import (
    Conf,
    Output,
    Overlays,
    Resume,
    RunId,
    Settings,
    TestKey,
    Until,
    require_name,
    with_output,
)
from das_spark.cli.render import console, shown_places
from das_spark.config import JointPlan, load_run, names_until
from das_spark.errors import ConfigurationError
from das_spark.report import table
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.pipeline import JointSummary, RunSummary

TEST_KEY_WARNING = (
    "WARNING: a test key makes the noise predictable. This run protects nobody; every output is marked insecure."
)


def run(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    run_id: RunId = None,
    output: Output = None,
    test_key: TestKey = None,
    until: Until = None,
    resume: Resume = False,
    log_format: Format = LogFormat.TEXT,
) -> None:
    """Read, measure, estimate, write, verify and report. Spends the budget of the run file, once.

    A run file with run.parts carries out all of them, with one ledger and a joint statement. With --until it stops
    after one stage, for schedulers: a later call with the same --run-id goes on, and nothing is drawn twice. A
    scheduler gives every call but the first --resume, lest a worker that does not see the folder begins the run anew.

    Example: das-spark run conf/quickstart.toml --set budget.epsilon=1/2
    """
    # A run that is resumed may need its input no longer; where it does, it says so itself.
    plan = load_run(conf, overlay or (), with_output(settings, output), files=not resume, named=test_key is None)
    require_name(run_id)
    for option, given in (("--until", until is not None), ("--resume", resume)):
        if given and run_id is None:
            raise ConfigurationError(f"{option} needs --run-id", hint="a run is found, and goes on, by its id")
    names_until(plan, until)
    warn_of_test_key(test_key, log_format)
    # A wrong run file, option or stage is refused before Spark is imported.
    from das_spark.pipeline import require_begun, run_parts, run_stages  # noqa: PLC0415
    from das_spark.pipeline.runner import usual_run_id  # noqa: PLC0415

    if resume and run_id is not None:
        require_begun(plan, run_id, until)
    out = console()
    progress = progress_lines(log_format, out.print)
    name = run_id or usual_run_id(plan.name)
    with resumable(name):
        if isinstance(plan, JointPlan):
            joint = run_parts(plan, run_id=name, test_key=test_key, progress=progress, until=until)
            for summary in joint.parts.values():
                print_result(out, log_format, summary)
            print_result(out, log_format, joint)
        else:
            summary = run_stages(plan, run_id=name, test_key=test_key, progress=progress, until=until)
            print_result(out, log_format, summary)
    warn_of_test_key(test_key, log_format)


def warn_of_test_key(test_key: str | None, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Say loudly that a test key protects nobody, where one is given.

    Args:
        test_key: Text of the key; None where the key comes from the operating system.
        log_format: How it is said.
    """
    if test_key is None:
        return
    if log_format is LogFormat.JSON:
        print_event(Event.COMMAND_WARNED, err=True, text=TEST_KEY_WARNING)
    else:
        typer.secho(TEST_KEY_WARNING, fg=typer.colors.RED, bold=True, err=True)


def print_result(out: Console, log_format: LogFormat, summary: RunSummary | JointSummary) -> None:
    """Print what a run says of itself at the end of a command.

    Exact errors are restricted. They are shown on a terminal alone: what else standard output leads to, such as the log
    of a scheduler, may be kept by others.

    Args:
        out: Standard output.
        log_format: How it is printed.
        summary: Of the run.
    """
    if log_format is LogFormat.JSON:
        places = {name: str(path) for name, path in summary.paths.items()} if summary.finished else None
        event = Event.RUN_FINISHED if summary.finished else Event.RUN_LEFT
        print_event(event, summary.run_id, figures=dict(summary.figures), paths=places)
        return
    figures = {**summary.figures, **(summary.restricted if out.is_terminal else {})}
    out.print(table(f"\nRun {summary.run_id}", ("figure", "value"), figures.items(), left=2))
    if summary.paths:
        out.print(table("\nWritten", ("what", "where"), shown_places(summary.paths), left=2))
