"""The households of 2020's characteristics against published facts: cells, rho, noise, types, rules, layout."""

from __future__ import annotations

from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest

from das_spark.geography import DHC_SHARES
from das_spark.products import PRODUCTS
from das_spark.products._dhc_2020 import DHC_LEVELS
from das_spark.tabulation.household_types import TYPES

DHC, UNIT = PRODUCTS["dhc_2020_household"], PRODUCTS["dhc_2020_unit"]
SUBSETS = ("Prim", "Tract_Subset_Group", "Tract_Subset")
COARSE = "sex * hisp * race * hhtenshort_3lev * DetailedCoupleTypeMultGenDetOwnChildSize"
#: Query -> answers, in the order of the release.
QUERIES = {
    "hisp * hhtenshort_2lev * multig": 8,
    "hisp * hhtenshort_2lev": 4,
    "hisp * race * hhtenshort_2lev": 28,
    "sex * hhtenshort_2lev * partner_type_detailed_own_child_status": 48,
    "hisp * hhtenshort_2lev * coupled_hh_type": 20,
    COARSE: 15_372,
    "sex * hhage * hisp * race * hhtenshort_3lev * DetailedCoupleTypeMultGenDetOwnChildSize": 138_348,
    "hhage * hhtenshort_3lev * DetailedCoupleTypeMultGenDetOwnChildSize": 4941,
    "detailed": 1_578_528,
}
#: Geolevel -> what the release gives each of them in 1/10,000 of rho, and the units and all together.
UNITED_STATES = {
    "US": ((792, 212, 212, 792, 792, 257, 257, 212, 1049), 259, 4834),
    "State": ((714, 193, 191, 1428, 714, 3216, 3216, 193, 3931), 3216, 17_012),
    "County": ((986, 266, 1500, 1972, 3944, 1380, 1380, 266, 1380), 1380, 14_454),
    "Prim": ((973, 214, 1500, 1946, 973, 973, 973, 214, 973), 973, 9712),
    "Tract_Subset_Group": ((973, 214, 1500, 1946, 973, 973, 973, 214, 973), 973, 9712),
    "Tract_Subset": ((1150, 310, 1750, 2300, 4601, 1610, 1610, 310, 1610), 1610, 16_861),
    "Block_Group": ((291, 78, 442, 581, 1162, 407, 407, 78, 407), 407, 4260),
    "Block": ((11, 3, 17, 22, 44, 15, 15, 3, 15), 15, 160),
}
PUERTO_RICO = {
    "State": ((748, 202, 200, 1496, 748, 3368, 3368, 202, 4117), 3364, 17_813),
    "County": ((1041, 281, 1584, 2082, 4164, 1457, 1457, 281, 1457), 1457, 15_261),
    "Prim": ((1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054), 1054, 10_519),
    "Tract_Subset_Group": ((1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054), 1054, 10_519),
    "Tract_Subset": ((1205, 325, 1833, 2410, 4820, 1687, 1687, 325, 1687), 1687, 17_666),
    "Block_Group": ((346, 93, 526, 691, 1382, 484, 484, 93, 484), 484, 5067),
    "Block": ((11, 3, 17, 22, 44, 15, 15, 3, 15), 15, 160),
}
LEVELS = [("us_dhc_spine", level, *row) for level, row in UNITED_STATES.items()]
LEVELS += [("pr_dhc_spine", level, *row) for level, row in PUERTO_RICO.items()]


def rho(strategy: str, level: str, product=DHC) -> dict[str, Fraction]:
    """What each query of a level costs."""
    budget = product.strategies[strategy].budget
    return {item.query: budget.spent(level, item.query) for item in budget.level(level).queries}


def spans(text: str) -> set[int]:
    """Levels as the release writes them."""
    ends = [part.split("-") for part in text.split(",")]
    return {level for end in ends for level in range(int(end[0]), int(end[-1]) + 1)}


def test_the_histogram_has_the_published_axes_and_possible_cells():
    assert DHC.schema.shape == (2, 9, 2, 7, 4, 3, 522)
    assert DHC.schema.size == 1_578_528
    assert int((~DHC.zero_cells()).sum()) == 1_111_572
    assert {name: DHC.schema.query(name).rows for name in QUERIES} == QUERIES
    assert DHC.schema.query("DetailedCoupleTypeMultGenDetOwnChildSize").rows == 183


@pytest.mark.parametrize(("strategy", "level", "parts", "units", "whole"), LEVELS)
def test_every_query_costs_what_was_released(strategy, level, parts, units, whole):
    found = rho(strategy, level)
    assert list(found) == list(QUERIES)
    assert list(found.values()) == [Fraction(part, 10_000) for part in parts]
    # The units' share is spent by the other product.
    assert sum(found.values()) + sum(rho(strategy, level, UNIT).values()) == Fraction(whole, 10_000)


@pytest.mark.parametrize(("strategy", "shares"), [("us_dhc_spine", "dhc_unit_us"), ("pr_dhc_spine", "dhc_unit_pr")])
def test_both_products_together_have_the_shares_of_the_spine(strategy, shares):
    whole = Fraction(15_401, 2000)
    together = {
        level: (sum(rho(strategy, level).values()) + sum(rho(strategy, level, UNIT).values())) / whole
        for level in DHC.strategies[strategy].geolevels
    }
    assert together == DHC_SHARES[shares]
    assert sum(product.strategies[strategy].budget.total for product in (DHC, UNIT)) == whole


@pytest.mark.parametrize(("census", "dhc"), [("us", "us_dhc_spine"), ("pr", "pr_dhc_spine"), ("state", "pr_dhc_spine")])
def test_on_the_census_spine_a_tract_has_what_three_levels_have(census, dhc):
    assert rho(census, "Tract") == {name: sum(rho(dhc, level)[name] for level in SUBSETS) for name in QUERIES}
    assert DHC.strategies[census].budget.total == DHC.strategies[dhc].budget.total
    for level in DHC_LEVELS:
        if level not in SUBSETS and level in DHC.strategies[dhc].geolevels:
            assert rho(census, level) == rho(dhc, level)


def test_noise_and_epsilon_are_those_of_the_release():
    first = next(iter(QUERIES))
    noise = {}
    for strategy, level in (("pr_dhc_spine", "State"), ("pr_dhc_spine", "Block"), ("us_dhc_spine", "US")):
        sigma_squared = DHC.strategies[strategy].budget.mechanism(level, first).sigma_squared
        noise[strategy, level] = sqrt(float(sigma_squared))
    assert list(noise.values()) == pytest.approx([3.656362, 30.151134, 3.553345], abs=1e-6)
    total = float(sum(product.strategies["us_dhc_spine"].budget.total for product in (DHC, UNIT)))
    assert total + 2 * sqrt(total * log(1e10)) == pytest.approx(34.3321, abs=5e-5)


#: Recode of types -> groups as the release lists them.
TYPE_GROUPS = {
    "coupled_hh_type": ["86-171", "0-85", "282-391", "172-281", "392-521"],
    "partner_type_detailed_own_child_status": [
        "394-414",
        "392-393,445-521",
        "415-435",
        "436-444",
        "0-16,86-102",
        "41-85,127-171",
        "17-33,103-119",
        "34-40,120-126",
        "172-188,282-298",
        "213-281,323-391",
        "189-205,299-315",
        "206-212,316-322",
    ],
    "family": ["0-255,282-365,394-492"],
    "nonfamily": ["256-281,366-393,493-521"],
    "marriedfamily": ["0-171"],
    "otherfamily": ["172-255,282-365,394-492"],
    "minors": [
        "0-65,76-151,162-237,247-269,276-347,357-379,386-391,393-475,487-509,516-521",
        "66-75,152-161,238-246,270-275,348-356,380-385,392,476-486,510-515",
    ],
    "ownchild_under18": ["0-40,86-126,172-212,282-322,394-444"],
    "ownchild_under6": ["0-16,34-40,86-102,120-126,172-188,206-212,282-298,316-322,394-414,436-444"],
    "alone": ["392-393"],
    "child_alone": ["393"],
    "type2_couple": ["66,76,152,162,270,276,380,386"],
    "type2_onechild": ["76,162,276,386,394,415,445,456,487,493,499,516"],
    "type2_onechildxhh": ["394,415,445,456,493,499"],
    "type3_couple_with_child": ["0,17,86,103,172,189,282,299"],
    "type3_twochild": ["436"],
    "type4_couple_with_twochildren": ["34,120,206,316"],
}


@pytest.mark.parametrize("name", TYPE_GROUPS)
def test_types_are_grouped_as_released(name):
    recodes = {recode.name: recode for recode in DHC.schema.attributes[-1].recodes}
    assert [set(levels) for _, levels in recodes[name].groups] == [spans(text) for text in TYPE_GROUPS[name]]


def test_the_first_groups_of_the_query_of_183_are_those_without_a_couple():
    recodes = {recode.name: recode for recode in DHC.schema.attributes[-1].recodes}
    groups = dict(recodes["DetailedCoupleTypeMultGenDetOwnChildSize"].groups)
    keys = [
        ((4, 1, 0, 3, 2).index(each.couple), each.generations, each.own_children, each.size)
        for each in (TYPES[levels[0]] for levels in groups.values())
    ]
    assert keys == sorted(keys)
    assert {TYPES[level].generations for _, levels in recodes["multig"].groups[:1] for level in levels} == {False}


#: Rules by householder's age and oldest member for some types, and by sex, once more, as the release lists them.
OLDEST = ("1-3", "0,2-3", "0-1,3", "0-2")
AGED = ("0-4", "5", "6", "7-8")
RULES = [
    *((aged, oldest, "392-393", "0-1") for aged, oldest in zip(AGED, OLDEST, strict=True)),
    ("1-8", "0-3", "393", "0-1"),
    ("0-4", "1-3", "394,415,445,456,493,499", "0-1"),
    *(
        (a, o, "76,162,276,386,394,415,445,456,487,493,499,516", "0-1")
        for a, o in zip(AGED[1:], OLDEST[1:], strict=True)
    ),
    ("0", "3", "66,76,152,162,270,276,380,386", "0-1"),
    ("0", "3", "0,17,86,103,172,189,282,299", "0-1"),
    *((aged, oldest, "436", "0-1") for aged, oldest in zip(AGED, OLDEST, strict=True)),
    ("0", "3", "34,120,206,316", "0-1"),
    ("7-8", "0-2", "0-521", "0-1"),
    ("6", "0-1", "0-521", "0-1"),
    ("5", "0", "0-521", "0-1"),
    ("7-8", "0-3", TYPE_GROUPS["ownchild_under6"][0], "0"),
    ("7-8", "0-3", TYPE_GROUPS["ownchild_under18"][0], "1"),
    ("5-8", "0-3", TYPE_GROUPS["ownchild_under6"][0], "1"),
]


def test_impossible_households_are_the_released_ones():
    assert len(DHC.structural_zeros) == len(RULES) == 22
    wanted = np.zeros((2, 9, 4, 522), dtype=bool)
    for texts in RULES:
        aged, oldest, types, sexes = (sorted(spans(text)) for text in texts)
        wanted[np.ix_(sexes, aged, oldest, types)] = True
    # Origin, race and tenure say nothing.
    found = DHC.zero_cells().reshape(DHC.schema.shape)
    assert np.array_equal(found[:, :, 0, 0, :, 0], wanted)
    assert (found == wanted[:, :, None, None, :, None]).all()


def test_every_zero_can_be_written_as_a_query():
    for zero in DHC.structural_zeros:
        assert DHC.schema.query(zero.query(DHC.schema)).rows == 1


def test_households_by_tenure_are_those_of_the_units():
    published = DHC.published
    assert published.product == UNIT.name
    own, theirs = DHC.schema.query(published.query), UNIT.schema.query(published.of)
    assert own.rows == theirs.rows == 3
    assert theirs.row_of(np.arange(11)).tolist() == [0, 1, 2, 2, *[-1] * 7]
    assert own.row_of(np.array([0, 522, 1044])).tolist() == [0, 1, 2]


def test_passes_are_the_released_ones():
    first, second = DHC.strategies["us"].passes["County"]
    assert first.least_squares == (tuple(QUERIES)[:6],)
    assert [DHC.schema.query(name).rows for name in first.rounding[0]] == [549, 15_372]
    assert second.least_squares == (tuple(QUERIES)[6:],)
    assert second.rounding == (("detailed",),)


def coded(name: str) -> list[str]:
    return next(column for column in DHC.microdata.unit if column.name == name).source.split(":")[-1].split(",")


def level(**fields: object) -> int:
    """The only type with some fields."""
    (found,) = (
        place for place, each in enumerate(TYPES) if all(getattr(each, name) == value for name, value in fields.items())
    )
    return found


def test_the_file_has_the_columns_of_the_release():
    names = [column.name for column in DHC.microdata.unit]
    wanted = (
        "RTYPE GQTYPE TEN VACS HHSIZE HHT HHT2 CPLT UPART MULTG THHLDRAGE THHSPAN THHRACE PAOC TP18 TP60 TP65 TP75 "
        "PAC HHSEX"
    )
    assert " ".join(names[7:]) == wanted
    assert len(names) == 27


ALONE = level(size=1, minor=False)
COUPLE = level(couple=0, size=2, minor=False)
PARTNERS = level(couple=3, size=3, own_children=1)
RELATED = level(couple=4, size=3, own_children=0, children=0, minor=False, relatives=True, generations=False)
ROOMMATES = level(couple=4, size=2, minor=False, relatives=False)
#: Type -> codes of men, and of women: HHT, HHT2 and UPART; CPLT, PAOC, PAC, TP18, HHSIZE and MULTG of both.
CODES = {
    ALONE: (("4", "09", "0"), ("6", "05", "0"), ("0", "4", "4", "0", "1", "0")),
    COUPLE: (("1", "02", "5"), ("1", "02", "5"), ("1", "4", "4", "0", "2", "0")),
    PARTNERS: (("2", "03", "1"), ("3", "03", "3"), ("4", "1", "1", "1", "3", "1")),
    RELATED: (("2", "11", "5"), ("3", "07", "5"), ("5", "4", "4", "0", "3", "1")),
    ROOMMATES: (("5", "12", "5"), ("7", "08", "5"), ("5", "4", "4", "0", "2", "0")),
}


@pytest.mark.parametrize("place", CODES)
def test_codes_of_some_households(place):
    *by_sex, both = CODES[place]
    for sex, codes in enumerate(by_sex):
        assert tuple(coded(name)[sex * 522 + place] for name in ("HHT", "HHT2", "UPART")) == codes
    assert tuple(coded(name)[place] for name in ("CPLT", "PAOC", "PAC", "TP18", "HHSIZE", "MULTG")) == both


def test_opposite_sex_partners_of_men_and_of_women():
    place = level(couple=2, size=2, minor=False)
    assert (coded("UPART")[place], coded("UPART")[522 + place]) == ("2", "4")


def test_what_is_listed_has_no_household():
    for name in ("HHSIZE", "HHT", "HHT2", "CPLT", "UPART", "MULTG", "THHLDRAGE", "THHRACE", "PAOC", "PAC", "HHSEX"):
        assert set(coded(name)[-1]) == {"0"}
