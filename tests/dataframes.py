"""What every folder of tests asks of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chispa import assert_df_equality

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def assert_rows(found: DataFrame, expected: Iterable[Sequence[Any]], *, ordered: bool = False) -> None:
    """A DataFrame has these rows and no others, in any order unless `ordered`."""
    wanted = found.sparkSession.createDataFrame([tuple(row) for row in expected], found.schema)
    assert_frames(found, wanted, ignore_row_order=not ordered)


def assert_frames(found: DataFrame, expected: DataFrame, *, ignore_row_order: bool = False, **more: bool) -> None:
    """Two DataFrames are the same; see `chispa.assert_df_equality`."""
    assert_df_equality(found, expected, ignore_row_order=ignore_row_order, **more)
