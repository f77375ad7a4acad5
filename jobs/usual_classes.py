"""Let Spark load the classes that runs of das_spark need, for `ensure_classes` of jobs/environment.sh."""

import tempfile

import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.session import session

spark = session("classes")
rows = spark.createDataFrame(pa.table({"geocode": ["1", "2"], "cells": [[1, 2], [3]], "counts": [[1, 1], [4]]}))
with tempfile.TemporaryDirectory() as folder:
    rows.write.parquet(f"{folder}/rows")
    rows.select("geocode", F.size("cells").alias("n")).write.csv(f"{folder}/text", header=True)
    read = spark.read.schema(rows.schema).parquet(f"{folder}/rows")
    sums = read.select("geocode", F.explode("counts").alias("n")).groupBy("geocode").agg(F.sum("n").alias("n"))
    joined = in_tasks(read, iter, rows.schema).join(sums, "geocode").where(F.col("n") > 0)
    in_sorted_tasks(joined.repartition("geocode"), ["geocode"], iter, joined.schema).toArrow()
    spark.read.csv(f"{folder}/text", header=True).unionByName(
        sums.select("geocode", F.col("n").cast("string"))
    ).collect()
java = spark.sparkContext._gateway.proc
spark.stop()
# Java writes when it ends, which it does when nobody can speak to it any more.
java.stdin.close()
java.wait()
