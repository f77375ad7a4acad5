"""The two settings of Texas with Dallas by block."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.products import PRODUCTS

DALLAS, E2E = PRODUCTS["dallas_2010"], PRODUCTS["e2e_1940"]


def test_schema_and_constraints_are_those_of_1940() -> None:
    assert DALLAS.schema == E2E.schema
    assert DALLAS.unit_bounds == E2E.unit_bounds
    assert DALLAS.total_at == "State"


def test_there_are_six_levels_from_the_nation_to_the_block() -> None:
    lengths = {level.name: level.length for level in DALLAS.geolevels}
    assert lengths == {"National": 0, "State": 2, "County": 5, "Tract": 11, "BlockGroup": 12, "Block": 16}
    assert DALLAS.spine().names == tuple(lengths)


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        ("with_units", {"hhgq": "9/40", "age18plus * hispanic * race": "27/40", "detailed": "1/10"}),
        ("without_units", {"age18plus * hispanic * race": "9/10", "detailed": "1/10"}),
    ],
)
def test_nine_tenths_of_epsilon_ten_go_to_the_nation(strategy: str, shares: dict[str, str]) -> None:
    budget = DALLAS.strategies[strategy].budget
    assert budget.total == 10
    expected = {"National": Fraction(9, 10), **dict.fromkeys(DALLAS.default_levels[1:], Fraction(1, 50))}
    assert {level.geolevel: level.share for level in budget.levels} == expected
    for level in budget.levels:
        assert {query.query: str(query.share) for query in level.queries} == shares


def test_the_layout_is_that_of_1940_with_a_blocks_geocode_and_says_so() -> None:
    for file in ("person", "unit"):
        ours = [column.name for column in getattr(DALLAS.microdata, file)]
        theirs = [column.name for column in getattr(E2E.microdata, file)]
        assert ours[2:7] == ["STATE", "COUNTY", "TRACT", "BLOCKGROUP", "BLOCK"]
        assert ours[:2] + ours[7:] == theirs[:2] + theirs[5:]
        assert getattr(DALLAS.microdata, file)[0].source != getattr(E2E.microdata, file)[0].source
    assert "das_spark" in DALLAS.microdata.comment
