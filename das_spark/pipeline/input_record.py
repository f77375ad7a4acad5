"""What was read, and what was wrong with it: restricted, kept beside the leaves, and found again by a resumed run."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError, OutputError
from das_spark.pipeline import ledgers
from das_spark.spark.lists import list_total
from das_spark.spark.readers import BadInputError
from das_spark.store import OwnEntry, disk_errors, finished, require_held, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.spark.readers import Problem
    from das_spark.store import RunLayout


def save_input_record(context: RunContext, identity: str, leaves: DataFrame, problems: Sequence[Problem]) -> None:
    """Keep what ingestion found, before its leaves appear.

    Args:
        context: The run.
        identity: Result of `ledgers.fingerprint`.
        leaves: The table of leaves, as written.
        problems: What was put right.

    Raises:
        InputError: The input holds nobody.
        OutputError: Rows of the leaves stand there twice, the disk is full, or another driver has taken over the run.
    """
    (found,) = leaves.agg(
        F.count(F.lit(1)).alias("geounits"),
        F.countDistinct("geocode").alias("different"),
        F.coalesce(F.sum(F.size("cells")), F.lit(0)).alias("occupied cells"),
        F.coalesce(F.sum(list_total("counts")), F.lit(0)).alias("people"),
    ).collect()
    rows = found.asDict()
    if rows["geounits"] != rows.pop("different"):
        # Each person would be counted as often: a loss of privacy that no ledger knows.
        raise OutputError(
            f"{context.layout.restricted.path}: the leaves that were written hold geounits more than once",
            hint="nothing is drawn from them; see that no other driver writes there, and run the same command again",
        )
    if not rows["people"]:
        raise InputError(
            f"the input holds no {context.plan.product.counted}: no record to protect, and nothing is drawn",
            hint="are the files those that were delivered, whole, and named by the right keys of [input]?",
        )
    require_held(context.layout)
    hashed = context.restricted_facts.input_files
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
    facts = context.restricted_facts
    facts.input_rows, facts.problems = record["rows"], record["problems"]


def identity_of_input(plan: RunPlan, layout: RunLayout) -> tuple[str, list[dict[str, object]]]:
    """What `ledgers.fingerprint` gives, without reading the files again where the leaves were made of them.

    They are asked for their sizes and times of change as long as something is to be measured. After that the input may
    be withdrawn: it is what the run has recorded.

    Args:
        plan: The run.
        layout: Where it lies.

    Raises:
        InputError: A file that is asked for cannot be read.
    """
    restricted = layout.restricted
    if finished(restricted.table("leaves")) and restricted.input_record.is_file():
        record = json.loads(restricted.input_record.read_text(encoding="utf-8"))
        files = record.get("files")
        if files is not None and (_is_measured(plan, layout) or ledgers.is_unchanged(plan.input, files)):
            return record["identity"], files
    return ledgers.fingerprint(plan.input)


def _is_measured(plan: RunPlan, layout: RunLayout) -> bool:
    """Whether the measurements of every level are public, by the run's own entry: nothing is drawn any more."""
    own = OwnEntry.find(layout.restricted)
    levels = {level.geolevel for level in plan.budget.levels}
    return own is not None and set(own.entry.completed_levels) >= levels


def read_identity(layout: RunLayout) -> str:
    """Identity of the input that a run has read; empty where the record was removed.

    Args:
        layout: Where the run lies.
    """
    if not layout.restricted.input_record.is_file():
        return ""
    return str(json.loads(layout.restricted.input_record.read_text(encoding="utf-8"))["identity"])


@contextmanager
def problems_kept(context: RunContext) -> Iterator[None]:
    """Keep what makes the input unusable, and tell where.

    Args:
        context: The run.

    Raises:
        BadInputError: The one that was raised meanwhile; its hint names the file that holds row numbers.
    """
    try:
        yield
    except BadInputError as error:
        keep_problems(context, error.problems)
        if any(problem.examples for problem in error.problems):
            error.hint = f"{context.layout.restricted.input_problems} holds row numbers; {error.hint}"
        raise


def keep_problems(context: RunContext, problems: Sequence[Problem]) -> None:
    """Write down what is wrong in the input: row numbers go to this restricted file and nowhere else.

    Args:
        context: The run.
        problems: What was found; nothing happens where there is none.
    """
    if not problems:
        return
    place = context.layout.restricted.input_problems
    with disk_errors(place), place.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(problem)) + "\n" for problem in problems)
