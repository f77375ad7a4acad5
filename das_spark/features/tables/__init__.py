"""Published tables of every geolevel, made of the public estimates and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.pipeline import TabulationSummary

__all__ = ["tabulate"]


def tabulate(
    run_folder: str | Path, *, out: str | Path | None = None, spark: SparkSession | None = None
) -> TabulationSummary:
    """Write the published tables of a finished run into a folder of their own, from its public files alone.

    Args:
        run_folder: The folder of the run, or `runs/latest`.
        out: The folder to make; beside the run, under its name with `.tables` at the end, where None.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: The product of the run has no tables.
        OutputError: It is not the folder of a finished run, or the tables cannot be written.
    """
    from das_spark.features.tables.finished import tabulate_run  # noqa: PLC0415 - Spark is imported when it is asked for

    return tabulate_run(place_of(run_folder), place_of(out), spark)
