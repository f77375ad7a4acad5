"""Files of published tables: one CSV of many Parquet parts, row counts without reading values, and what a table is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.io import table_files
from das_spark.io.dictionary import tables_dictionary
from das_spark.io.table_files import ABOUT, BROKEN, csv_header, read_table_file, rows_of, typed, write_about, write_csv
from das_spark.products import PRODUCTS
from das_spark.store import PublicLayout, TablesLayout

COLUMNS = ("geocode", "P0010001", "P0010002")
TABLE = PRODUCTS["e2e_2018"].tables[4]


def parts(folder, *tables):
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, rows in enumerate(tables):
        path = folder / f"part-{number:05d}.parquet"
        columns = {name: pa.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(KINDS)}
        pq.write_table(pa.table(columns), path)
        found.append(path)
    return found


# Files may hold their columns in another order, and more of them.
KINDS = (("P0010002", pa.int64()), ("geocode", pa.string()), ("P0010001", pa.int64()), ("other", pa.int64()))


def test_parts_follow_each_other_in_one_file_under_one_header(tmp_path):
    files = parts(tmp_path / "in", [(1, "01", 2, 9), (0, "02", 2**62 + 1, 9)], [], [(3, "10", 4, 9)])
    write_csv(files, tmp_path / "out" / "level=County", COLUMNS)
    text = (tmp_path / "out" / "level=County" / "part-00000.csv").read_text()
    assert text == f"geocode,P0010001,P0010002\n01,2,1\n02,{2**62 + 1},0\n10,4,3\n"


def test_rows_are_written_in_batches_that_fit_the_memory(tmp_path, monkeypatch):
    rows = [(number, f"{number:03d}", number, 0) for number in range(50)]
    write_csv(parts(tmp_path / "in", rows), tmp_path / "whole", COLUMNS)
    monkeypatch.setattr(table_files, "_ROWS", 7)
    write_csv(parts(tmp_path / "in", rows), tmp_path / "parts", COLUMNS)
    assert (tmp_path / "whole" / "part-00000.csv").read_bytes() == (tmp_path / "parts" / "part-00000.csv").read_bytes()


def test_rows_are_counted_by_footers_and_lines(tmp_path, monkeypatch):
    files = parts(tmp_path / "in", [(1, "01", 2, 9)] * 3, [(1, "02", 2, 9)] * 2)
    assert rows_of(tmp_path / "in", "parquet") == 5
    write_csv(files, tmp_path / "out", COLUMNS)
    monkeypatch.setattr(table_files, "_BYTES", 5)
    assert rows_of(tmp_path / "out", "csv") == 5
    path = tmp_path / "out" / "part-00000.csv"
    path.write_text(path.read_text().rstrip("\n"))
    assert rows_of(tmp_path / "out", "csv") == 5
    path.write_text("")
    assert rows_of(tmp_path / "out", "csv") == 0


READ = pa.schema([("geocode", pa.string()), ("P0010001", pa.int64()), ("P0010001_se", pa.float64())])


def read(path, format):
    return [row for batch in read_table_file(path, format, READ) for row in batch.to_pylist()]


def test_rows_are_read_by_name_from_parquet_and_in_order_from_csv(tmp_path):
    table = pa.table({"more": [1], "P0010001_se": [0.1], "geocode": ["01"], "P0010001": [2**62 + 1]})
    pq.write_table(table, tmp_path / "part-00000.parquet")
    write_csv([tmp_path / "part-00000.parquet"], tmp_path / "out", READ.names)
    row = {"geocode": "01", "P0010001": 2**62 + 1, "P0010001_se": 0.1}
    assert read(tmp_path / "part-00000.parquet", "parquet") == [row]
    assert read(tmp_path / "out" / "part-00000.csv", "csv") == [row]


def test_what_is_no_value_is_null_and_its_neighbours_stay(tmp_path):
    pq.write_table(pa.table({"geocode": ["01", "02"], "P0010001": [1.5, 2.0]}), tmp_path / "part-00000.parquet")
    assert [tuple(row.values()) for row in read(tmp_path / "part-00000.parquet", "parquet")] == [
        ("01", None, None),
        ("02", 2, None),
    ]
    lines = ["01,1,0.5", "02,x,1e400", "03,1.5,", "04, 4,y", "05,99999999999999999999,2"]
    lines += ["06,9999999999999999999,+1", "07,0x10,0x10", "08,-1,1e-07", "09,1_0,1_0", "10,8999999999999999999,nan"]
    (tmp_path / "a.csv").write_text("\n".join(["geocode,P0010001,P0010001_se", *lines, ""]))
    found = [tuple(row.values()) for row in read(tmp_path / "a.csv", "csv")]
    assert found == [
        ("01", 1, 0.5),
        ("02", None, float("inf")),
        ("03", None, None),
        ("04", None, None),
        ("05", None, 2.0),
        ("06", None, None),
        ("07", None, None),
        ("08", -1, 1e-07),
        ("09", None, None),
        ("10", 8999999999999999999, None),
    ]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_of_every_type_are_read_alike(kind):
    values = pa.array(["5", "0x5", "x", None, "-7"]).cast(kind)
    assert typed(values, pa.int64()).to_pylist() == [5, None, None, None, -7]
    assert typed(pa.array([b"\xff"]), pa.int64()).to_pylist() == [None]


def test_numbers_of_other_types_are_read_where_they_are_exact():
    most = 2**64 - 1
    assert typed(pa.array([5, most], pa.uint64()), pa.int64()).to_pylist() == [5, None]
    assert typed(pa.array([5.0, 0.5, float("nan"), float("inf"), -3.0]), pa.int64()).to_pylist() == [
        5,
        None,
        None,
        None,
        -3,
    ]
    assert typed(pa.array([2**53 + 1, 3]), pa.float64()).to_pylist() == [None, 3.0]
    assert typed(pa.array([True]), pa.int64()).to_pylist() == [None]
    assert typed(pa.array([[1]]), pa.int64()).to_pylist() == [None]


@pytest.mark.parametrize("record", ["02,1", "02,1,2,3", '"02"x,1,2', "02,1,2\0", '02,1,"2'])
def test_a_record_that_is_none_is_of_no_geounit(tmp_path, record):
    (tmp_path / "a.csv").write_text(f"geocode,P0010001,P0010001_se\n01,1,2\n{record}\n")
    assert [row["geocode"] for row in read(tmp_path / "a.csv", "csv")] == ["01", BROKEN]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_folder_that_is_not_there_has_no_rows_and_no_header(tmp_path, format):
    assert rows_of(tmp_path / "nowhere", format) == 0
    assert csv_header(tmp_path / "nowhere") == ()


def test_a_header_is_read_from_the_first_line_alone(tmp_path):
    write_csv(parts(tmp_path / "in", [(1, "01", 2, 9)]), tmp_path, COLUMNS)
    assert csv_header(tmp_path) == COLUMNS


def test_what_a_table_is_stands_in_its_folder_with_its_lines_indented(tmp_path):
    write_about(tmp_path / "P5.csv", TABLE, ["INSECURE: made under a test key", "Run: first"])
    lines = (tmp_path / "P5.csv" / ABOUT).read_text().splitlines()
    assert lines[:4] == [
        "P5. Group quarters population by major group quarters type",
        "Universe: Population in group quarters",
        "INSECURE: made under a test key",
        "Run: first",
    ]
    assert lines[6:9] == [
        "P0050001  Total",
        "P0050002    Institutionalized population",
        "P0050003      Correctional facilities for adults",
    ]
    assert len(lines) == 6 + len(TABLE.columns)


def test_medians_say_what_they_are_beside_the_files_and_in_the_dictionary(tmp_path):
    product = PRODUCTS["dhc_2020_person"]
    write_about(tmp_path, product.medians[1], ["Run: first"])
    lines = (tmp_path / ABOUT).read_text().splitlines()
    assert lines[:2] == ["P13A. Median age by sex (White alone)", "Universe: Total population: White alone"]
    assert lines[2].startswith("Medians of age among those that a line counts, to a tenth")
    assert "115.1 is a median of 115 or more" in lines[2]
    assert "Medians do not sum, and have no intervals." in lines[2]
    assert lines[3:] == [
        "Run: first",
        "",
        "geocode: digits of the geounit; text, because it may begin with 0",
        "P013A001  Total",
        "P013A002    Male",
        "P013A003    Female",
    ]
    told = {each["path"]: each for each in tables_dictionary(product.tables_with(units=False))}
    last = told["tables/P13A.<format>/level=<geolevel>"]["columns"][-1]
    meaning = "Total: Female: median of age, to a tenth; null for nobody"
    assert last == {"name": "P013A003", "type": "double", "meaning": meaning}
    assert sum(path.startswith("tables/") for path in told) == 127


def test_a_number_that_is_missing_is_nothing_in_a_csv(tmp_path):
    (tmp_path / "in").mkdir()
    medians = pa.table({"geocode": ["01", "02"], "P0130001": pa.array([None, 38.8])})
    pq.write_table(medians, tmp_path / "in" / "part-00000.parquet")
    write_csv([tmp_path / "in" / "part-00000.parquet"], tmp_path / "out", ("geocode", "P0130001"))
    assert (tmp_path / "out" / "part-00000.csv").read_text() == "geocode,P0130001\n01,\n02,38.8\n"
    assert rows_of(tmp_path / "out", "csv") == 2


def test_tables_of_a_run_lie_below_its_public_root_one_folder_a_format(tmp_path):
    tables = PublicLayout(tmp_path).tables
    assert tables == TablesLayout(tmp_path / "tables")
    assert tables.level("P1", "csv", "County") == tmp_path / "tables" / "P1.csv" / "level=County"


def test_the_dictionary_tells_of_every_table_by_its_labels():
    product = PRODUCTS["e2e_2018"]
    last = tables_dictionary(product.tables, of_cells=product.tables)[-1]
    assert last["path"] == "tables/P5.<format>/level=<geolevel>"
    assert last["row"] == "a geounit; universe: Population in group quarters"
    assert [column["name"] for column in last["columns"]] == ["geocode", *TABLE.names]
    assert last["columns"][-1]["meaning"] == (
        "Total: Noninstitutionalized population: Other noninstitutional facilities"
    )
