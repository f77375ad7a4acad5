"""Tables say who may see them, and hold numbers in full or not at all."""

import io
from fractions import Fraction

import pandas as pd

from das_spark.evaluation.restricted_csv import restricted_csv

ROWS = [("County, all", 1 / 3, None), ("Block", float("nan"), Fraction(1, 250)), ("", float("inf"), 7)]


def test_a_table_says_who_may_see_it_and_leaves_empty_what_is_no_number():
    assert restricted_csv(("place", "bias", "share"), ROWS).splitlines() == [
        "place,bias,share,classification",
        f'"County, all",{1 / 3!r},,RESTRICTED',
        "Block,,1/250,RESTRICTED",
        ",,7,RESTRICTED",
    ]


def test_it_is_read_without_options():
    read = pd.read_csv(io.StringIO(restricted_csv(("place", "bias", "share"), ROWS)))
    assert list(read.columns) == ["place", "bias", "share", "classification"]
    assert read["bias"][0] == 1 / 3
    assert set(read["classification"]) == {"RESTRICTED"}
