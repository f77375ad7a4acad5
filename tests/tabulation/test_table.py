"""Tables that contradict themselves are refused where they are declared; unions count a cell once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import QueryError
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.tabulation import Line, Table, TableColumn
from das_spark.tabulation.table import COUNTY, TRACT

SCHEMA = Schema("pets", (Attribute("kind", ("cat", "dog", "bird")), Attribute("age", ("young", "old"))))
LINES = (
    Line(0, "Total", {}),
    Line(1, "Furry", {"kind": (0, 1)}),
    Line(2, "Cats", {"kind": (0,)}),
    Line(2, "Dogs", {"kind": (1,)}),
    Line(1, "Birds", {"kind": (2,)}),
)


def table(*lines: Line) -> Table:
    return Table.of(name="T1", title="Pets", universe="All pets", schema=SCHEMA, prefix="T001", lines=lines)


def test_columns_are_numbered_and_know_their_headings():
    pets = table(*LINES)
    assert pets.names == ("T0010001", "T0010002", "T0010003", "T0010004", "T0010005")
    assert [pets.heading(place) for place in range(1, 5)] == [0, 1, 1, 0]
    assert pets.parts(0) == (1, 4)
    assert pets.parts(2) == ()
    assert pets.path(3) == "Total: Furry: Dogs"
    assert pets.total.name == "T0010001"


def test_a_table_is_published_down_to_its_lowest_level():
    nation, state, county, tract, block = (
        Geolevel("Nation", 0),
        Geolevel("State", 2),
        Geolevel("County", 5),
        Geolevel("Tract", 11),
        Geolevel("Block", 16),
    )
    spine = Spine((nation, state, county, tract, block))
    pets = table(*LINES)
    assert pets.levels(spine) == spine.names
    to_tract, to_county = replace(pets, lowest=TRACT), replace(pets, lowest=COUNTY)
    assert to_tract.levels(spine) == ("Nation", "State", "County", "Tract")
    assert to_county.levels(spine) == ("Nation", "State", "County")
    assert to_tract.levels(spine, ("Block", "Tract", "State")) == ("State", "Tract")


def test_a_spine_without_the_lowest_level_is_gone_down_to_the_last_one_that_is_not_below_it():
    pets = replace(table(*LINES), lowest=TRACT)
    groups = Spine(
        (Geolevel("State", 2), Geolevel("Tract_Group", 9), Geolevel("Block_Group", 12), Geolevel("Block", 16))
    )
    assert pets.levels(groups) == ("State", "Tract_Group")
    assert pets.levels(Spine((Geolevel("Block_Group", 12), Geolevel("Block", 16)))) == ()
    system = replace(groups, levels=(groups.levels[0], replace(groups.levels[1], tabulated=False), *groups.levels[2:]))
    assert pets.levels(system) == ("State",)
    assert replace(pets, lowest=None).levels(system) == ("State", "Block_Group", "Block")
    # A level of its name is the lowest one, however long its geocodes are.
    renumbered = Spine((Geolevel("County", 6), Geolevel("Tract", 14), Geolevel("Block", 20)))
    assert pets.levels(renumbered) == ("County", "Tract")


def test_a_union_counts_a_cell_once():
    column = TableColumn("T0010009", "Cats, or young ones", 1, ((("kind", (0,)),), (("age", (0,)),)))
    assert column.mask(SCHEMA).tolist() == [True, True, True, False, True, False]


def selection(**levels: tuple[int, ...]) -> tuple:
    return tuple(levels.items())


SELECTIONS = [
    selection(),
    selection(kind=(0, 1)),
    selection(kind=(0, 1, 2), age=(0,)),
    selection(kind=(2,), age=(0, 1)),
    selection(kind=(0,), age=(1,)),
    selection(kind=()),
]


@pytest.mark.parametrize("wide", [[place] for place in range(6)] + [[1, 3], [2, 4], [3, 4], [1, 5]])
@pytest.mark.parametrize("narrow", [[place] for place in range(6)] + [[4, 3], [2, 5]])
def test_a_column_lies_within_another_one_exactly_if_its_cells_do(narrow, wide):
    one, other = (TableColumn("X", "x", 0, tuple(SELECTIONS[place] for place in each)) for each in (narrow, wide))
    assert one.counts_any(SCHEMA) == one.mask(SCHEMA).any()
    assert one.is_within(other, SCHEMA) == (not (one.mask(SCHEMA) & ~other.mask(SCHEMA)).any())


@pytest.mark.parametrize("wide", [[1, 3], [1, 1, 3], [0, 4], [1], [0, 1, 2]])
@pytest.mark.parametrize("narrow", [[1], [1, 1], [4, 1], [3], [4, 4, 4]])
@pytest.mark.parametrize("tallies", [(True, True), (True, False), (False, True)])
def test_a_column_that_tallies_lies_within_one_that_counts_every_cell_as_often(narrow, wide, tallies):
    one, other = (
        TableColumn("X", "x", 0, tuple(SELECTIONS[place] for place in each), tallied)
        for each, tallied in zip((narrow, wide), tallies, strict=True)
    )

    def times(column: TableColumn) -> list[int]:
        found = [sum(SCHEMA.select(**dict(each))[cell] for each in column.where) for cell in range(SCHEMA.size)]
        return [int(number) if column.tallies else min(number, 1) for number in found]

    assert one.times(SCHEMA).tolist() == times(one)
    assert one.is_within(other, SCHEMA) == all(a <= b for a, b in zip(times(one), times(other), strict=True))


TALLIED = ({"kind": (0, 1)}, {"kind": (1, 2)})


def test_lines_that_tally_count_a_cell_once_for_each_selection_and_keep_doing_so_under_a_heading():
    total = Line(0, "Total tallied", {}, TALLIED)
    old = Line(1, "Old", {"age": (1,)}, TALLIED)
    of_dogs = Line(1, "With a dog", {"kind": (0, 1)}).within({"age": (1,)}, indent=1)
    pets = table(total, old, of_dogs)
    assert [column.tallies for column in pets.columns] == [True, True, False]
    assert [column.times(SCHEMA).tolist() for column in pets.columns] == [
        [1, 1, 2, 2, 1, 1],
        [0, 1, 0, 2, 0, 1],
        [0, 1, 0, 1, 0, 0],
    ]
    assert old.where == total.within({"age": (1,)}).where
    with pytest.raises(QueryError, match="kind"):
        old.within({"kind": (0,)})
    # What it tallies more often than its heading is refused, and so is a heading that counts each cell once.
    with pytest.raises(QueryError, match="more than its heading"):
        table(total, Line(1, "Twice", {}, ({"kind": (0,)}, {"kind": (0,)})))
    with pytest.raises(QueryError, match="more than its heading"):
        table(Line(0, "Total", {}), Line(1, "Tallied", {}, TALLIED))


def test_a_line_among_fewer_keeps_its_label_and_moves_to_the_right():
    line = LINES[2].within({"age": (1,)}, indent=1)
    assert (line.depth, line.label, line.levels) == (3, "Cats", {"kind": (0,), "age": (1,)})
    with pytest.raises(QueryError, match="kind"):
        line.within({"kind": (1,)})


WRONG = {
    "no column": (),
    "no total": (Line(1, "Furry", {"kind": (0, 1)}),),
    "two totals": (*LINES, Line(0, "Total again", {})),
    "a step too far to the right": (LINES[0], LINES[2]),
    "more than the heading": (*LINES[:2], Line(2, "Birds", {"kind": (2,)})),
    "no cell": (LINES[0], Line(1, "Nothing", {"kind": ()})),
    "an unknown level": (LINES[0], Line(1, "Fish", {"kind": (3,)})),
    "an unknown attribute": (LINES[0], Line(1, "Blue", {"colour": (0,)})),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_table_that_cannot_be_is_refused(case):
    with pytest.raises(QueryError):
        table(*WRONG[case])


def test_a_name_is_used_once():
    pets = table(*LINES)
    with pytest.raises(QueryError, match="once"):
        replace(pets, columns=(*pets.columns, pets.columns[-1]))


def test_a_selection_may_name_levels_in_any_order():
    one = TableColumn("X", "x", 0, ((("kind", (1, 0)), ("age", (1,))),))
    assert np.flatnonzero(one.mask(SCHEMA)).tolist() == [1, 3]
