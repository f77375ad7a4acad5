"""What Spark SQL finds of a cell by its digits is what the query and the schema say of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products import PRODUCTS
from das_spark.spark.cells import answer_of, level_of, selected

pytestmark = pytest.mark.spark

SCHEMA = Schema(
    "digits",
    (
        Attribute("one", ("only",)),
        Attribute("sex", ("male", "female")),
        Attribute("age", tuple(map(str, range(7))), (Recode("school", (("6", (6,)), ("2 to 4", (2, 3, 4)))),)),
        Attribute("race", ("a", "b", "c"), (Recode("not_b", (("a or c", (0, 2)),)),)),
        Attribute("home", ("own", "rent")),
    ),
)
QUERIES = ("total", "detailed", "sex * age", "sex * race * home", "school", "not_b * home", "school * race", "one")


def cells_of(spark, schema: Schema):
    """Every cell, and one on either side that there is not."""
    return spark.createDataFrame(pa.table({"cell": np.arange(-1, schema.size + 1, dtype=np.int32)}))


def found(frame, columns) -> dict[str, list]:
    rows = frame.select("cell", *[each.alias(name) for name, each in columns.items()])
    return rows.toArrow().sort_by("cell").drop_columns(["cell"]).to_pydict()


def test_the_answer_that_counts_a_cell_is_that_of_the_query(spark):
    queries = {name: SCHEMA.query(name) for name in QUERIES}
    answers = found(cells_of(spark, SCHEMA), {name: answer_of(query, F.col("cell")) for name, query in queries.items()})
    for name, query in queries.items():
        rows = query.row_of(np.arange(SCHEMA.size)).tolist()
        assert answers[name] == [None, *[None if row < 0 else row for row in rows], None], name


def test_queries_of_products_too(spark):
    schema = PRODUCTS["pl94_2020_person"].schema
    queries = {recode.name: schema.query(recode.name) for each in schema.attributes for recode in each.recodes}
    answers = found(cells_of(spark, schema), {name: answer_of(query, F.col("cell")) for name, query in queries.items()})
    for name, query in queries.items():
        rows = query.row_of(np.arange(schema.size)).tolist()
        assert answers[name] == [None, *[None if row < 0 else row for row in rows], None], name


def test_the_levels_of_a_cell_are_its_digits(spark):
    columns = {each.name: level_of(F.col("cell"), SCHEMA.shape, SCHEMA.axis(each.name)) for each in SCHEMA.attributes}
    levels = found(cells_of(spark, SCHEMA), columns)
    codes = SCHEMA.unravel(np.arange(SCHEMA.size))
    assert [levels[each.name][1:-1] for each in SCHEMA.attributes] == codes.T.tolist()


@pytest.mark.parametrize("selection", [(), (("age", (0, 5)),), (("sex", (1,)), ("race", (0, 2)), ("home", (0,)))])
def test_a_selection_selects_what_the_schema_does(spark, selection):
    inside = found(cells_of(spark, SCHEMA), {"inside": selected(F.col("cell"), selection, SCHEMA)})["inside"]
    assert inside[1:-1] == SCHEMA.select(**dict(selection)).tolist()
