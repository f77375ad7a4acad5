"""A table of a run as it lies in files: tasks read it by Arrow, and SQL as a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.spark.tables import read_folders
from das_spark.store import part_files, require_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Levels of a table.

    Attributes:
        spark: The session.
        table: Its name in `das_spark.store.tables`.
        base: Its folder.
        folders: Those of the levels, which are committed, by name.
    """

    spark: SparkSession
    table: str
    base: Path
    folders: Mapping[str, Path]

    @property
    def frame(self) -> DataFrame:
        """All rows, with a column level."""
        return read_folders(self.spark, self.table, self.base, list(self.folders.values()))

    def files(self) -> Iterator[tuple[str, Path]]:
        """Its files, each with its level."""
        for level, folder in self.folders.items():
            require_committed(folder)
            for file in part_files(folder):
                yield level, file
