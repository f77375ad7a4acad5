"""The spine: nesting levels, parents and the names that are offered for misspelt ones."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography import SPINE_KINDS, Geolevel, Spine

NATION = Spine((Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 5), Geolevel("Block", 16)))
COUNTIES = Spine((Geolevel("County", 5), Geolevel("Block", 16)))

blocks = st.text(alphabet="0123456789", min_size=16, max_size=16)


def test_names_and_leaf_follow_the_order_of_the_levels() -> None:
    assert NATION.names == ("National", "State", "County", "Block")
    assert NATION.leaf == Geolevel("Block", 16)
    assert [NATION.index(name) for name in NATION.names] == [0, 1, 2, 3]
    assert NATION.level("County").length == 5


def test_a_spine_is_that_of_the_census_unless_it_is_of_another_kind() -> None:
    assert NATION.is_census
    assert not any(Spine(NATION.levels, kind).is_census for kind in SPINE_KINDS if kind != "census")


def test_the_parent_level_is_the_one_above_and_the_top_has_none() -> None:
    assert NATION.parent_level("National") is None
    assert NATION.parent_level("State") == Geolevel("National", 0)
    assert COUNTIES.parent_level("County") is None


def test_a_geocode_is_cut_at_every_level() -> None:
    block = "4400701010012003"
    assert [NATION.geocode_at(block, name) for name in NATION.names] == ["0", "44", "44007", block]
    assert NATION.geocode_at("44007", "State") == "44"
    assert NATION.geocode_at("0", "National") == "0"


def test_the_parent_of_a_geocode_is_cut_and_the_top_has_the_empty_one() -> None:
    assert NATION.parent("4400701010012003", "Block") == "44007"
    assert NATION.parent("44", "State") == "0"
    assert NATION.parent("0", "National") == ""
    assert COUNTIES.parent("44007", "County") == ""


@given(blocks)
def test_walking_up_by_parents_meets_the_geocode_of_every_level(block: str) -> None:
    geocode = block
    for name in reversed(NATION.names):
        assert geocode == NATION.geocode_at(block, name)
        geocode = NATION.parent(geocode, name)
    assert geocode == ""


def test_an_unknown_level_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(GeographyError) as caught:
        NATION.index("Conty")
    assert "'County'" in caught.value.hint
    with pytest.raises(GeographyError, match="Tract"):
        NATION.geocode_at("44007", "Tract")


@pytest.mark.parametrize(
    ("geocode", "name"),
    [("44", "County"), ("440", "State"), ("4x", "State"), ("", "National"), ("1", "National"), ("0", "State")],
)
def test_a_geocode_that_cannot_lie_in_a_level_is_refused(geocode: str, name: str) -> None:
    with pytest.raises(GeographyError):
        NATION.geocode_at(geocode, name)


@pytest.mark.parametrize(("geocode", "name"), [("44007", "State"), ("0", "State"), ("44", "National")])
def test_the_parent_is_asked_with_a_geocode_of_that_level_only(geocode: str, name: str) -> None:
    with pytest.raises(GeographyError):
        NATION.parent(geocode, name)


@pytest.mark.parametrize(
    "levels",
    [
        (),
        (Geolevel("State", 2), Geolevel("National", 0)),
        (Geolevel("State", 2), Geolevel("Province", 2)),
        (Geolevel("State", 2), Geolevel("State", 5)),
    ],
)
def test_levels_that_do_not_nest_make_no_spine(levels: tuple[Geolevel, ...]) -> None:
    with pytest.raises(GeographyError):
        Spine(levels)


@pytest.mark.parametrize(("name", "length"), [("", 2), (" ", 2), ("Block", 97), ("Block", -1)])
def test_a_level_needs_a_name_and_a_length_that_can_be_numbered(name: str, length: int) -> None:
    with pytest.raises(GeographyError):
        Geolevel(name, length)


def test_a_spine_travels_to_workers() -> None:
    assert pickle.loads(pickle.dumps(NATION)) == NATION
