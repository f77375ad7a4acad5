"""Columns of digits: checked once, cut and joined without a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography.blocks import digit_column, from_characters, joined, slice_column, text_column, zero_padded

columns = st.lists(st.text(alphabet="0123456789", min_size=6, max_size=6), min_size=1, max_size=9)


@given(columns, st.integers(0, 5))
def test_cutting_and_joining_is_what_text_does(values: list[str], cut: int) -> None:
    texts = digit_column(values, 6, "code")
    assert slice_column(texts, cut, 6).tolist() == [value[cut:] for value in values]
    assert joined(texts, slice_column(texts, 0, 2)).tolist() == [value + value[:2] for value in values]


@pytest.mark.parametrize("wrong", [["12", "123"], ["1x"], ["١٢"], [12, 13], [None, "12"], [" 1"], ["1"]])
def test_what_is_no_column_of_two_digits_is_refused_by_name(wrong: list[object]) -> None:
    with pytest.raises(GeographyError, match="code"):
        digit_column(np.array(wrong, dtype=object), 2, "code")


def test_text_may_be_anything_of_its_width_and_a_column_may_be_empty() -> None:
    assert text_column(np.array(["A", "N"], dtype=object), 1, "status").dtype == np.dtype("U1")
    assert digit_column(np.empty(0, dtype=object), 4, "code").size == 0


def test_numbers_are_filled_with_zeros() -> None:
    assert zero_padded(np.array([1, 20, 300]), 3).tolist() == ["001", "020", "300"]
    assert from_characters(np.array([[49, 50]], dtype=np.uint32)).tolist() == ["12"]
