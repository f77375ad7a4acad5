"""The schema of every table that a run keeps, as Spark has it: made from the declarations of `das_spark.store`."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from das_spark.store import tables as declared

LEAVES = from_arrow_schema(declared.LEAVES.schema)
GEOUNITS = from_arrow_schema(declared.GEOUNITS.schema)
BLOCKS = from_arrow_schema(declared.BLOCKS.schema)
SHARES = from_arrow_schema(declared.SHARES.schema)
HISTOGRAMS = from_arrow_schema(declared.HISTOGRAMS.schema)
INVARIANTS = from_arrow_schema(declared.INVARIANTS.schema)
BOUNDS = from_arrow_schema(declared.BOUNDS.schema)
MEASUREMENTS = from_arrow_schema(declared.MEASUREMENTS.schema)
ESTIMATES = from_arrow_schema(declared.ESTIMATES.schema)
DIAGNOSTICS = from_arrow_schema(declared.DIAGNOSTICS.schema)
ESTIMATE_ARRAYS = from_arrow_schema(declared.ESTIMATE_ARRAYS.schema)
UPWARD = from_arrow_schema(declared.UPWARD.schema)
UPWARD_SUMS = from_arrow_schema(declared.UPWARD_SUMS.schema)
SECONDS = from_arrow_schema(declared.SECONDS.schema)

#: Every table with geolevels, by name.
LEVEL_TABLES = {name: from_arrow_schema(each.schema) for name, each in declared.TABLES.items() if each.by_level}


def with_level(schema: StructType) -> StructType:
    """A table's columns, and the geolevel of the folder that a row was read from, as Spark adds it."""
    return StructType([*schema.fields, StructField("level", StringType(), nullable=False)])
