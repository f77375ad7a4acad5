"""Tables of medians as files: made by the job that makes all tables, verified from the estimates, each fault named."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from verified_run import BLOCKS, COUNTY, LENGTHS, LEVELS, TRACTS, SmallRun, estimates, frame

from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.io.table_files import write_csv
from das_spark.spark.checks import judge
from das_spark.spark.published_rows import MISSING, tenths_of
from das_spark.spark.tabulate import (
    arrow_schema,
    published_tables,
    table_schema,
    tabulated,
    write_tables,
)
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_tables import header_checks, table_rules
from das_spark.store import TablesLayout, part_files
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.tabulation import Line, MedianTable, Table, median_tenths
from das_spark.tabulation.table import TRACT
from das_spark.verification import MEDIANS_EQUAL
from das_spark.verification.medians import _tenths

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = Schema("people", (Attribute("sex", ("Male", "Female")), Attribute("age", tuple(map(str, range(116))))))
CENSUS = Spine(tuple(Geolevel(level, LENGTHS[level][0]) for level in LEVELS))
LINES = (Line(0, "Total", {}), Line(1, "Male", {"sex": (0,)}), Line(1, "Female", {"sex": (1,)}))


def counted(name: str, prefix: str, lowest: Geolevel | None = None) -> Table:
    return Table.of(
        name=name, title="Age by sex", universe="People", schema=SCHEMA, prefix=prefix, lines=LINES, lowest=lowest
    )


P1, P13 = counted("P1", "P001"), MedianTable.of(counted("P13", "P013"), "age")
PCT1 = MedianTable.of(counted("PCT1", "PCT001", TRACT), "age")
TABLES = (P1, P13, PCT1)
FORMATS = ("parquet", "csv")
#: Sex and age -> people.
PEOPLE = {
    BLOCKS[0]: {(0, 30): 1, (0, 31): 3, (1, 115): 2},
    BLOCKS[1]: {},
    BLOCKS[2]: {(1, 20): 2, (1, 40): 2},
}
#: Of the block groups: all six (31.667), men (31.333), women (115 or over); nobody; women alone (half are 20).
MEDIANS = {BLOCKS[0]: [31.7, 31.3, 115.1], BLOCKS[1]: [None] * 3, BLOCKS[2]: [21.0, None, 21.0]}


def summed(level: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for block, people in PEOPLE.items():
        own = found.setdefault(block[: LENGTHS[level][0]], {})
        for (sex, age), count in people.items():
            own[116 * sex + age] = own.get(116 * sex + age, 0) + count
    return found


@pytest.fixture(scope="module")
def run(spark) -> SmallRun:
    every = estimates(spark, "County", summed("County"))
    for level in LEVELS[1:]:
        every = every.unionByName(estimates(spark, level, summed(level)))
    kinds = {name: pa.string() for name in ("level", "geocode", "parent")} | {"children": pa.int64()}
    geounits = frame(spark, [(level, code, "", 0) for level in LEVELS for code in summed(level)], kinds)
    return SmallRun(spark, RunTables(LEVELS, geounits, every.persist(), None, None))


@pytest.fixture(scope="module")
def written(run, tmp_path_factory) -> TablesLayout:
    """All tables in Parquet, by one job, and in CSV."""
    layout = TablesLayout(tmp_path_factory.mktemp("medians"))
    folders = {t.name: TableFolder(layout.table(t.name, "parquet").absolute(), arrow_schema(t)) for t in TABLES}
    files = write_tables(run.tables.estimates, TABLES, CENSUS, ParquetTables(folders))
    assert files.keys() == {"P1", "P13", "PCT1"}
    for table in TABLES:
        for level in table.levels(CENSUS):
            parts = part_files(layout.level(table.name, "parquet", level))
            write_csv(parts, layout.level(table.name, "csv", level), arrow_schema(table).names)
    return layout


@pytest.fixture
def copied(written, tmp_path) -> TablesLayout:
    shutil.copytree(written.path, tmp_path / "tables")
    return TablesLayout(tmp_path / "tables")


def parquet_rows(layout: TablesLayout, name: str, level: str) -> dict[str, list]:
    (path,) = part_files(layout.level(name, "parquet", level))
    return {row.pop("geocode"): list(row.values()) for row in pq.ParquetFile(path).read().to_pylist()}


def checks_of(layout: TablesLayout, run: SmallRun, tables=(P13, PCT1)):
    return judge(table_rules(published_tables(layout, tables, FORMATS, CENSUS), run.tables))


def verified(layout: TablesLayout, run: SmallRun) -> dict[tuple[str, str], tuple[str, ...]]:
    """Level and format of every check that fails -> what fails."""
    return {(c.geolevel, c.note): c.failing for c in checks_of(layout, run) if not c.passed}


def csv_of(layout: TablesLayout, name: str, level: str):
    return layout.level(name, "csv", level) / "part-00000.csv"


def test_medians_are_numbers_with_tenths_and_missing_for_nobody(written):
    assert parquet_rows(written, "P13", "Block") == MEDIANS
    assert csv_of(written, "P13", "Block").read_text().splitlines() == [
        "geocode,P0130001,P0130002,P0130003",
        f"{BLOCKS[0]},31.7,31.3,115.1",
        f"{BLOCKS[1]},,,",
        f"{BLOCKS[2]},21,,21",
    ]
    # A median of all is none of medians: 20, 20, 30, 31, 31, 31, 40, 40, and two of 115 or more.
    assert parquet_rows(written, "P13", "County") == {COUNTY: [31.7, 31.3, 40.5]}
    assert parquet_rows(written, "PCT1", "Tract") == parquet_rows(written, "P13", "Tract")
    assert not written.level("PCT1", "parquet", "Block").exists()
    assert parquet_rows(written, "P1", "Block") == {BLOCKS[0]: [6, 4, 2], BLOCKS[1]: [0, 0, 0], BLOCKS[2]: [4, 0, 4]}


def test_a_frame_of_sums_and_medians_has_a_type_for_each(run):
    found = tabulated(run.tables.estimates, TABLES[:2], "level")
    assert found.schema == table_schema(TABLES[:2], "level")
    assert {field.name: (field.dataType.simpleString(), field.nullable) for field in found.schema}["P0130002"] == (
        "double",
        True,
    )
    rows = {row["geocode"]: list(row)[5:] for row in found.where("level = 'Block'").collect()}
    assert rows == MEDIANS


def test_medians_that_are_those_of_the_estimates_pass_in_every_format_and_level(written, run):
    checks = checks_of(written, run)
    assert {(c.name, c.geolevel, c.note): c.checked for c in checks} == {
        (MEDIANS_EQUAL, level, f"{format} files"): 3 * (rows + (0 if level == "Block" else rows))
        for level, rows in zip(LEVELS, (1, 2, 3), strict=True)
        for format in FORMATS
    }
    assert [check for check in checks if not check.passed] == []
    alone = judge(table_rules(published_tables(written, [PCT1], ["csv"], CENSUS), run.tables))
    assert {(c.geolevel, c.note): c.passed for c in alone} == {("County", ""): True, ("Tract", ""): True}
    assert all(c.passed for c in judge(table_rules(published_tables(written, [P1], FORMATS, CENSUS), run.tables)))


@pytest.mark.parametrize("wrong", ["31.6", "31.65", "", "0", "-1", "nan", "many", "31.7000001"])
def test_another_value_in_a_csv_is_found(copied, run, wrong):
    path = csv_of(copied, "P13", "Block")
    path.write_text(path.read_text().replace("31.7", wrong, 1))
    assert verified(copied, run) == {("Block", "csv files"): (f"{BLOCKS[0]} P0130001",)}


def test_a_median_of_nobody_is_found(copied, run):
    path = csv_of(copied, "P13", "Block")
    path.write_text(path.read_text().replace(f"{BLOCKS[1]},,,", f"{BLOCKS[1]},,35.5,", 1))
    assert verified(copied, run) == {("Block", "csv files"): (f"{BLOCKS[1]} P0130002",)}


def test_rows_that_are_missing_twice_there_or_of_nowhere_are_found(copied, run):
    path = csv_of(copied, "PCT1", "Tract")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    assert f"{TRACTS[1]} PCT1 (row)" in verified(copied, run)["Tract", "csv files"]
    path.write_text("".join([*lines, lines[-1]]))
    assert f"{TRACTS[1]} PCT1 (row)" in verified(copied, run)["Tract", "csv files"]
    path.write_text("".join([*lines, "44007000300,,,\n"]))
    assert verified(copied, run) == {("Tract", "csv files"): ("44007000300 PCT1 (row)",)}


def test_another_value_or_none_in_a_parquet_file_is_found(copied, run):
    (path,) = part_files(copied.level("P13", "parquet", "County"))
    rows = pq.ParquetFile(path).read()
    for value in (41.1, None):
        changed = rows.set_column(3, rows.schema.field(3), pa.array([value], pa.float64()))
        pq.write_table(changed, path)
        assert verified(copied, run) == {("County", "parquet files"): (f"{COUNTY} P0130003",)}
    pq.write_table(rows.drop_columns(["P0130003"]), path)
    assert verified(copied, run) == {("County", "parquet files"): (f"{COUNTY} P0130003",)}


def test_an_estimate_that_the_medians_do_not_follow_is_found_in_all_formats(written, run):
    other = run.with_blocks({})
    moved = estimates(run.spark, "Block", summed("Block") | {BLOCKS[1]: {50: 1}})
    changed = replace(run, tables=replace(other, estimates=run.without_blocks().unionByName(moved)))
    wanted = (f"{BLOCKS[1]} P0130001", f"{BLOCKS[1]} P0130002")
    assert verified(written, changed) == {("Block", f"{format} files"): wanted for format in FORMATS}


def test_columns_that_are_called_otherwise_are_named_by_their_table(copied):
    path = csv_of(copied, "P13", "Tract")
    path.write_text(path.read_text().replace("P0130002,P0130003", "P0130003,P0130002", 1))
    checks = header_checks(published_tables(copied, (P13, PCT1), FORMATS, CENSUS), LEVELS)
    assert {c.geolevel: (c.checked, c.failing) for c in checks} == {
        "County": (2, ()),
        "Tract": (2, ("P13",)),
        "Block": (1, ()),
    }


def test_numbers_are_read_as_tenths_or_as_none():
    texts = pa.array(["", "31.7", "21", "115.10", "0", "0.05", "-3", "1e400", "nan", "x", None])
    wanted = [0, 317, 210, 1151, *[MISSING] * 6, 0]
    assert tenths_of(pa.record_batch({"a": texts}), "a").tolist() == wanted
    numbers = pa.array([31.7, None, 0.0, float("nan"), 115.1, 31.71])
    assert tenths_of(pa.record_batch({"a": numbers}), "a").tolist() == [317, 0, MISSING, MISSING, 1151, MISSING]
    assert tenths_of(pa.record_batch({"a": numbers}), "b").tolist() == [MISSING] * 6


def test_medians_are_made_again_by_another_way_to_the_same_tenth():
    numbers = np.random.default_rng(116)
    people = numbers.integers(0, 4, (500, 9)) * (numbers.random((500, 9)) < 0.4)
    row, level = np.nonzero(people)
    order = numbers.permutation(len(row))  # cells of a geounit stand in any order
    again = _tenths(row[order], level[order], people[row, level][order], 9, 500)
    assert (again == median_tenths(people)).all()
    assert (again == 0).any()
    assert (again == 81).any()
