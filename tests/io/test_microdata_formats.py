"""Layouts compile to the codes that the specification lists."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import ConfigurationError
from das_spark.histogram import Attribute, Schema
from das_spark.io.microdata_formats import WRITERS, Rows, Scope, heads_of, record_columns, unit_columns
from das_spark.products import PRODUCTS, MicrodataColumn, MicrodataLayout, microdata_codes


def texts_of(columns):
    """Of every column with codes, the text of each cell or kind."""
    every = np.arange(columns.codes)
    return {column.name: column.texts(every) for column in columns.columns if column.scope is Scope.CODE}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_every_layout_compiles_and_its_parts_make_the_geocode(product):
    assigned = len(product.files(units=True)) > 1
    person = record_columns(product, units=assigned)
    assert person.kind == product.record
    for file in (person, unit_columns(product)) if assigned else (person,):
        parts = [column for column in file.columns if column.scope is Scope.GEOCODE]
        ends = sorted((part.begin, part.end) for part in parts)
        assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
        assert ends[-1][1] == product.geolevels[-1].length
        assert all(not column.values for column in parts)
    facilities = len(product.unit_classes) - 1
    listed = {"person": 0, "unit": facilities, "household": facilities + product.vacant_kinds}
    size = product.schema.size
    assert person.codes == size + listed[product.record] + (size if product.first_divided else 0)
    if assigned:
        assert unit_columns(product).codes == len(product.unit_classes) + 1


@pytest.mark.parametrize("form", ["parts", "concatenate"])
@pytest.mark.parametrize("name", ["pl94_2020_person", "ddp_2010_household", "dhc_2020_unit"])
def test_what_stands_beside_the_parts_sorts_before_them_in_the_order_of_the_file(name, form):
    product = PRODUCTS[name]
    columns = record_columns(product, units=True)
    beside = heads_of(product, "text", columns, form, rows=3, created="now", notices=()).beside
    metadata, header, part = sorted([*beside, "part-00000.txt"])
    assert part == "part-00000.txt"
    assert all(line.startswith("#") for line in beside[metadata].splitlines())
    assert beside[header] == "|".join(column.name for column in columns.columns) + "\n"


def test_the_codes_of_1940_are_those_of_the_specification():
    product = PRODUCTS["e2e_1940"]
    codes = texts_of(record_columns(product, units=True))
    cell = product.schema.ravel([[4, 0, 1, 5]])[0]  # military, minor, Hispanic, other Asian
    assert [codes[name][cell] for name in ("RTYPE", "QAGE", "CENHISP", "CENRACE")] == ["5", "17", "2", "6"]
    kinds = texts_of(unit_columns(product))
    assert kinds["GQTYPE"] == list("023467890")
    assert kinds["RTYPE"] == list("244444442")
    assert kinds["TEN"] == list("900000000")
    assert kinds["VACS"] == list("000000009")


def test_the_codes_of_2020_are_those_of_the_specification():
    product = PRODUCTS["pl94_2020_person"]
    codes = texts_of(record_columns(product, units=False))
    cell = product.schema.ravel(np.array([[5, 1, 0, 62]]))[0]  # student housing, adult, not Hispanic, all six races
    names = ("RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")
    assert [codes[name][cell] for name in names] == ["5", "5", "2", "1", "63"]
    assert [codes[name][0] for name in names] == ["3", "0", "1", "1", "01"]
    units = texts_of(record_columns(PRODUCTS["pl94_2020_unit"], units=False))
    assert units["RTYPE"] == ["2", "2", *["4"] * 7]
    assert units["HH_STATUS"] == ["2", "1", *["0"] * 7]


def test_without_units_the_numbers_are_fillers():
    person = record_columns(PRODUCTS["e2e_1940"], units=False)
    fillers = {column.name: column.values for column in person.columns if column.scope is Scope.CONSTANT}
    assert fillers["EUID"] == ("999999999",)
    assert fillers["EPNUM"] == ("99999",)


def test_a_parquet_file_has_every_column_and_plain_numbers_of_type_int_as_such(tmp_path):
    product = PRODUCTS["e2e_2018"]
    path = tmp_path / "part-00000.parquet"
    columns = record_columns(product, units=True)
    file = path.open("wb")
    sink = WRITERS["parquet"].open(file, columns, ())
    cells, lengths = np.array([0, product.schema.size - 1]), np.array([2, 1])
    numbers = {scope: np.arange(3) for scope in (Scope.UNIT_NUMBER, Scope.PERSON_NUMBER, Scope.RECORD_NUMBER)}
    sink.write(Rows(("4400701010101001",), np.zeros(2, dtype=np.int64), cells, lengths, numbers))
    sink.close()
    file.close()
    rows = pq.read_table(path)
    assert rows.schema.names == [column.name for column in product.microdata.person]
    assert rows["QAGE"].to_pylist() == [17, 17, 18]
    assert set(rows["SCHEMA_TYPE_CODE"].to_pylist()) == {"MPD"}
    kinds = {column.name: column.type for column in product.microdata.person}
    for field in rows.schema:
        assert (field.type == pa.int32()) == kinds[field.name].startswith("INT"), field
    assert sum(kind.startswith("INT") for kind in kinds.values()) > 1
    zeros = dataclasses.replace(product.microdata.person[0], type="INT3")
    assert [zeros.holds_integers(texts) for texts in (["0", "17"], ["07"], ["1" * 10], ["x"])] == [True, *[False] * 3]


@pytest.mark.parametrize("source", ["something", "recode:race:1,2", "recode:unit_class:1", "geocode[a:b]"])
def test_a_source_that_cannot_be_is_a_configuration_error(source):
    product = PRODUCTS["e2e_1940"]
    layout = dataclasses.replace(
        product.microdata, person=(MicrodataColumn("X", source),), unit=(MicrodataColumn("X", source),)
    )
    broken = dataclasses.replace(product, microdata=layout)
    with pytest.raises(ConfigurationError, match="microdata column X"):
        unit_columns(broken)


def test_every_format_is_registered_under_its_own_name():
    assert {name: format.name for name, format in WRITERS.items()} == {
        name: name for name in ("parquet", "text", "ppmf")
    }


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_the_public_copy_compiles_to_the_codes_of_the_microdata(product):
    if product.ppmf is None:
        with pytest.raises(ConfigurationError, match="no public layout"):
            record_columns(product, "ppmf", units=False)
        return
    text, copy = (record_columns(product, format, units=False) for format in ("text", "ppmf"))
    assert texts_of(text) == texts_of(copy)
    found = [[(c.name, c.begin, c.end) for c in each.columns if c.scope is Scope.GEOCODE] for each in (text, copy)]
    assert found[0] == found[1]
    assert (text.delimiter, text.names_inside) == ("|", False)
    assert (copy.delimiter, copy.names_inside) == (",", True)


def test_a_layout_of_more_than_a_million_cells_holds_no_text_for_each(tmp_path):
    """Texts are put together for the cells that occur; what a file of columns holds fits a few megabytes."""
    attributes = tuple(
        Attribute(name, tuple(str(level) for level in range(size)))
        for name, size in (("kind", 8), ("a", 116), ("b", 2), ("c", 63), ("d", 14))
    )
    schema = Schema("large", attributes)
    assert schema.size > 1_600_000
    codes = ",".join(str(level) for level in range(116))
    layout = MicrodataLayout(
        "large",
        (
            MicrodataColumn("KIND", "record_type"),
            MicrodataColumn("A", f"recode:a:{codes}"),
            MicrodataColumn("C", f"recode:c:{','.join(f'{level:02d}' for level in range(63))}"),
        ),
        (),
    )
    product = dataclasses.replace(
        PRODUCTS["e2e_1940"], schema=schema, class_query="kind", microdata=layout, file_recodes={}
    )
    columns = record_columns(product, units=False)
    assert sum(len(column.values) for column in columns.columns) == 9 + 116 + 63
    cells = np.array([0, schema.size - 1, schema.size // 2, 0])
    path = tmp_path / "part.txt"
    file = path.open("wb")
    sink = WRITERS["text"].open(file, columns, ())
    sink.write(Rows(("1",), np.zeros(4, dtype=np.int64), cells, np.ones(4, dtype=np.int64), {}))
    sink.close()
    file.close()
    levels = np.stack(np.unravel_index(cells, schema.shape), axis=1).tolist()
    expected = [f"{'5' if kind else '3'}|{a}|{c:02d}" for kind, a, _, c, _ in levels]
    assert path.read_text().splitlines() == expected
    found = microdata_codes(dataclasses.replace(product, ppmf=None), units=False)
    assert found.codes_of(cells) == expected
