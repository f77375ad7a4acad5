"""The reader of tidy person and unit records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.products import product_from
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
A, B = "5300100001", "5300100002"


def _people(**columns: list[Any]) -> dict[str, list[Any]]:
    return {**{"unit": [1, 1, 2], "age18plus": [0, 1, 1], "hispanic": [0, 0, 1], "race": [0, 0, 5]}, **columns}


def _units(**columns: list[Any]) -> dict[str, list[Any]]:
    table = {"unit": [1, 2, 3, 4], "geocode": [A, A, B, A], "hhgq": [0, 7, 0, 0], "vacant": [0, 0, 1, 1]}
    return {**table, **columns}


@pytest.fixture
def read(spark: SparkSession, of_product: Callable, tmp_path: Path) -> Callable:
    def run(people: dict | None = None, homes: dict | None = None, *, kind: str = "parquet", **settings: Any):
        for name, table in (("persons", people or _people()), ("units", homes or _units())):
            path = tmp_path / f"{name}.{kind}"
            (pq.write_table if kind == "parquet" else pc.write_csv)(pa.table(table), path)
        given = {"persons": str(tmp_path / f"persons.{kind}"), "units": str(tmp_path / f"units.{kind}"), **settings}
        return READERS["tidy_records"].read(
            spark, InputSettings(reader="tidy_records", **given), *of_product("e2e_1940")
        )

    return run


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_persons_are_counted_in_the_geounit_and_class_of_their_unit(
    read: Callable, contents: Callable, kind: str
) -> None:
    counts, units = contents(read(kind=kind))
    assert counts == {(A, 0): 1, (A, 12): 1, (A, 7 * 24 + 12 + 6 + 5): 1}
    assert units == {A: ([1, 0, 0, 0, 0, 0, 0, 1], 1), B: ([0] * 8, 1)}


def test_persons_without_a_unit_column_bring_geocode_and_class(read: Callable, contents: Callable) -> None:
    people = {**_people(), "geocode": [A, A, B], "hhgq": [0, 0, 7]}
    del people["unit"]
    counts, _ = contents(read(people))
    assert counts == {(A, 0): 1, (A, 12): 1, (B, 7 * 24 + 12 + 6 + 5): 1}


def test_a_person_without_a_household_is_refused(read: Callable) -> None:
    with pytest.raises(
        BadInputError, match="the unit of every person in the unit records; not so in some rows"
    ) as caught:
        read(_people(unit=[1, 1, 77]))
    assert caught.value.problems[0].examples == (3,)
    assert "77" not in str(caught.value).replace(str(caught.value.problems[0].file), "")


def test_a_household_that_occurs_twice_is_refused(read: Callable) -> None:
    with pytest.raises(BadInputError, match="each household once; not so in some rows") as caught:
        read(homes=_units(unit=[1, 2, 3, 1]))
    assert caught.value.problems[0].examples == (1, 4)


BROKEN = {
    "age18plus": (_people(age18plus=[0, 2, 1]), None),
    "race": (_people(race=[0, None, 5]), None),
    "unit": (None, _units(unit=[1, None, 3, 4])),
    "geocode": (None, _units(geocode=[A, "53001", B, A])),
    "hhgq": (None, _units(hhgq=[0, 8, 0, 0])),
    "vacant": (None, _units(vacant=[0, 2, 0, 1])),
    "vacant, expected 0 in every class but the first": (None, _units(vacant=[0, 1, 0, 1])),
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_broken_record_is_named_by_field_and_number(read: Callable, field: str) -> None:
    people, homes = BROKEN[field]
    with pytest.raises(BadInputError) as caught:
        read(people, homes)
    problem = caught.value.problems[0]
    assert problem.field == field.split(", expected", maxsplit=1)[0]
    assert field.rsplit(", ", maxsplit=1)[-1].removeprefix("expected ") in str(problem)
    assert problem.examples == (2,)


def test_person_records_alone_are_refused_by_the_privacy_guard(read: Callable) -> None:
    with pytest.raises(PrivacyGuardError):
        read(units=None)


def test_a_missing_column_is_named(read: Callable) -> None:
    people = _people()
    del people["race"]
    with pytest.raises(InputError, match="no column 'race'"):
        read(people)


HOMES = {
    "name": "homes",
    "geolevels": [{"name": "Village", "length": 2}],
    "unit_classes": ["Housing unit", "Prison"],
    "attributes": [{"name": "size", "levels": ["1", "2", "3 or more"]}, {"name": "owned", "levels": ["no", "yes"]}],
    "strategies": [
        {"name": "main", "framework": "zcdp", "total": "1", "geolevels": {"Village": "1"}, "queries": {"detailed": "1"}}
    ],
}
QUARTERS = {
    "unit": ["a", "b", "c", "d", "e"],
    "geocode": ["01", "01", "02", "02", "01"],
    "unit_class": [0, 0, 0, 1, 0],
    "vacant": [0, 0, 0, 0, 1],
}
#: What is counted -> the name of its table, the units of its records, and one that can have none.
KINDS = {"household": ("households", ["b", "a", "c"], "e"), "unit": ("housing_units", ["b", "a", "c", "e"], "d")}


@pytest.fixture
def read_homes(spark: SparkSession, tmp_path: Path) -> Callable:
    def run(record: str, units: list[str]):
        product = product_from(HOMES | {"record": record})
        own = {"unit": units, "size": [2, 0, 2, 1][: len(units)], "owned": [0, 1, 0, 1][: len(units)]}
        for name, table in ((KINDS[record][0], own), ("units", QUARTERS)):
            pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
        settings = InputSettings(reader="tidy_records", path=str(tmp_path))
        READERS["tidy_records"].look(settings, product, product.spine())
        return READERS["tidy_records"].read(spark, settings, product, product.spine())

    return run


@pytest.mark.parametrize("record", KINDS)
def test_households_and_housing_units_are_records_of_a_unit_of_their_own(
    read_homes: Callable, contents: Callable, record: str
) -> None:
    _, units, none = KINDS[record]
    counts, geounits = contents(read_homes(record, units))
    assert counts == {("01", 4): 1, ("01", 1): 1, ("02", 4): 1} | ({("01", 3): 1} if record == "unit" else {})
    assert geounits == {"01": ([2, 0], 1), "02": ([1, 1], 0)}
    for wrong, rule in ((none, "housing unit of the unit records"), ("a", "each household once")):
        with pytest.raises(BadInputError, match=rule) as caught:
            read_homes(record, ["b", "a", wrong])
        assert 3 in caught.value.problems[0].examples
