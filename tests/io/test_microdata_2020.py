"""The microdata files of 2020: numbered persons without units, and housing units with group quarters behind them."""

import pyarrow.parquet as pq
import pytest

from das_spark.io.files import part_files
from das_spark.io.layout import PublicLayout
from das_spark.io.microdata_digest import microdata_parts, write_digest
from das_spark.io.microdata_files import records_of, write_microdata
from das_spark.products import PRODUCTS, microdata_codes
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_microdata import MicrodataTables, verify_microdata

pytestmark = pytest.mark.spark
PERSON, UNIT = PRODUCTS["pl94_2020_person"], PRODUCTS["pl94_2020_unit"]
BLOCKS = ("4400700010011001", "4400700020022001", "4500100030000007")
#: Codes of a cell -> how many, in each of the blocks.
PEOPLE = ({(0, 1, 0, 0): 2, (5, 1, 1, 62): 1}, {}, {(0, 0, 1, 8): 1})
HOUSING = ({(0,): 1, (1,): 2}, {}, {(1,): 1})
UNITS = ([3, 0, 0, 0, 0, 1, 0, 0], [0] * 8, [1, 0, 2, 0, 0, 0, 0, 1])
FLAVOURS = ("parquet", "text")


def frames(spark, product, counted):
    rows, declared = [], []
    for block, cells, units in zip(BLOCKS, counted, UNITS, strict=True):
        flat = sorted((int(product.schema.ravel([code])[0]), count) for code, count in cells.items())
        rows.append(("Block", block, block[:12], [cell for cell, _ in flat], [count for _, count in flat]))
        declared += [
            ("Block", block, block[:12], "units", units),
            ("Block", block, block[:12], "total", [sum(cells.values())]),
        ]
    keys = "level string, geocode string, parent string"
    return (
        spark.createDataFrame(rows, f"{keys}, cells array<int>, counts array<long>"),
        spark.createDataFrame(declared, f"{keys}, name string, values array<long>"),
    )


class Written:
    def __init__(self, spark, path, product, counted, *, units=True):
        self.spark, self.product, self.layout = spark, product, PublicLayout(path)
        self.estimates, self.declared = frames(spark, product, counted)
        path.mkdir(exist_ok=True)
        given = self.declared if units else None
        self.files = write_microdata(self.estimates, given, product, self.layout, FLAVOURS, created="2030-01-01")

    def lines(self):
        parts = sorted(self.layout.microdata(self.product.record, "text").glob("part-*"))
        return "".join(path.read_text() for path in parts).splitlines()

    def checks(self):
        codes = microdata_codes(self.product)
        parts = microdata_parts(self.layout, FLAVOURS, units=codes.dealt, record=codes.record)
        digest = write_digest(self.spark, parts, codes, self.layout.path / "digest")
        assert digest.records(self.product.record, "text") == len(self.lines())
        made = MicrodataTables(digest.persons, None, digest.parts, digest.faults, FLAVOURS, codes)
        tables = RunTables(("Block",), self.estimates, self.estimates, self.declared)
        return {(check.name, check.note): (check.passed, check.failing) for check in verify_microdata(made, tables)}


@pytest.fixture
def persons(spark, tmp_path):
    return Written(spark, tmp_path / "persons", PERSON, PEOPLE)


@pytest.fixture
def housing(spark, tmp_path):
    return Written(spark, tmp_path / "units", UNIT, HOUSING)


def test_persons_are_numbered_over_the_whole_file_and_no_unit_file_is_written(persons):
    assert persons.lines() == [
        "MPD|1.1.0|44|007|000100|1|1001|0|3|0|2|1|01",
        "MPD|1.1.0|44|007|000100|1|1001|1|3|0|2|1|01",
        "MPD|1.1.0|44|007|000100|1|1001|2|5|5|2|2|63",
        "MPD|1.1.0|45|001|000300|0|0007|3|3|0|1|2|09",
    ]
    assert records_of(persons.files) == {"person.parquet": 4, "person.text": 4}
    assert not persons.layout.microdata("unit", "text").exists()


def test_group_quarters_are_listed_behind_the_housing_units_of_their_block(housing):
    assert housing.lines() == [
        "MUD|1.1.0|44|007|000100|1|1001|2|2",
        "MUD|1.1.0|44|007|000100|1|1001|2|1",
        "MUD|1.1.0|44|007|000100|1|1001|2|1",
        "MUD|1.1.0|44|007|000100|1|1001|4|0",
        "MUD|1.1.0|45|001|000300|0|0007|2|1",
        *["MUD|1.1.0|45|001|000300|0|0007|4|0"] * 3,
    ]
    assert records_of(housing.files) == {"unit.parquet": 8, "unit.text": 8}


def test_where_no_units_are_known_no_group_quarters_are_listed(spark, tmp_path):
    written = Written(spark, tmp_path / "units", UNIT, HOUSING, units=False)
    assert [line[-3:] for line in written.lines()] == ["2|2", "2|1", "2|1", "2|1"]


def test_text_files_have_their_column_names_in_a_header(persons, housing):
    for written in (persons, housing):
        folder = written.layout.microdata(written.product.record, "text")
        columns = written.product.microdata.columns(written.product.record)
        assert (folder / "header").read_text() == "|".join(column.name for column in columns) + "\n"
        assert (folder / "metadata").read_text().startswith("# In the layout of")
        assert not (written.layout.microdata(written.product.record, "parquet") / "header").exists()


def test_both_flavours_say_the_same_and_are_read_back(persons, housing, spark):
    for written in (persons, housing):
        table = pq.read_table(written.layout.microdata(written.product.record, "parquet")).to_pandas().astype(str)
        names = [column.name for column in written.product.microdata.columns(written.product.record)]
        text = [dict(zip(names, line.split("|"), strict=True)) for line in written.lines()]
        assert table.to_dict("records") == [{name: row[name] for name in table.columns} for row in text]
        parts = spark.read.option("pathGlobFilter", "part-*").option("sep", "|")
        read = parts.csv(str(written.layout.microdata(written.product.record, "text")))
        assert (read.count(), len(read.columns)) == (len(text), len(names))


def test_what_was_written_is_verified(persons, housing):
    for written in (persons, housing):
        checks = written.checks()
        assert set(checks) == {("microdata equal estimates", f"{flavour} files") for flavour in FLAVOURS}
        assert all(passed for passed, _ in checks.values())


@pytest.mark.parametrize(("old", "new"), [("4|0", None), ("2|2", "2|1"), ("4|0", "4|1")])
def test_a_lost_facility_and_a_changed_status_are_found(housing, old, new):
    (path, *_) = [path for path in part_files(housing.layout.microdata("unit", "text")) if "4|0" in path.read_text()]
    lines = path.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.endswith(old))
    lines[place : place + 1] = [] if new is None else [lines[place].removesuffix(old) + new]
    path.write_text("".join(f"{line}\n" for line in lines))
    checks = housing.checks()
    assert checks["microdata equal estimates", "parquet files"][0]
    assert not checks["microdata equal estimates", "text files"][0]
