"""Microdata as their public copy: CSV, each part whole by itself; comments in a file `metadata` beside the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.io.writers.text import text_sink

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.io.writers._columns import FileColumns
    from das_spark.io.writers.base import Sink


@dataclass(frozen=True, slots=True)
class PpmfFlavour:
    """CSV files in the public layout of a product, column names first."""

    name: str = "ppmf"
    suffix: str = ".csv"
    has_metadata_file: bool = True

    def open(self, path: Path, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file; see `das_spark.io.writers.base.Flavour`.

        Args:
            path: The file; it must not exist.
            columns: What it holds.
            notices: Not used: they stand in the metadata file.
        """
        return text_sink(path, columns)
