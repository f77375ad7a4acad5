"""The persons of the redistricting production of 2020 against the published facts and certificates."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from das_spark.constraints import divisible
from das_spark.privacy import (
    PUBLISHED_DELTA,
    attribute_losses,
    epsilon_bun_steinke,
    epsilon_cks,
    within_geolevel_losses,
)
from das_spark.products import PRODUCTS, Strategy

PERSON = PRODUCTS["pl94_2020_person"]
ALL_BUT_TOTAL = (
    "cenrace",
    "hispanic",
    "votingage",
    "hhinstlevels",
    "hhgq",
    "votingage * hispanic",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic * cenrace",
    "detailed",
)
NESTED = ("hhgq", "hhgq * hispanic", "hhgq * hispanic * cenrace", "hhgq * votingage * hispanic * cenrace", "detailed")
LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")


def strategy(name: str) -> Strategy:
    return PERSON.strategies[name]


def test_the_histogram_is_that_of_the_2018_test_under_a_name_of_its_own() -> None:
    assert PERSON.schema.attributes == PRODUCTS["e2e_2018"].schema.attributes
    assert (PERSON.schema.name, PERSON.schema.shape, PERSON.schema.size) == ("pl94_2020_person", (8, 2, 2, 63), 2016)


def test_geocodes_are_those_of_the_plain_census_spine_under_one_nation() -> None:
    lengths = {level.name: level.length for level in PERSON.geolevels}
    assert lengths == {"US": 0, "State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 16}
    assert PERSON.total_at == "State"


@pytest.mark.parametrize(("name", "run"), [("us", "persons_us"), ("pr", "persons_pr"), ("state", "persons_pr")])
def test_a_published_strategy_has_every_share_to_the_last_fraction(name: str, run: str, published: dict) -> None:
    budget = strategy(name).budget
    assert budget.total == Fraction(published[run]["rho"]) == Fraction(542, 339) ** 2
    expected = {
        level: (Fraction(each["share"]), {query: Fraction(share) for query, share in each["queries"].items()})
        for level, each in published[run]["levels"].items()
    }
    found = {
        level.geolevel: (level.share, {item.query: item.share for item in level.queries}) for level in budget.levels
    }
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("name", "levels"), [("to_tract", ("State", "County", "Tract")), ("to_county", ("US", "State", "County"))]
)
def test_a_run_on_less_has_equal_levels_with_the_queries_of_the_nation(name: str, levels: tuple[str, ...]) -> None:
    assert strategy(name).geolevels == levels
    for level in strategy(name).budget.levels:
        assert level.share == Fraction(1, 3)
        assert level.queries == strategy("us").budget.level(level.geolevel).queries


#: Level -> its share of 4099 in the nation's run, and the share of its total: State has 3773 of 4097.
NATION = {"US": 104, "State": 1440, "County": 447, "Tract": 687, "Block_Group": 1256, "Block": 165}
TOTAL_OF_STATE = Fraction(1440, 4099) * Fraction(3773, 4097)


def spent(name: str) -> dict[tuple[str, str], Fraction]:
    budget = strategy(name).budget
    shares = {
        (level.geolevel, item.query): level.share * item.share for level in budget.levels for item in level.queries
    }
    assert shares == {place: budget.spent(*place) / budget.total for place in shares}
    return shares


@pytest.mark.parametrize(
    ("name", "dropped"),
    [("us_rebalanced", TOTAL_OF_STATE), ("state_rebalanced", TOTAL_OF_STATE + Fraction(104, 4099))],
)
def test_a_rebalanced_strategy_gives_the_share_of_the_total_to_all_other_answers_alike(
    name: str, dropped: Fraction, published: dict
) -> None:
    found = spent(name)
    expected = {
        (level, query): Fraction(each["share"]) * Fraction(share) / (1 - dropped)
        for level, each in published["persons_us"]["levels"].items()
        for query, share in each["queries"].items()
        if (level, query) != ("State", "total") and (level != "US" or name == "us_rebalanced")
    }
    assert found == expected
    assert list(found) == list(expected)
    assert sum(found.values()) == 1
    assert strategy(name).budget.total == strategy("us").budget.total
    assert strategy(name).needs_total_at == "State"


def test_shares_of_a_rebalanced_level_are_those_of_the_nation_without_the_total() -> None:
    whole = 1 - TOTAL_OF_STATE
    for level in strategy("us_rebalanced").budget.levels:
        own = Fraction(NATION[level.geolevel], 4099)
        assert level.share == (own - TOTAL_OF_STATE if level.geolevel == "State" else own) / whole
        if level.geolevel != "State":
            assert level.queries == strategy("us").budget.level(level.geolevel).queries
    below = strategy("state_rebalanced").budget
    for level in below.levels:
        assert level.queries == strategy("us_rebalanced").budget.level(level.geolevel).queries
    nation = {level.geolevel: level.share for level in strategy("us_rebalanced").budget.levels}
    assert {level.share / nation[level.geolevel] for level in below.levels} == {1 / (1 - nation["US"])}


def test_the_shares_that_were_sought_spend_the_same_budget_and_nothing_on_totals_of_states() -> None:
    found = strategy("state_least_error")
    assert found.budget.total == strategy("state").budget.total
    assert [(level.geolevel, level.share) for level in found.budget.levels] == [
        (name, Fraction(share, 1000))
        for name, share in zip(
            ("State", "County", "Tract", "Block_Group", "Block"), (40, 134, 264, 482, 80), strict=True
        )
    ]
    assert ("State", "total") not in spent("state_least_error")
    assert found.needs_total_at == "State"
    assert spent("state_least_error")["Block", "total"] == Fraction(80 * 17, 1_000_000)
    assert passes("state_least_error") == passes("state")


def test_the_total_of_states_costs_a_third_of_the_nation_and_nothing_of_puerto_rico() -> None:
    assert strategy("us").budget.spent("State", "total") == Fraction(177_339_451_520, 214_437_516_707)
    assert 1 / (1 - spent("us")["State", "total"]) == Fraction(16_793_603, 11_360_483)
    for name in ("pr", "state"):
        assert ("State", "total") not in spent(name)
        assert not strategy(name).needs_total_at


@pytest.mark.parametrize(
    "name", ["us", "pr", "state", "to_tract", "to_county", "us_rebalanced", "state_rebalanced", "state_least_error"]
)
def test_every_strategy_spends_the_published_total_along_each_path(name: str) -> None:
    budget = strategy(name).budget
    spent = [budget.spent(level.geolevel, item.query) for level in budget.levels for item in level.queries]
    assert sum(spent) == Fraction(293764, 114921)


def test_the_total_converts_to_the_published_epsilon() -> None:
    rho = strategy("us").budget.total
    assert epsilon_cks(rho, PUBLISHED_DELTA) == pytest.approx(17.14355, abs=5e-6)
    assert epsilon_bun_steinke(rho, PUBLISHED_DELTA) == pytest.approx(17.90018, abs=5e-6)


#: The certificates of 25 June 2021.
ATTRIBUTES = {
    "us": {"hhgq": 7.24, "votingage": 7.57, "hispanic": 10.04, "cenrace": 10.08},
    "pr": {"hhgq": 8.69, "votingage": 9.49, "hispanic": 11.65, "cenrace": 11.69},
}
#: What was spent on a total, which tells nothing of an attribute, is spent on answers that do.
REBALANCED = {"hhgq": 8.99, "votingage": 9.39, "hispanic": 12.51, "cenrace": 12.57}
WITHIN = {
    "us": {"US": 16.89, "State": 13.05, "County": 11.70, "Tract": 9.38, "Block_Group": 2.93},
    "pr": {"State": 15.41, "County": 13.51, "Tract": 11.18, "Block_Group": 2.93},
}


def losses_of_attributes(name: str) -> dict[str, float]:
    budget = strategy(name).budget
    queries = {item.query: PERSON.schema.query(item.query) for level in budget.levels for item in level.queries}
    return {loss.name: round(loss.epsilon or 0, 2) for loss in attribute_losses(budget, queries, PERSON.schema)}


def test_a_rebalanced_strategy_says_more_of_each_attribute() -> None:
    assert losses_of_attributes("us_rebalanced") == REBALANCED


@pytest.mark.parametrize("name", ["us", "pr"])
def test_partial_epsilons_are_those_of_the_certificates(name: str) -> None:
    budget = strategy(name).budget
    assert losses_of_attributes(name) == ATTRIBUTES[name]
    within = {loss.name: loss.epsilon for loss in within_geolevel_losses(budget)}
    assert {key: round(value or 0, 2) for key, value in within.items()} == WITHIN[name]


#: sigma^2 as published, to four digits: total, Hispanic x race, age x Hispanic x race, detailed, then exceptions and
#: all others.
SIGMA_SQUARED = {
    "US": (None, 485.9, 142.9, 19.66, {"cenrace": 1215, "votingage * cenrace": 485.9}, 2430),
    "State": (1.209, 380.2, 134.2, 19.84, {"votingage * cenrace": 380.2}, 760.4),
    "County": (4.702, 524.9, 145.5, 19.49, {"votingage * cenrace": 524.9}, 1470),
    "Tract": (6.110, 4.953, 142.9, 19.86, {"cenrace": 1197, "votingage * cenrace": 478.7}, 1915),
    "Block_Group": (3.069, 4.960, 218.0, 4.063, {"votingage * cenrace": 581.5}, 1744),
    "Block": (7963, 1896, 560.8, 10.09, {"cenrace": 4424, "votingage * cenrace": 1896}, 7963),
}


@pytest.mark.parametrize("level", LEVELS)
def test_the_noise_of_the_nation_is_the_published_one(level: str) -> None:
    total, origin_race, strata, detailed, exceptions, others = SIGMA_SQUARED[level]
    named = {"total": total, "hispanic * cenrace": origin_race, PERSON.strata: strata, "detailed": detailed}
    budget = strategy("us").budget
    for item in budget.level(level).queries:
        mechanism = budget.mechanism(level, item.query)
        assert mechanism.sigma_squared == 1 / budget.spent(level, item.query)
        expected = named.get(item.query) or exceptions.get(item.query, others)
        assert float(mechanism.sigma_squared) == pytest.approx(expected, rel=5e-4)
    assert ("total" in {item.query for item in budget.level(level).queries}) == (total is not None)


@pytest.mark.parametrize(
    ("level", "query", "name", "sigma"),
    [("US", "cenrace", "us", 34.854111), ("Block", "total", "us", 89.237086), ("State", "cenrace", "pr", 4.780191)],
)
def test_published_check_points_of_sigma(level: str, query: str, name: str, sigma: float) -> None:
    mechanism = strategy(name).budget.mechanism(level, query)
    assert float(mechanism.sigma_squared) ** 0.5 == pytest.approx(sigma, abs=5e-7)


def passes(name: str) -> dict[str, tuple[list[set[str]], list[tuple[str, ...]]]]:
    """Of the one outer pass of each level: inner passes of least squares (a set each), and of rounding."""
    found = {}
    for level, (outer,) in strategy(name).passes.items():
        assert all(len(set(inner)) == len(inner) for inner in outer.least_squares)
        found[level] = [set(inner) for inner in outer.least_squares], list(outer.rounding)
    return found


@pytest.mark.parametrize(("name", "root"), [("us", "US"), ("pr", "State"), ("state", "State"), ("to_county", "US")])
def test_queries_enter_in_the_published_order(name: str, root: str) -> None:
    every, whole = set(ALL_BUT_TOTAL), [("total", *NESTED)]
    for level, found in passes(name).items():
        if level == root:
            assert found == ([every], whole)
        elif level == "Block":
            assert found == ([{"total", *every}], whole)
        else:
            assert found == ([{"total"}, every], [("total",), NESTED])


def test_a_rebalanced_strategy_estimates_states_as_a_root_whose_total_is_known() -> None:
    found = passes("us_rebalanced")
    assert found["State"] == found["US"] == passes("us")["US"]
    assert {level: each for level, each in found.items() if level != "State"} == {
        level: each for level, each in passes("us").items() if level != "State"
    }
    assert passes("state_rebalanced") == passes("state")


def test_the_root_of_a_run_on_states_leaves_out_their_total_which_is_exact() -> None:
    found = passes("to_tract")
    assert found["State"] == passes("pr")["State"]
    assert found["Tract"] == passes("us")["Tract"]


def test_housing_units_may_be_empty_and_everything_holds_99999_at_most() -> None:
    formulas = PERSON.unit_bounds
    assert formulas is not None
    assert formulas.least == (0, *(1,) * 7)
    assert formulas.most == (99_999,) * 8
    assert formulas.cap_when_total_known
    assert PERSON.vacant_counted
    empty_homes = np.array([[3, 0, 0, 0, 0, 0, 0, 0]])
    assert divisible(formulas.lower(empty_homes), formulas.upper(empty_homes), np.array([0])).all()


def test_only_minors_in_nursing_facilities_are_impossible() -> None:
    (rule,) = PERSON.structural_zeros
    assert rule == PRODUCTS["e2e_2018"].structural_zeros[0]
    assert rule.name == "nurse_nva_0"


def test_the_person_file_has_the_columns_of_the_specification_in_order() -> None:
    assert [(column.name, column.type) for column in PERSON.microdata.person] == [
        ("SCHEMA_TYPE_CODE", "CHAR3"),
        ("SCHEMA_BUILD_ID", "CHAR5"),
        ("TABBLKST", "CHAR2"),
        ("TABBLKCOU", "CHAR3"),
        ("TABTRACTCE", "CHAR6"),
        ("TABBLKGRPCE", "CHAR1"),
        ("TABBLK", "CHAR4"),
        ("EPNUM", "INT9"),
        ("RTYPE", "CHAR1"),
        ("GQTYPE_PL", "CHAR1"),
        ("VOTING_AGE", "CHAR1"),
        ("CENHISP", "CHAR1"),
        ("CENRACE", "CHAR2"),
    ]
    sources = {column.name: column.source for column in PERSON.microdata.person}
    assert sources["SCHEMA_TYPE_CODE"] == "constant:MPD"
    assert sources["SCHEMA_BUILD_ID"] == "constant:1.1.0"
    assert sources["EPNUM"] == "record_number"
    assert sources["GQTYPE_PL"] == "recode:hhgq:0,1,2,3,4,5,6,7"
    assert sources["VOTING_AGE"] == "recode:votingage:1,2"
    assert PERSON.microdata.header == "beside"
    assert PERSON.microdata.delimiter == "|"
    assert PERSON.files(units=True) == ("person",)


def test_the_public_copy_of_the_person_file_has_the_columns_of_2021_in_order() -> None:
    assert PERSON.ppmf is not None
    vintage, *others = PERSON.ppmf.person
    assert [vintage.name, *(column.name for column in others)] == [
        "VINTAGE",
        "TABBLKST",
        "TABBLKCOU",
        "TABTRACTCE",
        "TABBLKGRPCE",
        "TABBLK",
        "RTYPE",
        "GQTYPE_PL",
        "VOTING_AGE",
        "CENHISP",
        "CENRACE",
    ]
    assert re.fullmatch(r"constant:pl94_2020_person_das_spark-[0-9][^,|\s]*", vintage.source)
    assert vintage.type == f"CHAR{len(vintage.source.removeprefix('constant:'))}"
    assert set(others) < set(PERSON.microdata.person)
    assert (PERSON.ppmf.unit, PERSON.ppmf.header, PERSON.ppmf.delimiter) == ((), "inside", ",")
