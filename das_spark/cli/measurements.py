"""`measurements` and `estimate`: noisy measurements published, and runs that start from measurements that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.interruption import resumable
from das_spark.cli.log_format import Format, LogFormat, print_event, progress_lines
from das_spark.cli.options import Output, Overlays, Run, RunId, require_name, with_output
from das_spark.cli.render import console
from das_spark.cli.runs import print_result
from das_spark.config import load_plan
from das_spark.report import table
from das_spark.telemetry import Event

NOT_PROTECTED = "WARNING: the measurements were made under a test key. They protect nobody; every output is marked."


def measurements(
    run: Run,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to make; it must not exist, or be empty.")],
) -> None:
    """Publish the noisy measurements of a finished run, with all that estimation needs, as one folder with checksums.

    The run must have kept every noisy answer: measurement.rows = "all" in its run file.

    Example: das-spark measurements runs/latest --out measurements
    """
    from das_spark.pipeline import publish_measurements  # noqa: PLC0415 - `das-spark --help` needs no Spark

    summary = publish_measurements(run, out)
    printer = console()
    rows = [(name, f"{count:,}") for name, count in summary.rows.items()]
    printer.print(table(f"Measurements in {summary.folder}", ("folder", "rows"), rows))
    printer.print(f"SHA-256 of measurements.json, which holds those of all files: {summary.sha256}")
    for notice in summary.notices:
        printer.print(notice, style="bold red")


def estimate(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Finished run to estimate again, from its public folder.")
    ] = None,
    from_measurements: Annotated[
        Path | None,
        typer.Option("--from-measurements", metavar="PATH", help="Folder of measurements instead of a run."),
    ] = None,
    conf: Annotated[
        Path | None,
        typer.Option("--conf", metavar="CONF", help="Run file that says what measurements of others are."),
    ] = None,
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
    external = None if conf is None else load_plan(conf, overlay or (), chosen, files=False)
    from das_spark.pipeline import estimate_from, open_source  # noqa: PLC0415 - wrong options need no Spark
    from das_spark.pipeline.runner import usual_run_id  # noqa: PLC0415

    source = open_source(run, from_measurements, chosen, external)
    out = console()
    name = run_id or usual_run_id(f"{source.plan.name}-estimate")
    with resumable(name):
        summary = estimate_from(source, run_id=name, progress=progress_lines(log_format, out.print))
    print_result(out, log_format, summary)
    if summary.insecure and log_format is LogFormat.JSON:
        print_event(Event.COMMAND_WARNED, err=True, text=NOT_PROTECTED)
    elif summary.insecure:
        typer.secho(NOT_PROTECTED, fg=typer.colors.RED, bold=True, err=True)
