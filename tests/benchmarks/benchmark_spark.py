"""What Spark itself costs a geounit: the way of a family to its task and back with nothing done there.

    python tests/benchmarks/benchmark_spark.py

Prints a Markdown table: the streaming pass of the system beside cogroup(...).applyInArrow on the same rows.
"""

from __future__ import annotations

import time

import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.spark import level_pass
from das_spark.spark.family_rows import FamilySpread
from das_spark.spark.level_pass import Writing, measurements
from das_spark.spark.lists import list_array
from das_spark.spark.session import session

GEOUNITS, FAMILIES, CELLS, PARTITIONS, REPEATS = 150_000, 3_108, 16, 8, 3


def inputs(spark):
    family = F.format_string("%06d", F.col("id") % FAMILIES)
    cells = F.sequence(F.lit(0), F.lit(CELLS - 1)).cast("array<int>")
    counts = F.transform(cells, lambda cell: (cell + 1).cast("long"))
    code = F.concat(family, F.format_string("%06d", F.col("id")))
    children = spark.range(GEOUNITS).select(
        code.alias("geocode"), family.alias("parent"), cells.alias("cells"), counts.alias("counts")
    )
    parents = spark.range(FAMILIES).select(
        F.format_string("%06d", "id").alias("geocode"),
        F.lit("").alias("parent"),
        cells.alias("cells"),
        counts.alias("counts"),
    )
    return children, parents


def streaming(children, parents):
    def same(family):
        found = family.slices[level_pass._CHILD, ""]
        yield (
            "same",
            pa.RecordBatch.from_pydict(
                {
                    "geocode": list(found.geocodes),
                    "cells": list_array(found.integers, found.integer_offsets, pa.int32()),
                    "counts": list_array(found.longs, found.integer_offsets, pa.int64()),
                }
            ),
        )

    def rows(made):
        yield from (batch for _, _, batch in made)

    writing = Writing(rows, "geocode string, cells array<int>, counts array<bigint>", str)
    return measurements(children, parents, same, FamilySpread(PARTITIONS, PARTITIONS), writing)


def cogrouped(children, parents):
    def work(left, right):
        del left
        return right.select(["geocode", "cells", "counts"])

    output = "geocode string, cells array<int>, counts array<bigint>"
    keyed = parents.withColumnRenamed("geocode", "family").groupBy("family")
    return keyed.cogroup(children.groupBy("parent")).applyInArrow(work, output)


def main():
    spark = session("benchmark")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    children, parents = inputs(spark)
    print("| pattern | microseconds a geounit (best of 3) |\n|---|---|")
    for name, build in (
        ("families (repartitionById, sort, mapInArrow)", streaming),
        ("cogroup.applyInArrow", cogrouped),
    ):
        times = []
        for _ in range(REPEATS):
            start = time.monotonic()
            build(children, parents).write.format("noop").mode("overwrite").save()
            times.append(time.monotonic() - start)
        print(f"| {name} | {1e6 * min(times) / GEOUNITS:.1f} |")


if __name__ == "__main__":
    main()
