"""`audit`: what an attacker can tell from the outputs of a configured system, on synthetic neighbouring inputs."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.options import Conf, Json, Overlays, Settings, console, print_found
from das_spark.config import load_plan, load_run
from das_spark.places import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.places import Place


class _AuditStage(StrEnum):
    """What of the system is audited."""

    MEASUREMENT = "measurement"
    ESTIMATES = "estimates"
    BOTH = "both"


def audit(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    stage: Annotated[
        _AuditStage,
        typer.Option("--stage", help="Noisy answers alone, the whole pipeline to the estimates, or both."),
    ] = _AuditStage.BOTH,
    runs: Annotated[
        int, typer.Option("--runs", min=4, metavar="N", help="Runs of the whole pipeline on each input of a pair.")
    ] = 400,
    draws: Annotated[
        int, typer.Option("--draws", min=4, metavar="N", help="Draws of the noisy answers alone, under each input.")
    ] = 200_000,
    events: Annotated[
        list[str] | None,
        typer.Option("--events", metavar="KIND", help="answer, sum, kept, estimate or learned; may be repeated."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence of all findings together.")] = 0.95,
    delta: Annotated[
        str, typer.Option("--delta", metavar="NUMBER", help="Delta of the epsilon reported for rho, such as 1/100.")
    ] = "1e-10",
    test_key: Annotated[
        str | None, typer.Option("--test-key", metavar="TEXT", help="INSECURE: keys from a text, to repeat an audit.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write audit.json, audit.md and audit.html there.")
    ] = None,
    structure: Annotated[
        bool,
        typer.Option("--structure", help="Compare every public byte of whole runs on neighbouring inputs instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Prove lower bounds on the privacy loss of a run file, on synthetic records only. Exit 1 where one convicts.

    With --structure, whole runs on neighbouring inputs with the same noisy answers are compared byte by byte: names,
    sizes, contents, modes and times of everything public. The run file may be that of a joint run.

    Example: das-spark audit conf/quickstart.toml --runs 1000 --level 0.99 --out audit
    """
    if structure:
        _audit_structure(conf, overlay or (), settings or (), place_of(out), as_json=as_json)
        return
    # A wrong run file is refused before statistics are imported; no input file is looked for.
    plan = load_plan(conf, overlay or (), settings or (), files=False)
    from das_spark.audit import KINDS, AuditSettings, present_audit, run_audit, write_audit  # noqa: PLC0415
    from das_spark.privacy import exact  # noqa: PLC0415

    chosen = AuditSettings(
        stage=stage.value,
        runs=runs,
        draws=draws,
        level=level,
        kinds=tuple(dict.fromkeys(events or KINDS)),
        delta=exact(delta, "--delta"),
        test_key=test_key,
    )
    report = run_audit(plan, chosen, progress=(lambda _: None) if as_json else console().print)
    written, target = "", place_of(out)
    if target is not None:
        write_audit(report, target)
        written = f"{target}: audit.json, audit.md, audit.html"
    print_found(report.to_json, partial(present_audit, report), written, as_json=as_json)
    if report.convicts:
        raise typer.Exit(1)


def _audit_structure(
    conf: Path, overlays: Sequence[Path], settings: Sequence[str], out: Place | None, *, as_json: bool
) -> None:
    plan = load_run(conf, overlays, settings, files=False)
    from das_spark.pipeline.structure import audit_structure, write_structure  # noqa: PLC0415 - needs Spark's packages
    from das_spark.spark.session import session  # noqa: PLC0415

    terminal = console()
    progress = (lambda _: None) if as_json else terminal.print
    with TemporaryDirectory(prefix="das_spark-structure-") as place:
        report = audit_structure(plan, Path(place) / "runs", session("das_spark audit of structure"), progress)
    if out is not None:
        write_structure(report, out)
    if as_json:
        typer.echo(report.to_json(), nl=False)
    else:
        for difference in report.differences:
            terminal.print(f"{difference.path}: {difference.what} (in the run with {difference.variant})")
        terminal.print(report.verdict, style="bold red" if report.convicts else "bold")
        if out is not None:
            terminal.print(f"written to {out}: structure.json, structure.md, structure.html")
    if report.convicts:
        raise typer.Exit(1)
