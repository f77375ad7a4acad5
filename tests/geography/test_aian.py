"""AIAN areas: every range of codes, the production branch, and codes that are nowhere."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography.blocks import (
    AIAN_CATEGORIES,
    PRODUCTION_AIAN,
    aian_area,
    aian_category,
    check_aian_selection,
    in_aian_branch,
)

RANGES = [
    ("0001", "4799", True),
    ("4800", "4989", True),
    ("5000", "5499", True),
    ("5500", "5899", True),
    ("5900", "5999", True),
    ("6000", "7999", True),
    ("8000", "8999", False),
    ("9000", "9499", True),
    ("9500", "9998", False),
]


@pytest.mark.parametrize(("number", "first", "last", "production"), [(n, *r) for n, r in enumerate(RANGES)])
def test_a_range_begins_and_ends_where_the_census_says(number: int, first: str, last: str, production: bool) -> None:
    assert aian_category([first, last]).tolist() == [number, number]
    assert in_aian_branch([first, last]).tolist() == [production, production]
    assert aian_area([first, last]).tolist() == ([first, last] if production else ["9999", "9999"])


def test_all_ten_thousand_codes_agree_with_the_table() -> None:
    for number in range(10_000):
        code = f"{number:04d}"
        expected = [at for at, (first, last, _) in enumerate(RANGES) if first <= code <= last]
        if code == "9999":
            assert aian_category([code]).tolist() == [-1]
        elif expected:
            assert aian_category([code]).tolist() == expected
        else:
            with pytest.raises(GeographyError, match=code):
                aian_category(["0001", code, "9999"])


def test_the_invalid_codes_are_ten_and_the_unassigned_zero() -> None:
    covered = sum(category.last - category.first + 1 for category in AIAN_CATEGORIES) + 1
    assert 10_000 - covered == 11


def test_a_block_outside_all_areas_is_never_on_the_branch() -> None:
    everything = [category.name for category in AIAN_CATEGORIES]
    assert not in_aian_branch(["9999"], everything)[0]
    assert in_aian_branch(["8000", "9500"], everything).all()
    assert not in_aian_branch(["0001"], [])[0]
    assert len(PRODUCTION_AIAN) == 7


def test_a_selection_knows_its_names() -> None:
    with pytest.raises(GeographyError) as caught:
        check_aian_selection(["federl"])
    assert "federal" in caught.value.hint
    with pytest.raises(GeographyError, match="twice"):
        check_aian_selection(["federal", "federal"])


def test_codes_that_are_no_four_digits_are_refused() -> None:
    for wrong in (["1"], ["12a4"], np.array([1234])):
        with pytest.raises(GeographyError, match="AIANNHCE"):
            aian_category(wrong)
