"""Small inputs, read as a run reads them, and without Spark: its shuffles are sorts here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from das_spark.config import InputSettings
from das_spark.pipeline.delivery import examined_files
from das_spark.products import PRODUCTS
from das_spark.spark.readers import READERS
from das_spark.spark.readers._passes import LeafPass, UnitPass
from das_spark.spark.readers._reading import Reading, _ReadParts
from das_spark.spark.readers._told import TOLD

if TYPE_CHECKING:
    from das_spark.spark.readers._gathered import Gathering

PRODUCT = PRODUCTS["e2e_1940"]
#: Geocode -> people by cell, units by class, vacant units.
Leaves = dict[str, tuple[dict[int, int], list[int] | None, int | None]]


@pytest.fixture
def ingested(tmp_path: Path) -> Callable[..., Leaves]:
    """Read the tables of a folder, after the looks that a run takes before it reads."""

    def read(meanwhile: Callable[[], object] = lambda: None, **settings: Any) -> Leaves:
        given = InputSettings(**{"reader": "tidy_counts", "path": str(tmp_path)} | settings)
        READERS[given.reader].look(given, PRODUCT, PRODUCT.spine())
        examined_files(given)
        gathered = READERS[given.reader].gathering(None, given, PRODUCT, PRODUCT.spine())
        meanwhile()
        return _leaves(gathered)

    return read


def _leaves(gathered: Gathering) -> Leaves:
    read = {table.names.table: _read(table) for table in gathered.tables}
    if gathered.units is not None:
        together = [batch for key in gathered.by_unit for batch in read.pop(key)]
        read[gathered.by_unit[0]] = _passed(gathered.units, together, ("unit", "kind"))
    rows = [batch.select(["geocode", "kind", "cell", "count", TOLD]) for part in read.values() for batch in part]
    made = [row for batch in _passed(gathered.leaves, rows, ("geocode", "kind", "cell")) for row in batch.to_pylist()]
    gathered._judged([json.loads(row[TOLD]) for row in made if row[TOLD] is not None])
    return {
        row["geocode"]: (dict(zip(row["cells"], row["counts"], strict=True)), row["units"], row["vacant"])
        for row in made
        if row[TOLD] is None
    }


def _read(table: Reading) -> list[pa.RecordBatch]:
    return list(_ReadParts(table.names, table.resolve)(table.used, range(len(table.used.parts))))


def _passed(work: UnitPass | LeafPass, batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> list[pa.RecordBatch]:
    order = [(key, "ascending", "at_start") for key in keys]
    return list(work._tasks(_batches(pa.Table.from_batches(batches).sort_by(order))))


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches()
