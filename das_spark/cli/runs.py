"""`run`, `estimate` and `sweep`, and what is made of finished runs: `measurements`, `tabulate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from das_spark.cli import completion
from das_spark.cli.interruption import resumable
from das_spark.cli.log_format import Format, LogFormat, print_event
from das_spark.cli.options import (
    Conf,
    Data,
    External,
    Json,
    Output,
    Overlays,
    Resume,
    Run,
    RunId,
    Settings,
    TestKey,
    Until,
    console,
    listed,
    print_json,
    require_name,
    shown_paths,
    warn,
    with_output,
)
from das_spark.cli.progress import followed
from das_spark.config import JointPlan, load_plan, load_run, names_until
from das_spark.errors import ConfigurationError
from das_spark.places import place_of
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
    as_json: Json = False,
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
    stages = names_until(plan, until)
    refuse_both(log_format, as_json=as_json)
    warn_of_test_key(test_key, log_format)
    # A wrong run file, option or stage is refused before Spark is imported.
    from das_spark.pipeline import require_begun, run_parts, run_stages  # noqa: PLC0415
    from das_spark.pipeline.runner import usual_run_id  # noqa: PLC0415

    if resume and run_id is not None:
        require_begun(plan, run_id, until)
    out = console()
    name = run_id or usual_run_id(plan.name)
    result: RunSummary | JointSummary
    with resumable(name), followed(log_format, stages, as_json=as_json) as progress:
        if isinstance(plan, JointPlan):
            result = run_parts(plan, run_id=name, test_key=test_key, progress=progress, until=until)
        else:
            result = run_stages(plan, run_id=name, test_key=test_key, progress=progress, until=until)
    if as_json:
        print_json(result_record(result))
    else:
        for summary in (*getattr(result, "parts", {}).values(), result):
            print_result(out, log_format, summary)
    warn_of_test_key(test_key, log_format)


def refuse_both(log_format: LogFormat, *, as_json: bool) -> None:
    """Refuse to print one document and events at once on standard output."""
    if as_json and log_format is LogFormat.JSON:
        raise typer.BadParameter("--json prints one document at the end, --log-format json an event a line; take one")


def result_record(summary: RunSummary | JointSummary) -> dict[str, Any]:
    """What a run says of itself, as JSON values: nothing restricted, since standard output may be kept by others."""
    parts = getattr(summary, "parts", None)
    return {
        "run_id": summary.run_id,
        "finished": summary.finished,
        "figures": dict(summary.figures),
        "paths": {name: str(path) for name, path in summary.paths.items()},
        **({} if parts is None else {"parts": {name: result_record(part) for name, part in parts.items()}}),
    }


def warn_of_test_key(test_key: str | None, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Say loudly that a test key protects nobody, where one is given."""
    if test_key is not None:
        _warn(TEST_KEY_WARNING, log_format)


def _warn(text: str, log_format: LogFormat) -> None:
    if log_format is LogFormat.JSON:
        print_event(Event.COMMAND_WARNED, err=True, text=text)
    else:
        warn(text)


def print_result(out: Console, log_format: LogFormat, summary: RunSummary | JointSummary) -> None:
    """Print what a run says of itself at the end of a command."""
    if log_format is LogFormat.JSON:
        places = {name: str(path) for name, path in summary.paths.items()} if summary.finished else None
        event = Event.RUN_FINISHED if summary.finished else Event.RUN_LEFT
        print_event(event, summary.run_id, figures=dict(summary.figures), paths=places)
        return
    # Exact errors are restricted: what else standard output leads to, such as a scheduler's log, may be kept by others.
    figures = {**summary.figures, **(summary.restricted if out.is_terminal else {})}
    out.print(table(f"\nRun {summary.run_id}", ("figure", "value"), figures.items(), left=2))
    if summary.paths:
        out.print(table("\nWritten", ("what", "where"), shown_paths(summary.paths), left=2))


NOT_PROTECTED = "WARNING: the measurements were made under a test key. They protect nobody; every output is marked."


def measurements(
    run: Run,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder to make; it must not exist, or be empty.")],
    as_json: Json = False,
) -> None:
    """Publish the noisy measurements of a finished run, with all that estimation needs, as one folder with checksums.

    The run must have kept every noisy answer: measurement.rows = "all" in its run file.

    Example: das-spark measurements runs/latest --out measurements
    """
    from das_spark.pipeline import publish_measurements  # noqa: PLC0415 - `das-spark --help` needs no Spark

    summary = publish_measurements(place_of(run), place_of(out))
    if as_json:
        print_json(asdict(summary))
        return
    printer = console()
    rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
    printer.print(table(f"Measurements in {summary.folder}", ("folder", "rows"), rows))
    printer.print(f"SHA-256 of measurements.json, which holds those of all files: {summary.sha256}")
    for notice in summary.notices:
        printer.print(notice, style="bold red")


def estimate(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Finished run to estimate again, from its public folder.",
            autocompletion=completion.runs,
        ),
    ] = None,
    from_measurements: Annotated[
        str | None,
        typer.Option("--from-measurements", metavar="PATH", help="Folder of measurements instead of a run."),
    ] = None,
    conf: External = None,
    overlay: Overlays = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A key of estimation or output; any key with --conf; may be repeated."
        ),
    ] = None,
    run_id: RunId = None,
    output: Output = None,
    log_format: Format = LogFormat.TEXT,
    as_json: Json = False,
) -> None:
    """Estimate from measurements that exist, into a new run: no confidential input, no key, no budget.

    Exits with 2 if an option asks for what the measurements do not allow, with 1 if they are not what they must be
    (edited, cut off, of another product or schema, a level, query or geounit missing or unknown, a wrong shape or
    variance): nothing is written then.

    Example: das-spark estimate --from-measurements measurements --set 'estimation.rounding="released"'
    """
    chosen = with_output(settings, output)
    if overlay and conf is None:
        raise typer.BadParameter("--overlay goes with --conf")
    require_name(run_id)
    refuse_both(log_format, as_json=as_json)
    external = None if conf is None else load_plan(conf, overlay or (), chosen, files=False)
    from das_spark.pipeline import estimate_from, open_source  # noqa: PLC0415 - wrong options need no Spark
    from das_spark.pipeline.runner import usual_run_id  # noqa: PLC0415

    source = open_source(place_of(run), place_of(from_measurements), chosen, external)
    out = console()
    name = run_id or usual_run_id(f"{source.plan.name}-estimate")
    with resumable(name), followed(log_format, (), as_json=as_json) as progress:
        summary = estimate_from(source, run_id=name, progress=progress)
    if as_json:
        print_json(result_record(summary) | {"insecure": summary.insecure})
    else:
        print_result(out, log_format, summary)
    if summary.insecure:
        _warn(NOT_PROTECTED, log_format)


#: What `--samples` says where nothing is to be compared with.
NONE = "none"


def sweep(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder of the sweep; the same one goes on where it stopped.")
    ],
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", metavar="LIST", help="Budgets, exact: 0.25,0.5,1 or 1/4,1/2,1.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option("--rho", metavar="LIST", help="The same, where the strategy is one of zCDP.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=LIST",
            help="A key and its values, such as estimation.estimator=top_down,blue_down; each with every budget and "
            "with every value of other keys. May be repeated.",
            autocompletion=completion.keys,
        ),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="NUMBER", help="Runs at each point of the grid.")] = 4,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples",
            metavar="LIST",
            help="Shares of the simple random samples to compare with, such as 0.05,0.1; 5 % to 95 % by default; "
            f"{NONE} for no comparison.",
        ),
    ] = None,
    data: Data = None,
    overlay: Overlays = None,
    settings: Settings = None,
    test_key: TestKey = None,
    as_json: Json = False,
) -> None:
    """Run a grid of budgets and settings, and compare accuracy and privacy. RESTRICTED results.

    Simple random samples of the same population stand beside the runs.
    Says what all runs cost together before it spends anything; finished runs are not run again. With --vary and without
    budgets, each run has the total that its run file or strategy says.

    Example: das-spark sweep conf/quickstart.toml --epsilon 0.25,1,4 --runs 2 --out sweep
    """
    from das_spark.config import load_sweep  # noqa: PLC0415 - `das-spark --help` needs no product

    plan = load_sweep(
        conf,
        epsilon=listed(epsilon),
        rho=listed(rho),
        vary=vary or (),
        runs=runs,
        samples=None if samples is None else () if samples == NONE else listed(samples),
        overlays=overlay or (),
        settings=settings or (),
    )
    warn_of_test_key(test_key)
    # A wrong grid is refused before Spark is imported.
    from das_spark.evaluation import present_sweep, sweep_record  # noqa: PLC0415
    from das_spark.pipeline import run_sweep  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415

    screen = console()
    stages = [f"{run.run_id}: {name}" for run in plan for name in names_until(run.plan, None)]
    with resumable(), followed(LogFormat.TEXT, stages, as_json=as_json) as progress:
        summary = run_sweep(plan, place_of(out), test_key=test_key, progress=progress, data=place_of(data))
    if as_json:
        print_json({**sweep_record(summary.report), "insecure": summary.insecure, "paths": summary.paths})
    else:
        print_report(present_sweep(summary.report), screen)
        screen.print(table("\nWritten", ("what", "where"), shown_paths(summary.paths), left=2))
    warn_of_test_key(test_key)
