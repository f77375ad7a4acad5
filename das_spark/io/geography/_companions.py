"""Tables that stand beside a geography: which blocks have group quarters, and a crosswalk to primitive geounits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import BLOCK, GQ_TYPES
from das_spark.io.geography._entities import twice
from das_spark.io.geography.base import GEOCODE
from das_spark.io.geography.tidy import block_column, block_field
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, row_checks, with_place
from das_spark.io.readers._sources import columns_in, names_of, read_table
from das_spark.io.readers.base import reading, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: How a table may call the columns of the seven major types of group quarters.
_QUARTERS: Final = tuple(
    tuple(f"{prefix}{number}" for number in range(1, GQ_TYPES + 1)) for prefix in ("gq", "units_", "gq_")
)
_PRIMITIVE: Final = ("primitive", "prim")
_HINT: Final = "correct the file; codes are text, with their leading zeros"


def read_quarters(spark: SparkSession, path: str) -> DataFrame:
    """Read which blocks have facilities of which major types of group quarters.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15); and gq1 to gq7 or units_1 to units_7: a
            number of facilities or of people, above 0 where there is a facility; null for none.

    Returns:
        Columns geocode (16 digits, each block once) and gq (array of 7 booleans).

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    frame = read_table(spark, path)
    names = next((names for names in _QUARTERS if set(names) <= set(frame.columns)), None)
    if names is None:
        raise InputError(
            f"{path}: no columns {_QUARTERS[0][0]} to {_QUARTERS[0][-1]}, nor {_QUARTERS[1][0]} to {_QUARTERS[1][-1]}",
            hint=f"the file has {', '.join(names_of(frame))}",
        )
    checks, flags = [], []
    for name in names:
        number = F.col(name).try_cast("double")
        wrong = F.col(name).isNotNull() & ~F.coalesce(number >= 0, F.lit(False))
        checks.append(Check(path, name, "a number of 0 or more", wrong))
        flags.append(F.coalesce(number > 0, F.lit(False)))
    return _checked(path, frame, checks, F.array(*flags).alias("gq"))


def read_crosswalk(spark: SparkSession, path: str) -> DataFrame:
    """Read the crosswalk from blocks to primitive geounits; whether it splits blocks is asked when it is used.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15), and primitive (or prim): any text.

    Returns:
        Columns geocode (16 digits) and primitive.

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    frame = read_table(spark, path)
    name = _primitive(path, names_of(frame))
    text = F.trim(F.col(name).cast("string"))
    checks = [Check(path, name, "the name of a primitive geounit", F.coalesce(text == "", F.lit(True)))]
    return _checked(path, frame, checks, text.alias("primitive"), once=False)


def look_at_crosswalk(path: str) -> None:
    """See, cheaply and without Spark, whether a crosswalk is there and has its columns.

    Args:
        path: As for `read_crosswalk`.

    Raises:
        InputError: The file or a column is missing.
    """
    columns = columns_in(path)
    if columns is not None:
        _primitive(path, columns)
        block_field(path, columns)


def _primitive(path: str, columns: Sequence[str]) -> str:
    name = next((name for name in _PRIMITIVE if name in columns), None)
    if name is None:
        raise InputError(f"{path}: no column 'primitive'", hint=f"the file has {', '.join(columns)}")
    return name


def _checked(path: str, frame: DataFrame, checks: Sequence[Check], value: Column, *, once: bool = True) -> DataFrame:
    field, geocode = block_column(path, frame)
    digits = Check(path, field, "the digits of a block, as text", ~geocode.rlike(f"^[0-9]{{{BLOCK}}}$"))
    rules = [*row_checks(path, frame), digits, *checks]
    placed = with_place(frame).withColumn(FAULTS, faults(rules))
    rows = placed.select(FAULTS, "row_file", "row_block", "row_id", geocode.alias(GEOCODE), value)
    with reading(path):
        failed = rows.where(F.col(FAULTS) != 0).groupBy(FAULTS).count().collect()
        refuse(problems_of(rows, {row[FAULTS]: row["count"] for row in failed}, rules), hint=_HINT)
        if once:
            refuse(twice(path, field, rows), hint="each block has one row")
    return rows.drop(FAULTS, "row_file", "row_block", "row_id")
