"""The persons of 2020's characteristics against published facts: cells, rho, noise, ages of relationships, layout."""

from __future__ import annotations

from fractions import Fraction
from math import log, pi, sqrt

import numpy as np
import pytest

from das_spark.config import held_counts
from das_spark.geography import DHC_SHARES
from das_spark.products import PRODUCTS
from das_spark.products._dhc_2020 import DHC_LEVELS

DHC = PRODUCTS["dhc_2020_person"]
SUBSETS = ("Prim", "Tract_Subset_Group", "Tract_Subset")
#: Query -> answers.
QUERIES = {
    "relgq_4_groups * age_18_64_116": 12,
    "sex * age_18_64_116": 6,
    "sex * age_38_groups": 76,
    "sex * hispanic": 4,
    "relgq_4_groups * sex": 8,
    "gq_constr_groups * age_10_groups": 60,
    "popSehsdTargetsRelship": 19,
    "relship_and_eight_level_GQ * sex * age_40_groups * hispanic * cenrace": 252_000,
    "relgq * sex * age_40_groups * hispanic * cenrace": 423_360,
    "detailed": 1_227_744,
}
#: Geolevel -> what the release gives each query in 1/10,000 of rho: most of them, quarters by age, relationships; all.
UNITED_STATES = {
    "US": (73, 292, 73, 949),
    "State": (999, 3996, 999, 12_987),
    "County": (310, 1240, 1240, 4960),
    "Prim": (478, 1912, 478, 6214),
    "Tract_Subset_Group": (478, 1912, 478, 6214),
    "Tract_Subset": (868, 3472, 3472, 13_888),
    "Block_Group": (430, 430, 430, 4300),
    "Block": (11, 11, 11, 110),
}


def rho(strategy: str, level: str) -> dict[str, Fraction]:
    """What each query of a level costs."""
    budget = DHC.strategies[strategy].budget
    of_level = budget.level(level)
    return {item.query: budget.total * of_level.share * item.share for item in of_level.queries}


def test_the_histogram_has_the_published_axes_and_possible_cells():
    sizes = [(attribute.name, attribute.size) for attribute in DHC.schema.attributes]
    assert sizes == [("relgq", 42), ("sex", 2), ("age", 116), ("hispanic", 2), ("cenrace", 63)]
    assert DHC.schema.size == 1_227_744
    assert int((~DHC.zero_cells()).sum()) == 905_184
    assert {name: DHC.schema.query(name).rows for name in QUERIES} == QUERIES


@pytest.mark.parametrize("level", UNITED_STATES)
def test_every_query_of_the_nation_costs_what_was_released(level):
    usual, quarters, relations, whole = UNITED_STATES[level]
    found = rho("us_dhc_spine", level)
    wanted = dict.fromkeys(QUERIES, usual) | {
        "gq_constr_groups * age_10_groups": quarters,
        "popSehsdTargetsRelship": relations,
    }
    assert found == {name: Fraction(part, 10_000) for name, part in wanted.items()}
    assert sum(found.values()) == Fraction(whole, 10_000)


def test_puerto_rico_costs_the_same_and_its_first_query_of_the_state_a_little_less():
    assert DHC.strategies["pr_dhc_spine"].budget.total == Fraction(24_811, 5000)
    state = rho("pr_dhc_spine", "State")
    assert state["relgq_4_groups * age_18_64_116"] == Fraction(1009, 10_000)
    assert state["sex * age_18_64_116"] == Fraction(1011, 10_000)
    assert sum(state.values()) == Fraction(13_142, 10_000)
    assert sum(rho("pr_dhc_spine", "Prim").values()) == Fraction(6371, 10_000)


@pytest.mark.parametrize(("strategy", "shares"), [("us_dhc_spine", "dhc_person_us"), ("pr_dhc_spine", "dhc_person_pr")])
def test_levels_have_the_shares_of_the_spine(strategy, shares):
    levels = DHC.strategies[strategy].budget.levels
    assert {level.geolevel: level.share for level in levels} == DHC_SHARES[shares]


@pytest.mark.parametrize(("census", "dhc"), [("us", "us_dhc_spine"), ("pr", "pr_dhc_spine"), ("state", "pr_dhc_spine")])
def test_on_the_census_spine_a_tract_has_what_three_levels_have(census, dhc):
    together = {name: sum(rho(dhc, level)[name] for level in SUBSETS) for name in QUERIES}
    assert rho(census, "Tract") == together
    assert DHC.strategies[census].budget.total == DHC.strategies[dhc].budget.total
    for level in DHC_LEVELS:
        if level not in SUBSETS and level in DHC.strategies[dhc].geolevels:
            assert rho(census, level) == rho(dhc, level)


def test_to_the_county_three_levels_have_equal_parts_of_the_same_budget():
    nation, levels = DHC.strategies["us"].budget, ("US", "State", "County")
    budget = DHC.strategies["to_county"].budget
    assert budget.total == nation.total
    assert {level.geolevel: level.share for level in budget.levels} == dict.fromkeys(levels, Fraction(1, 3))
    for level in levels:
        whole = sum(rho("us", level).values())
        assert rho("to_county", level) == {
            name: part / whole * budget.total / 3 for name, part in rho("us", level).items()
        }


def test_noise_and_epsilon_are_those_of_the_release():
    budget = DHC.strategies["us_dhc_spine"].budget
    first = next(iter(QUERIES))
    # Squared sensitivity 2: sigma^2 = 1 / rho of the query.
    found = [sqrt(float(budget.mechanism(level, first).sigma_squared)) for level in ("US", "Block")]
    assert found == pytest.approx([11.704115, 30.151134], abs=1e-3)
    total, delta = float(budget.total), 1e-10
    assert total + 2 * sqrt(total * log(1 / delta)) == pytest.approx(26.3406, abs=5e-5)
    assert total + 2 * sqrt(total * log(sqrt(pi * total) / delta)) > 26.3406


#: Relationships and types by the ages that they admit, once more.
AGES = {
    **dict.fromkeys(range(6), (15, 115)),
    **dict.fromkeys((6, 7, 8), (0, 89)),
    10: (30, 115),
    11: (0, 74),
    12: (30, 115),
    13: (15, 89),
    16: (0, 20),
    **dict.fromkeys(range(18, 23), (15, 115)),
    **dict.fromkeys((23, 31, 34, 35), (17, 65)),
    **dict.fromkeys((24, 25, 26), (0, 25)),
    27: (20, 115),
    32: (3, 30),
    33: (16, 65),
    37: (16, 115),
    38: (16, 115),
    39: (16, 75),
}


def test_ages_of_relationships_and_of_quarters():
    zero = DHC.zero_cells().reshape(42, 2, 116, 126)
    assert (zero == zero[:, :1, :, :1]).all()
    for level in range(42):
        first, last = AGES.get(level, (0, 115))
        assert np.array_equal(zero[level, 0, :, 0], [not first <= age <= last for age in range(116)])


#: First level of relgq of every class of the redistricting data, households first.
CLASSES = (0, 18, 24, 27, 28, 33, 34, 36)


def cells_of(levels: np.ndarray) -> np.ndarray:
    """Cell of everybody by voting age, origin, race and what each level of relgq stands for."""
    relgq, _, age, hispanic, cenrace = np.unravel_index(np.arange(DHC.schema.size), (42, 2, 116, 2, 63))
    return np.ravel_multi_index(
        (levels[relgq], (age >= 18).astype(int), hispanic, cenrace), (levels.max() + 1, 2, 2, 63)
    )


def test_people_by_class_age_origin_and_race_are_those_of_the_redistricting_data():
    published = DHC.published
    own, theirs = DHC.schema.query(published.undivided), PRODUCTS[published.product].schema.query(published.of)
    assert own.rows == theirs.rows == 2016
    # Every person of the one stands in the cell that it has in the other.
    classes = np.searchsorted(CLASSES, np.arange(42), side="right") - 1
    assert np.array_equal(own.row_of(np.arange(DHC.schema.size)), theirs.row_of(cells_of(classes)))


def test_they_are_held_by_type_of_facility_as_in_the_bounds_of_the_release():
    types = np.maximum(np.arange(42) - 17, 0)
    held = held_counts(DHC, units=True)
    assert (held.query.rows, held.of.rows) == (25 * 252, 25 * 252)
    assert np.array_equal(held.query.row_of(np.arange(DHC.schema.size)), cells_of(types))
    assert np.array_equal(held.parts.unit_class, np.repeat(np.arange(25), 252))
    classes = np.searchsorted(CLASSES, np.arange(17, 42), side="right") - 1
    assert np.array_equal(held.parts.answer, (classes[:, None] * 252 + np.arange(252)).ravel())
    # Households are in housing units, which may be empty; in every facility there is somebody.
    assert (DHC.unit_bounds.least, DHC.unit_bounds.most) == ((0, *(1,) * 24), (99_999,) * 25)
    assert DHC.unit_classes == PRODUCTS["dhc_2020_unit"].unit_classes


def test_without_declared_units_the_published_classes_are_held():
    held = held_counts(DHC, units=False)
    assert (held.query.rows, held.parts) == (2016, None)


def test_passes_are_the_released_ones_by_type_of_facility():
    first, second = DHC.strategies["us"].passes["County"]
    assert first.least_squares == (tuple(QUERIES)[:-1],)
    assert [DHC.schema.query(name).rows for name in first.rounding[0]] == [12_600, 18_900, 423_360]
    assert (second.least_squares, second.rounding) == ((("detailed",),), (("detailed",),))


def test_codes_of_microdata():
    columns = {column.name: column.source.split(":")[-1].split(",") for column in DHC.microdata.person}
    assert len(columns) == 16
    assert columns["RELSHIP"] == ["20", *map(str, range(20, 37)), *["37"] * 15, *["38"] * 9]
    assert columns["LIVE_ALONE"] == ["1", *["2"] * 17, *["0"] * 24]
    assert columns["GQTYPE"][:18] == ["000"] * 18
    codes = "101,102,103,104,105,106,201,202,203,301,401,402,403,404,405,501,601,602,701,801,802,900,901,997"
    assert ",".join(columns["GQTYPE"][18:]) == codes
