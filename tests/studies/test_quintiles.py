"""Quintiles against pandas and numpy, boxes against matplotlib."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cbook import boxplot_stats

from das_spark.errors import InputError
from das_spark.evaluation.metrics import Frequencies, frequencies_of
from das_spark.studies.quintiles import box_figures, fifths_of, fivefold_thresholds, quintiles

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=60)


def of_pandas(sizes):
    """The fifth of each size by another program, or None where it refuses ties."""
    try:
        return pd.qcut(sizes, 5, labels=False)
    except ValueError:
        return None


@given(SIZES)
def test_thresholds_are_the_quantiles_of_numpy(sizes):
    found = np.array(fivefold_thresholds(frequencies_of(np.array(sizes)))) / 5
    assert np.allclose(found, np.quantile(sizes, [0.2, 0.4, 0.6, 0.8]), atol=1e-12)


@given(SIZES)
def test_every_geounit_is_in_the_first_fifth_whose_threshold_it_does_not_exceed(sizes):
    sizes = np.array(sizes)
    thresholds = fivefold_thresholds(frequencies_of(sizes))
    expected = [sum(5 * size > threshold for threshold in thresholds) for size in sizes.tolist()]
    assert fifths_of(sizes).tolist() == expected


def test_fifths_are_those_of_pandas():
    # Sizes so far apart that the floating-point thresholds of pandas cannot fall on the wrong side of one.
    random = np.random.default_rng(1)
    compared = 0
    for number in range(5, 60):
        sizes = random.choice(10_000, number, replace=False) * 7
        expected = of_pandas(sizes)
        if expected is not None:
            compared += 1
            assert fifths_of(sizes).tolist() == expected.tolist()
    assert compared > 50


def test_quintiles_hold_the_differences_of_their_geounits():
    random = np.random.default_rng(2)
    sizes, differences = random.integers(0, 500, 203), random.integers(-9, 10, 203)
    fifth = fifths_of(sizes)
    found = quintiles(sizes, differences)
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    for place, one in enumerate(found):
        inside = differences[fifth == place]
        assert (one.least, one.most) == (sizes[fifth == place].min(), sizes[fifth == place].max())
        assert np.repeat(one.differences.values, one.differences.counts).tolist() == sorted(inside.tolist())
        assert one.box is not None
        assert one.box.median == np.median(inside)
        assert one.box.mean == pytest.approx(inside.mean())
    assert sum(one.geounits for one in found) == 203


def test_equal_sizes_leave_fifths_empty_and_say_so():
    found = quintiles(np.full(9, 4), np.arange(9))
    assert [one.geounits for one in found] == [9, 0, 0, 0, 0]
    assert [one.box is None for one in found] == [False, True, True, True, True]
    assert found[1].to_json() == {
        "quintile": 2,
        "geounits": 0,
        "least": 0,
        "most": 0,
        "differences": {"values": [], "counts": []},
    }


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=80))
def test_boxes_are_those_of_matplotlib(differences):
    found = box_figures(frequencies_of(np.array(differences)))
    expected = boxplot_stats(differences)[0]
    names = {"low": "whislo", "first": "q1", "median": "med", "third": "q3", "high": "whishi", "mean": "mean"}
    for mine, theirs in names.items():
        assert getattr(found, mine) == pytest.approx(float(expected[theirs])), mine


def test_nothing_to_divide_is_an_error_that_says_so():
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(InputError, match="no geounits"):
        fivefold_thresholds(Frequencies(nothing, nothing))
    with pytest.raises(InputError, match="sizes"):
        quintiles(np.arange(3), np.arange(4))
