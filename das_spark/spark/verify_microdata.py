"""Whether the microdata files say what the leaf estimates and the declared invariants say; plain Spark SQL.

The files were reduced to a digest (`das_spark.io.microdata_digest`), which holds the people of each geounit by their
codes and the class of their unit, the units of each geounit by class, and what was found to be wrong within a part.
Several formats are compared at once: the side of estimates and invariants is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.errors import VerificationError
from das_spark.io.record_weights import EXPECTED, TOLD, ExpectedTask, RecordWeights
from das_spark.products import (
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    ROW_ORDER,
    UNIT_NUMBERS,
    MicrodataCodes,
)
from das_spark.spark.cells import answer_of, exploded_cells
from das_spark.spark.checks import Check, Finding, Rule, findings
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import list_total
from das_spark.spark.tables import union
from das_spark.spark.told_apart import DIVIDED, VACANT
from das_spark.spark.verify import RunTables, present

if TYPE_CHECKING:
    from pyspark.sql import Column

    from das_spark.verification import Key


UNITS_EQUAL: Final = "units equal invariants"
POPULATIONS: Final = "unit populations"


@dataclass(frozen=True, slots=True)
class MicrodataTables:
    """The microdata of a run, reduced."""

    persons: DataFrame  # format, geocode, one, other: the sums of `weights`
    units: DataFrame | None  # format, geocode, kind, count, people, odd; None where no units are known
    # one row a part: format, people (records of what is counted), first (number of the first of these), count (of
    # units), low and high (numbers of its first and last unit), geocode (of the first)
    parts: Sequence[Mapping[str, Any]]
    faults: Sequence[Mapping[str, Any]]  # what breaks a rule within a part: format, rule, geocode
    formats: tuple[str, ...]  # names of the formats that there must be
    weights: RecordWeights  # of the codes that the columns of the files hold
    told: DataFrame | None = None  # `told_apart` of the leaves; None where the layout tells nothing apart

    @property
    def codes(self) -> MicrodataCodes:
        """What the columns of the files hold."""
        return self.weights.codes

    def note(self, format: str) -> str:
        """What tells the checks of a format from those of others."""
        return f"{format} files" if len(self.formats) > 1 else ""


def microdata_rules(microdata: MicrodataTables, tables: RunTables) -> list[Rule]:
    """The rules on microdata files against leaf estimates and invariants."""
    leaf = tables.estimates.where(F.col("level") == tables.levels[-1])
    rules = [_persons_equal_estimates(microdata, leaf, _listed(microdata, tables), tables.levels[-1])]
    if microdata.units is not None:
        invariants = present(tables.invariants, "invariants").where(F.col("level") == tables.levels[-1])
        rules.append(_units_equal(microdata, microdata.units, leaf, invariants, tables.levels[-1]))
    return rules


def _listed(microdata: MicrodataTables, tables: RunTables) -> DataFrame | None:
    """Units that are listed besides what is counted, each kind as a cell of its own: level, geocode, cell, count.

    Vacant units are the housing units less the households that were estimated, or those that another product has
    published, by kind.
    """
    codes, level = microdata.codes, tables.levels[-1]
    if not codes.listed or tables.invariants is None:
        return None
    declared = tables.invariants.where((F.col("level") == level) & (F.col("name") == "units"))
    kinds = declared.select("level", "geocode", F.posexplode("values").alias("kind", "count"))
    listed = kinds.where(F.col("kind") > 0)
    if codes.lists_vacant and codes.vacant_kinds > 1:
        first = codes.listed[-codes.vacant_kinds]
        told = present(microdata.told, "published counts of vacant units")
        kinds = told.select(F.lit(level).alias("level"), "geocode", F.posexplode(VACANT).alias("place", "count"))
        vacant = kinds.select("level", "geocode", (F.col("place") + first).alias("kind"), "count")
        listed = listed.unionByName(vacant)
    elif codes.lists_vacant:
        last = F.lit(codes.listed[-1])
        leaf = tables.estimates.where(F.col("level") == level)
        counted = leaf.select("level", "geocode", last.alias("kind"), (-list_total("counts")).alias("count"))
        housing = kinds.where(F.col("kind") == 0).withColumn("kind", last)
        known = tables.invariants.where((F.col("level") == level) & (F.col("name") == "vacant"))
        apart = known.select("level", "geocode", last.alias("kind"), F.col("values").getItem(0).alias("count"))
        vacant = union([counted, housing, apart]).groupBy("level", "geocode", "kind").agg(F.sum("count").alias("count"))
        listed = listed.unionByName(vacant)
    cell = (F.col("kind") + (codes.schema.size - 1)).cast("bigint").alias("cell")
    return listed.where(F.col("count") != 0).select("level", "geocode", cell, "count")


def _persons_equal_estimates(microdata: MicrodataTables, leaf: DataFrame, listed: DataFrame | None, level: str) -> Rule:
    """As many records of each combination of codes in each geounit as the estimates have people (or units).

    Group quarters that are listed are expected, too. Where there are units, those of a cell live in units of its class:
    kinds of group quarters may share all codes.
    """
    codes = microdata.codes
    sides = [_expected(leaf.select("geocode", "cells", "counts"), ExpectedTask(microdata.weights))]
    beside = [] if listed is None else [listed.select("geocode", "cell", "count")]
    if any(each.divided for each in codes.coded):
        told = present(microdata.told, "published counts of records that are told apart")
        beside.append(told.select("geocode", F.lit(TOLD).cast("bigint").alias("cell"), F.col(DIVIDED).alias("count")))
    if beside:
        single = union(beside).select("geocode", F.array("cell").alias("cells"), F.array("count").alias("counts"))
        sides.append(_expected(single, ExpectedTask(microdata.weights, beside=True)))
    found = microdata.persons.select("format", "geocode", F.lit(0).alias("rows"), "one", "other", F.lit(False))
    differences = [
        F.try_sum(_signed(format, F.col(weight))).alias(f"{format}_{weight}")
        for format in microdata.formats
        for weight in ("one", "other")
    ]
    weighed = union(sides).unionAll(found).groupBy("geocode")
    summed = weighed.agg(F.sum("rows").alias("rows"), F.max("lost").alias("lost"), *differences)
    differs = {
        format: F.col("lost") | (F.col(f"{format}_one") != 0) | (F.col(f"{format}_other") != 0)
        for format in microdata.formats
    }
    compared = [
        Finding(PERSONS_EQUAL, differs[format], F.col("rows"), microdata.note(format)) for format in microdata.formats
    ]
    looked = [Finding(each.rule, F.lit(False), 1, each.note) for each in compared]
    every = findings(summed, *compared, level=level).unionAll(findings(leaf, *looked, level=level))
    return _rule(every, microdata, level, PERSONS_EQUAL)


def _expected(histograms: DataFrame, task: ExpectedTask) -> DataFrame:
    """What is expected of geounits: rows of no format."""
    return in_tasks(histograms, task, EXPECTED).select(F.lit("").alias("format"), "*")


def _class_of_cell(codes: MicrodataCodes) -> Column:
    """The class of the unit of those in a cell, and the kind of what is listed."""
    cell = F.col("cell")
    if codes.class_query is None:
        return F.greatest(cell - (codes.schema.size - 1), F.lit(0)).cast("int")
    return answer_of(codes.class_query, cell)


def _units_equal(
    microdata: MicrodataTables, units: DataFrame, leaf: DataFrame, invariants: DataFrame, level: str
) -> Rule:
    """As many unit records of each class in each geounit as there are units, with as many people as estimated.

    Two rules: `units equal invariants`, and `unit populations`: the populations of the units of a class sum to the
    estimate, none is negative, and vacant units hold nobody.
    """
    codes, keys = microdata.codes, ("geocode", "kind")
    none = F.lit(0).cast("bigint")
    values = invariants.where("name in ('units', 'vacant')").select(
        "geocode", "name", F.posexplode("values").alias("class", "count")
    )
    kind = F.when(F.col("name") == "vacant", codes.vacant).otherwise(F.col("class")).cast("bigint").alias("kind")
    cells = exploded_cells(leaf).withColumn("kind", _class_of_cell(codes).cast("bigint"))
    nowhere, rows = F.lit("").alias("format"), (F.col("class") == 0).cast("bigint").alias("rows")
    sides = (
        values.select(nowhere, "geocode", kind, "count", none.alias("people"), none.alias("odd"), rows)
        .unionAll(cells.select(nowhere, *keys, none, "count", none, none))
        .unionAll(units.select("format", "geocode", F.col("kind").cast("bigint"), "count", "people", "odd", none))
    )
    sums = [
        column
        for format in microdata.formats
        for column in (
            _difference(format, "count").alias(f"count_{format}"),
            _difference(format, "people").alias(f"people_{format}"),
            F.sum(F.when(F.col("format") == format, F.col("odd")).otherwise(none)).alias(f"odd_{format}"),
        )
    ]
    summed = sides.groupBy(*keys).agg(F.sum("rows").alias("rows"), *sums)
    compared, looked = [], []
    for format in microdata.formats:
        note = microdata.note(format)
        impossible = (F.col(f"people_{format}") != 0) | (F.col(f"odd_{format}") > 0)
        compared.append(Finding(UNITS_EQUAL, F.col(f"count_{format}") != 0, F.col("rows"), note))
        compared.append(Finding(POPULATIONS, impossible, 0, note))
        looked.append(Finding(POPULATIONS, F.lit(False), 1, note))
    every = findings(summed, *compared, level=level).unionAll(findings(leaf, *looked, level=level))
    return _rule(every, microdata, level, UNITS_EQUAL, POPULATIONS)


def _difference(format: str, column: str) -> Column:
    """What was expected (rows of no format) less what a format has."""
    return F.sum(_signed(format, F.coalesce(F.col(column), F.lit(0))))


def _signed(format: str, value: Column) -> Column:
    """A value that is expected as it is, one of a format less than nothing, one of another as 0."""
    none = F.lit(0).cast("bigint")
    return F.when(F.col("format") == "", value).when(F.col("format") == format, -value).otherwise(none)


def _rule(frame: DataFrame, microdata: MicrodataTables, level: str, *names: str) -> Rule:
    keys = tuple((name, level, microdata.note(format)) for format in microdata.formats for name in names)
    return Rule(frame, keys, {key: tuple(sorted(found)) for key, found in _faults(microdata, level, *names).items()})


def _faults(microdata: MicrodataTables, level: str, *names: str) -> dict[Key, set[str]]:
    """What the parts were found to break of some rules; a rule that nobody asks for must not be lost in silence."""
    found: dict[Key, set[str]] = {}
    for row in microdata.faults:
        if row["rule"] not in PART_RULES:
            raise VerificationError(f"the digest of the microdata names an unknown rule: {row['rule']!r}")
        if row["rule"] in names:
            found.setdefault((row["rule"], level, microdata.note(row["format"])), set()).add(row["geocode"])
    return found


def part_checks(microdata: MicrodataTables) -> list[Check]:
    """Rules that were looked at part by part.

    `columns of microdata`: constant columns hold their text in every record, and Parquet files have the columns of the
    layout, of their types, and no others.
    `order of records`: they stand by geocode, class and cell, and people of a class as its units got them in turn.
    `record numbers`: where records are numbered, they are 0, 1, ... in the order of the file.

    And, where people are assigned to units:

    `persons in units`: a unit of population n holds the persons numbered 1 to n, and no person lives elsewhere.
    `unit numbers`: units are numbered 0, 1, ... without gap or repetition, so the ranges of the parts join.
    """
    checks = []
    for format in microdata.formats:
        checks += _layout_checks(microdata, format)
    if microdata.units is None:
        return checks
    faults = _faults(microdata, "", PERSONS_IN_UNITS, UNIT_NUMBERS)
    for format in microdata.formats:
        note = microdata.note(format)
        parts = [row for row in microdata.parts if row["format"] == format and row["count"]]
        total = sum(row["count"] for row in parts)
        for name, extra in ((PERSONS_IN_UNITS, set()), (UNIT_NUMBERS, _disjoined(parts))):
            checks.append(Check.of((name, "", note), total, faults.get((name, "", note), set()) | extra))
    return checks


def _layout_checks(microdata: MicrodataTables, format: str) -> list[Check]:
    form, note = microdata.codes.forms[format], microdata.note(format)
    faults = _faults(microdata, "", COLUMNS_AS_DECLARED, RECORD_NUMBERS, ROW_ORDER)
    columns, numbers, order = ((name, "", note) for name in (COLUMNS_AS_DECLARED, RECORD_NUMBERS, ROW_ORDER))
    read = [row for row in microdata.parts if row["format"] == format]
    declared = sum(map(len, form.rules.values())) if read else 0
    # A file without a record is in order, too; but one must be there.
    records = max(sum(row["people"] for row in read), len(read))
    checks = [
        Check.of(columns, declared, faults.get(columns, set())),
        Check.of(order, records, faults.get(order, set())),
    ]
    column = form.record_number(microdata.codes.record)
    if column:
        parts = sorted((row for row in read if row["people"]), key=lambda row: (row["first"], row["people"]))
        before = np.cumsum([0, *(row["people"] for row in parts)])
        joined = all(row["first"] == begin for row, begin in zip(parts, before, strict=False))
        broken = set() if joined else {f"{microdata.codes.record}.{format}: {column}"}
        # A file without a record is numbered, too; but one must be there.
        checks.append(Check.of(numbers, max(int(before[-1]), len(read)), faults.get(numbers, set()) | broken))
    return checks


def _disjoined(parts: Sequence[Mapping[str, Any]]) -> set[str]:
    """First geocodes of parts whose unit numbers are not those that follow the part before."""
    failing, expected = set(), 0
    for row in sorted(parts, key=lambda row: (row["low"], row["high"])):
        if (row["low"], row["high"]) != (expected, expected + row["count"] - 1):
            failing.add(str(row["geocode"]))
        expected += row["count"]
    return failing
