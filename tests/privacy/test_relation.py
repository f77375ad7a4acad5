"""What a record may become, against exact numbers counted in small populations: all kinds, and unions of releases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.privacy import ExactCounts, NeighborRelation, same_geounits

LEVELS = ("US", "State", "Block")
BLOCKS = ("11", "12", "21", "22")
LENGTHS = {"US": 0, "State": 1, "Block": 2}


@dataclass(frozen=True)
class Unit:
    """A housing unit, and the household that lives in it or not."""

    block: str
    occupied: bool


def exact_numbers(release: ExactCounts, units: tuple[Unit, ...], people: tuple[str, ...]) -> list[Counter]:
    """What a release publishes exactly, counted: an oracle that knows nothing of relations."""
    records = {
        "person": list(people),
        "unit": [unit.block for unit in units],
        "household": [unit.block for unit in units if unit.occupied],
    }[release.record]
    numbers = []
    if release.total_at is not None:
        for level in LEVELS[: LEVELS.index(release.total_at) + 1]:
            numbers.append(Counter(block[: LENGTHS[level]] for block in records))
    if release.units:
        numbers.append(Counter(unit.block for unit in units))
    if release.units and release.vacant:
        numbers.append(Counter(unit.block for unit in units if not unit.occupied))
    return numbers


def agree(releases, one, other) -> bool:
    """Whether two populations agree in all exact numbers."""
    return all(exact_numbers(release, *one) == exact_numbers(release, *other) for release in releases)


def stays(relation: NeighborRelation, record: str, old: str, new: str) -> bool:
    """Whether two blocks lie in one geounit of each level that a record does not leave."""
    return all(old[: LENGTHS[level]] == new[: LENGTHS[level]] for level in relation.exact_at(record))


RELEASES = st.lists(
    st.builds(
        ExactCounts,
        record=st.sampled_from(["person", "unit", "household"]),
        geolevels=st.just(LEVELS),
        total_at=st.sampled_from([None, *LEVELS]),
        units=st.booleans(),
        vacant=st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
PLACE = st.sampled_from(BLOCKS)
UNITS = tuple(Unit(block, occupied) for block in BLOCKS for occupied in (True, False))


@given(RELEASES, PLACE, PLACE)
def test_a_record_goes_where_exact_numbers_stay_the_same_and_nowhere_else(releases, old, new):
    relation = NeighborRelation(tuple(releases))
    people = (old, *BLOCKS)
    moved = (new, *BLOCKS)
    assert agree(releases, (UNITS, people), (UNITS, moved)) == stays(relation, "person", old, new)
    household = (Unit(old, True), Unit(new, False), *UNITS)
    elsewhere = (Unit(old, False), Unit(new, True), *UNITS)
    assert agree(releases, (household, people), (elsewhere, people)) == stays(relation, "household", old, new)
    for occupied in (True, False):
        built = (Unit(old, occupied), *UNITS)
        rebuilt = (Unit(new, occupied), *UNITS)
        may = stays(relation, "unit", old, new) and (not occupied or stays(relation, "household", old, new))
        assert agree(releases, (built, people), (rebuilt, people)) or not may
        if not relation.occupied_at:
            assert agree(releases, (built, people), (rebuilt, people)) == may


@given(RELEASES, PLACE)
def test_records_appear_only_where_their_number_is_exact_nowhere(releases, place):
    relation = NeighborRelation(tuple(releases))
    one = (UNITS, BLOCKS)
    assert agree(releases, one, (UNITS, (*BLOCKS, place))) == (not relation.exact_at("person"))
    vacant, formed = (Unit(place, False), *UNITS), (Unit(place, True), *UNITS)
    assert agree(releases, (vacant, BLOCKS), (formed, BLOCKS)) == (not relation.occupied_at)
    assert agree(releases, one, (vacant, BLOCKS)) or relation.exact_at("unit")


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        (ExactCounts("household", LEVELS, units=True, vacant=True), ("Block",)),  # vacant units are not counted
        (ExactCounts("household", LEVELS, units=True, vacant=False), ()),  # those of DHC, as they are shipped
        (ExactCounts("household", LEVELS, "State", units=True, vacant=False), ("State",)),  # with invariants.total_at
        (ExactCounts("household", LEVELS, "State", units=True, vacant=True), ("Block",)),
        (ExactCounts("household", LEVELS), ()),
    ],
)
def test_households_stay_where_their_number_is_exact(release, levels):
    assert NeighborRelation((release,)).exact_at("household") == levels


def test_exact_numbers_of_one_release_bind_the_records_of_another():
    people = ExactCounts("person", LEVELS, "State", units=True, vacant=True)
    households = ExactCounts("household", LEVELS, units=True, vacant=False)
    assert NeighborRelation((households,)).exact_at("household") == ()
    assert NeighborRelation((households, people)).exact_at("household") == ("Block",)
    assert NeighborRelation((households, people)).exact_at("person") == ("State",)


def test_levels_that_no_release_puts_in_order_are_both_kept():
    one, other = ExactCounts("person", ("US", "State"), "State"), ExactCounts("person", ("US", "Region"), "Region")
    levels = NeighborRelation((one, other)).exact_at("person")
    assert levels == ("State", "Region")
    assert same_geounits(levels) == " within the same State and the same Region"
