"""Limits on widths: how they are written, and which intervals they exceed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.evaluation import MEASUREMENTS
from das_spark.features.intervals.wide_cells import WideCells, WidthLimit

ESTIMATES = np.array([100.0, 100.0, -3.0, 0.0, 10.5])
LOW = np.array([90, 89, 0, 0, 9])
HIGH = np.array([110, 110, 1, 0, 12])


@pytest.mark.parametrize(
    ("text", "limit", "wider"),
    [
        ("20", WidthLimit(Fraction(20)), [False, True, False, False, False]),
        ("2.5", WidthLimit(Fraction(5, 2)), [True, True, False, False, True]),
        ("0", WidthLimit(Fraction(0)), [True, True, True, False, True]),
        ("20%", WidthLimit(Fraction(1, 5), is_share=True), [False, True, True, False, True]),
        (" 30 % ", WidthLimit(Fraction(3, 10), is_share=True), [False, False, True, False, False]),
    ],
)
def test_limits_are_of_people_or_beside_the_estimate(text, limit, wider):
    assert WidthLimit.of(text) == limit
    assert limit.exceeded(ESTIMATES, LOW, HIGH).tolist() == wider


def test_limits_are_said_in_words():
    assert [str(WidthLimit.of(text)) for text in ("2500", "12.5%")] == ["2,500", "12.5 % of the estimate"]


@pytest.mark.parametrize("text", ["wide", "", "-1", "20%%", "20% of it", "%"])
def test_what_is_no_width_is_refused(text):
    with pytest.raises(ConfigurationError, match="is no width"):
        WidthLimit.of(text)


def test_a_share_of_no_cells_is_none():
    cells = WideCells(MEASUREMENTS, 0.9, "P1", "Block", "P0010001", "Total", 8, 2)
    assert cells.to_json()["share"] == cells.share == 0.25
    assert WideCells(MEASUREMENTS, 0.9, "P1", "Block", "P0010001", "Total", 0, 0).share == 0
