"""`verify` and `show`: what became of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli.options import Json, Run, console, print_json
from das_spark.errors import OutputError
from das_spark.places import place_of, seen_from
from das_spark.privacy import LedgerEntry
from das_spark.report import size, table
from das_spark.store import bytes_of

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.pipeline import Check, VerificationReport
    from das_spark.places import Place
    from das_spark.store import RunLayout


def verify(
    run: Run,
    work: Annotated[
        str | None,
        typer.Option(
            "--work",
            metavar="DIR",
            help="Of a run in a store: where rows lie meanwhile; a place that all workers reach.",
        ),
    ] = None,
    manifest_sha256: Annotated[
        str,
        typer.Option(
            "--manifest-sha256",
            metavar="HEX",
            help="SHA-256 that the manifest must have: a run prints it at its end, and show shows it.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Check what a run has written, independently of how it was made. Exits with 1 on any failure.

    The manifest answers for every other file. It is compared with the ledger where RUN has its restricted root, and
    with what you name. Of a joint run all parts are checked, and contradictions between them are counted again.

    Example: das-spark verify runs/latest
    """
    from das_spark.pipeline import verify_run  # noqa: PLC0415 - `das-spark --help` needs no Spark

    report = verify_run(place_of(run), work=work, manifest_sha256=manifest_sha256)
    if as_json:
        typer.echo(report.to_json(), nl=False)
        raise typer.Exit(0 if report.passed else 1)
    out = console()
    rows = [
        (check.name, check.geolevel, "ok" if check.passed else "FAILED", _found(check), f"{check.checked:,}")
        for check in report.checks
    ]
    out.print(table(f"Verification of {run}", ("check", "geolevel", "result", "found", "compared"), rows, left=4))
    if report.relaxed:
        out.print(f"CONSISTENCY RELAXED in {len(report.relaxed)} families", style="bold red")
    if report.uncertified:
        out.print(f"NOT PROVED THE BEST: {len(report.uncertified)} families", style="bold red")
    if report.manifest:
        out.print(f"{_vouched(report)}: {report.manifest}")
    out.print(report.summary(), style="bold green" if report.passed else "bold red")
    if not report.passed:
        raise typer.Exit(1)


def _vouched(report: VerificationReport) -> str:
    """What the SHA-256 of the manifest was compared with, as the beginning of a line that ends with it."""
    from das_spark.pipeline.verified_files import ENTERED, NAMED  # noqa: PLC0415

    known = {ENTERED: "the ledger", NAMED: "--manifest-sha256"}
    compared = [known[check.name] for check in report.checks if check.name in known]
    said = (
        f"compared with {' and '.join(compared)}" if compared else "compared with nothing: name it by --manifest-sha256"
    )
    return f"SHA-256 of the manifest ({said})"


def _found(check: Check) -> str:
    return "; ".join(part for part in (check.note, ", ".join(check.failing)) if part)


def show(
    run: Run,
    retention: Annotated[bool, typer.Option("--retention", help="List what is confidential and still there.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="With --retention: remove it. There is no way back.")
    ] = False,
    restricted: Annotated[
        bool,
        typer.Option(
            "--restricted", help="Add times, Spark's figures, families by work, drivers. Serves unfinished runs."
        ),
    ] = False,
    page: Annotated[
        str | None,
        typer.Option(
            "--page", metavar="FILE", help="Write the run as one HTML page; RUN/public gives a page for everybody."
        ),
    ] = None,
    statement: Annotated[
        str | None, typer.Option("--statement", metavar="FILE", help="Write the privacy statement as one HTML page.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a run did, or what of it is confidential.

    Without options the public manifest alone is read.

    Example: das-spark show runs/latest --restricted
    """
    if remove and not retention:
        raise typer.BadParameter("--remove goes with --retention")
    if sum((retention, restricted, page is not None, statement is not None)) > 1:
        raise typer.BadParameter("one of --retention, --restricted, --page and --statement, or none of them")
    out, place = console(), place_of(run)
    if statement is not None:
        _write_statement(place, place_of(statement), out, as_json=as_json)
    elif page is not None:
        _write_page(place, place_of(page), out, as_json=as_json)
    elif restricted:
        _show_restricted(place, out, as_json=as_json)
    elif retention:
        _show_retention(place, out, remove=remove, as_json=as_json)
    else:
        _show_manifest(place, out, as_json=as_json)


def _show_retention(place: Place, out: Console, *, remove: bool, as_json: bool) -> None:
    """List what is confidential of a run, and remove it where that is asked for."""
    from das_spark.store import find_run  # noqa: PLC0415

    layout = find_run(place)
    found = _confidential(layout)
    root = layout.restricted.path
    kept = [path.name for path in layout.restricted.kept]
    if not as_json:
        rows = [(seen_from(root, path), size(number)) for path, number in found]
        out.print(table(f"Confidential in {root}", ("what", "bytes"), rows))
    if remove:
        _remove(layout, [path for path, _ in found])
    if as_json:
        confidential = [{"what": seen_from(root, path), "bytes": number} for path, number in found]
        print_json({"folder": root, "confidential": confidential, "kept": kept, "removed": remove})
    elif remove:
        why = "which hold no counts, and keep a level from being drawn twice"
        out.print(f"removed {len(found)}; kept {', '.join(kept)}, {why}")


def _write_page(run: Place, page: Place, out: Console, *, as_json: bool) -> None:
    """Write the page of a run, and say where it is and who may see it."""
    from das_spark.pipeline.run_record import page_of  # noqa: PLC0415 - `das-spark --help` needs no Spark

    record = page_of(run, page)
    if as_json:
        print_json({"page": page, "run_id": record.run_id, "state": record.state, "restricted": record.restricted})
        return
    out.print(f"{page}: run {record.run_id}, {record.state}{' (RESTRICTED)' if record.restricted else ''}")


def _write_statement(run: Place, page: Place, out: Console, *, as_json: bool) -> None:
    """Write the privacy statement as a page, and say where it is."""
    from das_spark.report import markdown_page  # noqa: PLC0415
    from das_spark.store import open_public, write_durably  # noqa: PLC0415

    text = open_public(run).privacy_statement
    if not text.is_file():
        raise OutputError(f"{text}: is not there", hint="finish the run first")
    write_durably(page, markdown_page(text.read_text(encoding="utf-8")), mode=0o666)
    if as_json:
        print_json({"statement": page})
        return
    out.print(f"{page}: privacy statement of {run}")


def _show_restricted(run: Place, out: Console, *, as_json: bool) -> None:
    """Print what the restricted root says of a run, finished or not."""
    from das_spark.evaluation import present_run  # noqa: PLC0415
    from das_spark.pipeline.run_record import known_run  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415

    record = known_run(run)
    if not record.restricted:
        raise OutputError(
            f"{run}: its restricted root cannot be read",
            hint="name the run's restricted root, or leave --restricted out",
        )
    if as_json:
        print_json(asdict(record))
        return
    print_report(present_run(record), out)


def _show_manifest(place: Place, out: Console, *, as_json: bool) -> None:
    from das_spark.store import PublicManifest, open_public, record_of  # noqa: PLC0415

    path = open_public(place).manifest
    manifest = PublicManifest.load(path)
    if as_json:
        typer.echo(manifest.to_json(), nl=False)
        return
    for notice in manifest.notices:
        out.print(f"NOTICE: {notice}", style="bold red")
    out.print(f"run {manifest.run_id} of {manifest.created}, product {manifest.product}")
    budget = LedgerEntry.of(manifest.ledger).budget
    out.print(f"total {budget.total} ({budget.framework}); configuration {manifest.config_hash}")
    out.print(f"SHA-256 of the manifest: {record_of(path).sha256}")
    shares = [
        (level.geolevel, item.query, str(level.share), str(item.share))
        for level in budget.levels
        for item in level.queries
    ]
    out.print(table("\nBudget", ("geolevel", "query", "level share", "query share"), shares, left=2))
    stages = [(stage.name, stage.geolevel, ", ".join(stage.outputs)) for stage in manifest.stages]
    out.print(table("\nStages done", ("stage", "geolevel", "outputs"), stages, left=3))
    out.print(table("\nRows", ("table", "rows"), [(name, f"{count:,}") for name, count in manifest.rows.items()]))
    statuses = [
        (
            level,
            status,
            f"{families:,}",
            ", ".join(f"{n} {v:.2g}" for n, v in manifest.worst_residuals.get(level, {}).items()),
        )
        for level, counts in manifest.solver_status.items()
        for status, families in counts.items()
    ]
    out.print(table("\nFamilies", ("geolevel", "status", "families", "worst residuals"), statuses, left=2))
    out.print("\nPublished exactly:")
    for sentence in manifest.invariants:
        out.print(f"  {sentence}")
    if manifest.relaxed:
        out.print(f"CONSISTENCY RELAXED in {len(manifest.relaxed)} families", style="bold red")
    if manifest.uncertified:
        out.print(f"NOT PROVED THE BEST: {len(manifest.uncertified)} families", style="bold red")


def _confidential(layout: RunLayout) -> list[tuple[Place, int]]:
    """Entries of the restricted root and of its staging folders with their sizes in bytes, without what stays."""
    restricted = layout.restricted
    tables = restricted.inside("staging")
    staged = [
        attempt
        for table in (tables.iterdir() if tables.is_dir() else ())
        if table.is_dir()
        for attempt in table.iterdir()
        if attempt.is_dir()
    ]
    entries = [path for path in restricted.path.iterdir() if path not in restricted.kept] + staged
    return [(path, bytes_of(path)) for path in sorted(entries, key=str)]


def _remove(layout: RunLayout, paths: list[Place]) -> None:
    from das_spark.store import hold_run, is_complete, remove_whole, write_durably  # noqa: PLC0415

    if not layout.restricted.removed.is_file() and not is_complete(layout):
        message = f"{layout.folder}: the run is not finished; what is confidential is needed to finish it"
        raise OutputError(message, hint="finish it with the same run id, or remove the whole folder by hand")
    with hold_run(layout):
        # Before anything goes: a run that is found with half of it must not begin to read the input again.
        removed = {"removed": datetime.now(UTC).isoformat(timespec="seconds")}
        write_durably(layout.restricted.removed, json.dumps(removed) + "\n")
        for path in paths:
            remove_whole(path)
