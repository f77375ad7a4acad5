"""Two spines compared: against brute force over sums of geounits, and dense weighted least squares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import (
    DHC,
    ENTITY_CATEGORIES,
    PL94_PERSON,
    CountyComparison,
    LevelShares,
    SpinePaths,
    SpineSettings,
    census_shares,
    compare_county,
    county_paths,
    county_spines,
    join_comparisons,
    join_counties,
)
from das_spark.geography.comparison import census_paths

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of(dict(zip(LEVELS, (Fraction(part, 10) for part in (1, 2, 1, 2, 3, 1)), strict=True)))
NO_ROOT = LevelShares.of({level: Fraction(1, 5) for level in LEVELS[1:]})
DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
DHC_SHARES = LevelShares.of({level: Fraction(part, 36) for part, level in enumerate(DHC_LEVELS, 1)})
CATEGORIES = ("aian_area", "place", "county_subdivision", "block_group")
BUDGET = 0.5


def built(tables, settings, shares, framework):
    """Tables in the order of their paths, with the paths."""
    spines = [county_spines(table, settings, shares, framework) for table in tables]
    national = join_counties([part.summary() for county in spines for part in county], shares, settings)
    found = []
    for table, county in zip(tables, spines, strict=True):
        paths = [county_paths(part, national) for part in county]
        blocks = np.concatenate([part.blocks for part in paths])
        codes = tuple(np.concatenate(level) for level in zip(*(part.codes() for part in paths), strict=True))
        parts = zip(*(part.numerators() for part in paths), strict=True)
        numerators = [np.concatenate(level).astype(float) / shares.denominator for level in parts]
        place = np.argsort(table.geocode16)[np.searchsorted(np.sort(table.geocode16), blocks)]
        found.append((table.rows(place), SpinePaths(codes, tuple(numerators))))
    return national, found


def compared(found, shares, kind, framework, categories=CATEGORIES):
    census = census_shares(shares, kind)
    counties = [compare_county(table, paths, shares, census, framework, BUDGET, categories) for table, paths in found]
    # Counties come from workers as text.
    read = [CountyComparison.from_json(county.to_json()) for county in counties]
    return join_comparisons(read, categories, framework, BUDGET)


def strategy(paths: list[SpinePaths], framework):
    """Rows of all geounits over all blocks, with the precision of each."""
    rows, weights = [], []
    for level in range(len(paths[0].codes)):
        codes = np.concatenate([path.codes[level] for path in paths])
        shares = np.concatenate([path.shares[level] for path in paths])
        for code in np.unique(codes):
            rows.append((codes == code).astype(float))
            share = shares[codes == code][0]
            weights.append(BUDGET * share if framework == "zcdp" else BUDGET**2 * share**2 / 8)
    return np.array(rows), np.array(weights)


def fewest(rows, wanted):
    """Least number of rows that must be added or subtracted, by trying all."""
    steps = np.unique(rows, axis=0).astype(int)
    steps = [tuple(row) for row in np.concatenate([steps, -steps])]
    goal = tuple(wanted.astype(int))
    reached = {(0,) * len(goal)}
    for count in range(len(goal) + 1):
        if goal in reached:
            return count
        reached = {tuple(a + b for a, b in zip(state, step, strict=True)) for state in reached for step in steps}
        reached = {state for state in reached if max(map(abs, state)) <= 2}
    raise AssertionError(goal)


def members(tables, category):
    names = np.concatenate([ENTITY_CATEGORIES[category](table) for table in tables])
    return {name: names == name for name in np.unique(names[names != ""]).tolist()}


CASES = [
    (PL94_PERSON, SHARES, "zcdp"),
    (PL94_PERSON, SHARES, "pure_dp"),
    (PL94_PERSON, NO_ROOT, "zcdp"),
    (SpineSettings("aian"), SHARES, "zcdp"),
    (DHC, DHC_SHARES, "zcdp"),
]


@pytest.mark.parametrize(("settings", "shares", "framework"), CASES)
def test_variances_are_those_of_dense_least_squares(random_county, settings, shares, framework):
    tables = [
        random_county(1, 60, "44", "001"),
        random_county(2, 45, "44", "003"),
        random_county(3, 30, "04", "001"),
        random_county(4, 1, "04", "003"),
    ]
    settings = replace(settings, fanout_cutoff=0)
    _, found = built(tables, settings, shares, framework)
    result = compared(found, shares, settings.kind, framework)
    tables = [table for table, _ in found]
    plain = census_shares(shares, settings.kind)
    before = [census_paths(table.geocode16, plain) for table in tables]
    for side, paths in (("before", before), ("after", [paths for _, paths in found])):
        rows, weights = strategy(paths, framework)
        covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
        for entities in result.categories:
            inside = members(tables, entities.category)
            assert entities.names.tolist() == sorted(inside)
            assert entities.blocks.tolist() == [int(inside[name].sum()) for name in sorted(inside)]
            expected = [inside[name] @ covariance @ inside[name] for name in sorted(inside)]
            np.testing.assert_allclose(getattr(entities, f"variance_{side}"), expected, rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("settings", "shares", "framework"), [CASES[0], CASES[1], CASES[2]])
def test_distances_are_those_of_brute_force(random_county, settings, shares, framework, seed):
    tables = [random_county(seed, 5, "44", "001"), random_county(seed + 10, 3, "44", "003")]
    _, found = built(tables, replace(settings, fanout_cutoff=0), shares, framework)
    result = compared(found, shares, settings.kind, framework)
    tables = [table for table, _ in found]
    before = [census_paths(table.geocode16, shares) for table in tables]
    for side, paths in (("before", before), ("after", [paths for _, paths in found])):
        rows, _ = strategy(paths, framework)
        for entities in result.categories:
            inside = members(tables, entities.category)
            expected = [fewest(rows, inside[name]) for name in sorted(inside)]
            assert getattr(entities, f"distance_{side}").tolist() == expected


@pytest.mark.parametrize(("settings", "shares", "framework"), CASES)
def test_fan_outs_are_those_of_the_spine(random_county, settings, shares, framework):
    tables = [random_county(5, 200, "44", "001"), random_county(6, 90, "04", "003")]
    national, found = built(tables, settings, shares, framework)
    assert compared(found, shares, settings.kind, framework).fan_outs_after == national.fan_outs


def test_the_census_spine_compared_with_itself_is_the_same(random_county):
    tables = [random_county(7, 120, "44", "001"), random_county(8, 50, "44", "003")]
    _, found = built(tables, SpineSettings("census"), SHARES, "zcdp")
    result = compared(found, SHARES, "census", "zcdp", tuple(ENTITY_CATEGORIES))
    assert result.fan_outs_before == result.fan_outs_after
    for entities in result.categories:
        np.testing.assert_array_equal(entities.distance_before, entities.distance_after)
        np.testing.assert_array_equal(entities.variance_before, entities.variance_after)
    near = {entities.category: entities.distance_before for entities in result.categories}
    assert set(near["tract"]) == set(near["block_group"]) == {1}


def test_the_order_of_counties_changes_nothing(random_county):
    tables = [random_county(seed, 60, "44", f"{seed:03d}") for seed in (1, 3, 5)]
    _, found = built(tables, PL94_PERSON, SHARES, "zcdp")
    one, other = (compared(order, SHARES, "optimised", "zcdp") for order in (found, found[::-1]))
    for first, second in zip(one.categories, other.categories, strict=True):
        assert first.names.tolist() == second.names.tolist()
        np.testing.assert_array_equal(first.distance_after, second.distance_after)
        np.testing.assert_allclose(first.variance_after, second.variance_after, rtol=1e-12)


def test_nothing_to_join_is_refused():
    with pytest.raises(GeographyError, match="one county at least"):
        join_comparisons([], CATEGORIES, "zcdp", 1.0)
