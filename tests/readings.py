"""An input read as a run reads it, and without Spark: its shuffles are sorts here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from das_spark.spark.readers._reading import Reading, _ReadParts
from das_spark.spark.readers._told import TOLD

if TYPE_CHECKING:
    from das_spark.spark.problems import Problem
    from das_spark.spark.readers._gathered import Gathering
    from das_spark.spark.readers._passes import Pass


class Rows(list[dict[str, Any]]):
    """Rows of a table, as a frame gives them."""

    def collect(self) -> list[dict[str, Any]]:
        return self


@dataclass(frozen=True)
class Ingested:
    """What a reader gives, as `IngestedTables`."""

    leaves: Rows
    problems: tuple[Problem, ...]
    digests: Mapping[str, str]


def ingest(gathered: Gathering) -> Ingested:
    """Read all tables, bring their rows together, and judge them."""
    read = {table.names.table: _read(table) for table in gathered.tables}
    before: list[pa.RecordBatch] = []
    for join in gathered.joins:
        before = _passed(join.rows, [*(batch for key in join.tables for batch in read.pop(key)), *before])
    parts = [before, *read.values()]
    rows = [batch.select(["geocode", "kind", "cell", "count", TOLD]) for part in parts for batch in part]
    made = [row for batch in _passed(gathered.leaves, rows) for row in batch.to_pylist()]
    facts = [json.loads(row[TOLD]) for row in made if row[TOLD] is not None]
    passed = gathered._judged(facts)
    return Ingested(Rows(row for row in made if row[TOLD] is None), passed, gathered._digests(facts))


def _read(table: Reading) -> list[pa.RecordBatch]:
    return list(_ReadParts(table.names, table.resolve)(table.used, range(len(table.used.parts))))


def _passed(work: Pass, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    order = [(key, "ascending", "at_start") for key in work.keys]
    return list(work.tasks(_batches(pa.Table.from_batches(batches).sort_by(order))))


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches()
