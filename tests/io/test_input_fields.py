"""Fields of a table: numbers however they are written, codes, labels, geocodes, identities; faults by rule and row."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.geography import Geolevel, Spine
from das_spark.io.csv_records import FIELDS, QUOTES
from das_spark.io.input_fields import LARGEST, MOST_EXAMPLES, Names, Rows
from das_spark.io.input_tables import MALFORMED
from das_spark.io.listed_files import ROW
from das_spark.products import CodedField

NAMES = Names("persons.csv", ("n", "geocode", "who"), "persons", header=3)
SPINE = Spine((Geolevel("State", 2), Geolevel("County", 5)))
LEVELS = CodedField("n", ("1-3,7", "4", "blank"))


def rows_of(names=NAMES, faults=None, first=1, **columns):
    """Rows with the given columns; texts unless they are arrays."""
    arrays = {
        name: column if isinstance(column, pa.Array) else pa.array(column, pa.string())
        for name, column in columns.items()
    }
    size = len(next(iter(arrays.values())))
    places = {ROW: pa.array(np.arange(first, first + size))}
    return Rows(names, pa.RecordBatch.from_pydict(arrays | places), {} if faults is None else faults)


def exactly(text):
    """The whole number that a text is, by Python's own rules; None where it is none."""
    bare = text.strip(" ")
    digits = bare[1:] if bare[:1] in ("+", "-") else bare
    return int(bare) if digits.isascii() and digits.isdigit() else None


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text("0123456789+- .x\n\u0663", max_size=24),
            st.integers(-(2**66), 2**66).map(str),
            st.integers(LARGEST - 2, LARGEST + 3).map(lambda number: f" +000{number} "),
            st.integers(-LARGEST - 4, -LARGEST + 2).map(str),
        ),
        max_size=12,
    )
)
def test_texts_are_the_numbers_that_they_are_for_python(texts):
    found = rows_of(n=texts).whole("n")
    expected = [None if text is None else exactly(text) for text in texts]
    assert found.is_missing.tolist() == [text is None for text in texts]
    assert found.is_whole.tolist() == [number is not None for number in expected]
    fits = [number is not None and -LARGEST - 1 <= number <= LARGEST for number in expected]
    assert found.fits.tolist() == fits
    assert found.value.tolist() == [number if good else 0 for number, good in zip(expected, fits, strict=True)]


@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(-9, 9).map(float)), max_size=9))
def test_floats_are_whole_where_nothing_is_behind_the_point(numbers):
    found = rows_of(n=pa.array(numbers, pa.float64())).whole("n")
    whole = [number is not None and np.isfinite(number) and number == int(number) for number in numbers]
    assert found.is_whole.tolist() == whole
    fits = [good and -(2.0**63) <= number < 2.0**63 for number, good in zip(numbers, whole, strict=True)]
    assert found.fits.tolist() == fits
    assert found.value.tolist() == [int(number) if good else 0 for number, good in zip(numbers, fits, strict=True)]


@given(st.lists(st.one_of(st.none(), st.decimals(-(10**25), 10**25, places=2)), max_size=9))
def test_decimals_are_compared_exactly(numbers):
    found = rows_of(n=pa.array(numbers, pa.decimal128(38, 2))).whole("n")
    whole = [number is not None and number == int(number) for number in numbers]
    assert found.is_whole.tolist() == whole
    fits = [good and -LARGEST - 1 <= number <= LARGEST for number, good in zip(numbers, whole, strict=True)]
    assert found.fits.tolist() == fits
    assert found.value.tolist() == [int(number) if good else 0 for number, good in zip(numbers, fits, strict=True)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.null()])
def test_integers_of_any_width_and_columns_of_nothing(kind):
    numbers = [None, None] if kind == pa.null() else [7, None]
    found = rows_of(n=pa.array(numbers, kind)).whole("n")
    assert found.value.tolist() == [numbers[0] or 0, 0]
    assert found.is_missing.tolist() == [numbers[0] is None, True]
    assert found.is_whole.tolist() == [numbers[0] is not None, False]


def test_what_is_no_number_by_its_type_is_refused():
    with pytest.raises(InputError, match="column 'n' holds no numbers"):
        rows_of(n=pa.array([True])).whole("n")


def test_a_count_breaks_one_rule_at_a_time():
    faults = {}
    rows = rows_of(faults=faults, n=["3", None, "1.5", "-1", str(LARGEST + 1), " 4 "])
    assert rows.count("n").tolist() == [3, 0, 0, -1, 0, 4]
    assert [(fault.rows, fault.examples) for fault in faults.values()] == [(1, [2]), (1, [3]), (1, [5]), (1, [4])]
    assert rows.faulty.tolist() == [False, True, True, True, True, False]


def test_faults_go_on_over_batches_and_keep_the_first_rows():
    faults = {}
    for first in (1, 9):
        rows_of(faults=faults, first=first, n=["x"] * 8).count("n")
    fault = faults["n", "a whole number"]
    assert (fault.rows, fault.examples) == (16, list(range(1, MOST_EXAMPLES + 1)))


def test_codes_ranges_blanks_and_bases():
    rows = rows_of(n=["1", "3", "07", "4", None, "5", "x", "1.0"])
    assert rows.level(LEVELS, ("a", "b", "c")).tolist() == [0, 0, 0, 1, 2, -1, -1, -1]
    based = rows_of(Names("f", ("n",), "persons", code_base={"n": 10}), n=["11", "14", "1"])
    assert based.level(LEVELS, ("a", "b", "c")).tolist() == [0, 1, -1]
    numbered = CodedField.numbered("n", 3)
    faults = {}
    assert rows_of(faults=faults, n=pa.array([2.0, 0.0, 3.0, None])).level(numbered, "abc").tolist() == [2, 0, -1, -1]
    assert [key[1] for key in faults] == ["a code from 0 to 2"]


def test_labels_are_as_the_product_spells_them():
    names = Names("f", ("n",), "persons", labels=("sex",))
    found = rows_of(names, n=["male", "Male", None, "female"]).level(LEVELS, ("male", "female", "x"), "sex")
    assert found.tolist() == [0, -1, -1, 1]


@pytest.mark.parametrize(
    "text", ["01001\n", "1001", "010011", "0100x", "\uff10\uff11\uff10\uff10\uff11", " 01001", "", None]
)
def test_what_is_no_geocode_is_none(text):
    rows = rows_of(geocode=["01001", text])
    rows.geocode(SPINE)
    assert rows.faulty.tolist() == [False, True]


def test_blocks_of_15_digits_get_their_block_group():
    names = Names("f", ("block",), "persons")
    spine = Spine((Geolevel("State", 2), Geolevel("Block", 16)))
    rows = rows_of(names, block=["150010201001000", "1500102010011000"])
    assert rows.geocode(spine)[0].as_py() == "1500102010011000"
    assert rows.faulty.tolist() == [False, True]


def test_identities_are_texts_or_whole_numbers():
    assert rows_of(who=[" a", "a"]).identity("who", "a unit").to_pylist() == [" a", "a"]
    assert rows_of(who=pa.array([7, -7])).identity("who", "a unit").to_pylist() == ["7", "-7"]
    assert rows_of(who=pa.array([Decimal(7)])).identity("who", "a unit").to_pylist() == ["7"]
    for column in (pa.array([7.0]), pa.array([Decimal("7.0")])):
        with pytest.raises(InputError, match="neither texts nor whole numbers"):
            rows_of(who=column).identity("who", "a unit")
    rows = rows_of(who=["a", None])
    rows.identity("who", "a unit")
    assert rows.faulty.tolist() == [False, True]


def test_of_a_record_that_cannot_be_taken_apart_nothing_more_is_said():
    faults = {}
    rows = rows_of(faults=faults, **{MALFORMED: [None, FIELDS, QUOTES], "n": ["x", None, None]})
    rows.count("n")
    told = {key: fault.examples for key, fault in faults.items() if fault.rows}
    assert told == {("row", QUOTES): [3], ("row", "3 fields, as in the header"): [2], ("n", "a whole number"): [1]}
