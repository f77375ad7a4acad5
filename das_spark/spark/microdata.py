"""Microdata written by the tasks of Spark, and read back by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.microdata_digest import DIGEST, FAULT, FILE, PART, PERSONS, UNITS, DigestTask, FilePart
from das_spark.io.microdata_files import REPORT
from das_spark.io.record_weights import RecordWeights
from das_spark.places import Place, as_input
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import list_total
from das_spark.spark.scratch import write_kinds
from das_spark.spark.told_apart import DIVIDED, VACANT, told_apart
from das_spark.store import FileRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.io.microdata_files import MicrodataWriting, WriteTask, WrittenFolder
    from das_spark.products import MicrodataCodes, Product


#: Records (persons and units) that a file holds, about.
_RECORDS_A_FILE = 4_000_000
#: Files that there are at least: enough for a small machine.
_LEAST_FILES = 4
#: What a geounit costs besides its records, in records.
_GEOUNIT_COST = 20


def write_microdata(
    writing: MicrodataWriting, estimates: DataFrame, invariants: DataFrame | None, published: DataFrame | None = None
) -> tuple[WrittenFolder, ...]:
    """Write the microdata of a run in the place of what an earlier driver left.

    Args:
        writing: Where they go.
        estimates: Histograms of the leaves.
        invariants: Of the leaves, or of all levels; None where no units are known.
        published: Histograms of the leaves as the product has published them that this one is held to; needed where
            the layout tells kinds of vacant units or some records apart.
    """
    return writing.write(
        lambda task: _run(estimates, invariants if task.knows_units else None, published, writing.product, task),
        units=invariants is not None,
    )


def _run(
    estimates: DataFrame,
    invariants: DataFrame | None,
    published: DataFrame | None,
    product: Product,
    task: WriteTask,
) -> list[dict[str, Any]]:
    """Write all parts to the staging folder by Spark; one report a part (slices x files of a slice)."""
    told = None if published is None else told_apart(published, product)
    leaves = _with_told(_with_units(estimates, invariants, len(product.unit_classes)), told, product.vacant_kinds)
    slices = _slices(leaves, task)
    count = slices.column("slice").to_numpy()[-1] + 1
    sliced = leaves.join(F.broadcast(estimates.sparkSession.createDataFrame(slices)), "parent")
    columns = ("slice", "first_record", "first_unit", "geocode", "cells", "counts", "units", DIVIDED)
    by_slice = sliced.select(*columns).repartitionById(int(count), F.col("slice"))
    report = in_sorted_tasks(by_slice, ("slice", "geocode"), replace(task, attempt=_attempt), from_arrow_schema(REPORT))
    reports: list[dict[str, Any]] = report.toArrow().to_pylist()
    return reports


def _with_units(estimates: DataFrame, invariants: DataFrame | None, classes: int) -> DataFrame:
    """Leaf rows with units by class and vacant units in one array (null without units)."""
    leaves = estimates.select("geocode", F.coalesce("parent", F.lit("")).alias("parent"), "cells", "counts")
    if invariants is None:
        return leaves.withColumn("units", F.lit(None).cast("array<bigint>"))
    name, values = F.col("name"), F.col("values")
    nothing = {each.name: F.lit(None).cast(each.dataType).alias(each.name) for each in leaves.schema}
    declared = invariants.where(name.isin("units", "vacant")).select(
        "geocode",
        *[nothing[each] for each in ("parent", "cells", "counts")],
        F.when(name == "units", values).alias("occupied"),
        F.when(name == "vacant", values.getItem(0)).alias("vacant"),
    )
    # Below one another and brought together by one shuffle: each join of small tables would be a job by itself.
    together = leaves.unionByName(declared, allowMissingColumns=True).groupBy("geocode")
    columns = [F.max(each).alias(each) for each in ("parent", "cells", "counts", "occupied", "vacant")]
    none = F.array_repeat(F.lit(0).cast("bigint"), classes)
    both = F.concat(F.coalesce("occupied", none), F.array(F.coalesce("vacant", F.lit(0)).cast("bigint")))
    rows = together.agg(*columns).where("cells is not null")
    return rows.select("geocode", "parent", "cells", "counts", both.alias("units"))


def _with_told(leaves: DataFrame, told: DataFrame | None, kinds: int) -> DataFrame:
    """Leaf rows with what another product tells: how many records, and vacant units by kind in place of all."""
    if told is None:
        return leaves.withColumn(DIVIDED, F.lit(0).cast("bigint"))
    joined = leaves.join(told, "geocode", "left")
    divided = F.coalesce(DIVIDED, F.lit(0).cast("bigint"))
    if kinds == 1:
        return joined.withColumn(DIVIDED, divided)
    # All housing units stand in front; those that are known to be vacant are among them.
    housing = F.array(F.get("units", F.lit(0)) + F.element_at("units", -1))
    facilities = F.slice("units", F.lit(2), F.size("units") - 2)
    vacant = F.coalesce(VACANT, F.array_repeat(F.lit(0).cast("bigint"), kinds))
    units = F.when(F.col("units").isNotNull(), F.concat(housing, facilities, vacant))
    return joined.withColumns({"units": units, DIVIDED: divided})


def _slices(leaves: DataFrame, task: WriteTask) -> pa.Table:
    """Cut the parents, in the order of their children's geocodes, into slices of about equal size."""
    listed: Column = F.lit(0)
    if task.listed:
        vacant = 1 if task.vacant_kinds == 1 else 0
        listed = list_total(F.slice("units", F.lit(2), F.size("units") - 1 - vacant))
    if task.classes in task.listed and task.vacant_kinds == 1:  # vacant units: whatever is not counted
        listed = list_total("units") - list_total("counts")
    sums = [
        F.min("geocode").alias("first"),
        F.sum(list_total("counts") + listed).alias("records"),
        F.sum(F.coalesce(list_total("units"), F.lit(0))).alias("units"),
        F.count(F.lit(1)).alias("geounits"),
    ]
    parents = leaves.groupBy("parent").agg(*sums).toArrow().sort_by("first")
    records, units, geounits = (parents.column(name).to_numpy() for name in ("records", "units", "geounits"))
    cost = records + units + _GEOUNIT_COST * geounits
    before = np.cumsum(cost) - cost
    whole = int(cost.sum())
    # By public numbers alone, and not by the cores that there are: files and their names are public.
    wanted = max(min(_LEAST_FILES, len(cost)), -(-whole // _RECORDS_A_FILE))
    _, slices = np.unique(before * wanted // max(whole, 1), return_inverse=True)
    first_of_slice = np.searchsorted(slices, slices)
    return pa.table(
        {
            "parent": parents.column("parent"),
            "slice": slices.astype(np.int32),
            "first_record": (np.cumsum(records) - records)[first_of_slice].astype(np.int64),
            "first_unit": (np.cumsum(units) - units)[first_of_slice].astype(np.int64),
        }
    )


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest as read back."""

    record: str  # what is counted, and the kind of its file
    weights: RecordWeights  # of the codes of persons
    persons: tuple[Place, ...]  # files with format, geocode, one and other: sums of weights
    units: tuple[Place, ...]  # files with format, geocode, kind, count, people and odd
    parts: tuple[Mapping[str, Any], ...]  # one row a part: format, count, people, low, high, first, geocode
    faults: tuple[Mapping[str, Any], ...]  # format, rule, geocode
    files: tuple[FileRecord, ...]  # every file that was read, by its whole path

    def records(self, kind: str, format: str) -> int:
        """Records of a file."""
        column = "people" if kind == self.record else "count"
        return sum(int(row[column]) for row in self.parts if row["format"] == format)


def write_digest(spark: SparkSession, parts: Sequence[FilePart], codes: MicrodataCodes, folder: Place) -> Digest:
    """Reduce parts by one Spark job and write the result."""
    weights = RecordWeights.drawn(codes, by_kind=any(part.unit is not None for part in parts))
    absolute = tuple(
        replace(part, person=part.person.absolute(), unit=part.unit.absolute() if part.unit else None) for part in parts
    )
    places = spark.range(0, len(parts), 1, max(len(parts), 1))
    files = write_kinds(
        places, DigestTask(absolute, weights), DIGEST, "record", (PERSONS, UNITS, PART, FAULT, FILE), folder
    )
    return Digest(
        codes.record,
        weights,
        files[PERSONS],
        files[UNITS],
        _few(files[PART], "format", "count", "people", "low", "high", "first", "geocode"),
        _few(files[FAULT], "format", "rule", "geocode"),
        tuple(
            FileRecord(row["path"], row["count"], row["sha256"]) for row in _few(files[FILE], "path", "count", "sha256")
        ),
    )


def _few(files: Sequence[Place], *columns: str) -> tuple[Mapping[str, Any], ...]:
    """Rows of which there are few, read on the driver."""
    read = (parquet.ParquetFile(as_input(path)).read(list(columns)).to_pylist() for path in files)
    return tuple(chain.from_iterable(read))


def _attempt() -> int:
    """The number of the attempt of the task that this is called in."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0
