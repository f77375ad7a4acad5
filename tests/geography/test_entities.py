"""Off-spine entities: places, subdivisions, group quarters, school districts and primitive geounits."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.geography import ENTITY_CATEGORIES, STRONG_MCD_STATES
from das_spark.geography.blocks import group_quarters, places_or_subdivisions, primitive_geounits, school_districts

BLOCKS = ("1000", "1001", "1002")


def blocks(state: str) -> list[str]:
    return [f"{state}001000100{block}" for block in BLOCKS]


def test_twelve_states_have_strong_subdivisions() -> None:
    assert sorted(STRONG_MCD_STATES) == ["09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55"]


@pytest.mark.parametrize(("state", "second"), [("44", "00002"), ("04", "11111")])
def test_subdivisions_count_in_strong_states_outside_aian_areas(table_of, state: str, second: str) -> None:
    table = table_of(blocks(state), placefp=["22222", "11111", "99999"], cousubfp=["00001", "00002", "99999"])
    assert places_or_subdivisions(table, np.array([True, False, False])).tolist() == ["22222", second, "99999"]


def test_group_quarters_are_a_digit_for_each_type(worked_example) -> None:
    assert group_quarters(worked_example, True)[[0, 5]].tolist() == ["0000000", "0000100"]
    assert set(group_quarters(worked_example, False).tolist()) == {"0000000"}


def test_school_districts_are_three_codes(table_of) -> None:
    table = table_of(blocks("04"), sdunilea=["00001"] * 3, sdelmlea=["00003"] * 3)
    assert school_districts(table)[0] == "000019999900003"


@pytest.mark.parametrize(
    ("statuses", "expected"), [("NNN", ["99999"] * 3), ("NSC", ["00001", "00002", "00003"])], ids=["none", "one"]
)
def test_one_governing_subdivision_makes_all_of_the_county_count(table_of, statuses, expected) -> None:
    table = table_of(blocks("04"), cousubfp=["00001", "00002", "00003"], cousubfs=list(statuses))
    assert [prim[5:10] for prim in primitive_geounits(table).tolist()] == expected


def test_places_count_if_they_govern_or_are_named(table_of) -> None:
    table = table_of(blocks("04"), placefp=["11111", "22222", "36255"], placefs=["A", "S", "S"])
    assert [prim[10:] for prim in primitive_geounits(table).tolist()] == ["11111", "99999", "99999"]
    for state, place in (("22", "36255"), ("11", "50000"), ("15", "71550"), ("20", "71450")):
        table = table_of(blocks(state), placefp=[place, "22222", "33333"], placefs=["S", "F", "B"])
        assert [prim[10:] for prim in primitive_geounits(table).tolist()] == [place, "22222", "33333"]


def test_a_municipio_is_one_primitive_geounit(table_of) -> None:
    table = table_of(blocks("72"), placefp=["11111"] * 3, placefs=["A"] * 3, cousubfs=["A"] * 3)
    assert set(primitive_geounits(table).tolist()) == {"720019999999999"}


def test_entities_of_reports_are_named_and_none_is_empty(worked_example) -> None:
    names = {category: name(worked_example) for category, name in ENTITY_CATEGORIES.items()}
    assert names["place"][[0, 1]].tolist() == ["0411111", ""]
    assert names["aian_area"][[0, 8]].tolist() == ["", "0010"]
    assert set(names["county_subdivision"].tolist()) == {""}
    assert names["tract"][7] == "04001000200"
    assert all(found.shape == (9,) for found in names.values())
