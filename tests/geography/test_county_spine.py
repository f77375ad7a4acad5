"""Spines of a county: both worked examples, and laws that hold for every county."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography import (
    DHC,
    PL94_PERSON,
    PL94_UNIT,
    CountySpine,
    LevelShares,
    SpineSettings,
    county_paths,
    county_spines,
    join_counties,
)
from das_spark.geography.blocks import places_or_subdivisions
from das_spark.geography.distance import entity_distances, name_entities

PL94_LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")


def parts(levels, numerators) -> LevelShares:
    total = sum(numerators)
    return LevelShares.of({level: Fraction(part, total) for level, part in zip(levels, numerators, strict=True)})


PL94 = parts(PL94_LEVELS, (104, 1440, 447, 687, 1256, 165))
PRIM = parts(DHC_LEVELS, (949, 12987, 4960, 6214, 6214, 13888, 4300, 110))


def joined_paths(table, chosen: SpineSettings, shares: LevelShares, framework: str = "zcdp"):
    spines = county_spines(table, chosen, shares, framework)
    nation = join_counties([spine.summary() for spine in spines], shares, chosen)
    return nation, [county_paths(spine, nation) for spine in spines]


def listing(level, denominator: int, of: int) -> list[tuple[str, int]]:
    """Codes and shares of a level, in the parts that the example is told in."""
    return [(code, int(share) * of // denominator) for code, share in zip(level.codes, level.numerators, strict=True)]


def test_the_example_of_the_redistricting_spine(worked_example) -> None:
    nation, (outside, inside) = joined_paths(worked_example, replace(PL94_PERSON, fanout_cutoff=0), PL94)
    assert nation.widths == (1, 1, 1)
    assert nation.lengths == (0, 3, 9, 10, 11, 27)
    levels = [listing(level, nation.denominator, 4099) for level in outside.levels]
    assert levels[:4] == [
        [("0", 104)],
        [("004", 1887)],
        [("004100011", 0)],
        [("0041000111", 687), ("0041000112", 2108)],
    ]
    assert levels[4] == [
        ("00410001111", 1256),
        ("00410001112", 1256),
        ("00410001113", 1421),
        ("00410001114", 1421),
        ("00410001121", 0),
    ]
    tract = "04001000100"
    groups = [("1", ("11001", "11002", "11003")), ("2", ("22001", "22003")), ("3", ("11000",)), ("4", ("22000",))]
    assert levels[5] == [
        *[
            (f"0041000111{group}{tract}{block}", 165 if len(blocks) > 1 else 0)
            for group, blocks in groups
            for block in blocks
        ],
        ("00410001121" + "0400100020011000", 0),
    ]
    assert [listing(level, nation.denominator, 4099)[0][1] for level in inside.levels] == [104, 3995, 0, 0, 0, 0]


def test_before_the_step_above_the_county_its_share_is_its_own(worked_example) -> None:
    outside, inside = county_spines(worked_example, replace(PL94_PERSON, fanout_cutoff=0), PL94, "zcdp")
    assert outside.tree.shares[0].tolist() == [447]
    assert inside.tree.shares[0].tolist() == [2555]
    assert [level.tolist() for level in inside.tree.shares[1:]] == [[0], [0], [0]]
    assert outside.summary().bypassed == (0, 1, 3)


def test_the_example_of_the_primitive_spine(worked_example) -> None:
    chosen = replace(DHC, fanout_cutoff=0, target_school_districts=False, target_block_groups=False)
    table = worked_example.rows(np.arange(8))
    (spine,) = county_spines(table, chosen, PRIM, "zcdp")
    codes = spine.codes((1, 1, 1, 1, 1))
    found = [
        dict(zip(code.tolist(), level.tolist(), strict=True))
        for code, level in zip(codes, spine.tree.shares, strict=True)
    ]
    found = [{code: share * 49622 // PRIM.denominator for code, share in level.items()} for level in found]
    assert found[0] == {"00410001": 4960}
    assert found[1] == {"004100011": 12428, "004100012": 26316}
    assert found[2] == {"0041000111": 0, "0041000121": 0}
    assert found[3] == {"00410001111": 18298, "00410001112": 18298, "00410001211": 0}
    assert {code: share for code, share in found[4].items() if code.startswith("004100012")} == {
        "004100012111": 4300,
        "004100012112": 4300,
        "004100012113": 4410,
    }
    assert sorted(found[5].values()) == [0] * 3 + [110] * 5
    assert set((spine.tree.path_sums() * 49622 // PRIM.denominator).tolist()) == {35686}
    groups = dict(zip(spine.blocks.tolist(), codes[4][spine.tree.parents[5]].tolist(), strict=True))
    assert groups["0400100010022000"] == "004100012113"
    assert groups["0400100010022001"] == "004100012112"


def test_the_plain_spines_have_the_codes_of_the_census(worked_example) -> None:
    nation, (paths,) = joined_paths(worked_example, SpineSettings("census"), PL94)
    assert nation.widths == ()
    assert [level.codes[0] for level in paths.levels] == [
        "0",
        "04",
        "04001",
        "04001000100",
        "040010001001",
        "0400100010011000",
    ]
    assert nation.lengths == (0, 2, 5, 11, 12, 16)
    assert all(
        set(level.numerators.tolist()) == {part} for level, part in zip(paths.levels, PL94.numerators, strict=True)
    )
    nation, (outside, inside) = joined_paths(worked_example, SpineSettings("aian"), PL94)
    assert [level.codes[0] for level in inside.levels][1:4] == ["104", "104001", "104001000100"]
    assert [len(level.codes[0]) for level in outside.levels][1:] == list(nation.lengths)[1:]
    assert len(outside.blocks) + len(inside.blocks) == 9


def test_a_plain_spine_may_have_tract_groups_or_no_levels_between(worked_example) -> None:
    few = parts(("County", "Block"), (1, 1))
    (spine,) = county_spines(worked_example, SpineSettings("census"), few, "zcdp")
    assert [level.size for level in spine.tree.parents] == [1, 9]
    many = parts(("County", "Tract_Group", "Tract", "Block"), (1, 1, 1, 1))
    (spine,) = county_spines(worked_example, SpineSettings("census"), many, "zcdp")
    assert spine.codes(())[1].tolist() == ["040010001", "040010002"]


def test_housing_units_do_not_keep_group_quarters_apart(worked_example) -> None:
    persons, units = (county_spines(worked_example, chosen, PL94, "zcdp")[0] for chosen in (PL94_PERSON, PL94_UNIT))
    assert persons.tree.parents[2].size == units.tree.parents[2].size + 1


@pytest.mark.parametrize(("kind", "levels"), [("optimised", DHC_LEVELS), ("dhc", PL94_LEVELS), ("census", DHC_LEVELS)])
def test_levels_that_a_kind_does_not_have_are_refused(worked_example, kind: str, levels) -> None:
    with pytest.raises(GeographyError, match="has the levels County"):
        county_spines(worked_example, SpineSettings(kind), parts(levels, [1] * len(levels)), "zcdp")


def test_an_invalid_area_and_an_unknown_framework_are_refused(worked_example) -> None:
    area = worked_example.aiannhce.copy()
    area[3] = "4995"
    with pytest.raises(GeographyError, match="4995"):
        county_spines(replace(worked_example, aiannhce=area), PL94_PERSON, PL94, "zcdp")
    with pytest.raises(GeographyError, match="renyi"):
        county_spines(worked_example, PL94_PERSON, PL94, "renyi")


def test_indices_that_do_not_fit_are_refused(random_county) -> None:
    spine = county_spines(random_county(1, 600), PL94_PERSON, PL94, "zcdp")[0]
    with pytest.raises(GeographyError, match="'Tract'"):
        spine.codes((1, 1, 2))


KINDS = {
    "census": (SpineSettings("census"), PL94),
    "aian": (SpineSettings("aian"), PL94),
    "optimised": (replace(PL94_PERSON, fanout_cutoff=1), PL94),
    "even": (replace(PL94_PERSON, fanout_cutoff=1, group_type="even"), PL94),
    "merged": (
        replace(PL94_PERSON, merge="paper", fanout_cutoff=1),
        parts(("State", "County", "Tract_Group", "Tract", "Block_Group", "Block"), (1, 2, 3, 4, 5, 6)),
    ),
    "released": (
        replace(PL94_PERSON, merge="released", fanout_cutoff=1),
        parts(("County", "Tract_Group", "Tract", "Block_Group", "Block"), (2, 3, 4, 5, 6)),
    ),
    "dhc": (replace(DHC, fanout_cutoff=1), PRIM),
}


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.sampled_from(["pure_dp", "zcdp"]), st.integers(0, 10**6), st.integers(1, 200))
def test_every_county_keeps_the_laws(random_county, kind: str, framework: str, seed: int, count: int) -> None:
    table = random_county(seed, count)
    chosen, shares = KINDS[kind]
    nation, counties = joined_paths(table, chosen, shares, framework)
    blocks = np.concatenate([paths.blocks for paths in counties])
    assert sorted(blocks.tolist()) == sorted(table.geocode16.tolist()), "every block is in the spine once"
    for paths in counties:
        codes, numerators = paths.codes(), paths.numerators()
        total = sum(Fraction(1) * level.astype(object) for level in numerators)
        assert set((total / paths.denominator).tolist()) == {Fraction(1)}
        assert codes[-1].tolist() == [code[:-16] + block for code, block in zip(codes[-1], paths.blocks, strict=True)]
        for depth, level in enumerate(paths.levels):
            assert np.unique(level.codes).size == level.codes.size
            assert {len(code) for code in level.codes.tolist()} == {nation.lengths[depth] or 1}
            if depth and nation.lengths[depth - 1]:
                above = paths.levels[depth - 1].codes[level.parents]
                width = nation.lengths[depth - 1]
                assert [code[:width] for code in level.codes.tolist()] == above.tolist()
    check_boundaries(table, kind, shares.levels, counties)


def check_boundaries(table, kind: str, levels, counties) -> None:
    """No geounit joins what its level keeps apart."""
    keep = {"Tract": table.tract, "Tract_Subset": table.tract, "Block_Group": table.tract}
    if kind in ("census", "aian"):
        keep["Block_Group"] = table.block_group
    rows = {block: row for row, block in enumerate(table.geocode16.tolist())}
    for paths in counties:
        order = np.array([rows[block] for block in paths.blocks.tolist()])
        for level, codes in zip(levels, paths.codes(), strict=True):
            if level in keep:
                pairs = set(zip(codes.tolist(), keep[level][order].tolist(), strict=True))
                assert len(pairs) == np.unique(codes).size


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(0, 3))
def test_groups_hold_to_the_limit_and_to_one_combination_of_entities(random_county, seed, count, cutoff) -> None:
    table = random_county(seed, count)
    for spine in county_spines(table, replace(PL94_PERSON, fanout_cutoff=cutoff), PL94, "zcdp"):
        _, tract, group, _ = spine.tree.paths()
        limit = np.array([isqrt(n) for n in np.bincount(tract)]) + cutoff + 1
        assert (np.bincount(group) <= limit[tract[np.unique(group, return_index=True)[1]]]).all()
        order = {block: row for row, block in enumerate(table.geocode16.tolist())}
        rows = np.array([order[block] for block in spine.blocks.tolist()])
        place = places_or_subdivisions(table, np.full(len(table), bool(spine.aian)))[rows]
        entity = [
            (p, a if spine.aian else "", *g)
            for p, a, g in zip(place, table.aiannhce[rows], table.gq[rows], strict=True)
        ]
        assert len({(one, *two) for one, two in zip(group.tolist(), entity, strict=True)}) == len(set(group.tolist()))


def test_a_crosswalk_decides_on_primitive_geounits(worked_example) -> None:
    table = worked_example.rows(np.arange(8))
    (spine,) = county_spines(table, DHC, PRIM, "zcdp", primitive=np.array(["a", "b"] * 4))
    assert spine.tree.parents[1].size == 2
    first = spine.blocks[spine.tree.paths()[1] == 0].tolist()
    assert sorted(first) == sorted(table.geocode16[::2].tolist())


def test_the_optimised_spine_brings_places_closer(random_county) -> None:
    table = random_county(5, 2000)
    order = {block: row for row, block in enumerate(table.geocode16.tolist())}

    def median(spine: CountySpine) -> float:
        names, touch = name_entities(table.placefp[[order[block] for block in spine.blocks.tolist()]])
        return float(np.median(entity_distances(touch, spine.tree.parents, names.size)))

    plain = county_spines(table, SpineSettings("aian"), PL94, "zcdp")[0]
    optimised = county_spines(table, PL94_PERSON, PL94, "zcdp")[0]
    assert median(optimised) < median(plain) / 2
