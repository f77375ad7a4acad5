"""The microdata files of 2020: numbered persons without units, and housing units with group quarters behind them."""

from dataclasses import replace
from importlib.metadata import version

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataframes import assert_rows
from pyspark.sql import functions as F

from das_spark.io.microdata_digest import microdata_parts
from das_spark.io.microdata_files import MicrodataWriting, records_of
from das_spark.products import PRODUCTS, microdata_codes
from das_spark.spark.checks import judge
from das_spark.spark.microdata import write_digest, write_microdata
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_microdata import MicrodataTables, microdata_rules, part_checks
from das_spark.store import PublicLayout, Staging, part_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PERSON, UNIT = PRODUCTS["pl94_2020_person"], PRODUCTS["pl94_2020_unit"]
BLOCKS = ("4400700010011001", "4400700020022001", "4500100030000007")
#: Codes of a cell -> how many, in each of the blocks.
PEOPLE = ({(0, 1, 0, 0): 2, (5, 1, 1, 62): 1}, {}, {(0, 0, 1, 8): 1})
HOUSING = ({(0,): 1, (1,): 2}, {}, {(1,): 1})
UNITS = ([3, 0, 0, 0, 0, 1, 0, 0], [0] * 8, [1, 0, 2, 0, 0, 0, 0, 1])
FORMATS = ("parquet", "text", "ppmf")


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
    def __init__(self, spark, path, product, counted, *, units=True, notices=(), form="parts"):
        self.form = form
        self.spark, self.product, self.layout = spark, product, PublicLayout(path)
        self.estimates, self.declared = frames(spark, product, counted)
        path.mkdir(exist_ok=True)
        staging = Staging(path / ".staging")
        writing = MicrodataWriting(product, self.layout, FORMATS, staging, "2030-01-01", notices, form)
        self.files = write_microdata(writing, self.estimates, self.declared if units else None)

    def parts(self, format):
        """Text of the parts, in order."""
        parts = sorted(self.layout.microdata(self.product.record, format).glob("part-*"))
        return [path.read_text() for path in parts]

    def lines(self):
        return "".join(self.parts("text")).splitlines()

    def checks(self):
        codes = microdata_codes(self.product)
        parts = microdata_parts(self.layout, FORMATS, units=codes.assigned, record=codes.record, form=self.form)
        digest = write_digest(self.spark, parts, codes, self.layout.path / "digest")
        if self.form != "single":
            assert digest.records(self.product.record, "text") == len(self.lines())
        made = MicrodataTables(digest.persons, None, digest.parts, digest.faults, FORMATS, digest.weights)
        tables = RunTables(("Block",), self.estimates, self.estimates, self.declared)
        checks = judge(microdata_rules(made, tables)) + part_checks(made)
        return {(check.name, check.note): (check.passed, check.failing) for check in checks}


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
    assert records_of(persons.files) == {"person.parquet": 4, "person.text": 4, "person.ppmf": 4}
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
    assert records_of(housing.files) == {"unit.parquet": 8, "unit.text": 8, "unit.ppmf": 8}


def test_where_no_units_are_known_no_group_quarters_are_listed(spark, tmp_path):
    written = Written(spark, tmp_path / "units", UNIT, HOUSING, units=False)
    assert [line[-3:] for line in written.lines()] == ["2|2", "2|1", "2|1", "2|1"]


def test_every_part_of_the_public_copy_is_a_csv_file_with_the_columns_of_2021(persons):
    parts = [part.splitlines() for part in persons.parts("ppmf")]
    names = "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,RTYPE,GQTYPE_PL,VOTING_AGE,CENHISP,CENRACE"
    assert {part[0] for part in parts} == {names}
    vintage = f"pl94_2020_person_das_spark-{version('das_spark')}"
    assert [line for part in parts for line in part[1:]] == [
        f"{vintage},44,007,000100,1,1001,3,0,2,1,01",
        f"{vintage},44,007,000100,1,1001,3,0,2,1,01",
        f"{vintage},44,007,000100,1,1001,5,5,2,2,63",
        f"{vintage},45,001,000300,0,0007,3,0,1,2,09",
    ]
    for path in part_files(persons.layout.microdata("person", "ppmf")):
        assert path.suffix == ".csv"


def test_the_public_copy_of_units_is_like_that_of_persons(housing):
    parts = [part.splitlines() for part in housing.parts("ppmf")]
    assert {part[0] for part in parts} == {"VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,RTYPE,HH_STATUS"}
    records = [line.split(",", 1)[1] for part in parts for line in part[1:]]
    assert records == [line.split("|", 2)[2].replace("|", ",") for line in housing.lines()]


def test_metadata_and_notices_stand_beside_the_public_copy_and_not_inside(spark, tmp_path):
    written = Written(spark, tmp_path / "units", UNIT, HOUSING, notices=("INSECURE: made with a test key",))
    folder = written.layout.microdata("unit", "ppmf")
    metadata = (folder / "metadata").read_text().splitlines()
    assert metadata[0] == UNIT.ppmf.comment
    assert "# INSECURE: made with a test key" in metadata
    assert metadata[-1] == "# Records: 8"
    assert not (folder / "1_header").exists()
    assert "#" not in "".join(written.parts("ppmf"))


def test_the_public_copy_has_the_same_bytes_whenever_it_is_made(spark, tmp_path, persons):
    again = Written(spark, tmp_path / "again", PERSON, PEOPLE)
    assert again.parts("ppmf") == persons.parts("ppmf")


def test_a_part_without_records_has_names_alone_and_is_verified(spark, tmp_path):
    written = Written(spark, tmp_path / "nobody", PERSON, ({}, {}, {}))
    assert {len(part.splitlines()) for part in written.parts("ppmf")} == {1}
    assert all(passed for passed, _ in written.checks().values())


def test_text_files_have_their_column_names_in_a_header(persons, housing):
    for written in (persons, housing):
        folder = written.layout.microdata(written.product.record, "text")
        columns = written.product.microdata.columns(written.product.record)
        assert (folder / "1_header").read_text() == "|".join(column.name for column in columns) + "\n"
        assert (folder / "0_metadata").read_text().startswith("# In the layout of")
        assert not (written.layout.microdata(written.product.record, "parquet") / "1_header").exists()


def test_all_formats_say_the_same_and_are_read_back(persons, housing, spark):
    for written in (persons, housing):
        table = pq.read_table(written.layout.microdata(written.product.record, "parquet")).to_pandas().astype(str)
        names = [column.name for column in written.product.microdata.columns(written.product.record)]
        text = [dict(zip(names, line.split("|"), strict=True)) for line in written.lines()]
        assert table.to_dict("records") == [{name: row[name] for name in table.columns} for row in text]
        parts = spark.read.option("pathGlobFilter", "part-*").option("sep", "|")
        read = parts.csv(str(written.layout.microdata(written.product.record, "text")))
        assert (read.count(), len(read.columns)) == (len(text), len(names))
        copy = spark.read.csv(str(written.layout.microdata(written.product.record, "ppmf")), header=True, comment="#")
        filler = copy.first()
        expected = [[row.get(name, filler[name]) for name in copy.columns] for row in text]
        assert_rows(copy.orderBy(F.input_file_name(), F.monotonically_increasing_id()), expected, ordered=True)


def test_what_was_written_is_verified(persons, housing):
    for written, numbered in ((persons, ("parquet", "text")), (housing, ())):
        checks = written.checks()
        assert set(checks) == {
            *(("microdata equal estimates", f"{format} files") for format in FORMATS),
            *(("columns of microdata", f"{format} files") for format in FORMATS),
            *(("order of records", f"{format} files") for format in FORMATS),
            *(("record numbers", f"{format} files") for format in numbered),
        }
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
    assert checks["microdata equal estimates", "ppmf files"][0]
    assert not checks["microdata equal estimates", "text files"][0]


def test_a_fault_of_the_public_copy_is_found_in_it_alone(persons):
    path = part_files(persons.layout.microdata("person", "ppmf"))[0]
    good = path.read_text()
    first, second = good.splitlines()[:2]
    broken = {
        "race": good.replace(",01\n", ",02\n", 1),
        "block": good.replace(",1001,", ",1002,", 1),
        "lost": good.replace(f"{second}\n", "", 1),
        "names": good.replace(first, first.replace("VOTING_AGE,CENHISP", "CENHISP,VOTING_AGE")),
        "no names": good.removeprefix(f"{first}\n"),
        "cut": good[: len(first) // 2],
    }
    for case, text in broken.items():
        path.write_text(text)
        failing = {note for (_, note), (passed, _) in persons.checks().items() if not passed}
        assert failing == {"ppmf files"}, case


def joined(folder):
    """What `cat` makes of a folder of parts that concatenate."""
    names = sorted(path.name for path in folder.iterdir() if path.name[:2] in ("0_", "1_", "pa"))
    return "".join((folder / name).read_text() for name in names)


LABELS = ("Created", "Records", "Command line", "uid", "username", "Boot Time", "Start Time", "Git Repo Info")


def test_parts_that_concatenate_and_one_file_are_the_file_of_the_release(spark, tmp_path, persons):
    parts = Written(spark, tmp_path / "parts", PERSON, PEOPLE, notices=("INSECURE",), form="concatenate")
    one = Written(spark, tmp_path / "one", PERSON, PEOPLE, notices=("INSECURE",), form="single")
    folder = one.layout.microdata("person", "text")
    assert sorted(path.name for path in folder.iterdir()) == ["MDF_PER.txt", "_SUCCESS"]
    text = (folder / "MDF_PER.txt").read_text()
    assert joined(parts.layout.microdata("person", "text")) == text
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[: len(comments)] == comments, "metadata first"
    assert comments[:2] == [PERSON.microdata.comment, "# INSECURE"]
    assert tuple(line[2:].partition(":")[0] for line in comments[2 : 2 + len(LABELS)]) == LABELS
    assert "# Records: 4" in comments
    assert {line for line in comments if "username" in line or "host" in line} == {
        "# username: withheld",
        "# host: withheld",
    }
    names = "|".join(column.name for column in PERSON.microdata.person)
    assert lines[len(comments) :] == [names, *persons.lines()]
    assert [(file.kind, file.format, file.rows) for file in one.files] == [("person", format, 4) for format in FORMATS]
    assert one.files[1].files[0].name == "MDF_PER.txt"


def test_one_file_of_the_public_copy_is_read_without_options(spark, tmp_path, persons):
    parts = Written(spark, tmp_path / "parts", PERSON, PEOPLE, form="concatenate")
    one = Written(spark, tmp_path / "one", PERSON, PEOPLE, form="single")
    folder, beside = (each.layout.microdata("person", "ppmf") for each in (one, parts))
    assert joined(beside) == (folder / "ppmf_P.csv").read_text()
    assert "# Records: 4" in (folder / "metadata").read_text().splitlines()
    assert (folder / "metadata").read_text() == (beside / "metadata").read_text()
    read = pd.read_csv(folder / "ppmf_P.csv", dtype=str)
    assert list(read.columns) == [column.name for column in PERSON.ppmf.person]
    records = [line for part in persons.parts("ppmf") for line in part.splitlines()[1:]]
    assert [",".join(row) for row in read.to_numpy()] == records


@pytest.mark.parametrize("form", ["concatenate", "single"])
def test_each_form_is_verified_and_its_faults_are_found(spark, tmp_path, form):
    written = Written(spark, tmp_path / form, UNIT, HOUSING, form=form)
    checks = written.checks()
    assert all(passed for passed, _ in checks.values()), checks
    for format, sign in (("text", "|"), ("ppmf", ",")):
        folder = written.layout.microdata("unit", format)
        if form == "single":
            records = written.layout.microdata_single("unit", format)
            head = records
        else:
            records = next(path for path in part_files(folder) if "1001" in path.read_text())
            head = None  # names and metadata lie beside, and are compared with the manifest
        first = f"44{sign}007{sign}000100{sign}1{sign}1001{sign}2{sign}"
        broken = {
            "lost": (
                records,
                lambda text, first=first: text.replace(
                    next(x for x in text.splitlines(keepends=True) if first in x), "", 1
                ),
            ),
            "status": (records, lambda text, first=first: text.replace(f"{first}2", f"{first}0", 1)),
        }
        if head is not None:
            names = (f"RTYPE{sign}HH_STATUS", f"HH_STATUS{sign}RTYPE")
            broken["names"] = (head, lambda text, names=names: text.replace(*names))
            lines = (lambda text: "".join(x for x in text.splitlines(keepends=True) if "HH_STATUS" not in x),)
            broken["no names"] = (head, *lines)
        for case, (path, change) in broken.items():
            good = path.read_text()
            assert change(good) != good, case
            path.write_text(change(good))
            failing = {note for (_, note), (passed, _) in written.checks().items() if not passed}
            assert failing == {f"{format} files"}, case
            path.write_text(good)


@pytest.mark.parametrize(("product", "counted"), [(PERSON, PEOPLE), (UNIT, HOUSING)], ids=["person", "unit"])
def test_one_slice_without_spark_has_the_bytes_that_spark_writes(spark, tmp_path, product, counted):
    """All geounits have one parent here, so that Spark cuts them into one slice as well."""
    estimates, declared = frames(spark, product, counted)
    estimates = estimates.withColumn("parent", F.lit("44"))
    rows = estimates.orderBy("geocode").toArrow()
    units = pa.array([[*unit, 0] for unit in UNITS], pa.list_(pa.int64()))
    columns = {name: rows.column(name).combine_chunks() for name in ("geocode", "cells", "counts")}
    leaves = pa.RecordBatch.from_pydict({**columns, "units": units})
    by_spark, alone = PublicLayout(tmp_path / "spark"), PublicLayout(tmp_path / "alone")
    for layout in (by_spark, alone):
        layout.path.mkdir()
    writing = MicrodataWriting(product, by_spark, FORMATS, Staging(tmp_path / "a"), "2030-01-01")
    write_microdata(writing, estimates, declared)
    replace(writing, layout=alone, staging=Staging(tmp_path / "b")).write_one_slice(leaves)
    files = [
        {str(path.relative_to(each.path)): path for path in each.path.rglob("*") if path.is_file()}
        for each in (by_spark, alone)
    ]
    assert files[0].keys() == files[1].keys()
    assert all(path.read_bytes() == files[1][name].read_bytes() for name, path in files[0].items())
