"""From tables of blocks to histograms, against an enumeration of persons."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from das_spark.io.pl94_tables import (
    QUARTERS_OF_CLASS,
    Tables,
    apportion,
    assign_group_quarters,
    contradictions,
    race_items,
)

PEOPLE = hnp.arrays(np.int64, (2, 2, 63), elements=st.integers(0, 4))


def _race_table(people: np.ndarray) -> np.ndarray:
    """The 71 items of a race table by walking through combinations, subtotals included."""
    singles = people[:6].sum()
    items = [people.sum(), singles, *people[:6], people[6:].sum()]
    start = 6
    for number in range(2, 7):
        size = len(list(combinations(range(6), number)))
        items += [people[start : start + size].sum(), *people[start : start + size]]
        start += size
    return np.array(items, dtype=np.int64)


def _tables(people: np.ndarray, quarters: np.ndarray) -> Tables:
    """Tables of one block of persons by age, origin and race, and persons in quarters by class."""

    def pair(mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        everyone, others = _race_table(mine.sum(axis=0)), _race_table(mine[0])
        return everyone, np.concatenate([[everyone[0], mine[1].sum()], others])

    p1, p2 = pair(people.sum(axis=0))
    p3, p4 = pair(people[1])
    p5 = np.zeros(10, dtype=np.int64)
    p5[list(QUARTERS_OF_CLASS)] = quarters[1:]
    p5[1], p5[6], p5[0] = p5[2:6].sum(), p5[7:10].sum(), quarters.sum()
    return Tables(*(table[None] for table in (p1, p2, p3, p4, np.array([3, 2, 1]), p5)))


def test_a_race_table_has_71_items_of_which_63_are_combinations() -> None:
    items = race_items()
    assert len(set(items)) == 63
    assert items[0] == 2
    assert items[-1] == 70


@pytest.mark.real_data
def test_the_items_are_those_of_the_published_code_table(census_data: Path) -> None:
    with (census_data / "cenrace63_codes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(int(row["p1_p3_item"]) - 1 for row in rows) == race_items()
    assert tuple(int(row["p2_p4_item"]) - 3 for row in rows) == race_items()


@given(PEOPLE)
def test_people_are_recovered_exactly(people: np.ndarray) -> None:
    tables = _tables(people, np.zeros(8, dtype=np.int64))
    assert np.array_equal(tables.people()[0], people)
    assert not contradictions(tables).any()


@given(PEOPLE, st.data())
def test_every_rule_notices_one_changed_number(people: np.ndarray, data: st.DataObject) -> None:
    people[1, 0, 0] += 5
    table = data.draw(st.sampled_from(["p1", "p2", "p3", "p4", "h1", "p5"]))
    tables = _tables(people, np.array([0, 1, 0, 1, 0, 1, 0, 0]))
    values = getattr(tables, table)
    totals_only = {"p5": [1, 6]}.get(table, [])  # subtotals of group quarters are not used
    combined = {*range(71)} - {0, *race_items()} if table in ("p1", "p3") else set()
    if table in ("p2", "p4"):
        combined = {2 + item for item in range(71) if item not in race_items()}
    position = data.draw(
        st.sampled_from([p for p in range(values.shape[1]) if p not in totals_only and p not in combined])
    )
    values[0, position] += 1
    assert contradictions(tables).any()


@given(hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(0, 50)), st.data())
def test_apportionment_is_whole_within_the_cells_and_nearly_proportional(
    counts: np.ndarray, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, int(counts.sum())))
    taken = apportion(counts, number)
    assert taken.sum() == number
    assert (taken >= 0).all()
    assert (taken <= counts).all()
    assert (np.abs(taken - counts * number / max(counts.sum(), 1)) < 1).all()


@given(PEOPLE, st.data())
def test_everyone_is_placed_once_and_nursing_facilities_hold_adults(people: np.ndarray, data: st.DataObject) -> None:
    quarters = np.zeros(8, dtype=np.int64)
    quarters[3] = data.draw(st.integers(0, int(people[1].sum())))
    left = int(people.sum() - quarters[3])
    for level in (1, 2, 4, 5, 6, 7):
        quarters[level] = data.draw(st.integers(0, left))
        left -= quarters[level]
    placed = assign_group_quarters(people, quarters)
    assert np.array_equal(placed.sum(axis=0), people)
    assert np.array_equal(placed.sum(axis=(1, 2, 3))[1:], quarters[1:])
    assert placed[3, 0].sum() == 0
    assert (placed >= 0).all()


def test_juvenile_facilities_take_minors_first_and_others_adults_first() -> None:
    people = np.zeros((2, 2, 63), dtype=np.int64)
    people[0, 0, 0], people[1, 0, 0] = 4, 6
    placed = assign_group_quarters(people, np.array([0, 2, 3, 1, 0, 0, 0, 0]))
    assert placed[2, 0].sum() == 3
    assert placed[1, 1].sum() == 2
    placed = assign_group_quarters(people, np.array([0, 8, 0, 0, 0, 0, 0, 0]))
    assert (placed[1, 1].sum(), placed[1, 0].sum()) == (6, 2)
