"""The three figures of the study: what they show is there, told apart without colours, and the same every time."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_study import STRATA, made_run
from scipy.stats import gaussian_kde

from das_spark.evaluation.metrics import Frequencies, frequencies_of
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, loss_curve
from das_spark.evaluation.study_figures import (
    TradeOffPoint,
    bias_by_index,
    bias_figure,
    binned,
    loss_figure,
    residuals_and_loss,
    settings_in_words,
    trade_off,
    violin,
    violin_limit,
)
from das_spark.evaluation.tallies import MARGINAL_PRODUCT
from das_spark.report import drawn
from das_spark.report.figures import MARKERS, PALETTE

PATH = "{http://www.w3.org/2000/svg}path"


def residuals(scale: float, size: int = 2000, shift: float = 0.0) -> Frequencies:
    generator = np.random.default_rng(1)
    return frequencies_of(np.rint(generator.laplace(shift, scale, size)).astype(np.int64))


def with_curve(frequencies: Frequencies, settings=AS_CODED):
    return frequencies, loss_curve(frequencies, settings)


@pytest.fixture(scope="module")
def curves():
    return {f"epsilon {epsilon}": with_curve(residuals(16 / epsilon)) for epsilon in (1, 2, 4)}


@pytest.fixture(scope="module")
def lines():
    return {
        label: {index: residuals(scale, shift=index - 12) for index in (0, 4, 23)}
        for label, scale in (("epsilon 1", 16), ("epsilon 2", 8))
    }


def texts(svg: str) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(svg).itertext() if text.strip()]


def strokes(svg: str, colour: str) -> set[str]:
    """Dash patterns of the lines of one colour."""
    styles = [node.get("style", "") for node in ElementTree.fromstring(svg).iter(PATH)]
    mine = [style for style in styles if f"stroke: {colour.lower()}" in style]
    return {"dashed" if "dasharray" in style else "solid" for style in mine} if mine else set()


def test_the_first_figure_has_a_line_a_label_in_both_panels(curves):
    svg = drawn(residuals_and_loss(curves, "strata of counties"))
    shown = texts(svg)
    assert all(label in shown for label in curves)
    assert "a  Residuals of strata of counties" in shown
    assert "residual (people)" in shown
    assert strokes(svg, PALETTE[0]) == {"solid"}
    assert strokes(svg, PALETTE[1]) == strokes(svg, PALETTE[2]) == {"dashed"}


def test_the_first_figure_reaches_beyond_the_widest_curve(curves):
    widest = curves["epsilon 1"][1]
    axis = residuals_and_loss(curves).panels[0].x
    assert -axis.low == axis.high == pytest.approx(-1.1 * (widest.x[0] - 0.5))


@pytest.mark.parametrize(("reach", "width"), [(3.0, 1), (200.0, 1), (201.0, 2), (2000.0, 10)])
def test_bins_hold_every_residual_within_reach_once(reach, width):
    found = residuals(reach / 4)
    edges, heights = binned(found, reach, width)
    assert set(np.diff(edges)) == {width}
    assert edges[0] <= -reach < reach <= edges[-1]
    expanded = np.repeat(found.values, found.counts)
    assert np.array_equal(heights, np.histogram(expanded, edges)[0])
    assert edges[np.searchsorted(edges, 0) - 1] == -width / 2  # One bin lies around 0.


def test_wide_residuals_say_how_wide_their_bins_are():
    figure = residuals_and_loss({"release": with_curve(residuals(400))}, counted="housing units")
    (width,) = {round(each) for each in np.diff(figure.panels[0].series[0].x[1:])}
    assert width > 1
    assert len(figure.panels[0].series[0].x) <= 404
    assert f"number in {width} housing units" in texts(drawn(figure))
    assert f"each bin of {width} housing units" in figure.caption


def test_the_caption_of_the_first_figure_says_how_many_and_how(curves):
    both = curves | {"written": with_curve(residuals(16), AS_WRITTEN)}
    caption = residuals_and_loss(both, "strata of counties").caption
    for words in ("strata of counties with each residual", "n = 2,000", "as coded", "as written", "equal n"):
        assert words in caption
    for label, (frequencies, curve) in both.items():
        bound = -(curve.x[0] - 0.5)
        beyond = frequencies.counts[np.abs(frequencies.values) > bound].sum() / frequencies.total
        assert f"{label}: " in caption
        assert f"largest absolute loss {curve.maximum:.3g}, median {curve.plateau:.3g}, {beyond:.1%}" in caption


def test_settings_in_words_tell_the_two_bandwidths_apart():
    assert "0.1 x the standard deviation" in settings_in_words(AS_CODED)
    assert "of 0.1 people" in settings_in_words(AS_WRITTEN)
    assert "percentiles 5 and 95" in settings_in_words(AS_CODED)


def points(*of):
    return [TradeOffPoint(label, loss, error, n) for label, loss, error, n in of]


def test_the_second_figure_names_every_point():
    release = points(("0.5", 0.2, 11.0, 104_000), ("1", 0.3, 6.0, 104_100))
    samples = points(("50 %", 0.15, 5.0, 26_021), ("95 %", 0.6, 1.0, 26_021))
    figure = trade_off(release, samples, AS_CODED, "housing units")
    svg = drawn(figure)
    shown = texts(svg)
    assert {"0.5", "1", "50 %", "95 %", "protected release", "simple random sample"} <= set(shown)
    assert "median absolute residual (housing units)" in shown
    assert strokes(svg, PALETTE[1]) >= {"dashed"}
    assert "dashed" not in strokes(svg, PALETTE[0])
    assert "(104,000 to 104,100 residuals a point)" in figure.caption
    assert "(26,021)" in figure.caption
    assert "settings: as coded" in figure.caption


def test_the_second_figure_goes_without_samples():
    figure = trade_off(points(("1", 0.3, 6.0, 1)), [], AS_CODED)
    shown = texts(drawn(figure))
    assert "protected release" in shown
    assert "simple random sample" not in shown
    assert "(none)" in figure.caption


def test_the_third_figure_has_an_index_a_place_and_a_mark_a_label(lines):
    figure = bias_by_index(lines, "County")
    svg = drawn(figure)
    shown = texts(svg)
    assert {"0", "4", "23", "epsilon 1", "epsilon 2", "residual (people)"} <= set(shown)
    filled = [node.get("style", "") for node in ElementTree.fromstring(svg).iter()]
    for colour in PALETTE[:2]:
        assert sum(f"fill: {colour.lower()}" in style and "fill-opacity: 0.4" in style for style in filled) >= 1
    assert "epsilon 1: 0 (2,000), 4 (2,000), 23 (2,000); epsilon 2: 0 (2,000)" in figure.caption
    assert "at most 2.5%" in figure.caption


def test_the_third_figure_goes_with_gaps_and_with_what_has_no_spread(lines):
    empty = Frequencies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    exact = {0: frequencies_of(np.zeros(7, dtype=np.int64)), 12: empty}
    shown = texts(drawn(bias_by_index(lines | {"exact": exact}, "County")))
    assert "exact" in shown
    assert "12" not in shown


def test_marks_differ_where_colours_do():
    assert len(set(MARKERS)) >= len(set(PALETTE)) == 6


BOTH = {"epsilon 1": made_run(1), "epsilon <2": made_run(2)}


def test_several_releases_stand_side_by_side():
    for figure in (loss_figure(BOTH, "County", STRATA), bias_figure(BOTH, "County", MARGINAL_PRODUCT)):
        assert drawn(figure).startswith("<svg")
        assert all(label in figure.caption for label in BOTH)


def test_what_has_no_curve_and_no_index_is_not_drawn():
    assert loss_figure(BOTH, "District", STRATA) is None
    assert loss_figure({}, "County", STRATA) is None
    assert bias_figure(BOTH, "District", MARGINAL_PRODUCT) is None


@given(st.lists(st.integers(-200, 200), min_size=5, max_size=80).map(np.array))
def test_a_violin_is_the_density_as_a_part_of_its_largest_value(values):
    found = violin(frequencies_of(values), 1000.0)
    assert found.mean == pytest.approx(values.mean())
    if np.ptp(values) == 0:
        assert found.heights.size == found.widths.size == 0
        return
    assert (found.heights[0], found.heights[-1]) == (values.min(), values.max())
    factor = max(len(values) ** -0.2, 0.5 / values.std(ddof=1))
    density = gaussian_kde(values, bw_method=factor)(found.heights)
    assert found.widths == pytest.approx(density / density.max(), abs=1e-9)


def test_violins_are_cut_and_means_are_not():
    residuals = frequencies_of(np.concatenate([np.arange(-20, 21), [4100]]))
    found = violin(residuals, 10.0)
    assert (found.heights[0], found.heights[-1]) == (-10, 10)
    assert found.mean == pytest.approx(4100 / 42)


def test_residuals_beyond_the_limit_leave_only_a_mean():
    found = violin(frequencies_of(np.array([50, 60])), 10.0)
    assert found.heights.size == 0
    assert found.mean == 55


def test_billions_of_residuals_are_no_more_than_their_frequencies():
    residuals = Frequencies(np.arange(-2, 3), np.array([1, 2, 4, 2, 1]) * 10**11)
    found = violin(residuals, 5.0)
    assert found.mean == 0
    assert found.widths == pytest.approx(found.widths[::-1])
    # With so many residuals the narrowest kernel holds: no teeth between whole numbers.
    assert (np.diff(found.widths[: found.widths.size // 2]) > 0).all()


def test_the_limit_shows_most_residuals_and_every_mean():
    many = frequencies_of(np.arange(-1000, 1001))
    assert violin_limit([[many]]) == pytest.approx(975)
    assert violin_limit([[many], [frequencies_of(np.array([2000]))]]) == pytest.approx(2200)
    assert violin_limit([[frequencies_of(np.zeros(4, dtype=np.int64))]]) == 1
    assert violin_limit([]) == 1
