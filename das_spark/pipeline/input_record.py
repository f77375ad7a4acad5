"""What was read, and what was wrong with it: restricted, kept beside the leaves, and found again by a resumed run."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.files import disk_errors, write_durably
from das_spark.io.readers import BadInputError
from das_spark.spark.lists import list_total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """
    (found,) = leaves.agg(
        F.count(F.lit(1)).alias("geounits"),
        F.coalesce(F.sum(F.size("cells")), F.lit(0)).alias("occupied cells"),
        F.coalesce(F.sum(list_total("counts")), F.lit(0)).alias("people"),
    ).collect()
    record = {"identity": identity, "rows": found.asDict(), "problems": [asdict(each) for each in problems]}
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
