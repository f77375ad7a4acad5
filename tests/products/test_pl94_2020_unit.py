"""The housing units of the redistricting production of 2020 against the published facts and certificates."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.estimation import OuterPass
from das_spark.privacy import PUBLISHED_DELTA, epsilon_bun_steinke, epsilon_cks, within_geolevel_losses
from das_spark.products import PRODUCTS

UNIT, PERSON = PRODUCTS["pl94_2020_unit"], PRODUCTS["pl94_2020_person"]


def test_units_are_vacant_or_occupied() -> None:
    (h1,) = UNIT.schema.attributes
    assert (h1.name, h1.levels) == ("h1", ("Vacant", "Occupied"))
    assert UNIT.schema.query("vacant_count").row_of([0, 1]).tolist() == [0, -1]


def test_the_number_of_housing_units_is_exact_in_every_block_and_nothing_else_bounds() -> None:
    assert UNIT.total_at == "Block"
    assert UNIT.unit_bounds is None
    assert UNIT.class_query == ""
    assert UNIT.structural_zeros == ()


def test_levels_and_classes_of_units_are_those_of_the_persons() -> None:
    assert UNIT.geolevels == PERSON.geolevels
    assert UNIT.unit_classes == PERSON.unit_classes
    assert UNIT.unit_classes[0] == "Housing unit (occupied or vacant)"
    assert UNIT.unit_classes[1:] == PERSON.schema.attributes[0].levels[1:]
    assert UNIT.vacant_counted


@pytest.mark.parametrize(("name", "run"), [("us", "units_us"), ("pr", "units_pr"), ("state", "units_pr")])
def test_a_published_strategy_has_every_share_to_the_last_fraction(name: str, run: str, published: dict) -> None:
    budget = UNIT.strategies[name].budget
    assert budget.total == Fraction(published[run]["rho"]) == Fraction(3379, 12343) ** 2
    expected = {level: Fraction(each["share"]) for level, each in published[run]["levels"].items()}
    assert {level.geolevel: level.share for level in budget.levels} == expected
    assert {(item.query, item.share) for level in budget.levels for item in level.queries} == {("detailed", 1)}


@pytest.mark.parametrize(
    ("name", "levels"), [("to_tract", ("State", "County", "Tract")), ("to_county", ("US", "State", "County"))]
)
def test_a_run_on_less_has_equal_levels(name: str, levels: tuple[str, ...]) -> None:
    budget = UNIT.strategies[name].budget
    assert [(level.geolevel, level.share) for level in budget.levels] == [(level, Fraction(1, 3)) for level in levels]


def test_no_strategy_measures_a_total_so_that_none_has_a_share_to_give_away() -> None:
    assert {
        item.query
        for strategy in UNIT.strategies.values()
        for level in strategy.budget.levels
        for item in level.queries
    } == {"detailed"}
    assert not any(strategy.needs_total_at for strategy in UNIT.strategies.values())


def test_the_total_converts_to_the_published_epsilon() -> None:
    rho = UNIT.strategies["us"].budget.total
    assert rho == Fraction(11_417_641, 152_349_649)
    assert epsilon_cks(rho, PUBLISHED_DELTA) == pytest.approx(2.47467, abs=5e-6)
    assert epsilon_bun_steinke(rho, PUBLISHED_DELTA) == pytest.approx(2.70222, abs=5e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("us", {"US": 2.47, "State": 2.46, "County": 2.35, "Tract": 1.81, "Block_Group": 0.82}),
        ("pr", {"State": 2.47, "County": 2.35, "Tract": 1.81, "Block_Group": 0.82}),
    ],
)
def test_partial_epsilons_are_those_of_the_certificates(name: str, expected: dict[str, float]) -> None:
    losses = within_geolevel_losses(UNIT.strategies[name].budget)
    assert {loss.name: round(loss.epsilon or 0, 2) for loss in losses} == expected


@pytest.mark.parametrize(
    ("level", "published"),
    [
        ("US", 2735.4),
        ("State", 2735.4),
        ("County", 156.3),
        ("Tract", 37.57),
        ("Block_Group", 31.10),
        ("Block", 110.5),
    ],
)
def test_the_noise_of_the_nation_is_the_published_one(level: str, published: float) -> None:
    mechanism = UNIT.strategies["us"].budget.mechanism(level, "detailed")
    assert float(mechanism.sigma_squared) == pytest.approx(published, rel=5e-4)


def test_published_check_points_of_sigma() -> None:
    for name, level, sigma in (("us", "US", 52.300937), ("us", "Block", 10.512884), ("pr", "State", 48.140618)):
        mechanism = UNIT.strategies[name].budget.mechanism(level, "detailed")
        assert float(mechanism.sigma_squared) ** 0.5 == pytest.approx(sigma, abs=5e-7)


def test_every_level_is_estimated_in_one_pass() -> None:
    for strategy in UNIT.strategies.values():
        assert set(strategy.passes) == set(strategy.geolevels)
        assert set(strategy.passes.values()) == {(OuterPass((("detailed",),), (("detailed",),)),)}


def test_the_unit_file_has_the_columns_of_the_specification_in_order() -> None:
    columns = UNIT.microdata.unit
    assert columns[1:7] == PERSON.microdata.person[1:7]
    assert [(column.name, column.type) for column in columns[7:]] == [("RTYPE", "CHAR1"), ("HH_STATUS", "CHAR1")]
    assert columns[0].source == "constant:MUD"
    assert columns[8].source == "recode:h1:2,1,0"  # vacant, occupied, group quarters
    assert UNIT.microdata.header == "beside"
    assert UNIT.files(units=True) == UNIT.files(units=False) == ("unit",)


def test_the_public_copy_of_the_unit_file_is_analogous_to_that_of_persons() -> None:
    assert UNIT.ppmf is not None
    assert PERSON.ppmf is not None
    vintage, *others = UNIT.ppmf.unit
    assert vintage.name == "VINTAGE"
    assert vintage.source.startswith("constant:pl94_2020_unit_das_spark-")
    assert tuple(others[:5]) == PERSON.ppmf.person[1:6]
    assert tuple(others[5:]) == UNIT.microdata.unit[7:]
    assert (UNIT.ppmf.person, UNIT.ppmf.header, UNIT.ppmf.delimiter) == ((), "inside", ",")
