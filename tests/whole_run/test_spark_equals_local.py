"""A whole run on Spark against the same tasks called without a JVM: the same bytes at every level."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_system import run_system
from pyarrow import parquet
from run_files import census_files, run_file

import das_spark

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

KEY = "spark equals local"
EPSILON = 3


@pytest.fixture(scope="module")
def layout(spark, tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("equal")
    path = run_file(folder, census_files(folder, census), epsilon=EPSILON)
    return das_spark.run(path, run_id="first", test_key=KEY, spark=spark).layout


@pytest.fixture(scope="module")
def local(census):
    return run_system(census, EPSILON, KEY)


def written(layout, table: str, level: str) -> pa.Table:
    """One level of a public table, as the files hold it."""
    parts = sorted(layout.public.level(table, level).glob("*.parquet"))
    return pa.concat_tables([parquet.ParquetFile(part).read() for part in parts])


KINDS = {
    "geocode": pa.string(),
    "parent": pa.string(),
    "query": pa.string(),
    "rows": pa.list_(pa.int32()),
    "values": pa.list_(pa.int64()),
    "variance": pa.float64(),
    "cells": pa.list_(pa.int32()),
    "counts": pa.list_(pa.int64()),
}
MEASUREMENTS = ("geocode", "parent", "query", "rows", "values", "variance")
ESTIMATES = ("geocode", "parent", "cells", "counts")


def canonical(table: pa.Table, columns: tuple[str, ...]) -> bytes:
    """A table as bytes that say nothing of the order of rows, of files, and of the names of list elements."""
    schema = pa.schema([(name, KINDS[name]) for name in columns])
    keys = [(name, "ascending") for name in ("geocode", "query") if name in columns]
    ordered = table.select(columns).cast(schema).sort_by(keys)
    sink = pa.BufferOutputStream()
    # Through Python values: chunks, offsets and validity buffers of equal tables may differ.
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist(ordered.to_pylist(), schema=schema))
    return bytes(sink.getvalue())


def test_measurements_are_the_same_bytes_at_every_level(layout, local, census):
    for level in census.levels:
        spark_bytes = canonical(written(layout, "measurements", level), MEASUREMENTS)
        assert spark_bytes == canonical(local.tables[level], MEASUREMENTS), level


def test_estimates_are_the_same_bytes_at_every_level(layout, local, census):
    for level in census.levels:
        spark_bytes = canonical(written(layout, "estimates", level), ESTIMATES)
        assert spark_bytes == canonical(local.released[level], ESTIMATES), level


def test_another_key_gives_other_bytes(local, census):
    other = run_system(census, EPSILON, KEY + "!")
    for level in census.levels:
        own, found = (canonical(run.tables[level], MEASUREMENTS) for run in (local, other))
        assert own != found, level


def test_families_end_alike(layout, local, census):
    own = {(row["geolevel"], row["family"]): (row["status"], row["gap"], row["rounding"]) for row in local.diagnostics}
    for level in census.levels:
        rows = written(layout, "diagnostics", level).to_pylist()
        found = {(row["geolevel"], row["family"]): (row["status"], row["gap"], row["rounding"]) for row in rows}
        assert found == {key: value for key, value in own.items() if key[0] == level}
