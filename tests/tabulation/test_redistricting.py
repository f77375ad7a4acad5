"""P1 to P5 and H1: every column against a second declaration on labels, and the hierarchy of headings."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from published import RACES, published_columns

from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Schema
from das_spark.products import PRODUCTS
from das_spark.tabulation import housing_tables, redistricting_tables

SIZES = {"P1": 71, "P2": 73, "P3": 71, "P4": 73, "P5": 10}
TABLES = redistricting_tables(PRODUCTS["e2e_2018"].schema)
EVERY = pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])


def cells_of(table) -> dict[str, frozenset[int]]:
    return {column.name: frozenset(np.flatnonzero(column.mask(table.schema)).tolist()) for column in table.columns}


def test_the_tables_have_the_published_names_and_numbers_of_columns():
    assert {table.name: len(table.columns) for table in TABLES} == SIZES
    assert [name for table in TABLES for name in table.names] == list(published_columns())


@EVERY
def test_every_column_counts_the_cells_whose_labels_say_so(table, persons):
    wanted = published_columns()
    names = [attribute.name for attribute in persons.attributes]
    levels = [attribute.levels for attribute in persons.attributes]
    labels = [
        {name: levels[axis][code] for axis, (name, code) in enumerate(zip(names, codes, strict=True))}
        for codes in persons.unravel(np.arange(persons.size))
    ]
    for name, cells in cells_of(table).items():
        assert cells == {cell for cell, label in enumerate(labels) if wanted[name](label)}, name


@EVERY
def test_what_a_heading_counts_falls_into_the_lines_under_it(table):
    cells = cells_of(table)
    headings = 0
    for place, name in enumerate(table.names):
        parts = [cells[table.names[part]] for part in table.parts(place)]
        if parts:
            headings += 1
            assert sum(map(len, parts)) == len(cells[name])
            assert frozenset().union(*parts) == cells[name]
    assert headings == {"P1": 8, "P2": 9, "P3": 8, "P4": 9, "P5": 3}[table.name]


@pytest.mark.parametrize(
    ("heading", "parts"),
    [
        ("P0010001", ["P0010002", "P0010009"]),
        ("P0010002", [f"P00100{number:02d}" for number in range(3, 9)]),
        ("P0010009", ["P0010010", "P0010026", "P0010047", "P0010063", "P0010070"]),
        ("P0010063", [f"P00100{number}" for number in range(64, 70)]),
        ("P0010070", ["P0010071"]),
        ("P0020001", ["P0020002", "P0020003"]),
        ("P0020003", ["P0020004", "P0020011"]),
        ("P0020011", ["P0020012", "P0020028", "P0020049", "P0020065", "P0020072"]),
        ("P0030001", ["P0030002", "P0030009"]),
        ("P0040003", ["P0040004", "P0040011"]),
        ("P0050001", ["P0050002", "P0050007"]),
        ("P0050002", ["P0050003", "P0050004", "P0050005", "P0050006"]),
        ("P0050007", ["P0050008", "P0050009", "P0050010"]),
    ],
)
def test_the_hierarchy_is_the_official_one(heading, parts):
    table = next(table for table in TABLES if heading in table.names)
    found = table.parts(table.names.index(heading))
    assert [table.names[place] for place in found] == parts


def test_columns_of_different_tables_agree_where_they_count_the_same():
    cells = {name: found for table in TABLES for name, found in cells_of(table).items()}
    assert cells["P0010001"] == cells["P0020001"]
    assert cells["P0030001"] == cells["P0040001"]
    for prefix in ("P001", "P003"):
        assert cells[f"{prefix}0070"] == cells[f"{prefix}0071"]
    for number in range(2, 72):  # the race columns of P2 are those of P1 without Hispanics
        not_hispanic = cells[f"P002{number + 2:04d}"]
        assert not_hispanic == cells[f"P001{number:04d}"] & cells["P0020003"]
        assert cells[f"P003{number:04d}"] == cells[f"P001{number:04d}"] & cells["P0030001"]


def test_labels_are_those_of_the_publication():
    first, second, *_, fifth = TABLES
    labels = {name: column.label for table in TABLES for name, column in zip(table.names, table.columns, strict=True)}
    assert first.title == "Race"
    assert fifth.universe == "Population in group quarters"
    assert labels["P0010003"] == "White alone"
    assert labels["P0010009"] == "Population of two or more races"
    assert labels["P0010011"] == "White; Black or African American"
    assert labels["P0040073"] == "; ".join(RACES)
    assert labels["P0050005"] == "Nursing facilities/Skilled-nursing facilities"
    assert second.path(5) == "Total: Not Hispanic or Latino: Population of one race: Black or African American alone"


@EVERY
def test_lines_are_indented_by_one_under_their_heading(table):
    assert [column.depth for column in table.columns].count(0) == 1
    for place, (before, after) in enumerate(pairwise(table.columns), start=1):
        assert after.depth <= before.depth + 1
        assert table.columns[table.heading(place)].depth == after.depth - 1


def test_h1_counts_units_and_those_that_are_occupied_and_vacant(housing):
    (table,) = housing_tables(housing)
    assert cells_of(table) == {"H0010001": {0, 1}, "H0010002": {1}, "H0010003": {0}}
    assert [column.label for column in table.columns] == ["Total", "Occupied", "Vacant"]


def test_the_order_of_the_attributes_does_not_matter(persons):
    turned = Schema("turned", persons.attributes[::-1])
    for table in redistricting_tables(turned):
        for column in table.columns:
            straight = column.mask(persons).reshape(persons.shape)
            assert (column.mask(turned).reshape(turned.shape) == straight.T).all()


def test_a_schema_without_what_the_tables_need_is_refused(persons, housing):
    with pytest.raises(QueryError, match="cenrace"):
        redistricting_tables(housing)
    with pytest.raises(QueryError, match="h1"):
        housing_tables(persons)
    plain = Attribute("cenrace", persons.attributes[persons.axis("cenrace")].levels)
    with pytest.raises(QueryError, match="numraces"):
        redistricting_tables(Schema("plain", (*persons.attributes[:3], plain)))


@EVERY
def test_a_table_travels_to_workers(table):
    assert pickle.loads(pickle.dumps(table)) == table
