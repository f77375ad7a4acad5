"""The reader of tidy counts: mapped columns and codes, units in two forms, and everything that can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
A, B = "5300100001", "5300100002"
ZEROS = [0] * 8


def _people(**columns: list[Any]) -> dict[str, list[Any]]:
    table = {
        "geocode": [A, A, A],
        "hhgq": [0, 0, 7],
        "age18plus": [0, 1, 1],
        "hispanic": [0, 1, 0],
        "race": [0, 5, 2],
        "count": [3, 4, 5],
    }
    return {**table, **columns}


def _units(**columns: list[Any]) -> dict[str, list[Any]]:
    return {**{"geocode": [A, A, B], "hhgq": [0, 7, 0], "units": [2, 1, 0]}, **columns}


EXPECTED = {(A, 0): 3, (A, 12 + 6 + 5): 4, (A, 7 * 24 + 12 + 2): 5}


@pytest.fixture
def read(spark: SparkSession, of_product: Callable, tmp_path: Path) -> Callable:
    def run(people: dict | None = None, homes: dict | None = None, *, kind: str = "parquet", **settings: Any):
        for name, table in (("persons", people or _people()), ("units", homes or _units())):
            path = tmp_path / f"{name}.{kind}"
            if kind == "parquet":
                pq.write_table(pa.table(table), path)
            else:
                pc.write_csv(pa.table(table), path)
        given = {"persons": str(tmp_path / f"persons.{kind}"), "units": str(tmp_path / f"units.{kind}"), **settings}
        return READERS["tidy_counts"].read(spark, InputSettings(reader="tidy_counts", **given), *of_product("e2e_1940"))

    return run


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_counts_and_units_are_read(read: Callable, contents: Callable, kind: str) -> None:
    counts, units = contents(read(kind=kind))
    assert counts == EXPECTED
    assert units == {A: ([2, 0, 0, 0, 0, 0, 0, 1], 0), B: (ZEROS, 0)}


def test_a_folder_with_tables_of_known_names_is_enough(read: Callable, contents: Callable, tmp_path: Path) -> None:
    counts, units = contents(read(path=str(tmp_path), persons=None, units=None))
    assert counts == EXPECTED
    assert set(units) == {A, B}


def test_names_of_columns_code_bases_and_texts_of_numbers_are_mapped(read: Callable, contents: Callable) -> None:
    people = {
        "block": [A, A, A],
        "gq": ["0", "0", "7"],
        "va": [1, 2, 2],
        "hisp": [1.0, 2.0, 1.0],
        "race": ["01", "06", "03"],
        "n": [3, 4, 5],
    }
    units = {"block": [A, A, B], "gq": ["0", "7", "0"], "units": ["2", "1", "0"]}
    columns = {"geocode": "block", "hhgq": "gq", "age18plus": "va", "hispanic": "hisp", "count": "n"}
    base = {"age18plus": 1, "hispanic": 1, "race": 1}
    counts, geounits = contents(read(people, units, columns=columns, code_base=base))
    assert counts == EXPECTED
    assert geounits[A] == ([2, 0, 0, 0, 0, 0, 0, 1], 0)


def test_units_may_have_a_column_a_class_and_vacant_units(read: Callable, contents: Callable) -> None:
    units = {"geocode": [A, B], **{f"units_{each}": [each, 0] for each in range(8)}, "vacant": [1, 9]}
    _, geounits = contents(read(homes=units))
    assert geounits == {A: (list(range(8)), 1), B: (ZEROS, 9)}


def test_census_blocks_of_15_digits_stand_for_geocodes(
    spark: SparkSession, contents: Callable, of_product: Callable, tmp_path: Path
) -> None:
    product, spine = of_product("pl94_2020_person")
    blocks = ["150010201001000", "150010201002003"]
    people = {"geoid": blocks[:1], "hhgq": [0], "voting_age": [2], "hispanic": [1], "cenrace": [63], "n": [4]}
    units = {"geoid": blocks, **{f"units_{each}": [each, 0] for each in range(8)}, "vacant": [3, 9]}
    for name, table in (("persons", people), ("units", units)):
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    columns = {"block": "geoid", "votingage": "voting_age", "count": "n"}
    base = {"votingage": 1, "hispanic": 1, "cenrace": 1}
    settings = InputSettings(reader="tidy_counts", path=str(tmp_path), columns=columns, code_base=base)
    counts, geounits = contents(READERS["tidy_counts"].read(spark, settings, product, spine))
    wide = [block[:12] + block[11:] for block in blocks]
    assert counts == {(wide[0], int(product.schema.ravel(np.array([[0, 1, 0, 62]]))[0])): 4}
    assert geounits == {wide[0]: (list(range(8)), 3), wide[1]: (ZEROS, 9)}
    short = settings.model_copy(update={"columns": {**columns, "geocode": "geoid"}})
    with pytest.raises(InputError, match="16 digits"):
        READERS["tidy_counts"].read(spark, short, product, spine)


def test_housing_units_are_read_with_the_table_of_units(
    spark: SparkSession, contents: Callable, of_product: Callable, tmp_path: Path
) -> None:
    product, spine = of_product("pl94_2020_unit")
    blocks = ["1500102010011000", "1500102010022003"]
    housing = {"geocode": [blocks[0], blocks[0]], "h1": [0, 1], "count": [2, 5]}
    units = {"geocode": blocks, **{f"units_{each}": [each + 7, 0] for each in range(8)}}
    for name, table in (("persons", housing), ("units", units)):
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    settings = InputSettings(reader="tidy_counts", path=str(tmp_path))
    counts, geounits = contents(READERS["tidy_counts"].read(spark, settings, product, spine))
    assert counts == {(blocks[0], 0): 2, (blocks[0], 1): 5}
    assert geounits == {blocks[0]: (list(range(7, 15)), 0), blocks[1]: (ZEROS, 0)}


def test_vacant_units_of_the_long_form_are_summed(read: Callable, contents: Callable) -> None:
    _, geounits = contents(read(homes=_units(vacant=[1, 0, 4])))
    assert geounits[A][1] == 1
    assert geounits[B][1] == 4


def test_a_geography_adds_the_geounits_without_units(read: Callable, contents: Callable, tmp_path: Path) -> None:
    pq.write_table(pa.table({"geocode": [A, B, "5300100003"]}), tmp_path / "geography.parquet")
    _, geounits = contents(read(geography=str(tmp_path / "geography.parquet")))
    assert geounits["5300100003"] == (ZEROS, 0)


def test_a_geography_alone_gives_geounits_without_unit_counts(
    read: Callable, contents: Callable, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"geocode": [A, B]}), tmp_path / "geography.parquet")
    _, geounits = contents(read(units=None, geography=str(tmp_path / "geography.parquet")))
    assert geounits == {A: (None, None), B: (None, None)}


def test_occupied_cells_without_a_geography_are_refused_by_the_privacy_guard(read: Callable) -> None:
    with pytest.raises(PrivacyGuardError, match="without a geography") as caught:
        read(units=None)
    assert caught.value.exit_code == 3


def test_an_empty_cell_row_is_no_problem(read: Callable, contents: Callable) -> None:
    counts, _ = contents(read(_people(count=[0, 4, 5])))
    assert counts[(A, 12 + 6 + 5)] == 4


BROKEN_PEOPLE = {
    "negative": (_people(count=[3, -4, 5]), "count", "0 or more"),
    "fractional": (_people(count=[3.0, 4.5, 5.0]), "count", "whole number"),
    "fraction as text": (_people(count=["3", "4.5", "5"]), "count", "whole number"),
    "not a number": (_people(count=["3", "four", "5"]), "count", "whole number"),
    "missing": (_people(count=[3, None, 5]), "count", "none missing"),
    "beyond int64": (_people(count=["3", "9223372036854775808", "5"]), "count", "9,223,372,036,854,775,807"),
    "float beyond int64": (_people(count=[3.0, 1e30, 5.0]), "count", "9,223,372,036,854,775,807"),
    "unknown code": (_people(race=[0, 6, 2]), "race", "a code from 0 to 5"),
    "missing code": (_people(race=[0, None, 2]), "race", "a code from 0 to 5"),
    "negative code": (_people(hhgq=[0, -1, 7]), "hhgq", "a code from 0 to 7"),
    "code no number": (_people(hispanic=["0", "x", "0"]), "hispanic", "a code from 0 to 1"),
    "short geocode": (_people(geocode=[A, "531", A]), "geocode", "10 digits"),
    "geocode with a letter": (_people(geocode=[A, "53001x0001", A]), "geocode", "10 digits"),
    "missing geocode": (_people(geocode=[A, None, A]), "geocode", "10 digits"),
}


@pytest.mark.parametrize("case", BROKEN_PEOPLE)
def test_a_broken_row_is_named_by_file_field_and_number(read: Callable, case: str) -> None:
    people, field, expected = BROKEN_PEOPLE[case]
    with pytest.raises(BadInputError) as caught:
        read(people)
    (problem,) = caught.value.problems
    assert problem.file.endswith("persons.parquet")
    assert problem.field == field
    assert expected in problem.expected
    assert (problem.rows, problem.examples) == (1, (2,))
    value = str(people[field][1])
    assert len(value) < 4 or value not in str(caught.value)


def test_row_numbers_of_csv_count_from_the_first_line_below_the_header(read: Callable) -> None:
    with pytest.raises(BadInputError) as caught:
        read(_people(race=[0, 5, 9]), kind="csv")
    assert caught.value.problems[0].examples == (3,)


def test_a_sum_beyond_int64_is_refused_though_every_count_fits(read: Callable) -> None:
    with pytest.raises(BadInputError, match="a sum over all rows up to"):
        read(_people(count=[2**62, 2**62, 5]))


def test_people_in_a_geounit_that_does_not_exist_are_refused(read: Callable) -> None:
    with pytest.raises(BadInputError, match="a geocode that is in") as caught:
        read(_people(geocode=[A, "5300100009", "5300100009"]))
    assert caught.value.problems[0].geounits == ("5300100009",)
    assert caught.value.problems[0].rows == 2


BROKEN_UNITS = {
    "repeated class": (_units(geocode=[A, A, A]), "geocode", "each geounit and class in one row"),
    "negative": (_units(units=[2, -1, 0]), "units", "0 or more"),
    "unknown class": (_units(hhgq=[0, 8, 0]), "hhgq", "a code from 0 to 7"),
    "wrong geocode": (_units(geocode=[A, A, "53"]), "geocode", "10 digits"),
    "fractional vacant": (_units(vacant=[0.0, 0.5, 0.0]), "vacant", "whole number"),
}


@pytest.mark.parametrize("case", BROKEN_UNITS)
def test_broken_units_are_refused(read: Callable, case: str) -> None:
    units, field, expected = BROKEN_UNITS[case]
    with pytest.raises(BadInputError) as caught:
        read(homes=units)
    problem = caught.value.problems[0]
    assert problem.field == field
    assert expected in problem.expected


def test_a_geounit_that_occurs_twice_in_the_wide_form_is_refused(read: Callable) -> None:
    units = {"geocode": [A, A], **{f"units_{each}": [each, 0] for each in range(8)}}
    with pytest.raises(BadInputError, match="each geounit in one row"):
        read(None, units)


def test_problems_of_both_tables_are_told_together(read: Callable) -> None:
    with pytest.raises(BadInputError) as caught:
        read(_people(race=[0, 9, 9], count=[-1, 4, 5]), _units(hhgq=[0, 9, 0]))
    found = {(Path(problem.file).name, problem.field) for problem in caught.value.problems}
    assert found == {("persons.parquet", "race"), ("persons.parquet", "count"), ("units.parquet", "hhgq")}


def test_a_missing_column_is_named_with_the_nearest_one(read: Callable) -> None:
    people = _people()
    people["cuont"] = people.pop("count")
    with pytest.raises(InputError, match="no column 'count' for 'count'") as caught:
        read(people)
    assert "did you mean 'cuont'" in caught.value.hint


def test_a_file_that_is_no_table_is_refused_without_quoting_it(
    spark: SparkSession, of_product: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "persons.parquet"
    path.write_text("confidential text, not Parquet")
    settings = InputSettings(reader="tidy_counts", persons=str(path), units=str(path))
    with pytest.raises(InputError, match="cannot be read") as caught:
        READERS["tidy_counts"].read(spark, settings, *of_product("e2e_1940"))
    assert "confidential" not in str(caught.value)


@pytest.mark.real_data
def test_texas_with_dallas_by_block_is_read(spark: SparkSession, of_product: Callable, census_data: Path) -> None:
    folder = census_data / "dallas_2010"
    settings = InputSettings(
        reader="tidy_counts",
        persons=str(folder / "texas_persons.parquet"),
        units=str(folder / "texas_units.parquet"),
        columns={"geocode": "geocode16", "age18plus": "va", "hispanic": "hisp"},
    )
    tables = READERS["tidy_counts"].read(spark, settings, *of_product("dallas_2010"))
    assert tables.leaves.selectExpr("sum(aggregate(counts, 0L, (a, b) -> a + b))").collect()[0][0] == 25_144_960
    assert tables.leaves.count() == 26_040
    assert tables.leaves.selectExpr("sum(aggregate(units, 0L, (a, b) -> a + b))").collect()[0][0] == 5_039_533


def test_tables_may_name_a_field_differently(
    tmp_path: Path, spark: SparkSession, of_product: Callable, contents: Callable
) -> None:
    (tmp_path / "persons.csv").write_text(f"block16,hhgq,age18plus,hispanic,race,count\n{A},0,0,0,0,3\n")
    (tmp_path / "units.csv").write_text(f"geoid,hhgq,units\n{A},0,2\n")
    settings = InputSettings(
        reader="tidy_counts",
        path=str(tmp_path),
        columns={"geocode": "block16", "units": {"geocode": "geoid"}},
    )
    given = of_product("e2e_1940")
    READERS["tidy_counts"].look(settings, *given)
    counts, units = contents(READERS["tidy_counts"].read(spark, settings, *given))
    assert (counts, units) == ({(A, 0): 3}, {A: ([2, *[0] * 7], 0)})
    wrong = settings.model_copy(update={"columns": {"persons": {"geocode": "block16"}}})
    with pytest.raises(InputError, match=r"units\.csv: no column 'geocode' for 'geocode'") as caught:
        READERS["tidy_counts"].look(wrong, *given)
    assert "input.columns.units.geocode" in caught.value.hint or "hold their names" in caught.value.hint
