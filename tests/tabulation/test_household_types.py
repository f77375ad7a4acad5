"""The 522 types of households: their number and order, and that every household of a few people has its type."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from math import prod

from das_spark.tabulation.household_types import (
    BOTH,
    COUPLES,
    FROM_6,
    PLACE_VALUES,
    TYPES,
    UNDER_6,
    HouseholdType,
    crossed,
)


def first(couple: int) -> int:
    return next(level for level, each in enumerate(TYPES) if each.couple == couple)


def test_there_are_522_types_in_blocks_by_couple():
    assert len(TYPES) == len(set(TYPES)) == 522
    assert [first(couple) for couple in range(5)] == [0, 86, 172, 282, 392]


def test_labels_and_codes_tell_types_apart():
    assert len({each.label for each in TYPES}) == 522
    assert len({each.code for each in TYPES}) == 522
    assert TYPES[0].code == 0 * 896 + 1 * 224 + 1 * 56 + 28 + 14 + 3
    assert tuple(prod((4, 4, 2, 2, 2, 7)[place:]) for place in range(7)) == PLACE_VALUES


def test_types_at_some_places_are_the_released_ones():
    flags = (True, True, False)
    assert TYPES[0] == HouseholdType(0, UNDER_6, UNDER_6, *flags, 3)
    assert TYPES[34] == HouseholdType(0, BOTH, BOTH, *flags, 4)
    assert TYPES[40] == HouseholdType(0, BOTH, BOTH, minor=True, relatives=True, generations=True, size=7)
    assert TYPES[66] == HouseholdType(0, 0, 0, minor=False, relatives=True, generations=False, size=2)
    assert TYPES[85] == HouseholdType(0, 0, 0, minor=True, relatives=True, generations=True, size=7)
    assert TYPES[270] == HouseholdType(2, 0, 0, minor=False, relatives=False, generations=False, size=2)
    assert TYPES[392] == HouseholdType(4, 0, 0, minor=False, relatives=False, generations=False, size=1)
    assert TYPES[393] == HouseholdType(4, 0, 0, minor=True, relatives=False, generations=False, size=1)
    assert TYPES[436] == HouseholdType(4, BOTH, BOTH, *flags, 3)
    assert TYPES[521] == HouseholdType(4, 0, 0, minor=True, relatives=False, generations=False, size=7)


#: Who may live with a householder: name -> ages of minors (bits), own child, relative, generation from the householder.
OTHERS = {
    "own young child": (UNDER_6, True, True, 1),
    "own older child": (FROM_6, True, True, 1),
    "own adult child": (0, False, True, 1),
    "young grandchild": (UNDER_6, False, True, 2),
    "older grandchild": (FROM_6, False, True, 2),
    "parent": (0, False, True, -1),
    "young sibling": (UNDER_6, False, True, 0),
    "older sibling": (FROM_6, False, True, 0),
    "sibling": (0, False, True, 0),
    "young foster child": (UNDER_6, False, False, None),
    "older foster child": (FROM_6, False, False, None),
    "roommate": (0, False, False, None),
}


def three_generations(present: tuple[int | None, ...]) -> bool:
    """Whether there are children with a parent present who has a parent present, the householder among them."""
    known = {generation for generation in present if generation is not None}
    return {1, 2} <= known or {-1, 1} <= known


def test_every_household_of_a_few_people_has_a_type():
    """Made from people: nobody lives in a household that no level stands for."""
    known = set(TYPES)
    for couple, others, young_head in product(range(5), range(6), (False, True)):
        coupled = COUPLES[couple] != "No spouse or partner"
        for who in combinations_with_replacement(OTHERS.values(), others):
            ages = own = 0
            for bits, is_own, _, _ in who:
                ages |= bits
                own |= bits * is_own
            made = HouseholdType(
                couple,
                own,
                ages,
                minor=young_head or ages > 0,
                relatives=couple < 2 or any(relative for _, _, relative, _ in who),
                generations=three_generations(tuple(generation for *_, generation in who)),
                size=min(1 + coupled + others, 7),
            )
            # The rules let only children be three generations from a householder under 18 without children.
            assert made in known or (young_head and made.generations and not ages), (made, who)


def test_a_cross_of_fields_groups_every_type_once_in_order_and_drops_what_there_is_not():
    made = crossed("size_couple", ((1, 2), lambda each: min(each.size, 2)), (range(5), lambda each: each.couple))
    assert made.labels == ("1, 4", "2, 0", "2, 1", "2, 2", "2, 3", "2, 4")
    assert sorted(level for _, levels in made.groups for level in levels) == list(range(522))
