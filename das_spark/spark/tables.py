"""The schema of every table that a run keeps, as Spark has it: made from the declarations of `das_spark.store`.

Two further schemas are no tables: they are the forms in which rows travel within a job.
"""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from das_spark.store import tables as declared

GEOCODE = StructField("geocode", StringType(), nullable=False)
PARENT = StructField("parent", StringType(), nullable=False)

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
SECONDS = from_arrow_schema(declared.SECONDS.schema)

#: Every table with geolevels, by name: its schema and whether it is restricted.
LEVEL_TABLES = {
    name: (from_arrow_schema(each.schema), each.restricted) for name, each in declared.TABLES.items() if each.by_level
}


def _longs(name: str) -> StructField:
    return StructField(name, ArrayType(LongType(), containsNull=False), nullable=True)


def _integers(name: str) -> StructField:
    return StructField(name, ArrayType(IntegerType(), containsNull=False), nullable=True)


#: What one estimation job writes: estimates and diagnostics side by side, told apart by `record`. `seconds` is the time
#: that a family took; it is never published, since the same measurements must publish the same bytes.
ESTIMATION_OUTPUT = StructType(
    [
        StructField("record", StringType(), nullable=False),
        GEOCODE,
        PARENT,
        _integers("cells"),
        _longs("counts"),
        StructField("diagnostics", DIAGNOSTICS, nullable=True),
        StructField("seconds", DoubleType(), nullable=True),
    ]
)

#: The long form in which everything that belongs to a family travels to the task that works on it.
FAMILY_ROWS = StructType(
    [
        StructField("file", IntegerType(), nullable=False),
        StructField("rank", LongType(), nullable=False),
        StructField("family", StringType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("geocode", StringType(), nullable=False),
        StructField("member", StringType(), nullable=False),
        _integers("integers"),
        _longs("longs"),
        _longs("longs_upper"),
        StructField("variance", DoubleType(), nullable=True),
    ]
)
