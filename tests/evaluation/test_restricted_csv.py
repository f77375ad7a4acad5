"""Tables say who may see them, and hold numbers in full or not at all."""

from fractions import Fraction

from das_spark.evaluation.definitions import RESTRICTED
from das_spark.evaluation.restricted_csv import restricted_csv


def test_a_table_says_who_may_see_it_and_leaves_empty_what_is_no_number():
    rows = [("County, all", 1 / 3, None), ("Block", float("nan"), Fraction(1, 250)), ("", float("inf"), 7)]
    comment, *lines = restricted_csv(("place", "bias", "share"), rows).splitlines()
    assert comment == f"# {RESTRICTED}"
    assert lines == ["place,bias,share", f'"County, all",{1 / 3!r},', "Block,,1/250", ",,7"]
