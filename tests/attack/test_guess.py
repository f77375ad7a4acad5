"""Guesses from distributions of areas above."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small import histogram

from das_spark.attack.guess import GUESSES, guesses, modal, modal_cell, proportional
from das_spark.histogram import Histogram

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=8)


@given(COUNTS, st.integers(0, 200))
def test_guesses_have_as_many_records_as_are_asked_for(counts, records):
    of = histogram(counts)
    for guess in (modal(of, records), proportional(of, records)):
        assert guess.total == (records if any(counts) else 0)


@given(COUNTS.filter(any), st.integers(0, 200))
def test_a_proportional_guess_is_nearer_than_one_record_to_the_share_of_every_cell(counts, records):
    guess = proportional(histogram(counts), records).dense()
    quotas = [Fraction(count * records, sum(counts)) for count in counts]
    assert all(abs(own - quota) < 1 for own, quota in zip(guess.tolist(), quotas, strict=True))
    # Cells that are rounded up have the largest remainders.
    up = [quota % 1 for own, quota in zip(guess.tolist(), quotas, strict=True) if own > quota]
    down = [quota % 1 for own, quota in zip(guess.tolist(), quotas, strict=True) if own < quota]
    assert not up or not down or min(up) >= max(down)


def test_the_modal_cell_is_the_first_of_the_fullest():
    assert modal_cell(histogram([1, 3, 3, 0])) == 1
    assert modal_cell(histogram([0, 0])) is None
    assert modal(histogram([1, 3, 3, 0]), 5).dense().tolist() == [0, 5, 0, 0]


def test_of_equal_remainders_the_cell_with_more_and_then_the_first_has_one_more():
    assert proportional(histogram([1, 1, 2]), 2).dense().tolist() == [1, 0, 1]
    assert proportional(histogram([3, 1]), 2).dense().tolist() == [2, 0]


def test_all_guesses_by_name():
    near, whole = histogram([2, 1, 0]), histogram([0, 1, 4])
    made = guesses(near, whole, 3)
    assert tuple(made) == GUESSES
    assert [each.dense().tolist() for each in made.values()] == [[3, 0, 0], [2, 1, 0], [0, 0, 3], [0, 1, 2]]
    nobody = Histogram.from_pairs(3, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert [guess.total for guess in guesses(nobody, whole, 3).values()] == [0, 0, 3, 3]
