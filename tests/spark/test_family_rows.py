"""The rows of families come together in one order, however many partitions there are."""

import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from collected import families, stored
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from das_spark.geography import Geolevel, Spine
from das_spark.spark.family_rows import (
    Families,
    FamilySpan,
    FamilySpread,
    FamilyTable,
    StoredLevel,
    brought_together,
    families_by_partition,
)
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.store.tables import TABLES

# What tests give to workers travels by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(sys.modules["collected"])

COLUMNS = ("file", "rank", "family", "kind", "geocode", "name", "member", "integers", "longs", "variance")
REPORT = "file int, rank bigint, family string, kind int, geocode string, name string, member string, "
REPORT += "integers array<int>, longs array<bigint>, variance double, doubles_missing boolean, place bigint"
MEASURED = {"name": "query", "integers": "rows", "longs": "values", "variance": "variance"}
CELLS = {"integers": "cells", "longs": "counts"}


def told(batches):
    """The rows as a task is given them, with their places in it."""
    place = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in COLUMNS}
        columns["doubles_missing"] = batch.column("doubles").is_null()
        columns["place"] = pa.array(np.arange(place, place + batch.num_rows))
        place += batch.num_rows
        yield pa.RecordBatch.from_pydict(columns)


def level(seed):
    """Geounits of some families; answers of them, of some none; estimates above."""
    generator = np.random.default_rng(seed)
    parents = [f"{place:02d}" for place in generator.permutation(9)]
    codes = [(f"{parent}{child:02d}", parent) for parent in parents for child in range(generator.integers(1, 6))]
    answers = [
        (code, parent, query, None if generator.random() < 0.5 else [1, 2], [int(generator.integers(-9, 9))] * 2, 2.5)
        for code, parent in codes
        for query in ("b", "a")[: generator.integers(0, 3)]
    ]
    above = [(parent, "", list(range(int(parent))), [1] * int(parent)) for parent in parents]
    order = generator.permutation(len(codes))
    return [(*codes[place], 0) for place in order], answers, above


def together(spark, tables, own, partitions=1, files=3):
    """Rows by the place of their file: those of a partition stand together."""
    report = brought_together(spark, tables, FamilySpread(own, files, partitions), told, REPORT)
    return [row.asDict() for row in report.collect()]


def tables_of(geounits, answers, above, files=1):
    return [
        FamilyTable(stored(geounits, "geounits", files), 2),
        FamilyTable(stored(answers, "measurements", files), 3, MEASURED),
        FamilyTable(stored(above, "estimates", files), 0, CELLS, of_parent=True),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_every_row_meets_its_family_in_any_partitioning(spark, seed):
    geounits, answers, above = level(seed)
    own = families([code for code, _, _ in geounits])
    rows = together(spark, tables_of(geounits, answers, above), own)
    found = {(row["kind"], row["geocode"], row["name"]): row for row in rows}
    assert set(found) == {
        *((2, code, "") for code, _, _ in geounits),
        *((3, code, query) for code, _, query, *_ in answers),
        *((0, code, "") for code, *_ in above),
    }
    assert all(row["family"] == row["geocode"][:2] and row["file"] == row["rank"] % 3 for row in rows)
    for code, _, query, kept, values, variance in answers:
        row = found[3, code, query]
        assert (row["integers"], row["longs"], row["variance"]) == (kept, values, variance)
    assert {row["doubles_missing"] for row in rows} == {True}
    order = [tuple(row[name] for name in ("file", "rank", "kind", "name", "geocode")) for row in rows]
    assert all(one < other for one, other in pairwise(order))
    for partitions, files in ((2, 1), (3, 2)):
        others = together(spark, tables_of(geounits, answers, above, files), own, partitions)
        for file in range(3):
            expected, parts = (
                [{**row, "place": None} for row in several if row["file"] == file] for several in (rows, others)
            )
            assert parts == expected


def test_families_are_in_order_of_their_children_and_then_of_their_names():
    own = families(
        [f"{parent}{n}" for parent, number in {"03": 2, "02": 1, "01": 1, "04": 4}.items() for n in range(number)]
    )
    assert own.names.to_pylist() == ["04", "03", "01", "02"]
    assert own.children.tolist() == [4, 2, 1, 1]


@pytest.mark.parametrize(("count", "children", "files"), [(1, 100_000, 1), (5, 5, 5), (20, 20, 8), (100, 60_000, 15)])
def test_files_follow_from_families_and_children_alone(count, children, files):
    sizes = np.full(count, children // count)
    own = Families.of(FamilySpan(0, 3, at_top=False), pa.array([f"{n:03d}" for n in range(count)]), sizes)
    assert FamilySpread.of(own, 4) == FamilySpread(own, files, min(files, 4))
    assert FamilySpread.of(own, 1).files == files


def test_parents_know_how_many_children_their_families_have():
    above = stored([("02", "0", 3), ("01", "0", 3), ("04", "0", 0), ("03", "0", 7)], "geounits")
    own = Families.of_parents(above, FamilySpan(0, 2, at_top=False))
    assert (own.names.to_pylist(), own.children.tolist(), len(own)) == (["03", "01", "02"], [7, 3, 3], 3)


def test_geounits_of_the_top_are_families_by_themselves_or_by_what_has_a_total_together():
    spine = Spine((Geolevel("State", 3), Geolevel("County", 6)), total_key=(2, 2))
    top = stored([("102", "", 1), ("002", "", 2), ("001", "", 2)], "geounits")
    alone = Families.of_children(top, FamilySpan.of(spine, "State", grouped=False))
    assert (alone.names.to_pylist(), alone.children.tolist()) == (["001", "002", "102"], [1, 1, 1])
    grouped = Families.of_children(top, FamilySpan.of(spine, "State"))
    assert (grouped.names.to_pylist(), grouped.children.tolist()) == (["02", "01"], [2, 1])
    assert grouped.span.at_top
    assert FamilySpan.of(spine, "County") == FamilySpan(0, 3, at_top=False)


def test_the_family_below_a_root_is_the_root():
    span = FamilySpan.of(Spine((Geolevel("National", 0), Geolevel("State", 2))), "State")
    assert span.families(pa.array(["01", "02"])).to_pylist() == ["0", "0"]


@pytest.mark.spark
def test_a_row_of_no_family_is_refused_by_name(spark):
    tables = [FamilyTable(stored([("0101", "01", 0), ("0901", "09", 0)], "geounits"), 2)]
    with pytest.raises(PySparkException, match="geounit 0901 is none of the level"):
        together(spark, tables, families(["0101"]))


@pytest.mark.spark
def test_a_level_without_rows_is_an_empty_one(spark):
    assert together(spark, tables_of([], [], []), families([])) == []


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
    level = StoredLevel.of(tmp_path / "level")
    assert [file.name for file in level.files] == ["part-0.parquet", "part-1.parquet"]
    assert level.read("query", "values").equals(given.select(["query", "values"]))


@pytest.mark.spark
def test_what_is_known_of_parents_without_children_is_left_out(spark):
    """Measurements of others may stop in one state and go on in another one."""
    above = stored([("01", "0", 2), ("02", "0", 0)], "geounits")
    own = Families.of_parents(above, FamilySpan(0, 2, at_top=False))
    assert own.childless == {"02"}
    known = stored([(code, "0", [0], [1]) for code in ("01", "02")], "estimates")
    geounits = FamilyTable(stored([("0101", "01", 0), ("0102", "01", 0)], "geounits"), 2)
    rows = together(spark, [geounits, FamilyTable(known, 0, CELLS, of_parent=True)], own)
    assert [(row["kind"], row["geocode"]) for row in rows] == [(0, "01"), (2, "0101"), (2, "0102")]


def test_partitions_have_the_families_of_their_files():
    own = families([f"{n:02d}0" for n in range(11)])
    assert families_by_partition(FamilySpread(own, 4, 2)) == [6, 5]
    assert families_by_partition(FamilySpread(own, 4, 3)) == [5, 3, 3]
    assert families_by_partition(FamilySpread(own, 1, 1)) == [11]
