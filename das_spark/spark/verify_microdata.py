"""Whether the microdata files say what the leaf estimates and the declared invariants say; plain Spark SQL.

The files were reduced to a digest (`das_spark.io.microdata_digest`), which holds the people of each geounit by their
codes and the class of their unit, the units of each geounit by class, and what was found to be wrong within a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.spark.checks import Check, Rule, findings, judge
from das_spark.spark.verify import RunTables, exploded_cells, present, small_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.products.microdata_codes import MicrodataCodes

#: Class of people whose codes tell it already, in the comparison of those whose codes do not.
_TOLD: Final = -2


def verify_microdata(
    digest: DataFrame, codes: MicrodataCodes, tables: RunTables, *, units: bool, note: str = ""
) -> list[Check]:
    """Check the microdata files of one flavour: `judge` of `microdata_rules`, which see."""
    return judge(microdata_rules(digest, codes, tables, units=units, note=note))


def microdata_rules(
    digest: DataFrame, codes: MicrodataCodes, tables: RunTables, *, units: bool, note: str = ""
) -> list[Rule]:
    """The rules on the microdata files of one flavour, against leaf estimates and invariants.

    Args:
        digest: Of these files: record, part, rule, geocode, codes, kind, count, people, odd, low, high.
        codes: What the columns of the files hold.
        tables: The tables of the run; those of the lowest level are compared.
        units: Whether there is a unit file.
        note: What a reader must know, such as the flavour.

    Raises:
        VerificationError: There is a unit file, and no table of invariants.
    """
    rules = [_persons_equal_estimates(digest, codes, tables, units=units)]
    if units:
        rules += [
            _units_equal_invariants(digest, codes, tables),
            _populations_equal_estimates(digest, codes, tables),
            _persons_in_units(digest),
            _unit_numbers(digest),
        ]
    return [_noted(_with_faults(rule, digest), note) for rule in rules]


def _with_faults(rule: Rule, digest: DataFrame) -> Rule:
    """A rule with what the digest found to break it."""
    faults = digest.where((F.col("record") == "fault") & (F.col("rule") == rule.name))
    found = findings(faults, rule.name, level=rule.levels[0], bad=F.lit(True), checked=0)
    return Rule(rule.frame.unionAll(found), rule.levels, rule.name)


def _noted(rule: Rule, note: str) -> Rule:
    return Rule(rule.frame.withColumn("note", F.lit(note)), rule.levels, rule.name, dict.fromkeys(rule.levels, note))


def _leaf(frame: DataFrame, tables: RunTables) -> DataFrame:
    return frame.where(F.col("level") == tables.levels[-1])


def _persons_equal_estimates(digest: DataFrame, codes: MicrodataCodes, tables: RunTables, *, units: bool) -> Rule:
    """As many person records of each combination of codes in each geounit as the estimates have people.

    Cells whose codes agree (kinds of group quarters) are told apart by the class of the person's unit.
    """
    name, spark = "microdata equal estimates", digest.sparkSession
    doubtful = np.array(codes.doubtful) & units
    unsure = sorted({codes.cell_codes[cell] for cell in np.flatnonzero(doubtful)})
    kinds = np.where(doubtful, codes.class_of_cell, _TOLD)
    table = {"cell": np.arange(len(kinds)), "codes": list(codes.cell_codes), "kind": kinds}
    leaf = _leaf(tables.estimates, tables)
    cells = exploded_cells(leaf).join(F.broadcast(small_frame(spark, table)), "cell")
    told = F.when(F.col("codes").isin(*unsure), F.col("kind")).otherwise(_TOLD).cast("bigint")
    persons = digest.where("record = 'persons'").select("geocode", "codes", told.alias("kind"), "count")
    compared = _compared(cells, persons, ("geocode", "codes", "kind"))
    every = findings(leaf, name, bad=F.lit(False), checked=1).unionAll(
        findings(compared, name, level=tables.levels[-1], bad=F.col("differ"), checked=F.col("rows"))
    )
    return Rule(every, tables.levels[-1:], name)


def _compared(expected: DataFrame, found: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Sums of the column count by keys: keys, differ (whether they disagree), rows (of what was expected)."""
    one, none = F.lit(1), F.lit(0)
    both = expected.select(*keys, F.col("count").alias("difference"), one.alias("rows")).unionAll(
        found.select(*keys, -F.col("count"), none)
    )
    summed = both.groupBy(*keys).agg(F.sum("difference").alias("difference"), F.sum("rows").alias("rows"))
    return summed.select(*keys, (F.coalesce("difference", F.lit(0)) != 0).alias("differ"), "rows")


def _units_equal_invariants(digest: DataFrame, codes: MicrodataCodes, tables: RunTables) -> Rule:
    """As many unit records of each class in each geounit as there are units."""
    name, level = "units equal invariants", tables.levels[-1]
    invariants = _leaf(present(tables.invariants, "invariants"), tables).where("name in ('units', 'vacant')")
    values = invariants.select("geocode", "name", F.posexplode("values").alias("class", "count"))
    kind = F.when(F.col("name") == "vacant", codes.vacant).otherwise(F.col("class"))
    expected = values.select("geocode", kind.alias("kind"), "count").where("count != 0")
    found = digest.where("record = 'units'").select("geocode", "kind", "count")
    compared = _compared(expected, found, ("geocode", "kind"))
    every = findings(invariants, name, bad=F.lit(False), checked=1).unionAll(
        findings(compared, name, level=level, bad=F.col("differ"), checked=0)
    )
    return Rule(every, (level,), name)


def _populations_equal_estimates(digest: DataFrame, codes: MicrodataCodes, tables: RunTables) -> Rule:
    """The populations of the units of a class in a geounit sum to the estimate, and vacant units hold nobody."""
    name, level = "unit populations", tables.levels[-1]
    table = {"cell": np.arange(len(codes.class_of_cell)), "kind": np.array(codes.class_of_cell)}
    leaf = _leaf(tables.estimates, tables)
    cells = exploded_cells(leaf).join(F.broadcast(small_frame(digest.sparkSession, table)), "cell")
    units = digest.where("record = 'units'")
    found = units.select("geocode", F.col("kind").cast("bigint").alias("kind"), F.col("people").alias("count"))
    compared = _compared(cells, found, ("geocode", "kind"))
    every = (
        findings(leaf, name, bad=F.lit(False), checked=1)
        .unionAll(findings(compared, name, level=level, bad=F.col("differ"), checked=0))
        .unionAll(findings(units, name, level=level, bad=F.col("odd") > 0, checked=0))
    )
    return Rule(every, (level,), name)


def _persons_in_units(digest: DataFrame) -> Rule:
    """A unit of population n holds the persons numbered 1 to n, and no person lives elsewhere; told by the digest."""
    name = "persons in units"
    parts = digest.where("record = 'part'")
    return Rule(findings(parts, name, level="", bad=F.lit(False), checked=F.col("count")), ("",), name)


def _unit_numbers(digest: DataFrame) -> Rule:
    """Units are numbered 0, 1, ... without gap or repetition: within a part (told by the digest) and over the parts."""
    name = "unit numbers"
    parts = digest.where("record = 'part' and count > 0")
    # A few rows a run: one partition orders them.
    before = Window.orderBy("low", "part").rowsBetween(Window.unboundedPreceding, -1)
    placed = parts.withColumn("first", F.coalesce(F.sum("count").over(before), F.lit(0)))
    good = (F.col("low") == F.col("first")) & (F.col("high") == F.col("first") + F.col("count") - 1)
    return Rule(findings(placed, name, level="", bad=~good, checked=F.col("count")), ("",), name)
