"""The units of 2020's characteristics against published facts: recodes, budget, what is held, codes of the file."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from das_spark.products import PRODUCTS
from das_spark.products._dhc_2020 import DHC_LEVELS

UNIT = PRODUCTS["dhc_2020_unit"]
#: Geolevel -> what the release gives the query of units in 1/10,000 of rho.
UNITED_STATES = dict(zip(DHC_LEVELS, (259, 3216, 1380, 973, 973, 1610, 407, 15), strict=True))
PUERTO_RICO = dict(zip(DHC_LEVELS[1:], (3364, 1457, 1054, 1054, 1687, 484, 15), strict=True))
SUBSETS = ("Prim", "Tract_Subset_Group", "Tract_Subset")


def rho(strategy: str) -> dict[str, Fraction]:
    budget = UNIT.strategies[strategy].budget
    return {level.geolevel: budget.spent(level.geolevel, "detailed") for level in budget.levels}


@pytest.mark.parametrize(("strategy", "wanted"), [("us_dhc_spine", UNITED_STATES), ("pr_dhc_spine", PUERTO_RICO)])
def test_every_level_costs_what_was_released(strategy, wanted):
    assert rho(strategy) == {level: Fraction(part, 10_000) for level, part in wanted.items()}


@pytest.mark.parametrize(("census", "dhc"), [("us", "us_dhc_spine"), ("pr", "pr_dhc_spine"), ("state", "pr_dhc_spine")])
def test_on_the_census_spine_a_tract_has_what_three_levels_have(census, dhc):
    assert rho(census)["Tract"] == sum(rho(dhc)[level] for level in SUBSETS)
    assert sum(rho(census).values()) == sum(rho(dhc).values()) == UNIT.strategies[census].budget.total


def test_noise_is_that_of_the_release():
    budget = UNIT.strategies["us_dhc_spine"].budget
    found = [sqrt(float(budget.mechanism(level, "detailed").sigma_squared)) for level in ("US", "State", "Block")]
    assert found == pytest.approx([6.2137, 1.7634, 25.8199], abs=1e-3)


def test_levels_are_four_tenures_and_seven_vacancies():
    levels = np.arange(11)
    answers = {name: UNIT.schema.query(name).row_of(levels).tolist() for name in ("vacantoccupied", "tenure", "vacs")}
    assert answers == {
        "vacantoccupied": [1, 1, 1, 1, *[0] * 7],
        "tenure": [0, 1, 2, 3, *[-1] * 7],
        "vacs": [*[-1] * 4, 0, 1, 2, 3, 4, 5, 6],
    }
    more = {name: UNIT.schema.query(name).row_of(levels).tolist() for name in ("tenure_3lev", "tenure_2lev")}
    assert more == {"tenure_3lev": [0, 1, 2, 2, *[-1] * 7], "tenure_2lev": [0, 0, 1, 1, *[-1] * 7]}
    for name, counted in (("householdTotal", 4), ("vacant", 7)):
        assert UNIT.schema.query(name).answer_dense(np.ones(11, dtype=np.int64)).tolist() == [counted]


def test_vacant_and_occupied_units_are_those_of_the_redistricting_data():
    published = UNIT.published
    other = PRODUCTS[published.product].schema
    assert other.attributes[0].levels == ("Vacant", "Occupied")
    labels = [UNIT.schema.attributes[0].levels[level] for level in (0, 4)]
    assert labels == ["Owned with a mortgage", "Vacant, for rent"]
    own, theirs = UNIT.schema.query(published.query), other.query(published.of)
    assert own.rows == theirs.rows == 2
    assert own.row_of(np.array([0, 3, 4, 10])).tolist() == theirs.row_of(np.array([1, 1, 0, 0])).tolist()


def test_units_are_counted_exactly_by_block_and_facilities_of_24_types_listed():
    assert UNIT.total_at == "Block"
    assert UNIT.record == "unit"
    assert len(UNIT.unit_classes) == 25
    assert UNIT.listed == tuple(range(1, 25))


def test_codes_of_the_file():
    columns = {column.name: column.source for column in UNIT.microdata.unit}
    assert columns["TEN"] == "recode:tenvac:1,2,3,4,0,0,0,0,0,0,0,0"
    assert columns["VACS"] == "recode:tenvac:0,0,0,0,1,2,3,4,5,6,7,0"
    codes = columns["GQTYPE"].split(":")[-1].split(",")
    assert (codes[0], codes[1], codes[24], codes[25]) == ("000", "101", "997", "000")


def test_every_type_of_quarters_in_a_file_has_a_class():
    coded = UNIT.file_recodes["cef_2020"].unit_class
    assert coded.blank_level == 0
    types = [101, 106, 201, 203, 301, 401, 405, 501, 601, 602, 701, 801, 802, 900, 901, 702, 704, 706, 903, 904]
    wanted = [1, 6, 7, 9, 10, 11, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 24, 24, 24, 24]
    assert coded.level_of(np.array(types)).tolist() == wanted
