"""No two geounits of a level share an address in the randomness, whatever the spine; the numbering of before did."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.geography import DHC, PL94_PERSON, LevelShares, SpineSettings, county_paths, county_spines, join_counties
from das_spark.privacy import geounit_key

CENSUS = ("US", "State", "County", "Tract", "Block_Group", "Block")
OF_DHC = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")


def last_digits(geocode: str) -> bytes:
    """The numbering of before: of a geocode of more than 18 digits the last 16 alone."""
    return (geocode if len(geocode) <= 18 else geocode[-16:]).encode()


def kind(shape: SpineSettings) -> str:
    return shape.kind


def levels_of(tables, shape: SpineSettings, weights, framework: str) -> dict[str, list[str]]:
    """The geocodes of every level of the spine of some counties."""
    names = OF_DHC if shape.kind == "dhc" else CENSUS
    shares = LevelShares.of({name: Fraction(part, sum(weights)) for name, part in zip(names, weights, strict=True)})
    counties = [county for table in tables for county in county_spines(table, shape, shares, framework)]
    spine = join_counties([county.summary() for county in counties], shares, shape)
    found: dict[str, set[str]] = {name: set() for name in names}
    for county in counties:
        for level in county_paths(county, spine).levels:
            found[level.level] |= set(level.codes.tolist())
    return {name: sorted(codes) for name, codes in found.items()}


def addresses(geocodes: list[str]) -> set[bytes]:
    return set(map(geounit_key, geocodes))


SHAPES = (SpineSettings("census"), replace(PL94_PERSON, kind="aian"), PL94_PERSON, DHC)


@pytest.mark.parametrize("shape", SHAPES, ids=kind)
@given(data=st.data())
@settings(deadline=None, max_examples=12)
def test_every_geounit_of_every_spine_has_an_address_of_its_own(random_county, shape: SpineSettings, data) -> None:
    sizes = data.draw(st.lists(st.integers(1, 1500), min_size=1, max_size=4))
    states = data.draw(st.lists(st.sampled_from(("04", "11")), min_size=len(sizes), max_size=len(sizes)))
    tables = [
        random_county(data.draw(st.integers(0, 99)), size, state=state, county=f"{2 * place + 1:03d}")
        for place, (size, state) in enumerate(zip(sizes, states, strict=True))
    ]
    levels = OF_DHC if shape.kind == "dhc" else CENSUS
    weights = data.draw(st.lists(st.integers(1, 100), min_size=len(levels), max_size=len(levels)))
    if shape.kind != "census":
        cutoffs = (("fanout_cutoff", 200), ("bypass_cutoff", 400))
        shape = replace(shape, **{name: data.draw(st.integers(1, most)) for name, most in cutoffs})
    for geocodes in levels_of(tables, shape, weights, data.draw(st.sampled_from(("pure_dp", "zcdp")))).values():
        assert len(addresses(geocodes)) == len(geocodes)


def test_the_numbering_of_before_gave_block_groups_each_others_noise(random_county) -> None:
    """Five counties in two states, settings of the DHC, pure differential privacy, most of the budget below."""
    tables = [
        random_county(seed, 4000 if seed < 3 else 3000, state="04" if seed < 3 else "11", county=f"{2 * seed + 1:03d}")
        for seed in range(5)
    ]
    levels = levels_of(tables, DHC, (1, 1, 1, 1, 1, 1, 10, 84), "pure_dp")
    block_groups = levels["Block_Group"]
    assert {len(geocode) for geocode in block_groups} == {19}
    assert len({last_digits(geocode) for geocode in block_groups}) < len(block_groups), "the control shows the fault"
    assert all(len(addresses(geocodes)) == len(geocodes) for geocodes in levels.values())


@given(st.lists(st.text(alphabet="0123456789", min_size=1, max_size=400), unique=True, max_size=30))
def test_geocodes_of_any_width_have_addresses_of_their_own(geocodes: list[str]) -> None:
    assert len(addresses(geocodes)) == len(geocodes)
