"""Units that are made from people, where nobody publishes how many there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, PrivacyGuardError
from das_spark.geography import Spine
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
A, B, C = "01001", "01003", "56045"


@pytest.fixture
def read(spark: SparkSession, of_product: Callable) -> Callable:
    def run(reader: str, product: str = "pl94_2020_person", levels: int = 3, **settings: Any):
        given, spine = of_product(product)
        made = InputSettings(reader=reader, units_from_people=True, **settings)
        return READERS[reader].read(spark, made, given, Spine(spine.levels[:levels]))

    return run


def _table(path: Path, **columns: list) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture
def counts(tmp_path: Path) -> dict[str, str]:
    persons = _table(
        tmp_path / "persons.parquet",
        geocode=[A, A, A, A, B],
        hhgq=[0, 0, 1, 5, 0],
        votingage=[0, 1, 1, 1, 1],
        hispanic=[0, 0, 0, 0, 1],
        cenrace=[0, 62, 5, 0, 1],
        count=[4, 7, 300, 1, 5],
    )
    return {"persons": persons, "geography": _table(tmp_path / "counties.parquet", geocode=[A, B, C])}


EXPECTED = {A: ([5, 1, 0, 0, 0, 1, 0, 0], 0), B: ([2, *[0] * 7], 0), C: ([0] * 8, 0)}


def test_a_unit_stands_for_each_two_and_a_half_persons_and_a_facility_where_there_are_people(
    read: Callable, counts: dict, contents: Callable
):
    assert contents(read("tidy_counts", **counts))[1] == EXPECTED


@pytest.mark.parametrize(("persons", "units"), [(1, 1), (2, 1), (3, 2), (5, 2), (6, 3), (10**15 + 1, 4 * 10**14 + 1)])
def test_units_are_rounded_up(read: Callable, tmp_path: Path, contents: Callable, persons: int, units: int):
    table = _table(
        tmp_path / "p.parquet", geocode=[A], hhgq=[0], votingage=[1], hispanic=[0], cenrace=[0], count=[persons]
    )
    geography = _table(tmp_path / "g.parquet", geocode=[A])
    assert contents(read("tidy_counts", persons=table, geography=geography))[1] == {A: ([units, *[0] * 7], 0)}


def test_records_give_the_same_units(read: Callable, tmp_path: Path, contents: Callable, counts: dict):
    people = [(A, 0)] * 11 + [(A, 1)] * 300 + [(A, 5)] + [(B, 0)] * 5
    names = {"votingage": 1, "hispanic": 0, "cenrace": 0}
    persons = _table(
        tmp_path / "records.parquet",
        geocode=[code for code, _ in people],
        hhgq=[level for _, level in people],
        **{name: [code] * len(people) for name, code in names.items()},
    )
    assert contents(read("tidy_records", persons=persons, geography=counts["geography"]))[1] == EXPECTED


@pytest.mark.parametrize(("persons", "facilities"), [(99_999, 1), (100_000, 2), (199_998, 2), (10**15, 10_000_100_002)])
def test_there_are_as_many_facilities_as_the_people_need(
    read: Callable, tmp_path: Path, contents: Callable, persons: int, facilities: int
):
    table = _table(
        tmp_path / "p.parquet", geocode=[A], hhgq=[5], votingage=[1], hispanic=[0], cenrace=[0], count=[persons]
    )
    geography = _table(tmp_path / "g.parquet", geocode=[A])
    assert contents(read("tidy_counts", persons=table, geography=geography))[1] == {
        A: ([0, 0, 0, 0, 0, facilities, 0, 0], 0)
    }


def test_a_table_of_units_in_the_folder_says_which_geounits_exist_and_no_more(
    read: Callable, tmp_path: Path, counts: dict, contents: Callable
):
    columns = {f"units_{level}": [9, 9, 9] for level in range(8)}
    _table(tmp_path / "units.parquet", geocode=[A, B, C], **columns)
    assert contents(read("tidy_counts", path=str(tmp_path)))[1] == EXPECTED


@pytest.mark.parametrize("reader", ["tidy_counts", "tidy_records"])
def test_occupied_cells_alone_are_refused(read: Callable, counts: dict, reader: str):
    with pytest.raises(PrivacyGuardError):
        read(reader, persons=counts["persons"])


def test_people_outside_the_geography_are_refused(read: Callable, counts: dict, tmp_path: Path):
    geography = _table(tmp_path / "few.parquet", geocode=[A, C])
    with pytest.raises(BadInputError, match=r"a geocode that is in .*few.parquet"):
        read("tidy_counts", persons=counts["persons"], geography=geography)


@pytest.mark.real_data
def test_the_tracts_of_illinois_have_as_many_units_as_the_rule_says(read: Callable, census_data: Path):
    names = {"geocode": "geoid", "votingage": "voting_age", "count": "n"}
    tables = read(
        "tidy_counts",
        levels=4,
        persons=str(census_data / "il_2020_tract_person_cells.parquet"),
        geography=str(census_data / "il_2020_tract_pl94_full.parquet"),
        columns=names,
        code_base={"votingage": 1, "hispanic": 1, "cenrace": 1},
    )
    found = {row["geocode"]: row["units"] for row in tables.leaves.collect()}
    people: dict[str, list[int]] = {code: [0] * 8 for code in found}
    for row in pq.read_table(census_data / "il_2020_tract_person_cells.parquet").to_pylist():
        people[row["geoid"]][row["hhgq"]] += row["n"]
    assert len(found) == 3_265
    assert found == {
        code: [-(-2 * person[0] // 5), *(int(n > 0) for n in person[1:])] for code, person in people.items()
    }


def test_a_product_that_counts_units_is_refused(read: Callable, tmp_path: Path, counts: dict):
    table = _table(tmp_path / "h.parquet", geocode=[A], h1=[1], count=[3])
    with pytest.raises(ConfigurationError, match="counts the units themselves"):
        read("tidy_counts", "pl94_2020_unit", persons=table, geography=counts["geography"])


def test_official_files_give_units_by_the_same_rule(read: Callable, official: Any, tmp_path: Path, contents: Callable):
    official.block("530010001001000", {(1, 0, 0): 30, (0, 0, 0): 3}, quarters={8: 1, 2: 4}, housing=(7, 2))
    official.block("530010001001001", housing=(1, 3))
    tables = read("pl94_summary", levels=6, path=str(official.write(tmp_path / "official")))
    assert contents(tables)[1] == {
        "5300100010011000": ([12, 1, 0, 0, 0, 0, 1, 0], 0),
        "5300100010011001": ([0] * 8, 0),
    }


@pytest.mark.parametrize("made", [True, False])
def test_official_files_give_facilities_that_hold_everybody(
    spark: SparkSession, of_product: Callable, official: Any, tmp_path: Path, contents: Callable, made: bool
):
    official.block("530010001001000", {(1, 0, 0): 250_000}, quarters={8: 250_000})
    settings = InputSettings(reader="pl94_summary", path=str(official.write(tmp_path / "o")), units_from_people=made)
    tables = READERS["pl94_summary"].read(spark, settings, *of_product("pl94_2020_person"))
    assert contents(tables)[1] == {"5300100010011000": ([0, 0, 0, 0, 0, 0, 3, 0], 0)}
