"""The rows of families come together in one order, whether Spark plans a level or one task reads it."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from collected import stored
from pyspark import cloudpickle

from das_spark.spark import tables
from das_spark.spark.family_rows import (
    FamilySpread,
    FamilyTable,
    StoredRows,
    brought_together,
    joined,
    with_key,
    without,
)
from das_spark.spark.level_pass import failed_families, slowest_families
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.store.tables import TABLES

pytestmark = pytest.mark.spark
# What tests give to workers travels by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(sys.modules["collected"])

COLUMNS = ("file", "rank", "family", "kind", "geocode", "name", "member", "integers", "longs", "variance")
REPORT = "file int, rank bigint, family string, kind int, geocode string, name string, member string, "
REPORT += "integers array<int>, longs array<bigint>, variance double, doubles_missing boolean, place bigint"


def told(batches):
    """The rows as a task is given them, with their places in it."""
    place = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in COLUMNS}
        columns["doubles_missing"] = batch.column("doubles").is_null()
        columns["place"] = pa.array(np.arange(place, place + batch.num_rows))
        place += batch.num_rows
        yield pa.RecordBatch.from_pydict(columns)


def level(spark, seed):
    """Geounits of some families, some of which have no parent that is known; answers of them; estimates above."""
    generator = np.random.default_rng(seed)
    parents = [f"{place:02d}" for place in generator.permutation(9)]
    codes = [(f"{parent}{child:02d}", parent) for parent in parents for child in range(generator.integers(1, 6))]
    order = generator.permutation(len(codes))
    geounits = spark.createDataFrame([(*codes[place], 0) for place in order], tables.GEOUNITS)
    answers = [
        (code, parent, query, None if generator.random() < 0.5 else [1, 2], [int(generator.integers(-9, 9))] * 2, 2.5)
        for code, parent in codes
        for query in ("b", "a")[: generator.integers(0, 3)]
    ]
    above = [
        (parent, "", list(range(n)), [1] * n) for parent, n in zip(parents[:-2], [3, 0, 2, 5, 2, 1, 3], strict=True)
    ]
    return (
        geounits,
        spark.createDataFrame(answers, tables.MEASUREMENTS),
        spark.createDataFrame(above, tables.ESTIMATES),
    )


def together(geounits, answers, above, family="parent", files=3):
    cells = {"integers": "cells", "longs": "counts"}
    known = None if above is None else FamilyTable(above, 0, cells, of_parent=True)
    measured = {"name": "query", "integers": "rows", "longs": "values", "variance": "variance"}
    given = [FamilyTable(geounits, 2), FamilyTable(answers, 3, measured)]
    report = brought_together(given, known, FamilySpread(files, 1), told, REPORT, family=family)
    return [row.asDict() for row in report.orderBy("place").collect()]


@pytest.mark.parametrize("seed", [1, 2])
def test_one_task_is_given_the_same_rows_in_the_same_order(spark, seed):
    geounits, answers, above = level(spark, seed)
    expected = together(geounits, answers, above)
    assert len({row["family"] for row in expected}) == 7
    assert {row["kind"] for row in expected} == {0, 2, 3}
    assert together(*map(stored, (geounits, answers, above))) == expected


def test_families_are_in_turn_over_the_files_the_most_costly_first(spark):
    """Cells of the parent's support times children, and their names where these are equal."""
    codes = {"01": 1, "02": 4, "03": 2, "04": 1}
    geounits = [(f"{parent}{child}", parent, 0) for parent, number in codes.items() for child in range(number)]
    above = [
        (parent, "", list(range(cells)), [1] * cells) for parent, cells in {"01": 4, "02": 1, "03": 9, "04": 0}.items()
    ]
    rows = together(
        stored(spark.createDataFrame(geounits, tables.GEOUNITS)),
        stored(spark.createDataFrame([], tables.MEASUREMENTS)),
        stored(spark.createDataFrame(above, tables.ESTIMATES)),
        files=2,
    )
    found = {row["family"]: (row["file"], row["rank"]) for row in rows}
    assert found == {"03": (0, 0), "01": (1, 1), "02": (0, 2), "04": (1, 3)}
    assert [row["family"] for row in rows if row["file"] == 0] == ["03"] * 3 + ["02"] * 5


@pytest.mark.parametrize("family", ["geocode", "key"])
def test_without_parents_every_family_costs_the_same(spark, family):
    geounits, answers, _ = level(spark, 3)
    rows = [geounits, answers]
    several = [rows, [stored(each) for each in rows]]
    if family == "key":
        several = [[with_key(each, 1, 1) for each in given] for given in several]
    expected, found = (together(*given, None, family) for given in several)
    assert found == expected
    names = {row["geocode"] if family == "geocode" else row["geocode"][:1] for row in expected}
    assert [row["family"] for row in expected if row["file"] == 0 and row["kind"] == 2] == sorted(
        row["family"] for row in expected if row["file"] == 0 and row["kind"] == 2
    )
    assert {row["family"] for row in expected} == names


def test_columns_of_others_are_joined_and_left_out_alike(spark):
    left = spark.createDataFrame([("1", "a"), ("2", "b"), ("2", "c"), ("3", "d")], "geocode string, name string")
    right = spark.createDataFrame([("2", [5, 6]), ("1", [7]), ("9", [])], "geocode string, values array<bigint>")
    expected = sorted((row["geocode"], row["name"], row["values"]) for row in joined(left, right, "values").collect())
    found = joined(stored(left), stored(right), "values").read().to_pylist()
    assert sorted((row["geocode"], row["name"], row["values"]) for row in found) == expected
    assert expected == [("1", "a", [7]), ("2", "b", [5, 6]), ("2", "c", [5, 6])]
    assert without(stored(left), "name").read().column_names == without(left, "name").columns == ["geocode"]


def test_a_level_without_rows_is_an_empty_one(spark):
    nothing = [spark.createDataFrame([], schema) for schema in (tables.GEOUNITS, tables.MEASUREMENTS, tables.ESTIMATES)]
    assert together(*map(stored, nothing)) == []


def test_rows_of_a_level_are_read_from_its_files(tmp_path):
    schema = TABLES["measurements"].schema
    rows = {
        "geocode": ["1", "2"],
        "parent": ["", ""],
        "query": ["a", "b"],
        "rows": [None, [3]],
        "values": [[1, 2], [4]],
    }
    given = pa.table({**rows, "variance": [1.0, 2.0]}, schema=schema)
    writer = ParquetTables({"measurements": TableFolder(tmp_path / "level", schema)})
    parts = [("measurements", f"part-{place}", batch) for place, batch in enumerate(given.to_batches(max_chunksize=1))]
    writer.place(row for report in writer(parts) for row in report.to_pylist())
    stored_rows = StoredRows.of("measurements", tmp_path / "level")
    assert stored_rows.read().equals(given)
    assert stored_rows.read("query", "values").equals(given.select(["query", "values"]))


def diagnosed(spark):
    status = {"a": "optimal", "b": "infeasible", "c": "failed", "d": "optimal", "e": "infeasible"}
    columns = TABLES["diagnostics"].schema
    usual = {"string": "", "int64": 1, "double": 0.5, "bool": False, "binary": b"problem"}
    rows = [
        tuple({"family": name, "status": each}.get(column.name, usual[str(column.type)]) for column in columns)
        for name, each in status.items()
    ]
    return spark.createDataFrame(rows, tables.DIAGNOSTICS)


def test_families_that_failed_and_the_slowest_ones_are_found_alike(spark):
    diagnostics = diagnosed(spark)
    seconds = spark.createDataFrame(list(zip("abcde", (3.0, 1.0, 9.0, 3.0, 2.0), strict=True)), tables.SECONDS)
    expected = failed_families(diagnostics, 2)
    assert (expected[0], [row["family"] for row in expected[1]]) == (3, ["b", "c"])
    assert failed_families(stored(diagnostics), 2) == expected
    longest = slowest_families(diagnostics, seconds, 4)
    assert [row["family"] for row in longest] == ["c", "a", "d", "e"]
    assert slowest_families(stored(diagnostics), stored(seconds), 4) == longest
