"""What Spark itself costs a geounit: the way of a family to its task and back with nothing done there.

    python tests/benchmarks/benchmark_spark.py

Prints a Markdown table: the streaming pass of the system beside cogroup(...).applyInArrow on the same rows.
"""

from __future__ import annotations

import time

import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.spark import families
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


def same(family):
    found = family.get(families.HISTOGRAM)
    return [
        pa.RecordBatch.from_pydict(
            {
                "geocode": list(found.geocodes),
                "cells": families.list_array(found.integers, found.integer_offsets, pa.int32()),
                "counts": families.list_array(found.longs, found.long_offsets, pa.int64()),
            }
        )
    ]


def streaming(children, parents):
    rows = families.family_rows(children, family="parent", kind=families.HISTOGRAM, sources=families.CELLS)
    rows = rows.unionByName(
        families.family_rows(parents, family="geocode", kind=families.PARENT, sources=families.CELLS)
    )
    costs = parents.select(F.col("geocode").alias("family"), F.lit(1).cast("long").alias("cost"))
    places = families.placed(costs, PARTITIONS)
    output = "geocode string, cells array<int>, counts array<bigint>"
    return families.map_families(rows, places, PARTITIONS, same, output)


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
