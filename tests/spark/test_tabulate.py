"""Tables of DataFrames of estimates: sums written as loops, whatever the partitioning; every geounit has its row."""

from __future__ import annotations

import numpy as np
import pytest
from dataframes import assert_rows
from verified_run import BLOCKS, CELL, PEOPLE, PRODUCT, estimates

from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Schema
from das_spark.products import PRODUCTS
from das_spark.spark import tabulate as shell
from das_spark.spark.checks import judge
from das_spark.spark.tabulate import table_schema, tabulated
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_tables import PublishedTable, table_rules
from das_spark.tabulation import housing_tables, redistricting_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = redistricting_tables(PRODUCT.schema)
NAMES = [name for table in TABLES for name in table.names]


def wanted(people: dict[int, int]) -> list[int]:
    masks = [column.mask(PRODUCT.schema) for table in TABLES for column in table.columns]
    return [sum(count for cell, count in people.items() if mask[cell]) for mask in masks]


@pytest.fixture(scope="module")
def blocks():
    """Histograms of forty blocks by geocode, every fifth of them empty."""
    numbers = np.random.default_rng(171)
    found = {}
    for block in range(40):
        cells = numbers.choice(PRODUCT.schema.size, 0 if block % 5 == 4 else 6, replace=False)
        found[f"44007000100{1000 + block:04d}0"] = {int(cell): int(numbers.integers(1, 900)) for cell in cells}
    return found


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_every_geounit_has_its_sums_in_one_row_whatever_the_partitioning(spark, blocks, partitions):
    frame = estimates(spark, "Block", blocks).repartition(partitions)
    expected = [("Block", geocode, *wanted(people)) for geocode, people in blocks.items()]
    assert_rows(tabulated(frame, TABLES, "level").select("level", "geocode", *NAMES), expected)


def test_one_table_has_geocode_and_its_published_columns(spark):
    people = {code: {CELL[name]: count for name, count in of.items()} for code, of in PEOPLE.items()}
    frame = tabulated(estimates(spark, "Block", people), TABLES[4:])
    assert frame.columns == ["geocode", *TABLES[4].names]
    assert frame.schema == table_schema(TABLES[4:])
    expected = {
        BLOCKS[0]: [4, 4, 4, 0, 0, 0, 0, 0, 0, 0],
        BLOCKS[1]: [0] * 10,
        BLOCKS[2]: [4, 4, 1, 0, 3, 0, 0, 0, 0, 0],
    }
    assert_rows(frame, [(block, *counts) for block, counts in expected.items()])


def test_rows_keep_their_order(spark, blocks):
    frame = estimates(spark, "Block", blocks).coalesce(1).sortWithinPartitions("geocode")
    assert [row[0] for row in tabulated(frame, TABLES[:1]).collect()] == sorted(blocks)


def test_a_batch_is_worked_on_in_parts_that_fit_the_memory_of_a_task(spark, blocks, monkeypatch):
    task = shell.TabulateTask(shell.Tabulation.of(TABLES), ("geocode",))
    (batch,) = estimates(spark, "Block", blocks).toArrow().combine_chunks().to_batches()
    (whole,) = task(iter([batch]))
    monkeypatch.setattr(shell, "_DENSE", 7 * len(NAMES))
    parts = list(task(iter([batch])))
    assert [part.num_rows for part in parts] == [7, 7, 7, 7, 7, 5]
    assert [row for part in parts for row in part.to_pylist()] == whole.to_pylist()
    assert whole.to_pylist()[0]["P0010001"] == sum(next(iter(blocks.values())).values())


def test_the_tables_of_children_sum_to_that_of_their_parent(spark, run):
    frame = run.tables.estimates
    rows = tabulated(frame, TABLES, "level").groupBy("level").sum().collect()
    totals = {tuple(row[f"sum({name})"] for name in NAMES) for row in rows}
    assert len(rows) == 3
    assert len(totals) == 1


def test_h1_is_the_units_of_a_block_and_those_that_are_occupied_and_vacant(spark):
    (table,) = housing_tables(Schema("housing", (Attribute("h1", ("Vacant", "Occupied")),)))
    frame = estimates(spark, "Block", {BLOCKS[0]: {0: 3, 1: 9}, BLOCKS[1]: {}, BLOCKS[2]: {0: 4}})
    expected = [(BLOCKS[0], 12, 9, 3), (BLOCKS[1], 0, 0, 0), (BLOCKS[2], 4, 0, 4)]
    assert_rows(tabulated(frame, [table]).select("geocode", *table.names), expected)
    by_level = PublishedTable(table, "csv", tabulated(frame, [table], "level"))
    run = RunTables(("Block",), frame.select("level", "geocode"), frame)
    checks = judge(table_rules([by_level], run))
    assert [(check.passed, check.checked) for check in checks] == [(True, 9), (True, 3)]


def test_tables_of_another_schema_are_refused_before_a_job_runs(spark, blocks):
    other = redistricting_tables(PRODUCTS["e2e_2018"].schema)
    with pytest.raises(QueryError):
        tabulated(estimates(spark, "Block", blocks), [*TABLES, *other])
