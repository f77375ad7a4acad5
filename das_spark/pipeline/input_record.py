"""What was read, and what was wrong with it: restricted, kept beside the leaves, and found again by a resumed run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from das_spark.errors import InputError, OutputError
from das_spark.io.files import disk_errors, finished, write_durably
from das_spark.io.run_lock import require_held
from das_spark.pipeline import ledgers
from das_spark.pipeline.charge import is_measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from das_spark.io.layout import RunLayout
    from das_spark.io.readers import Problem
    from das_spark.pipeline.context import RunContext


def save_input_record(context: RunContext, identity: str, leaves: DataFrame, problems: Sequence[Problem]) -> None:
    """Keep what ingestion found, before its leaves appear.

    Args:
        context: The run.
        identity: Result of `ledgers.fingerprint`.
        leaves: The table of leaves, as written.
        problems: What was put right.

    Raises:
        OutputError: Rows of the leaves stand there twice, the disk is full, or another driver has taken over the run.
    """
    people = F.aggregate("counts", F.lit(0).cast("bigint"), lambda total, count: total + count)
    (found,) = leaves.agg(
        F.count(F.lit(1)).alias("geounits"),
        F.countDistinct("geocode").alias("different"),
        F.coalesce(F.sum(F.size("cells")), F.lit(0)).alias("occupied cells"),
        F.coalesce(F.sum(people), F.lit(0)).alias("people"),
    ).collect()
    rows = found.asDict()
    if rows["geounits"] != rows.pop("different"):
        # Each person would be counted as often: a loss of privacy that no ledger knows.
        raise OutputError(
            f"{context.layout.restricted.path}: the leaves that were written hold geounits more than once",
            hint="Nothing is drawn from them. See that no other driver writes there, and run the same command again.",
        )
    require_held(context.layout)
    hashed: dict[str, Any] | None = context.restricted_facts.get("input_files")  # type: ignore[assignment]
    record = {
        "identity": identity,
        "files": None if hashed is None else list(hashed.values()),
        "rows": rows,
        "problems": [asdict(each) for each in problems],
    }
    write_durably(context.layout.restricted.input_record, json.dumps(record, indent=1))


def load_input_record(context: RunContext, identity: str) -> None:
    """Give a run what its ingestion found, for the restricted manifest.

    Args:
        context: The run, whose leaves are written.
        identity: Of the input as it is now.

    Raises:
        InputError: The input is another one than the run has read.
    """
    record = json.loads(context.layout.restricted.input_record.read_text(encoding="utf-8"))
    if record["identity"] != identity:
        raise InputError(
            f"the input has changed since run {context.layout.run_id} read it",
            hint="put back the files that the run began with, or start a new run on the new ones",
        )
    context.restricted_facts |= {"input_rows": record["rows"], "problems": record["problems"]}


def identity_of_input(context: RunContext) -> tuple[str, list[dict[str, object]]]:
    """What `ledgers.fingerprint` gives, without reading the files again where the leaves were made of them.

    They are asked for their sizes and times of change as long as something is to be measured. After that the input may
    be withdrawn: it is what the run has recorded.

    Args:
        context: The run.

    Raises:
        InputError: A file that is asked for cannot be read.
    """
    restricted = context.layout.restricted
    if finished(restricted.table("leaves")) and restricted.input_record.is_file():
        record = json.loads(restricted.input_record.read_text(encoding="utf-8"))
        files = record.get("files")
        if files is not None and (is_measured(context) or ledgers.is_unchanged(context.plan.input, files)):
            return record["identity"], files
    return ledgers.fingerprint(context.plan.input)


def read_identity(layout: RunLayout) -> str:
    """Identity of the input that a run has read; empty where the record was removed.

    Args:
        layout: Where the run lies.
    """
    if not layout.restricted.input_record.is_file():
        return ""
    return str(json.loads(layout.restricted.input_record.read_text(encoding="utf-8"))["identity"])


def log_problems(context: RunContext, problems: Sequence[Problem]) -> None:
    """Row numbers go to the restricted log and nowhere else."""
    if not problems:
        return
    log = context.layout.restricted.log
    with disk_errors(log), log.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(problem)) + "\n" for problem in problems)
