"""What Spark SQL finds of a cell by its digits is what the schema says of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from das_spark.histogram import Attribute, Schema
from das_spark.spark.cells import level_of

pytestmark = pytest.mark.spark

SCHEMA = Schema(
    "digits",
    (
        Attribute("one", ("only",)),
        Attribute("sex", ("male", "female")),
        Attribute("age", tuple(map(str, range(7)))),
        Attribute("race", ("a", "b", "c")),
        Attribute("home", ("own", "rent")),
    ),
)


def cells_of(spark, schema: Schema):
    """Every cell, and one on either side that there is not."""
    return spark.createDataFrame(pa.table({"cell": np.arange(-1, schema.size + 1, dtype=np.int32)}))


def found(frame, columns) -> dict[str, list]:
    rows = frame.select("cell", *[column.alias(name) for name, column in columns.items()])
    return rows.toArrow().sort_by("cell").drop_columns(["cell"]).to_pydict()


def test_the_levels_of_a_cell_are_its_digits(spark):
    columns = {
        attribute.name: level_of(F.col("cell"), SCHEMA.shape, SCHEMA.axis(attribute.name))
        for attribute in SCHEMA.attributes
    }
    levels = found(cells_of(spark, SCHEMA), columns)
    codes = SCHEMA.unravel(np.arange(SCHEMA.size))
    assert [levels[attribute.name][1:-1] for attribute in SCHEMA.attributes] == codes.T.tolist()
