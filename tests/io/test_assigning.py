"""Dealing persons to units, against a plain loop over people."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.io.microdata_files import Geounits, assign_persons, class_margins, list_units, unassignable

CLASSES, CELLS = 3, 12
CLASS_OF_CELL = np.array([2, 0, 1] * 4)  # classes are not neighbours here


@st.composite
def places(draw):
    rows = draw(st.integers(1, 5))
    people = draw(st.lists(st.lists(st.integers(0, 9), min_size=CELLS, max_size=CELLS), min_size=rows, max_size=rows))
    people = np.array(people) * draw(st.sampled_from([1, 1, 7]))
    margins = np.stack([people[:, kind == CLASS_OF_CELL].sum(axis=1) for kind in range(CLASSES)], axis=1)
    share = np.array(draw(st.lists(st.floats(0, 1), min_size=rows * CLASSES, max_size=rows * CLASSES)))
    units = np.where(margins > 0, np.maximum(1, (margins * share.reshape(rows, CLASSES)).astype(int)), 0)
    vacant = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    return people, np.concatenate([units, vacant[:, np.newaxis]], axis=1)


def geounits(people, units):
    owner, cells = np.nonzero(people)
    return Geounits(cells, people[owner, cells], owner, units)


def dealt_by_hand(people, units, first):
    """One person after the other, as the rule is written."""
    persons, rows = [], []
    number = first
    for place in range(len(people)):
        homes = {}
        for kind in range(units.shape[1]):
            homes[kind] = list(range(number, number + units[place, kind]))
            number += units[place, kind]
            rows += [[place, kind, home, 0] for home in homes[kind]]
        for kind in range(CLASSES):
            turn = {home: 0 for home in homes[kind]}
            everyone = [c for c in range(CELLS) if CLASS_OF_CELL[c] == kind for _ in range(people[place, c])]
            for position, cell in enumerate(everyone):
                home = homes[kind][position % len(homes[kind])]
                turn[home] += 1
                persons.append((place, cell, home, turn[home]))
            for row in rows:
                if row[2] in turn:
                    row[3] = turn[row[2]]
    return persons, [tuple(row) for row in rows]


@given(places(), st.integers(0, 1000), st.integers(1, 30))
def test_persons_and_units_are_those_of_the_plain_loop_whatever_the_block(place, first, most):
    people, units = place
    given_places = geounits(people, units)
    blocks = list(assign_persons(given_places, CLASS_OF_CELL, first, most))
    assert all(block.lengths.sum() <= most for block in blocks)
    persons = [
        row
        for b in blocks
        for row in zip(
            np.repeat(b.owner, b.lengths), np.repeat(b.cell, b.lengths), b.unit_number, b.person_number, strict=True
        )
    ]
    margins = class_margins(given_places, CLASS_OF_CELL, len(people), CLASSES)
    listed = [
        row
        for b in list_units(units, margins, first, most)
        for row in zip(b.owner, b.kind, b.unit_number, b.population, strict=True)
    ]
    expected_persons, expected_units = dealt_by_hand(people, units, first)
    assert persons == expected_persons
    assert listed == expected_units


@given(places())
def test_without_units_every_person_is_written_once(place):
    people, _ = place
    blocks = list(assign_persons(geounits(people, None), CLASS_OF_CELL, 0, 10))
    found = np.zeros_like(people)
    for block in blocks:
        np.add.at(found, (block.owner, block.cell), block.lengths)
        assert block.lengths.sum() <= 10
        assert block.unit_number is None
    assert (found == people).all()


@pytest.mark.parametrize(
    ("margins", "units", "failing"),
    [
        ([5, 0, 0], [2, 0, 0, 0], False),
        ([5, 1, 0], [2, 0, 0, 0], True),  # a person without a unit
        ([1, 0, 0], [2, 0, 0, 0], True),  # a unit without a person
        ([0, 0, 0], [0, 0, 0, 9], False),  # vacant units hold nobody
    ],
)
def test_people_that_cannot_be_dealt_are_found(margins, units, failing):
    least = np.ones(3, dtype=np.int64)
    assert unassignable(np.array([margins]), np.array([units]), least).tolist() == [failing]


def test_a_class_that_may_be_empty_makes_vacant_units():
    least = np.array([0, 1, 1])
    margins, units = np.array([[1, 0, 0]]), np.array([[2, 0, 0, 0]])
    assert not unassignable(margins, units, least).any()
    block = next(list_units(units, margins, 0))
    assert block.kind.tolist() == [0, 3]
    assert block.population.tolist() == [1, 0]


def test_an_empty_place_has_no_rows():
    nothing = np.zeros(0, dtype=np.int64)
    empty = Geounits(nothing, nothing, nothing, np.zeros((2, 4), dtype=np.int64))
    assert list(assign_persons(empty, CLASS_OF_CELL, 0)) == []
    assert list(list_units(empty.units, np.zeros((2, 3), dtype=np.int64), 0)) == []
