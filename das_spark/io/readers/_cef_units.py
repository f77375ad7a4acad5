"""CEF persons and their units brought together: one shuffle, after which everything is counted by block.

Every line becomes a row of its unit (MAFID); a window over the unit gives persons their block and the class of their
unit; rows are then counted by block and code. Codes below the number of cells are cells of persons, the next nine are
units by class and vacant units, and two more mark persons without a unit and units that occur twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.io.cef_layout import CLASSES, PERSON, UNIT
from das_spark.io.readers._cef_lines import IS_GOOD, block_key, number, quarters_class, text
from das_spark.io.readers._grfc import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.io.readers._cef_lines import Lines

ATTRIBUTES = {"hhgq": CLASSES, "votingage": 2, "hispanic": 2, "cenrace": 63}
PEOPLE = 2 * 2 * 63
CELLS = CLASSES * PEOPLE
VACANT = CELLS + CLASSES
ORPHAN = VACANT + 1
REPEATED = VACANT + 2

NOBODY, OTHER_CLASS = 1, 2
"""What is odd about a row: a facility without persons, a person of another class than her unit."""

_ADULT = 18


def with_unit(lines: Lines) -> DataFrame:
    """The good lines, with the number of their unit."""
    return lines.frame.where(IS_GOOD).withColumn("unit", number(lines.record, "MAFID"))


def unit_block() -> Column:
    """Key of the block of a unit line."""
    return block_key(text(UNIT, "OIDTB"))


def count_lines(units: Lines, persons: Lines | None) -> DataFrame:
    """Count lines by block and code; a faulty line has neither, only its faults.

    Args:
        units: Unit records.
        persons: Person records; None where units alone are counted.

    Returns:
        Columns block_key, code (null for faulty lines), odd, of_unit (whether a unit line), count (lines), population
        (that the units state).
    """
    rows = _unit_rows(units)
    if persons is not None:
        rows = rows.unionAll(_person_rows(persons))
    home = Window.partitionBy("unit")
    joined = rows.select(
        F.max(KEY).over(home).alias(KEY),
        F.max("home").over(home).alias("home_of_unit"),
        F.count("home").over(home).alias("units"),
        F.count("people").over(home).alias("persons"),
        "of_unit", IS_GOOD, "home", "vacant", "population", "level", "people",
    )  # fmt: skip
    is_unit = F.col("of_unit")
    unit = F.when(F.col("units") > 1, REPEATED).when(F.col("vacant"), VACANT).otherwise(F.col("home") + CELLS)
    person = F.when(F.col("units") == 0, ORPHAN).otherwise(F.col("level") * PEOPLE + F.col("people"))
    code = F.when(F.col(IS_GOOD), F.when(is_unit, unit).otherwise(person)).cast("int")
    alone = is_unit & (F.col("home") > 0) & (F.col("persons") == 0) & F.lit(persons is not None)
    odd = F.when(alone, NOBODY).when(F.col("home_of_unit") != F.col("level"), OTHER_CLASS).otherwise(0)
    grouped = joined.groupBy(KEY, code.alias("code"), odd.alias("odd"), "of_unit")
    return grouped.agg(F.count(F.lit(1)).alias("count"), F.sum("population").alias("population"))


def _unit_rows(units: Lines) -> DataFrame:
    good = F.col(IS_GOOD)
    return units.frame.select(
        F.lit(True).alias("of_unit"),
        IS_GOOD,
        _unit_number(units),
        F.when(good, unit_block()).alias(KEY),
        F.when(good, quarters_class(UNIT)).alias("home"),
        (text(UNIT, "VACS") != "0").alias("vacant"),
        F.when(good, number(UNIT, "FINAL_POP")).otherwise(0).alias("population"),
        F.lit(None).cast("int").alias("level"),
        F.lit(None).cast("int").alias("people"),
    )


def _person_rows(persons: Lines) -> DataFrame:
    good = F.col(IS_GOOD)
    adult = (number(PERSON, "QAGE") >= _ADULT).cast("int")
    hispanic, race = (number(PERSON, name).cast("int") - 1 for name in ("CENHISP", "CENRACE"))
    people = (adult * 2 + hispanic) * 63 + race
    return persons.frame.select(
        F.lit(False).alias("of_unit"),
        IS_GOOD,
        _unit_number(persons),
        F.lit(None).cast("string").alias(KEY),
        F.lit(None).cast("int").alias("home"),
        F.lit(False).alias("vacant"),
        F.lit(0).cast("long").alias("population"),
        F.when(good, quarters_class(PERSON)).alias("level"),
        F.when(good, people).alias("people"),
    )


def _unit_number(lines: Lines) -> Column:
    # Faulty lines get keys of their own, so that a file of rubbish does not gather in one partition.
    own = -1 - F.col("row_id")
    return F.when(F.col(IS_GOOD), number(lines.record, "MAFID")).otherwise(own).alias("unit")
