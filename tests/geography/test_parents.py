"""Geocodes that are made of a table child -> parent, and everything that can be wrong with such a table, at once."""

from __future__ import annotations

import random

import pytest

from das_spark.errors import GeographyError
from das_spark.geography import Geolevel, Spine, paths_of

LEVELS = (
    Geolevel("Region", 3, letters=True, code=3),
    Geolevel("Department", 6, letters=True, code=3),
    Geolevel("Commune", 11, letters=True, code=5),
)
LEAF = LEVELS[-1]
TOLD = [
    ("11", "", "Region"),
    ("01", "11", "Department"),
    ("2A", "94", "Department"),
    ("971", "94", "Department"),
    ("01001", "01", "Commune"),
    ("2A004", "2A", "Commune"),
    ("9", "971", "Commune"),
]
UNTOLD = [(child, parent, "") for child, parent, _ in TOLD]
PATHS = {"01001": "11.01.01001", "2A004": "94.2A.2A004", "9": "94.9719...."}


@pytest.mark.parametrize("rows", [TOLD, UNTOLD])
def test_a_geocode_is_all_codes_above_and_its_own_in_whatever_order_rows_stand(rows):
    for seed in range(5):
        mixed = random.Random(seed).sample(rows, len(rows))
        found, problems = paths_of(LEVELS, LEAF, mixed)
        assert (dict(found), problems) == (PATHS, ())
        assert list(found) == sorted(found)
    spine = Spine(LEVELS)
    for code, geocode in PATHS.items():
        assert LEAF.own_code(geocode) == code
        begin, end = spine.own_codes["Department"]
        assert LEVELS[1].own_code(geocode) == geocode[begin:end].rstrip(".")
        assert spine.parent(geocode, "Commune") == geocode[:6]


def test_a_run_may_end_above_the_lowest_level_of_the_table():
    found, problems = paths_of(LEVELS, LEVELS[1], TOLD)
    assert (dict(found), problems) == ({"01": "11.01.", "2A": "94.2A.", "971": "94.971"}, ())


def test_a_root_without_a_code_stands_above_all():
    levels = (
        Geolevel("Country", 0),
        Geolevel("Region", 3, letters=True, code=3),
        Geolevel("Commune", 8, letters=True, code=5),
    )
    found, problems = paths_of(levels, levels[-1], [("a", "11", ""), ("11", "", ""), ("b", "94", "")])
    assert (dict(found), problems) == ({"a": "11.a....", "b": "94.b...."}, ())


def test_codes_of_two_levels_may_agree_where_levels_are_told():
    rows = [("01", "01", "Department"), ("01", "01", "Commune")]
    assert paths_of(LEVELS, LEAF, rows) == ({"01": "01.01.01..."}, ())
    _, problems = paths_of(LEVELS, LEAF, [(child, parent, "") for child, parent, _ in rows])
    assert any("above themselves: 01" in problem for problem in problems)


@pytest.mark.parametrize(("more", "said"), [
    ([("01001", "2A", "Commune")], "with two parents: 01001"),
    ([("75056", "75", "Commune")], "without a parent in the table, and not of the top: 75 (Department)"),
    ([("75", "", "Department")], "without a parent in the table, and not of the top: 75 (Department)"),
    ([("x", "01", "Parish")], "rows with no geolevel of the product in the column level: 'Parish'"),
    ([("", "01", "Commune")], "1 rows without a child"),
    ([("123456", "01", "Commune")], "with more than the 5 characters of Commune: 123456"),
    ([("a b", "01", "Commune")], "digits and . _ - (no . at the end): 'a b'"),
    ([("ab.", "01", "Commune")], "digits and . _ - (no . at the end): 'ab.'"),
    ([("75", "11", "Department")], "that end at another depth than Commune, which is level 3: 75 (2 levels"),
])  # fmt: skip
def test_what_is_wrong_is_said_by_its_geounits(more, said):
    _, problems = paths_of(LEVELS, LEAF, [*TOLD, *more])
    assert any(said in problem for problem in problems), problems
    assert len(problems) == 1


@pytest.mark.parametrize(("more", "said"), [
    ([("75056", "75", "")], "at another depth than Commune, which is level 3: 75056 (2 levels with those above it)"),
    ([("deep", "9", "")], "that end at another depth than Commune, which is level 3: deep (4 levels"),
    ([("u", "v", ""), ("v", "w", ""), ("w", "u", "")], "above themselves: u, v, w"),
])  # fmt: skip
def test_depths_say_the_level_where_the_table_does_not(more, said):
    _, problems = paths_of(LEVELS, LEAF, [*UNTOLD, *more])
    assert any(said in problem for problem in problems), problems


def test_everything_is_said_at_once_and_a_table_without_rows_too():
    rows = [*TOLD, ("01001", "2A", "Commune"), ("75056", "75", "Commune"), ("123456", "01", "Commune")]
    assert len(paths_of(LEVELS, LEAF, rows)[1]) == 3
    assert paths_of(LEVELS, LEAF, [])[1] == ("no row",)


def test_a_code_has_room_in_a_geocode_with_letters():
    with pytest.raises(GeographyError, match="codes of 4 characters in geocodes of 3"):
        Geolevel("Region", 3, letters=True, code=4)
    with pytest.raises(GeographyError, match="codes of 3"):
        Geolevel("Region", 3, code=3)
