"""The 63 race groups: made by rule, compared with the published lists."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.products import product

CENRACE = product("e2e_2018").schema.attributes[3]
NAMES = {
    "white": "White",
    "black": "Black or African American",
    "aian": "American Indian and Alaska Native",
    "asian": "Asian",
    "nhopi": "Native Hawaiian and Other Pacific Islander",
    "sor": "Some Other Race",
}


def levels(text: str) -> set[int]:
    """Read "0-2,5" as levels 0, 1, 2 and 5."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def groups(name: str) -> list[set[int]]:
    recode = next(recode for recode in CENRACE.recodes if recode.name == name)
    return [set(members) for _, members in recode.groups]


@pytest.mark.parametrize(
    ("level", "races"),
    [
        (0, "white"),
        (5, "sor"),
        (6, "white-black"),
        (10, "white-sor"),
        (11, "black-aian"),
        (20, "nhopi-sor"),
        (21, "white-black-aian"),
        (30, "white-nhopi-sor"),
        (31, "black-aian-asian"),
        (40, "asian-nhopi-sor"),
        (41, "white-black-aian-asian"),
        (50, "white-asian-nhopi-sor"),
        (55, "aian-asian-nhopi-sor"),
        (56, "white-black-aian-asian-nhopi"),
        (61, "black-aian-asian-nhopi-sor"),
        (62, "white-black-aian-asian-nhopi-sor"),
    ],
)
def test_levels_stand_where_the_census_puts_them(level: int, races: str) -> None:
    assert CENRACE.levels[level] == "-".join(NAMES[race] for race in races.split("-"))


def test_there_are_63_different_groups() -> None:
    assert CENRACE.size == len(set(CENRACE.levels)) == 63


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("race7lev", ["0", "1", "2", "3", "4", "5", "6-62"]),
        ("majorRaces", ["0", "1", "2", "3", "4", "5", "6-62"]),
        ("cenrace_7lev_two_comb", ["0", "1,6", "2,7", "3,8", "4,9", "5,10", "11-62"]),
        ("cenrace11cats", ["0", "1", "2", "3", "4", "5", "6", "7", "8", "11", "9-10,12-62"]),
        ("numraces", ["0-5", "6-20", "21-40", "41-55", "56-61", "62"]),
        ("allraces", ["0", "1", "2", "3", "4", "5"]),
        ("tomr", ["6-62"]),
        ("whitecombo", ["0,6-10,21-30,41-50,56-60,62"]),
        ("blackcombo", ["1,6,11-14,21-24,31-36,41-46,51-54,56-59,61-62"]),
        ("aiancombo", ["2,7,11,15-17,21,25-27,31-33,37-39,41-43,47-49,51-53,55-58,60-62"]),
        ("asiancombo", ["3,8,12,15,18-19,22,25,28-29,31,34-35,37-38,40-41,44-45,47-48,50-52,54-57,59-62"]),
        ("nhopicombo", ["4,9,13,16,18,20,23,26,28,30,32,34,36-37,39-40,42,44,46-47,49-51,53-56,58-62"]),
        ("sorcombo", ["5,10,14,17,19-20,24,27,29-30,33,35-36,38-40,43,45-46,48-50,52-55,57-62"]),
        ("whiteAlone", ["0"]),
        ("sorAlone", ["5"]),
    ],
)
def test_recodes_are_the_published_ones(name: str, published: list[str]) -> None:
    assert groups(name) == [levels(text) for text in published]


@pytest.mark.parametrize("name", ["race7lev", "majorRaces", "cenrace_7lev_two_comb", "cenrace11cats", "numraces"])
def test_recodes_that_may_be_measured_cover_every_level_once(name: str) -> None:
    recode = next(recode for recode in CENRACE.recodes if recode.name == name)
    assert (recode.group_of(63) >= 0).all()
    assert np.unique(recode.group_of(63)).size == len(recode.groups)
