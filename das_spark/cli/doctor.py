"""`doctor`: whether this machine can carry out a run."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from das_spark.cli.render import console
from das_spark.errors import DasError, without_values
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


def doctor() -> None:
    """Print the versions that matter, and send a toy through Spark. Exits with 2 where something is missing.

    Example: das-spark doctor
    """
    rows = [("python", platform.python_version(), "ok"), _java(), *(_package(name) for name in PACKAGES)]
    if all(row[2] == "ok" for row in rows):
        rows += [_solvers(), _toy()]
    console().print(table("das-spark doctor", ("what", "found", "result"), rows, left=3))
    if any(row[2] != "ok" for row in rows):
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


def _solvers() -> tuple[str, str, str]:
    from das_spark.estimation import SOLVERS  # noqa: PLC0415 - after their packages were found

    return "solvers", ", ".join(SOLVERS), "ok"


def _toy() -> tuple[str, str, str]:
    """Send rows through the JVM and a Python worker, as a stage does."""
    from das_spark.spark.session import require_safe_session, session  # noqa: PLC0415 - after Java was found

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    try:
        spark = session("das-spark doctor")
        rows = spark.range(_TOY_ROWS).mapInArrow(without_values(same), "id long").count()
    except DasError as error:
        return "toy in Spark", "none", str(error)
    except Exception as error:  # noqa: BLE001 - whatever stops Spark is this command's finding
        return "toy in Spark", type(error).__name__, str(error).splitlines()[0]
    encrypted = spark.sparkContext.getConf().get("spark.io.encryption.enabled", "false")
    found = f"{spark.version}, {spark.sparkContext.master}, encryption of local files {encrypted}"
    try:
        require_safe_session(spark, insecure=False)
    except DasError as error:
        return "toy in Spark", found, f"runs under a real key are refused: {error}"
    return "toy in Spark", found, "ok" if rows == _TOY_ROWS else f"{rows} rows of {_TOY_ROWS}"
