"""Tables of raw values, as CSV, as JSON and as readers see them."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import pytest

from das_spark.studies.table import Table, shown

TABLE = Table(
    "losses", "Losses", ("name", "epsilon", "areas", "loss"), (("a, b", Fraction(1, 40), 9261, None), ("c", 1, 2, 0.1))
)


def test_csv_reads_back() -> None:
    lines = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert lines == [["name", "epsilon", "areas", "loss"], ["a, b", "0.025", "9261", ""], ["c", "1", "2", "0.1"]]


def test_records_hold_plain_numbers() -> None:
    assert TABLE.records()[0] == {"name": "a, b", "epsilon": 0.025, "areas": 9261, "loss": None}


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "-"), (9261, "9,261"), (0.0248123, "0.02481"), (Fraction(1, 4), "0.25"), ("x", "x")]
)
def test_readers_see_four_digits(cell: object, text: str) -> None:
    assert shown(cell) == text  # type: ignore[arg-type]
