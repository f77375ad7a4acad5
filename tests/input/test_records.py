"""Records of persons and of units: an identity is the same however it is written, and is never a rounded number."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError

A, B = "5300100001", "5300100002"
PERSONS = {"unit": [1, 1, 2], "age18plus": [0, 1, 1], "hispanic": [0, 1, 0], "race": [0, 5, 2]}
UNITS = {"unit": [1, 2, 3], "geocode": [A, B, B], "hhgq": [0, 7, 0], "vacant": [0, 0, 1]}
EXPECTED = {
    A: ({0: 1, 23: 1}, [1, 0, 0, 0, 0, 0, 0, 0], 0),
    B: ({182: 1}, [0, 0, 0, 0, 0, 0, 0, 1], 1),
}


def deliver(folder: Path, persons: dict | None = None, units: dict | None = None) -> None:
    pq.write_table(pa.table(PERSONS | (persons or {})), folder / "persons.parquet")
    pq.write_table(pa.table(UNITS | (units or {})), folder / "units.parquet")


KINDS = {
    "integers": lambda numbers: pa.array(numbers, pa.int32()),
    "decimals": lambda numbers: pa.array(map(Decimal, numbers), pa.decimal128(9, 0)),
    "texts": lambda numbers: pa.array(map(str, numbers)),
    "dictionaries": lambda numbers: pa.array(map(str, numbers)).dictionary_encode(),
}


@pytest.mark.parametrize("of_persons", KINDS)
@pytest.mark.parametrize("of_units", KINDS)
def test_units_are_known_by_whole_numbers_or_texts(tmp_path, ingested, of_persons, of_units):
    deliver(tmp_path, {"unit": KINDS[of_persons](PERSONS["unit"])}, {"unit": KINDS[of_units](UNITS["unit"])})
    assert ingested(reader="tidy_records") == EXPECTED


@pytest.mark.parametrize(
    "columns", [{"units": {"vacant": "vacnt"}}, {"persons": {"unit": "home"}}, {"": {"vacant": "empty"}}]
)
def test_a_column_that_is_named_and_not_there_is_refused(tmp_path, ingested, columns):
    deliver(tmp_path)
    ((field, column),) = next(iter(columns.values())).items()
    with pytest.raises(InputError, match=f"no column '{column}' for '{field}'"):
        ingested(reader="tidy_records", columns=columns.get("", columns))


def test_a_block_does_not_stand_for_a_geocode_that_is_named(tmp_path, ingested):
    deliver(tmp_path, None, {"block": ["530010000001001"] * 3})
    with pytest.raises(InputError, match="no column 'geocode_202O' for 'geocode'"):
        ingested(reader="tidy_records", columns={"units": {"geocode": "geocode_202O"}})


@pytest.mark.parametrize("name", ["Vacant", "VACANT"])
def test_a_column_of_another_case_is_not_passed_over(tmp_path, ingested, name):
    pq.write_table(pa.table(PERSONS), tmp_path / "persons.parquet")
    pq.write_table(pa.table(UNITS).rename_columns([*list(UNITS)[:-1], name]), tmp_path / "units.parquet")
    with pytest.raises(InputError, match="no column 'vacant'") as refused:
        ingested(reader="tidy_records")
    assert f"did you mean '{name}'" in str(refused.value.hint)
    assert ingested(reader="tidy_records", columns={"vacant": name}) == EXPECTED


#: Columns of persons, and of units -> what is said.
WRONG: dict[str, tuple[dict, dict, str]] = {
    "floats": ({"unit": [1.0, 1.0, 2.0]}, {}, "neither texts nor whole numbers"),
    "floats of units": ({}, {"unit": [1.0, 2.0, 3.0]}, "neither texts nor whole numbers"),
    "zeros before them": ({"unit": ["01", "01", "02"]}, {}, "the unit of every person in the unit records"),
    "a space behind one": ({"unit": ["1", "1 ", "2"]}, {}, "the unit of every person in the unit records"),
    "another case": ({"unit": ["a", "a", "B"]}, {"unit": ["a", "b", "c"]}, "the unit of every person"),
    "nothing": ({"unit": [1, None, 2]}, {}, "what identifies a unit in every row"),
    "nothing in units": ({}, {"unit": [1, 2, None]}, "what identifies a unit in every row"),
    "an unknown one": ({"unit": [1, 1, 9]}, {}, "the unit of every person in the unit records"),
    "one twice": ({}, {"unit": [1, 2, 2]}, "each household once"),
    "vacant, and no housing unit": ({}, {"vacant": [0, 1, 1]}, "0 in every class but the first"),
    "vacant twice": ({}, {"vacant": [0, 0, 2]}, "0 or 1"),
    "vacant or not": ({}, {"vacant": [0, 0, None]}, "0 or 1"),
    "vacant as a word": ({}, {"vacant": ["0", "0", "yes"]}, "0 or 1"),
    "vacant by halves": ({}, {"vacant": [0.0, 0.0, 0.5]}, "0 or 1"),
    "a class that is none": ({}, {"hhgq": [0, 8, 0]}, "a code from 0 to 7"),
    "a code that is none": ({"race": [0, 6, 2]}, {}, "a code from 0 to 5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_records_that_do_not_fit_are_refused(tmp_path, ingested, name):
    persons, units, said = WRONG[name]
    deliver(tmp_path, persons, units)
    with pytest.raises(InputError, match=said):
        ingested(reader="tidy_records")
