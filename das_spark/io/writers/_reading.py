"""Microdata read back from its files, as the layout says; verification starts here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from das_spark.errors import OutputError
from das_spark.io.files import finished
from das_spark.io.writers.text import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.io.layout import PublicLayout
    from das_spark.products.base import MicrodataColumn, Product


def read_microdata(
    spark: SparkSession, layout: PublicLayout, product: Product, flavour: str, *, units: bool
) -> tuple[DataFrame, DataFrame | None]:
    """Read the file of what is counted and, where people are dealt to units, the unit file.

    Args:
        spark: The session.
        layout: Where the files are.
        product: Whose layout.
        flavour: Name in `WRITERS`.
        units: Whether the run knows units.

    Returns:
        One row a record; of text files every column is a string.

    Raises:
        OutputError: A file is missing or not finished.
    """
    frames = [
        _read(spark, layout, kind, flavour, product.microdata.columns(kind)) for kind in product.files(units=units)
    ]
    return frames[0], frames[1] if len(frames) > 1 else None


def _read(
    spark: SparkSession, layout: PublicLayout, kind: str, flavour: str, columns: Sequence[MicrodataColumn]
) -> DataFrame:
    folder = layout.microdata(kind, flavour)
    if not finished(folder):
        raise OutputError(f"{folder}: not finished (no _SUCCESS)", hint="Resume the run.")
    if flavour == "parquet":
        return spark.read.parquet(str(folder))
    schema = StructType([StructField(column.name, StringType()) for column in columns])
    # The file `metadata` beside the parts is no data.
    reader = spark.read.schema(schema).option("sep", DELIMITER).option("quote", "").option("pathGlobFilter", "part-*")
    return reader.csv(str(folder))
