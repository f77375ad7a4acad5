"""The geographic header of the official summary files: rows of blocks, by position."""

from __future__ import annotations

import pytest
from dataframes import assert_rows

from das_spark.errors import InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import GEOGRAPHY_READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_file_is_read_as_its_folder_is(spark, tmp_path, header, contents, expected):
    folder = header.write(tmp_path / "ri")
    found = GEOGRAPHY_READERS["pl94_header"].read(spark, str(folder / "rigeo2020.pl"))
    assert contents(found) == expected
    assert "functioning" in found.notes[0]


def test_a_folder_without_header_is_refused(spark, tmp_path):
    (tmp_path / "ri000012020.pl").write_text("x")
    with pytest.raises(InputError, match="no geographic header"):
        GEOGRAPHY_READERS["pl94_header"].read(spark, str(tmp_path))


def test_wrong_rows_are_named(spark, tmp_path, header):
    lines = header.lines()
    parts = lines[2].split("|")
    parts[35], parts[9] = "4999", "44001000100100"
    folder = header.write(tmp_path / "ri", [*lines[:2], "|".join(parts), lines[3] + "|"])
    with pytest.raises(BadInputError) as caught:
        GEOGRAPHY_READERS["pl94_header"].read(spark, str(folder))
    assert [(problem.field, problem.examples) for problem in caught.value.problems] == [
        ("", (4,)),
        ("GEOCODE", (3,)),
        ("AIANHH", (3,)),
    ]


@pytest.mark.real_data
def test_the_test_area_of_providence_lies_in_one_city(spark, census_data):
    found = GEOGRAPHY_READERS["pl94_header"].read(spark, str(census_data / "official" / "ri2018_2020Style.pl")).blocks
    assert found.count() == 569
    expected = ("9999", "59000", "A", "59000", "A", "00900", "99999", "99999")
    assert_rows(found.drop("geocode").distinct(), [expected])
