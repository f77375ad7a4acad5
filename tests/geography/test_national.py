"""Joining counties: widths, shares above the county, and what does not belong together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import PL94_PERSON, LevelShares, SpineSettings, county_paths, county_spines, join_counties

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of({level: Fraction(part, 21) for level, part in zip(LEVELS, (1, 2, 3, 4, 5, 6), strict=True)})


@pytest.fixture
def counties(random_county):
    tables = [random_county(1, 300), random_county(2, 20, county="003"), random_county(3, 1, state="11")]
    return [spine for table in tables for spine in county_spines(table, PL94_PERSON, SHARES, "zcdp")]


def summaries(counties):
    return [county.summary() for county in counties]


def test_widths_are_those_of_the_largest_fan_out_anywhere(counties) -> None:
    spine = join_counties(summaries(counties), SHARES, PL94_PERSON)
    most = [max(int(county.tree.fan_outs(level).max()) for county in counties) for level in range(2)]
    assert spine.widths == (1, *(len(str(number)) for number in most))
    codes = [county_paths(county, spine).levels[-1].codes for county in counties]
    assert {code.dtype.itemsize // 4 for code in codes} == {spine.lengths[-1]}
    assert np.unique(np.concatenate(codes)).size == sum(code.size for code in codes)


def test_the_order_of_the_counties_does_not_matter(counties) -> None:
    one = join_counties(summaries(counties), SHARES, PL94_PERSON)
    assert join_counties(reversed(summaries(counties)), SHARES, PL94_PERSON) == one


def test_only_children_above_the_county_give_their_share_up(counties) -> None:
    spine = join_counties(summaries(counties), SHARES, PL94_PERSON)
    units = {unit.code: unit for unit in spine.upper[1]}
    assert [unit.code for unit in spine.upper[0]] == ["0"]
    assert units["004"].children == 2
    assert units["004"].numerator == 2
    alone = next(county for county in counties if county.state == "11")
    assert units[f"{alone.aian}11"].numerator == 2 + int(alone.tree.shares[0][0])
    assert (alone.aian, "11", "001") in spine.absorbed
    assert county_paths(alone, spine).levels[2].numerators.tolist() == [0]


def test_a_single_state_gives_its_share_to_the_root(random_county) -> None:
    (county,) = county_spines(random_county(4, 1), PL94_PERSON, SHARES, "zcdp")
    spine = join_counties([county.summary()], SHARES, PL94_PERSON)
    assert [units[0].numerator for units in spine.upper] == [21, 0]
    assert spine.unmeasured[:3] == (0, 1, 1)


def test_plain_spines_leave_shares_where_they_are(random_county) -> None:
    (county,) = county_spines(random_county(4, 1), SpineSettings("census"), SHARES, "zcdp")
    spine = join_counties([county.summary()], SHARES, SpineSettings("census"))
    assert [units[0].numerator for units in spine.upper] == [1, 2]
    assert not spine.absorbed


def test_a_run_may_begin_at_states_or_counties(counties, random_county) -> None:
    for levels in (LEVELS[1:], LEVELS[2:], ("US", *LEVELS[2:])):
        shares = LevelShares.of({level: Fraction(1, len(levels)) for level in levels})
        county = county_spines(random_county(1, 50), PL94_PERSON, shares, "pure_dp")
        spine = join_counties([part.summary() for part in county], shares, PL94_PERSON)
        paths = county_paths(county[0], spine)
        assert [level.level for level in paths.levels] == list(levels)
        assert len(spine.fan_outs) == len(levels) - 1


def test_fan_outs_add_up_over_the_counties(counties) -> None:
    spine = join_counties(summaries(counties), SHARES, PL94_PERSON)
    assert spine.fan_outs[-1].children == 321
    for above, below in zip(spine.fan_outs, spine.fan_outs[1:], strict=False):
        assert above.children == below.units
    assert spine.fan_outs[0].units == 1


def test_a_bypassed_county_hangs_below_its_state_in_parts(random_county) -> None:
    shares = LevelShares.of({level: Fraction(1, 25) if level != "Tract" else Fraction(4, 5) for level in LEVELS})
    table = random_county(6, 200)
    county = county_spines(table, replace(PL94_PERSON, bypass_cutoff=1000), shares, "pure_dp")
    assert county[0].tree.parents[0].size > 1
    spine = join_counties([part.summary() for part in county], shares, PL94_PERSON)
    codes = county_paths(county[0], spine).levels[2].codes
    assert np.unique(codes).size == county[0].tree.parents[0].size
    assert spine.upper[1][0].children == codes.size


def test_what_does_not_belong_together_is_refused(counties) -> None:
    found = summaries(counties)
    with pytest.raises(GeographyError, match="one county at least"):
        join_counties([], SHARES, PL94_PERSON)
    with pytest.raises(GeographyError, match="'04001' occurs twice"):
        join_counties([*found, found[0]], SHARES, PL94_PERSON)
    with pytest.raises(GeographyError, match="other geolevels or shares"):
        join_counties([replace(found[0], denominator=42)], SHARES, PL94_PERSON)
    with pytest.raises(GeographyError, match="county '04001' sum to 22/21"):
        join_counties([replace(found[0], path=found[0].path + 1), *found[1:]], SHARES, PL94_PERSON)


def test_a_county_of_another_spine_is_refused(counties) -> None:
    spine = join_counties(summaries(counties[:1]), SHARES, PL94_PERSON)
    with pytest.raises(GeographyError, match=r"no geounit '[01]11'"):
        county_paths(counties[-1], spine)


def test_a_path_that_does_not_sum_to_one_is_refused_with_its_block(counties) -> None:
    spine = join_counties(summaries(counties), SHARES, PL94_PERSON)
    county = counties[0]
    shares = [level.copy() for level in county.tree.shares]
    shares[-1][7] += 1
    broken = replace(county, tree=replace(county.tree, shares=tuple(shares)))
    with pytest.raises(GeographyError, match=rf"{county.blocks[7]}.*22/21"):
        county_paths(broken, spine)
