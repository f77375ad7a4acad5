"""`doctor`: whether das_spark works here, and on the workers of a cluster."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from das_spark.cli import completion
from das_spark.cli.options import Json, Settings, console, print_json, refuse_address
from das_spark.config import load_run, plans_in
from das_spark.errors import DasError
from das_spark.report import table
from das_spark.spark.java import usable_java

PACKAGES = (
    "pyspark",
    "pandas",
    "pyarrow",
    "numpy",
    "scipy",
    "osqp",
    "piqp",
    "clarabel",
    "numba",
    "cryptography",
    "pydantic",
)
_TOY_ROWS = 1000


def doctor(
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Ask every worker for its versions, numbers and places, too.")
    ] = False,
    conf: Annotated[
        Path | None,
        typer.Option(
            "--conf",
            metavar="CONF",
            help="With --cluster: run file whose input every worker must read, and whose places it must write.",
            callback=refuse_address,
            autocompletion=completion.run_files,
        ),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Print the versions that matter, and send a toy through Spark. Exits with 2 where something is missing.

    On a cluster it is started as runs are: spark-submit ... jobs/run.py doctor --cluster --conf CONF

    Example: das-spark doctor
    """
    if conf is not None and not cluster:
        raise typer.BadParameter("--conf goes with --cluster")
    rows = [("python", platform.python_version(), "ok"), _java(), *(_package(name) for name in PACKAGES)]
    if all(row[2] == "ok" for row in rows):
        rows += [_solver_packages(), *(_workers(conf, settings or ()) if cluster else [_toy()])]
    passed = all(row[2] == "ok" for row in rows)
    if as_json:
        findings = [dict(zip(("what", "found", "result"), row, strict=True)) for row in rows]
        print_json({"passed": passed, "findings": findings})
    else:
        console().print(table("das-spark doctor", ("what", "found", "result"), rows, left=3))
    if not passed:
        raise typer.Exit(2)


def _java() -> tuple[str, str, str]:
    try:
        java, found = usable_java()
    except DasError as error:
        return "java", "none", f"{error.message}; {error.hint}"
    return "java", f"{found} ({java})", "ok"


def _package(name: str) -> tuple[str, str, str]:
    try:
        return name, version(name), "ok"
    except PackageNotFoundError:
        return name, "none", f"pip install {name}"


def _solver_packages() -> tuple[str, str, str]:
    from das_spark.estimation import SOLVERS  # noqa: PLC0415 - after their packages were found

    return "solvers", ", ".join(SOLVERS), "ok"


def _workers(conf: Path | None, settings: Sequence[str]) -> list[tuple[str, str, str]]:
    """Ask every worker, and compare what it has with what this machine has."""
    from das_spark.spark.offers import asked_of_cluster, shortage  # noqa: PLC0415 - after Java was found
    from das_spark.spark.session import session  # noqa: PLC0415 - the same
    from das_spark.spark.workers import WorkerReport, look_at_workers, wait_for_executor  # noqa: PLC0415 - the same

    reads, writes = ((), ()) if conf is None else _places_of_tasks(conf, settings)
    try:
        spark = session("das-spark doctor")
        if not wait_for_executor(spark.sparkContext):
            return [("workers", "none", f"no executor within a minute; {shortage(spark.sparkContext)}")]
        reports, here = look_at_workers(spark, reads, writes), WorkerReport.here()
    except Exception as error:  # noqa: BLE001 - whatever stops Spark is this command's finding
        return [("workers", type(error).__name__, str(error).splitlines()[0])]
    asked = f"{len(reports)} on {spark.sparkContext.master}; asked for {asked_of_cluster(spark.sparkContext)} each"
    rows = [("executors", asked, "ok")]
    for report in reports:
        odd = [
            f"{name} {has}, here {here.versions[name]}"
            for name, has in sorted(report.versions.items() - here.versions.items())
        ]
        odd += [] if report.numbers == here.numbers else ["its kernels round otherwise than those of this machine"]
        rows.append((report.worker, f"python {report.versions['python']}", "; ".join([*odd, *report.wrong]) or "ok"))
    return rows


def _places_of_tasks(conf: Path, settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Name the files that tasks of a run read, and the folders that they write to."""
    from das_spark.pipeline.delivery import input_files  # noqa: PLC0415 - `das-spark --help` needs no Spark
    from das_spark.pipeline.space import roots_of  # noqa: PLC0415 - the same
    from das_spark.store import RunLayout  # noqa: PLC0415 - the same

    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for plan in plans_in(load_run(conf, (), settings)):
        if not plan.input.is_simulated:
            reads |= dict.fromkeys(str(place) for place in input_files(plan.input))
        writes |= dict.fromkeys(map(str, roots_of(plan, RunLayout.of(plan.output, "doctor")).values()))
    return list(reads), list(writes)


def _toy() -> tuple[str, str, str]:
    """Send rows through the JVM and a Python worker, as a stage does."""
    from das_spark.spark.engine import in_tasks  # noqa: PLC0415 - the same
    from das_spark.spark.session import require_safe_session, session  # noqa: PLC0415 - after Java was found

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    try:
        spark = session("das-spark doctor")
        rows = in_tasks(spark.range(_TOY_ROWS), same, "id long").count()
    except DasError as error:
        return "toy in Spark", "none", str(error)
    except Exception as error:  # noqa: BLE001 - whatever stops Spark is this command's finding
        return "toy in Spark", type(error).__name__, str(error).splitlines()[0]
    context = spark.sparkContext
    encrypted = context.getConf().get("spark.io.encryption.enabled", "false")
    found = f"{spark.version}, {context.master}, encryption of local files {encrypted}"
    try:
        require_safe_session(spark, insecure=False)
    except DasError as error:
        return "toy in Spark", found, f"runs under a real key are refused: {error}"
    return "toy in Spark", found, "ok" if rows == _TOY_ROWS else f"{rows} rows of {_TOY_ROWS}"
