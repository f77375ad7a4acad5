"""The layout of CEF records: widths, places, and what each field takes, against a reading of the lists by hand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.io.cef import PERSON, UNIT
from das_spark.io.record_text import Field, Record, digits

# 1-based first columns of some fields, counted on the documented layout.
PLACES = {
    "unit": {"MAFID": 2, "FINAL_POP": 18, "VACS": 33, "QGQTYP": 34, "OIDTB": 38, "HHT": 60, "HHSEX": 76},
    "person": {"MAFID": 2, "QAGE": 24, "CENHISP": 48, "QRACE8": 77, "CENRACE": 82, "QGQTYP": 88, "LIVE_ALONE": 91},
}
SHORT = [field for record in (UNIT, PERSON) for field in record.fields if field.width <= 3]


@pytest.mark.parametrize(("record", "length", "fields"), [(UNIT, 76, 28), (PERSON, 91, 28)], ids=["unit", "person"])
def test_records_have_their_length_without_gaps(record: Record, length: int, fields: int):
    assert (record.length, len(record.fields)) == (length, fields)
    ends = [0, *(field.end for field in record.fields)]
    assert [field.start for field in record.fields] == ends[:-1]
    assert {name: record.field(name).start + 1 for name in PLACES[record.name]} == PLACES[record.name]


def _is_allowed(field: Field, text: str) -> bool:
    """The rule in words: a code of full width, or a number with spaces or zeros, or nothing but spaces."""
    for item in field.allowed.split(","):
        if item == "blank":
            if not text.strip(" "):
                return True
            continue
        low, _, high = item.partition("-")
        is_code = len(low) == len(high or low) == field.width
        number = text if is_code else text.strip(" ")
        aligned = is_code or text.startswith(number) or text.endswith(number)
        if number.isascii() and number.isdigit() and aligned and int(low) <= int(number) <= int(high or low):
            return True
    return False


@pytest.mark.parametrize("field", SHORT, ids=lambda field: field.name)
def test_short_fields_take_what_their_list_says_and_nothing_else(field: Field):
    numbers = {str(number).rjust(width, zero) for number in range(1000) for width in range(4) for zero in " 0"}
    texts = {
        text.ljust(field.width) for text in numbers | {"", "x", "1 1", " 1 ", "-1", "1x"} if len(text) <= field.width
    }
    texts |= {text.rjust(field.width) for text in texts}
    for text in texts:
        assert bool(re.fullmatch(field.pattern, text)) == _is_allowed(field, text), repr(text)


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1), st.integers(0, 4))
def test_ranges_of_digits_take_exactly_their_numbers(one: int, other: int, number: int, near: int):
    low, high = sorted((one, other))
    pattern = digits(f"{low:09d}", f"{high:09d}")
    for each in (number, low - near, low + near, high - near, high + near):
        if 0 <= each < 10**9:
            assert bool(re.fullmatch(pattern, f"{each:09d}")) == (low <= each <= high)


@pytest.mark.parametrize(
    ("text", "good"), [(" " * 21 + "7", True), ("7" * 22, True), ("7" + " " * 21, True), (" " * 22, False)]
)
def test_the_key_of_a_block_is_a_number_of_any_size(text: str, good: bool):
    assert bool(re.fullmatch(UNIT.field("OIDTB").pattern, text)) == good
