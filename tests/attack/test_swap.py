"""What an exchange of records keeps, and whom it takes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small import histogram, schema

from das_spark.attack.swap import Exchange, Held
from das_spark.products import product

OF = schema(2, 4)
HELD = OF.query("a0")
CHILDREN = st.lists(st.lists(st.integers(0, 6), min_size=8, max_size=8).map(histogram), max_size=5)


def swapped(children, held, share, seed, parent):
    return Exchange(OF.size, held, share, seed).of(children, parent)


def moved(before, after) -> int:
    """Records that left their child."""
    return sum(int(np.maximum(b.dense() - a.dense(), 0).sum()) for b, a in zip(before, after, strict=True))


@given(CHILDREN, st.fractions(0, 1), st.integers(0, 2**40))
def test_children_keep_what_is_held_and_the_parent_keeps_its_records(children, share, seed):
    after = swapped(children, HELD, share, seed, "010")
    assert len(after) == len(children)
    for one, other in zip(children, after, strict=True):
        assert HELD.answer_dense(one.dense()).tolist() == HELD.answer_dense(other.dense()).tolist()
    total = np.zeros(8, dtype=np.int64)
    for one, other in zip(children, after, strict=True):
        total += one.dense() - other.dense()
    assert not total.any()
    assert moved(children, after) <= share * sum(child.total for child in children)


def test_the_share_is_reached_where_there_are_partners():
    children = [histogram([10, 0, 0, 0] * 2), histogram([0, 10, 0, 0] * 2)]
    after = swapped(children, HELD, Fraction(1, 5), 0, "010")
    assert moved(children, after) == 8  # four pairs of forty records
    assert swapped(children, HELD, Fraction(0), 0, "010") == tuple(children)


def test_rare_records_are_exchanged_first():
    children = [histogram([30, 0, 1, 0, 0, 0, 0, 0]), histogram([30, 9, 0, 1, 0, 0, 0, 0])]
    after = swapped(children, HELD, Fraction(4, 71), 3, "010")
    assert after[0].dense()[2] == 0
    assert after[1].dense()[2] == 1
    assert after[1].dense()[3] == 0
    assert after[0].dense()[3] == 1


def test_who_has_no_partner_stays():
    # The only one of voting age, and cells that are alike everywhere.
    children = [histogram([5, 0, 0, 0, 1, 0, 0, 0]), histogram([5, 0, 0, 0, 0, 0, 0, 0])]
    assert swapped(children, HELD, Fraction(1), 0, "010") == tuple(children)
    assert swapped([], HELD, Fraction(1), 0, "010") == ()
    assert swapped([histogram([0] * 8)], HELD, Fraction(1), 0, "010") == (histogram([0] * 8),)


def test_many_records_are_exchanged_as_few_are():
    # More records than are looked at at once, of which most are exchanged.
    children = [histogram([9000, 0, 5, 0] * 2), histogram([0, 9000, 0, 5] * 2)]
    after = swapped(children, HELD, Fraction(9, 10), 4, "010")
    assert moved(children, after) == 2 * (Fraction(9, 10) * 36_020 // 2)
    assert after[0].dense()[2] == after[1].dense()[3] == 0


def test_chance_follows_from_seed_and_parent_alone():
    children = [histogram(row) for row in np.random.default_rng(7).integers(0, 9, (6, 8))]
    share = Fraction(1, 3)
    first = swapped(children, HELD, share, 1, "010")
    assert first == swapped(children, HELD, share, 1, "010")
    assert first != swapped(children, HELD, share, 2, "010")
    assert first != swapped(children, HELD, share, 1, "011")


def test_voting_age_and_class_of_quarters_are_held_as_far_as_a_product_knows_them():
    names = {"e2e_2018": "hhgq * votingage", "e2e_1940": "hhgq * age18plus", "pl94_2020_unit": "total"}
    assert {name: Held.of(product(name)).query.name for name in names} == names
    persons = Held.of(product("dhc_2020_person"))
    assert set(persons.query.name.split(" * ")) == {"votingage", "gqlevels"}
    assert "voting age" in persons.words
    assert Held.of(product("pl94_2020_unit")).words == ""
