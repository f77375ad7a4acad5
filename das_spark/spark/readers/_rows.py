"""Checks of rows in one pass over a file, and the numbers of the rows that fail.

Every check is one bit of an integer column; one aggregation counts the rows by that integer. Only when a row fails is
the file read again, to number such rows for the restricted root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.spark.readers.base import MOST_EXAMPLES, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


FAULTS = "faults"
"""Column of the failed checks of a row, as the sum of their bits; 0 for a good row."""

_PLACE = ("row_file", "row_block", "row_id")


@dataclass(frozen=True, slots=True)
class RowCheck:
    """One rule for the rows of a file.

    Args:
        file: File or folder, for the message.
        field: Field, as the file calls it.
        expected: What is expected there.
        fails: True (null counts as false) where a row breaks the rule.
    """

    file: str
    field: str
    expected: str
    fails: Column


def faults(checks: Sequence[RowCheck]) -> Column:
    """The failed checks of a row as an integer, the first check in the lowest bit (long)."""
    bits = [F.when(check.fails, F.lit(1 << bit)).otherwise(F.lit(0)).cast("long") for bit, check in enumerate(checks)]
    return reduce(lambda left, right: left + right, bits, F.lit(0).cast("long"))


def with_place(frame: DataFrame) -> DataFrame:
    """Add where in its file a row lies; must be called on a frame that comes straight from a file."""
    return frame.select(
        "*",
        F.col("_metadata.file_path").alias("row_file"),
        F.col("_metadata.file_block_start").alias("row_block"),
        F.monotonically_increasing_id().alias("row_id"),
    )


#: Of each file, its blocks: where the block starts, the least row identity in it, and how many rows it has.
_Blocks = Mapping[str, Sequence[tuple[int, int, int]]]


def row_numbers(placed: DataFrame, bad: DataFrame, blocks: _Blocks | None = None) -> tuple[int, ...]:
    """Number some rows of text files, counted from 1 in their file; costs another pass."""
    found = bad.select(*_PLACE).limit(MOST_EXAMPLES).collect()
    if blocks is None:
        blocks = _blocks_of(placed)
    numbers = []
    for file, block, identity in found:
        before = sum(count for start, _, count in blocks[file] if start < block)
        first = next(least for start, least, _ in blocks[file] if start == block)
        numbers.append(before + identity - first + 1)
    return tuple(sorted(numbers))


def _blocks_of(placed: DataFrame) -> _Blocks:
    """Where the rows of each block of each file begin; a pass over the files."""
    blocks: dict[str, list[tuple[int, int, int]]] = {}
    counted = placed.groupBy("row_file", "row_block").agg(F.min("row_id"), F.count("row_id"))
    for file, start, least, count in counted.collect():
        blocks.setdefault(file, []).append((start, least, count))
    return blocks


def problems_of(placed: DataFrame, counted: Mapping[int, int], checks: Sequence[RowCheck]) -> list[Problem]:
    """Describe the checks that failed, with the numbers of some rows."""
    found = []
    failed = [
        (bit, rows)
        for bit in range(len(checks))
        if (rows := sum(number for value, number in counted.items() if value >> bit & 1))
    ]
    blocks = _blocks_of(placed) if failed else {}
    for bit, rows in failed:
        check = checks[bit]
        bad = placed.where(F.col(FAULTS).bitwiseAND(F.lit(1 << bit)) != 0)
        found.append(Problem(check.file, check.field, check.expected, rows, row_numbers(placed, bad, blocks)))
    return found


def one_of(codes: Iterable[int]) -> str:
    """Spell a set of allowed codes."""
    return "one of " + ", ".join(str(code) for code in sorted(codes))
