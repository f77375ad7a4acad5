"""The three figures of the study: what they show is there, told apart without colours, and the same every time."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from das_spark.evaluation.drawing import MARKERS, PALETTE
from das_spark.evaluation.metrics import Frequencies, frequencies_of
from das_spark.evaluation.privacy_loss import AS_CODED, AS_WRITTEN, loss_curve
from das_spark.evaluation.study_captions import (
    bias_by_index_caption,
    residuals_and_loss_caption,
    settings_in_words,
    trade_off_caption,
)
from das_spark.evaluation.study_figures import (
    bias_by_index,
    bin_width,
    binned,
    residuals_and_loss,
    shown_reach,
    trade_off,
)

PATH = "{http://www.w3.org/2000/svg}path"


def residuals(scale: float, size: int = 2000, shift: float = 0.0) -> Frequencies:
    generator = np.random.default_rng(1)
    return frequencies_of(np.rint(generator.laplace(shift, scale, size)).astype(np.int64))


def with_curve(frequencies: Frequencies, settings=AS_CODED):
    return frequencies, loss_curve(frequencies.values, frequencies.counts, settings)


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
    svg = residuals_and_loss(curves, "strata of counties")
    shown = texts(svg)
    assert all(label in shown for label in curves)
    assert "a  Residuals of strata of counties" in shown
    assert "residual (people)" in shown
    assert strokes(svg, PALETTE[0]) == {"solid"}
    assert strokes(svg, PALETTE[1]) == strokes(svg, PALETTE[2]) == {"dashed"}
    assert svg == residuals_and_loss(curves, "strata of counties")


def test_the_first_figure_reaches_beyond_the_widest_curve(curves):
    widest = curves["epsilon 1"][1]
    assert shown_reach(curve for _, curve in curves.values()) == pytest.approx(-1.1 * (widest.x[0] - 0.5))


@pytest.mark.parametrize(("reach", "width"), [(3.0, 1), (200.0, 1), (201.0, 2), (2000.0, 10)])
def test_bins_hold_every_residual_within_reach_once(reach, width):
    found = residuals(reach / 4)
    assert bin_width(reach) == width
    edges, heights = binned(found, reach)
    assert set(np.diff(edges)) == {width}
    assert edges[0] <= -reach < reach <= edges[-1]
    expanded = np.repeat(found.values, found.counts)
    assert np.array_equal(heights, np.histogram(expanded, edges)[0])
    assert edges[np.searchsorted(edges, 0) - 1] == -width / 2  # One bin lies around 0.


def test_wide_residuals_say_how_wide_their_bins_are():
    wide = {"release": with_curve(residuals(400))}
    width = bin_width(shown_reach([wide["release"][1]]))
    assert width > 1
    assert f"number in {width} housing units" in texts(residuals_and_loss(wide, counted="housing units"))
    assert f"each bin of {width} housing units" in residuals_and_loss_caption(wide, counted="housing units")


def test_the_caption_of_the_first_figure_says_how_many_and_how(curves):
    both = curves | {"written": with_curve(residuals(16), AS_WRITTEN)}
    caption = residuals_and_loss_caption(both, "strata of counties")
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


def test_the_second_figure_names_every_point():
    release = [("0.5", 0.2, 11.0), ("1", 0.3, 6.0)]
    samples = [("50 %", 0.15, 5.0), ("95 %", 0.6, 1.0)]
    svg = trade_off(release, samples, "housing units")
    shown = texts(svg)
    assert {"0.5", "1", "50 %", "95 %", "protected release", "simple random sample"} <= set(shown)
    assert "median absolute residual (housing units)" in shown
    assert strokes(svg, PALETTE[1]) >= {"dashed"}
    assert "dashed" not in strokes(svg, PALETTE[0])
    assert svg == trade_off(release, samples, "housing units")


def test_the_second_figure_goes_without_samples():
    shown = texts(trade_off([("1", 0.3, 6.0)], []))
    assert "protected release" in shown
    assert "simple random sample" not in shown


def test_the_caption_of_the_second_figure_gives_the_numbers_of_residuals():
    caption = trade_off_caption(AS_CODED, [104_000, 104_100], [26_021, 26_021])
    assert "(104,000 to 104,100 residuals a point)" in caption
    assert "(26,021)" in caption
    assert "settings: as coded" in caption
    assert "(none)" in trade_off_caption(AS_CODED, [1], [])


def test_the_third_figure_has_an_index_a_place_and_a_mark_a_label(lines):
    svg = bias_by_index(lines)
    shown = texts(svg)
    assert {"0", "4", "23", "epsilon 1", "epsilon 2", "residual (people)"} <= set(shown)
    filled = [node.get("style", "") for node in ElementTree.fromstring(svg).iter()]
    for colour in PALETTE[:2]:
        assert sum(f"fill: {colour.lower()}" in style and "fill-opacity: 0.4" in style for style in filled) >= 1
    assert svg == bias_by_index(lines)


def test_the_third_figure_goes_with_gaps_and_with_what_has_no_spread(lines):
    empty = Frequencies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    exact = {0: frequencies_of(np.zeros(7, dtype=np.int64)), 12: empty}
    shown = texts(bias_by_index(lines | {"exact": exact}))
    assert "exact" in shown
    assert "12" not in shown


def test_the_caption_of_the_third_figure_gives_the_number_by_index(lines):
    caption = bias_by_index_caption(lines)
    assert "epsilon 1: 0 (2,000), 4 (2,000), 23 (2,000); epsilon 2: 0 (2,000)" in caption
    assert "at most 2.5%" in caption


def test_marks_differ_where_colours_do():
    assert len(set(MARKERS)) >= len(set(PALETTE)) == 6
