"""Lines of the report on a spine: paths of shares are exact, or refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import GeographyError
from das_spark.evaluation import SpineLevelLine, share_path


def test_shares_are_read_exactly():
    path = share_path(["104/4099", "3995/4099", "0"], 7)
    assert path.shares == (Fraction(104, 4099), Fraction(3995, 4099), 0)
    assert path.blocks == 7


@pytest.mark.parametrize(
    ("shares", "message"),
    [(["1/2", "a/b"], "not fractions"), (["1/0"], "not fractions"), (["1/2"], "sum to 1"), (["2", "-1"], "sum to 1")],
)
def test_what_is_no_path_is_refused(shares, message):
    with pytest.raises(GeographyError, match=message):
        share_path(shares, 1)


def test_the_mean_fan_out_is_over_geounits():
    assert SpineLevelLine("County", Fraction(1, 2), 4, 10, 5).mean_fan_out == 2.5
