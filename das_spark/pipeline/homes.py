"""Where a run of a plan lies: the folder in which it is made, and the address of its home where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.spark.hadoop import located
from das_spark.store import RunLayout

if TYPE_CHECKING:
    from das_spark.config import OutputSettings


def layout_of(output: OutputSettings, run_id: str) -> RunLayout:
    """The layout of a run; no file system is asked for anything yet.

    Raises:
        OutputError: As `RunLayout.at`.
    """
    return RunLayout.of(output, run_id, located)
