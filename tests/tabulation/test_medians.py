"""Medians against people one by one, each with a part of a year; who is counted; what cannot be a table of medians."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from das_spark.errors import InputError, QueryError
from das_spark.histogram import Attribute, Schema
from das_spark.products.dhc_2020_person import SCHEMA as PERSONS
from das_spark.tabulation import (
    UNDEFINED,
    Line,
    MedianColumns,
    MedianTable,
    Table,
    Tabulation,
    dhc_person_medians,
    dhc_person_tables,
    incidence,
    median_tenths,
    medians,
    tabulate,
)

TABLES = {table.name: table for table in dhc_person_medians(PERSONS)}
SUMS = {table.name: table for table in dhc_person_tables(PERSONS)}
LETTERS = ("", *"ABCDEFGHI")


def one_by_one(people: list[int]) -> int:
    """Ten times the median; the n people of a year live in n equal parts of it, one after the other."""
    parts = [
        (age + Fraction(place, number), age + Fraction(place + 1, number))
        for age, number in enumerate(people)
        for place in range(number)
    ]
    if not parts:
        return UNDEFINED
    # Between the two in the middle, or in the middle of the one that stands there.
    half, odd = divmod(len(parts), 2)
    median = sum(parts[half]) / 2 if odd else parts[half - 1][1]
    last = len(people) - 1
    if parts[half if odd else half - 1][0] >= last:
        return 10 * last + 1
    return floor(10 * median + Fraction(1, 2))


@given(st.lists(st.integers(0, 12), min_size=1, max_size=9))
@example([0, 0, 0])
@example([0, 2, 0, 2])  # half of all are reached where a year ends
@example([0, 0, 1])  # in the open year
@example([0, 1, 1])  # at its beginning
@example([3, 0, 0, 37])
def test_the_median_is_that_of_people_who_are_spread_evenly_over_their_year(people):
    assert median_tenths(np.array([people])).tolist() == [one_by_one(people)]


@pytest.mark.parametrize(
    ("ages", "tenths"),
    [
        ({}, UNDEFINED),
        ({0: 1}, 5),
        ({30: 1}, 305),
        ({30: 2, 40: 2}, 310),
        ({30: 1, 31: 3}, 313),  # 31.333
        ({20: 3, 21: 20}, 214),  # 21.425
        ({20: 1, 21: 20}, 215),  # 21.475
        ({114: 1, 115: 1}, 1150),
        ({114: 1, 115: 2}, 1151),
        ({115: 7}, 1151),
    ],
)
def test_medians_of_single_years(ages, tenths):
    people = np.zeros((1, 116), dtype=np.int64)
    for age, number in ages.items():
        people[0, age] = number
    assert median_tenths(people).tolist() == [tenths]


def test_half_a_tenth_is_rounded_upwards_and_large_numbers_are_exact():
    # 20 + 9/20, 19/20 and 1/20 of a year: 20.45, 20.95 and 20.05.
    for before, behind, tenths in ((4, 2, 205), (0, 18, 210), (18, 0, 201)):
        people = np.zeros((1, 116), dtype=np.int64)
        people[0, [10, 20, 30]] = before, 20, behind
        assert one_by_one(people[0].tolist()) == median_tenths(people)[0] == tenths
        assert median_tenths(people * 2**52)[0] == tenths


RNG = np.random.default_rng(13)
#: Six geounits, of many people, of a few, and of nobody.
GEOUNITS = [np.sort(RNG.choice(PERSONS.size, number, replace=False)) for number in (6_000, 900, 30, 2, 1, 0)]
CELLS, OFFSETS = np.concatenate(GEOUNITS), np.cumsum([0, *map(len, GEOUNITS)])
COUNTS = RNG.integers(1, 9, len(CELLS))
WHO = {
    "": lambda p: True,
    **{letter: (lambda p, race=race: p["cenrace"] == race) for race, letter in enumerate("ABCDEF")},
    "G": lambda p: p["cenrace"] > 5,
    "H": lambda p: p["hispanic"] == 1,
    "I": lambda p: p["cenrace"] == 0 and p["hispanic"] == 0,
}


def test_all_tables_are_there_with_three_lines_each():
    assert list(TABLES) == [f"P13{letter}" for letter in LETTERS]
    assert TABLES["P13"].names == ("P0130001", "P0130002", "P0130003")
    assert TABLES["P13I"].names == ("P013I001", "P013I002", "P013I003")
    assert [column.label for column in TABLES["P13B"].columns] == ["Total", "Male", "Female"]
    assert {table.attribute for table in TABLES.values()} == {"age"}
    assert {table.lowest for table in TABLES.values()} == {None}
    # With the tables that are sums, all that the three histograms determine (test_dhc.py counts these).
    assert len(SUMS) + len(TABLES) == 127


@pytest.mark.parametrize("letter", LETTERS)
def test_median_ages_are_those_of_the_people_whom_a_line_counts(letter):
    found = medians(MedianColumns.of([TABLES[f"P13{letter}"]]), CELLS, OFFSETS, COUNTS)
    names = [attribute.name for attribute in PERSONS.attributes]
    for place, cells in enumerate(GEOUNITS):
        counts = COUNTS[OFFSETS[place] : OFFSETS[place + 1]].tolist()
        ages = [[0] * 116 for _ in range(3)]
        for codes, count in zip(PERSONS.unravel(cells).tolist(), counts, strict=True):
            person = dict(zip(names, codes, strict=True))
            if WHO[letter](person):
                ages[0][person["age"]] += count
                ages[1 + person["sex"]][person["age"]] += count
        assert found[place].tolist() == [one_by_one(age) for age in ages]
    assert (found[-1] == UNDEFINED).all()
    assert (found[0] > UNDEFINED).all()


@pytest.mark.parametrize("letter", LETTERS)
def test_median_ages_follow_from_the_published_counts_by_single_years(letter):
    # PCT12 has single years to 99; half of the people here are younger.
    counted = tabulate(incidence([SUMS[f"PCT12{letter}"]]), CELLS, OFFSETS, COUNTS)
    found = medians(MedianColumns.of([TABLES[f"P13{letter}"]]), CELLS, OFFSETS, COUNTS)
    male, female = counted[:, 2:102], counted[:, 106:206]
    for row in range(3):
        for place, years in enumerate((male + female, male, female)):
            if 2 * years[row].sum() > counted[row, (0, 1, 105)[place]]:
                whole = [*years[row].tolist(), int(counted[row, (0, 1, 105)[place]] - years[row].sum())]
                assert found[row, place] == one_by_one(whole)
    assert (found[0] < 1000).all()


def test_a_cell_may_occur_twice_and_arrays_that_do_not_belong_together_are_refused():
    columns = MedianColumns.of([TABLES["P13"]])
    cell = int(PERSONS.ravel([[0, 1, 40, 0, 0]])[0])
    again = medians(columns, np.array([cell, cell]), np.array([0, 2]), np.array([2, 3]))
    assert again.tolist() == [[405, UNDEFINED, 405]]
    for cells, offsets, counts in (([-1], [0, 1], [1]), ([0], [0, 2], [1]), ([PERSONS.size], [0, 1], [1])):
        with pytest.raises(InputError):
            medians(columns, np.array(cells), np.array(offsets), np.array(counts))


PETS = Schema("pets", (Attribute("kind", ("cat", "dog")), Attribute("age", ("0", "1", "2 or more"))))
COUNTED = Table.of(
    name="T1",
    title="Pets",
    universe="All pets",
    schema=PETS,
    prefix="T001",
    lines=(Line(0, "Total", {}), Line(1, "Cats", {"kind": (0,)})),
)


def test_a_table_of_medians_is_of_an_attribute_and_of_what_counts_once():
    own = MedianTable.of(COUNTED, "age")
    assert (own.names, own.columns, own.universe) == (COUNTED.names, COUNTED.columns, COUNTED.universe)
    assert own != COUNTED
    with pytest.raises(QueryError):
        MedianTable.of(COUNTED, "colour")
    twice = replace(COUNTED.columns[0], where=((), ()), tallies=True)
    with pytest.raises(QueryError, match="T0010001 tallies"):
        MedianTable.of(Table("T1", "Pets", "Pets", PETS, (twice,)), "age")


def test_sums_and_medians_are_made_together_in_the_order_of_their_tables():
    ages = replace(MedianTable.of(COUNTED, "age"), columns=(replace(COUNTED.columns[0], name="M0010001"),))
    more = replace(COUNTED, columns=(replace(COUNTED.columns[0], name="U0010001"),))
    cells, offsets, counts = np.array([0, 1, 4]), np.array([0, 3, 3]), np.array([1, 1, 3])
    found = Tabulation.of([COUNTED, ages, more])
    assert found.names == ("T0010001", "T0010002", "M0010001", "U0010001")
    assert found.tenths.tolist() == [False, False, True, False]
    assert found.values(cells, offsets, counts).tolist() == [[5, 2, 14, 5], [0, 0, UNDEFINED, 0]]
    assert Tabulation.of([ages]).values(cells, offsets, counts).tolist() == [[14], [UNDEFINED]]
    for wrong in ([], [COUNTED, COUNTED], [COUNTED, MedianTable.of(COUNTED, "age")], [COUNTED, TABLES["P13"]]):
        with pytest.raises(QueryError, match="different column names"):
            Tabulation.of(wrong)
