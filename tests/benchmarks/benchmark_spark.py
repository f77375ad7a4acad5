"""What Spark itself costs a geounit: the way of a family to its task and back with nothing done there.

    python tests/benchmarks/benchmark_spark.py

Prints a Markdown table: the streaming pass of the system beside cogroup(...).applyInArrow on the same rows.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from das_spark.spark import level_pass
from das_spark.spark.family_rows import Families, FamilySpan, FamilySpread, StoredLevel
from das_spark.spark.level_pass import Writing, measurements
from das_spark.spark.lists import list_array
from das_spark.spark.session import session

GEOUNITS, FAMILIES, CELLS, PARTITIONS, REPEATS = 150_000, 3_108, 16, 8, 3


def inputs(spark, folder):
    """Children and parents: a frame each, and the folder of the same rows."""
    family = F.format_string("%06d", F.col("id") % FAMILIES)
    cells = F.sequence(F.lit(0), F.lit(CELLS - 1)).cast("array<int>")
    counts = F.transform(cells, lambda cell: (cell + 1).cast("long"))
    code = F.concat(family, F.format_string("%06d", F.col("id")))
    frames = {
        "children": spark.range(GEOUNITS).select(
            code.alias("geocode"), family.alias("parent"), cells.alias("cells"), counts.alias("counts")
        ),
        "parents": spark.range(FAMILIES).select(
            family.alias("geocode"), F.lit("").alias("parent"), cells.alias("cells"), counts.alias("counts")
        ),
    }
    for name, frame in frames.items():
        frame.write.parquet(str(folder / name))
    return {name: (spark.read.parquet(str(folder / name)), StoredLevel.of(folder / name)) for name in frames}


def streaming(spark, children, parents):
    def same(families):
        for family in families:
            found = family.slices[level_pass._CHILD, ""]
            columns = {
                "geocode": list(found.geocodes),
                "cells": list_array(found.integers, found.integer_offsets, pa.int32()),
                "counts": list_array(found.longs, found.integer_offsets, pa.int64()),
            }
            yield "same", pa.RecordBatch.from_pydict(columns)

    def rows(made):
        yield from (batch for _, _, batch in made)

    writing = Writing(rows, "geocode string, cells array<int>, counts array<bigint>", str)
    codes = children[1].read("geocode").column("geocode").combine_chunks()
    counted = pc.value_counts(pc.utf8_slice_codeunits(codes, 0, 6))
    own = Families.of(FamilySpan(0, 6, at_top=False), counted.field("values"), np.asarray(counted.field("counts")))
    return measurements(spark, children[1], parents[1], same, FamilySpread(own, PARTITIONS, PARTITIONS), writing)


def cogrouped(spark, children, parents):
    def work(left, right):
        del left
        return right.select(["geocode", "cells", "counts"])

    output = "geocode string, cells array<int>, counts array<bigint>"
    keyed = parents[0].withColumnRenamed("geocode", "family").groupBy("family")
    return keyed.cogroup(children[0].groupBy("parent")).applyInArrow(work, output)


def main():
    spark = session("benchmark")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    with tempfile.TemporaryDirectory() as folder:
        _measure(spark, inputs(spark, Path(folder)))


def _measure(spark, given):
    print("| pattern | microseconds a geounit (best of 3) |\n|---|---|")
    for name, build in (
        ("families (repartitionById, sort, mapInArrow)", streaming),
        ("cogroup.applyInArrow", cogrouped),
    ):
        times = []
        for _ in range(REPEATS):
            start = time.monotonic()
            build(spark, **given).write.format("noop").mode("overwrite").save()
            times.append(time.monotonic() - start)
        print(f"| {name} | {1e6 * min(times) / GEOUNITS:.1f} |")


if __name__ == "__main__":
    main()
