"""What tasks tell the driver of the input, among the rows that they make: facts as JSON, and no value of a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.input_fields import MOST_EXAMPLES
from das_spark.spark.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Column of facts; null in every other row.
TOLD: Final = "told"

#: Kind of fact: how many more records, and how much else, there are than were read (negative: less).
CHANGED: Final = "changed"

Facts = Sequence[Mapping[str, Any]]


def filled(schema: pa.Schema, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Put columns together; those of the schema that are not given are null."""
    arrays = [
        columns[column.name].cast(column.type) if column.name in columns else pa.nulls(rows, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def tell(schema: pa.Schema, kind: str, problems: Iterable[Problem] = (), **facts: object) -> pa.RecordBatch:
    """Make a row of facts.

    Args:
        schema: Of the rows among which it stands; has the column `TOLD`.
        kind: What is told of.
        problems: What is wrong; those of no row say which rules there are, and in which order.
        facts: What else there is to know.
    """
    text = json.dumps({"kind": kind, "problems": [asdict(problem) for problem in problems], **facts})
    return filled(schema, {TOLD: pa.array([text], pa.string())}, 1)


def apart(rows: pa.Table, schema: pa.Schema) -> tuple[pa.Table, Iterator[pa.RecordBatch]]:
    """Take rows of facts out of others, to be passed on in rows of a schema."""
    told = pc.drop_null(rows.column(TOLD)).combine_chunks()
    if not len(told):
        return rows, iter(())
    return rows.filter(rows.column(TOLD).is_null()), iter([filled(schema, {TOLD: told}, len(told))])


def told_in(rows: DataFrame) -> list[dict[str, Any]]:
    """Collect the facts among rows."""
    texts = rows.where(f"{TOLD} is not null").select(TOLD).toArrow().column(TOLD).to_pylist()
    return [json.loads(text) for text in texts]


def facts_of(kind: str, facts: Facts) -> Facts:
    """Return those of a kind."""
    return [fact for fact in facts if fact["kind"] == kind]


def problems_in(facts: Facts) -> list[Problem]:
    """Put together what several tasks found wrong, in the order of the rules that each of them tells."""
    merged: dict[tuple[str, str, str], Problem] = {}
    for fact in facts:
        for told in fact["problems"]:
            more = Problem(**told | {name: tuple(told[name]) for name in ("examples", "geounits")})
            key = (more.file, more.field, more.expected)
            known = merged.setdefault(key, replace(more, rows=0, examples=(), geounits=()))
            merged[key] = replace(
                known,
                rows=known.rows + more.rows,
                examples=tuple(sorted(known.examples + more.examples)[:MOST_EXAMPLES]),
                geounits=tuple(sorted({*known.geounits, *more.geounits})[:MOST_EXAMPLES]),
            )
    return [problem for problem in merged.values() if problem.rows]
