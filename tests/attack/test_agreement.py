"""Agreement against matchings of single records, one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import histogram, schema

from das_spark.attack.agreement import GROUPS, Nearness, agreement, groups_of
from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.products import product

AGES = 90
OF_AGE = Schema(
    "aged",
    (Attribute("sex", ("m", "f")), Attribute("age", tuple(map(str, range(AGES)))), Attribute("race", ("a", "b"))),
)
PLAIN = schema(2, 3, 2)


def records_of(histogram) -> list[int]:
    return np.repeat(histogram.cells, histogram.counts).tolist()


def largest_matching(of: Schema, near: Nearness, truth, other) -> int:
    """By augmenting paths from every single record."""

    def agree(one: int, two: int) -> bool:
        first, second = of.unravel(np.array([one, two]))
        if near.age is None:
            return int((first != second).sum()) <= 1
        away = np.abs(first - second)
        return int(away[near.age]) <= 1 and not np.delete(away, near.age).any()

    mine, yours = records_of(truth), records_of(other)
    owner: dict[int, int] = {}

    def found(record: int, seen: set[int]) -> bool:
        for place, cell in enumerate(yours):
            if place not in seen and agree(mine[record], cell):
                seen.add(place)
                if place not in owner or found(owner[place], seen):
                    owner[place] = record
                    return True
        return False

    return sum(found(record, set()) for record in range(len(mine)))


def compared(of: Schema, near: Nearness, truth, other, data) -> None:
    """Any groups of cells, each as if there were nobody else."""
    cells = len(truth.cells)
    row = st.lists(st.booleans(), min_size=cells, max_size=cells)
    groups = np.array(data.draw(st.lists(row, min_size=1, max_size=3)), dtype=bool)
    expected = []
    for kept in groups:
        group = Histogram(truth.size, truth.cells[kept], truth.counts[kept])
        exact = int(np.minimum(group.dense(), other.dense()).sum())
        expected.append([exact, largest_matching(of, near, group, other)])
    assert agreement(truth, groups, other, near).tolist() == expected


@st.composite
def two_of(draw, of: Schema):
    size = int(np.prod(of.shape))
    # Ages that lie near each other, so that chains of matches come about.
    cells = (
        st.integers(0, size - 1)
        if size < 100
        else st.builds(
            lambda sex, age, race: (sex * AGES + age) * 2 + race,
            st.integers(0, 1),
            st.sampled_from((0, 1, 2, 3, AGES - 2, AGES - 1)),
            st.integers(0, 1),
        )
    )
    made = []
    for _ in range(2):
        counts = np.zeros(size, dtype=np.int64)
        for cell in draw(st.lists(cells, max_size=12)):
            counts[cell] += 1
        made.append(histogram(counts))
    return made


@given(two_of(OF_AGE), st.data())
def test_age_within_one_year(both, data):
    truth, other = both
    near = Nearness.of(OF_AGE)
    assert near.age == 1
    compared(OF_AGE, near, truth, other, data)


@given(two_of(PLAIN), st.data())
def test_all_attributes_but_one(both, data):
    truth, other = both
    near = Nearness.of(PLAIN)
    assert near.age is None
    compared(PLAIN, near, truth, other, data)


def test_exact_matches_are_given_up_for_more_matches():
    # Ages 10 and 11 against 11 and 12: one exact match, or two within a year.
    counts = np.zeros((2, 180), dtype=np.int64)
    counts[0, [20, 22]] = 1
    counts[1, [22, 24]] = 1
    of = Schema("aged", (Attribute("age", tuple(map(str, range(90)))), Attribute("race", ("a", "b"))))
    truth, other = map(histogram, counts)
    everybody = np.ones((1, 2), dtype=bool)
    assert agreement(truth, everybody, other, Nearness.of(of)).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("name", "age"),
    [("dhc_2020_person", "age"), ("ddp_2010_person", "age"), ("e2e_2018", None), ("dhc_2020_unit", None)],
)
def test_years_of_age_are_known(name, age):
    of = product(name).schema
    found = Nearness.of(of).age
    assert (None if found is None else of.attributes[found].name) == age


def test_groups():
    truth, near = histogram([3, 1, 0, 2, 1]), histogram([3, 5, 0, 2, 1])
    found = groups_of(truth, near)
    # Cells 0, 1, 3 and 4 are occupied.
    assert dict(zip(GROUPS, found.tolist(), strict=True)) == {
        "all": [True, True, True, True],
        "nonmodal": [False, True, True, True],
        "nonmodal near": [True, False, True, True],
        "unique": [False, True, False, True],
    }
