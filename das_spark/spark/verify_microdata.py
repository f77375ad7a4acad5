"""Whether the microdata files say what the leaf estimates and the declared invariants say; plain Spark SQL.

The files were reduced to a digest (`das_spark.io.microdata_digest`), which holds the people of each geounit by their
codes and the class of their unit, the units of each geounit by class, and what was found to be wrong within a part.
Several formats are compared at once: the side of estimates and invariants is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.errors import VerificationError
from das_spark.products import (
    CODE_SEPARATOR,
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    UNIT_NUMBERS,
    MicrodataCodes,
)
from das_spark.spark.checks import Check, Finding, Key, Rule, findings
from das_spark.spark.lists import list_total
from das_spark.spark.verify import RunTables, exploded_cells, present, small_frame

if TYPE_CHECKING:
    from pyspark.sql import Column


UNITS_EQUAL: Final = "units equal invariants"
POPULATIONS: Final = "unit populations"
#: Class of people whose codes tell it already, in the comparison of those whose codes do not.
_TOLD: Final = -2


@dataclass(frozen=True, slots=True)
class MicrodataTables:
    """The microdata of a run, reduced.

    Attributes:
        persons: format, geocode, codes, kind, count.
        units: format, geocode, kind, count, people, odd; None where no units are known.
        parts: One row a part: format, people (records of what is counted), first (number of the first of these),
            count (of units), low and high (numbers of its first and last unit), geocode (of the first).
        faults: What breaks a rule within a part: format, rule, geocode.
        formats: Names of the formats that there must be.
        codes: What the columns of the files hold.
    """

    persons: DataFrame
    units: DataFrame | None
    parts: Sequence[Mapping[str, Any]]
    faults: Sequence[Mapping[str, Any]]
    formats: tuple[str, ...]
    codes: MicrodataCodes

    def note(self, format: str) -> str:
        """What tells the checks of a format from those of others.

        Args:
            format: Name of the format.

        Returns:
            Words for the note of a check; empty where there is one format only.
        """
        return f"{format} files" if len(self.formats) > 1 else ""


def microdata_rules(microdata: MicrodataTables, tables: RunTables) -> list[Rule]:
    """The rules on microdata files against leaf estimates and invariants.

    Args:
        microdata: The files.
        tables: The tables of the run; those of the lowest level are compared.

    Raises:
        VerificationError: There are units, and no table of invariants; or a fault of an unknown rule.
    """
    leaf = tables.estimates.where(F.col("level") == tables.levels[-1])
    rules = [_persons_equal_estimates(microdata, leaf, _listed(microdata, tables), tables.levels[-1])]
    if microdata.units is not None:
        invariants = present(tables.invariants, "invariants").where(F.col("level") == tables.levels[-1])
        rules.append(_units_equal(microdata, microdata.units, leaf, invariants, tables.levels[-1]))
    return rules


def _listed(microdata: MicrodataTables, tables: RunTables) -> DataFrame | None:
    """Group quarters that are listed besides what is counted, as a cell of their own: level, geocode, cell, count."""
    cell = microdata.codes.listed
    if cell is None or tables.invariants is None:
        return None
    declared = tables.invariants.where((F.col("level") == tables.levels[-1]) & (F.col("name") == "units"))
    quarters = list_total(F.slice("values", F.lit(2), F.size("values") - 1))
    return declared.select("level", "geocode", F.lit(cell).cast("bigint").alias("cell"), quarters.alias("count"))


def _persons_equal_estimates(microdata: MicrodataTables, leaf: DataFrame, listed: DataFrame | None, level: str) -> Rule:
    """As many records of each combination of codes in each geounit as the estimates have people (or units).

    Group quarters that are listed are expected, too. Cells whose codes agree (kinds of group quarters) are told apart
    by the class of the person's unit.
    """
    codes = microdata.codes
    doubtful = codes.doubtful & (microdata.units is not None)
    unsure = sorted(set(codes.codes_of(np.flatnonzero(doubtful))))
    kinds = np.where(doubtful, codes.class_of_cell, _TOLD)
    table = {"cell": np.arange(len(kinds)), "kind": kinds, "class": codes.class_of_cell}
    expected = exploded_cells(leaf) if listed is None else exploded_cells(leaf).unionByName(listed)
    known = expected.join(F.broadcast(small_frame(leaf.sparkSession, table)), "cell")
    cells = known.withColumn("codes", _codes_of_cell(codes))
    told = F.when(F.col("codes").isin(*unsure), F.col("kind")).otherwise(F.lit(_TOLD)).cast("bigint")
    found = microdata.persons.select("format", "geocode", "codes", told.alias("kind"), "count")
    keys = ("geocode", "codes", "kind")
    counted, none = F.lit(1).alias("rows"), F.lit(0).alias("rows")
    sides = cells.select(F.lit("").alias("format"), *keys, "count", counted).unionAll(found.select("*", none))
    differences = [_difference(format, "count").alias(format) for format in microdata.formats]
    summed = sides.groupBy(*keys).agg(F.sum("rows").alias("rows"), *differences)
    compared = [
        Finding(PERSONS_EQUAL, F.col(format) != 0, F.col("rows"), microdata.note(format))
        for format in microdata.formats
    ]
    looked = [Finding(each.rule, F.lit(False), 1, each.note) for each in compared]
    every = findings(summed, *compared, level=level).unionAll(findings(leaf, *looked, level=level))
    return _rule(every, microdata, level, PERSONS_EQUAL)


def _codes_of_cell(codes: MicrodataCodes) -> Column:
    """The codes of a record, joined, from the column of its cell; no text is made for a cell that nobody is in."""
    size, shape = codes.schema.size, codes.schema.shape
    texts = []
    for column in codes.coded:
        if column.attribute:
            axis = codes.schema.axis(column.attribute)
            own = F.floor(F.col("cell") / prod(shape[axis + 1 :])) % shape[axis]
            level = F.when(F.col("cell") == size, F.lit(len(column.texts) - 1)).otherwise(own)
        else:
            level = F.least(F.col("class"), F.lit(1))
        texts.append(F.get(F.array(*map(F.lit, column.texts)), level.cast("int")))
    return F.concat_ws(CODE_SEPARATOR, *texts)


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
    table = {"cell": np.arange(len(codes.class_of_cell)), "kind": codes.class_of_cell}
    cells = exploded_cells(leaf).join(F.broadcast(small_frame(leaf.sparkSession, table)), "cell")
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
    value, none = F.coalesce(F.col(column), F.lit(0)), F.lit(0).cast("bigint")
    signed = F.when(F.col("format") == "", value).when(F.col("format") == format, -value).otherwise(none)
    return F.sum(signed)


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

    `columns of microdata`: constant columns of texts hold their text in every record, and Parquet files have the
    columns of the layout that are not constant, of their types, and no others.
    `record numbers`: where records are numbered, they are 0, 1, ... in the order of the file.

    And, where people are assigned to units:

    `persons in units`: a unit of population n holds the persons numbered 1 to n, and no person lives elsewhere.
    `unit numbers`: units are numbered 0, 1, ... without gap or repetition, so the ranges of the parts join.

    Args:
        microdata: The files.

    Returns:
        Checks of each format, of no geolevel.

    Raises:
        VerificationError: A fault of an unknown rule.
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
    faults = _faults(microdata, "", COLUMNS_AS_DECLARED, RECORD_NUMBERS)
    columns, numbers = ((name, "", note) for name in (COLUMNS_AS_DECLARED, RECORD_NUMBERS))
    read = [row for row in microdata.parts if row["format"] == format]
    declared = sum(map(len, form.rules.values())) if read else 0
    checks = [Check.of(columns, declared, faults.get(columns, set()))]
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
