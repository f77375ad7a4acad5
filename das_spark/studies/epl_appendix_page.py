"""The appendix on empirical privacy loss as one HTML page with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from das_spark.evaluation.drawing import LINES, MARKERS, PALETTE, Captioned, as_svg, log_scales, wide_axes
from das_spark.studies.appendix_examples import COUNTY_WEIGHT, STRATA_EPSILON, TOTAL_EPSILON, Example
from das_spark.studies.curves import DrawnLoss, residuals_and_curves
from das_spark.studies.epl_appendix import AppendixResult
from das_spark.studies.noise import LAWS
from das_spark.studies.page import experiment_page
from das_spark.studies.published_appendix import SA1_PROGRAM, SA1_REPLY, Spread
from das_spark.studies.washington_1940 import COUNTIES, DISTRICTS

_SOURCE: Final = (
    "The study: A. D. Flaxman and S. Petti, Supplementary Methods Appendix to Differential privacy in the 2020 US "
    "census: what will it do? Quantifying the accuracy/privacy tradeoff: design and validation of the empirical "
    "privacy loss metric, 2020."
)
DEFINITIONS: Final = {
    "EPL(x)": "ln f(x) - ln f(x + 1), f the Gaussian kernel density of the residuals (factor 0.1 of their standard "
    "deviation), x up to the 95th percentile of residuals.",
    "maximum": "Largest |EPL(x)|, which the study calls the empirical privacy loss and compares with epsilon. It grows "
    "as the number of residuals falls.",
    "plateau": "Median of |EPL(x)|: the slope of the law, here half of epsilon, since noise has parameter epsilon / 2.",
    "epsilon": "The budget that the study compares with; in example 2 the sum of two.",
    "coded, exact": "Two laws of noise with parameter z: its ratio is 1 - z, or exp(-z).",
}
_WHAT: Final = {
    1: "Example 1: district totals with noise at epsilon = {epsilon:g}.",
    2: f"Example 2: district totals measured at {float(TOTAL_EPSILON):g} and strata at {float(STRATA_EPSILON):g}, "
    "fitted without negative counts; residuals of the fitted totals.",
    3: "Example 3: strata measured at epsilon = {epsilon:g}, fitted without negative counts to exact county totals "
    f"(weight {COUNTY_WEIGHT:g}); residuals of all strata.",
}
_EXAMPLE: Final = " Left: residuals (protected minus exact). Right: EPL(x); dashed: {half:g} and {epsilon:g}."
_SA1: Final = (
    "Mean of the largest |EPL(x)| over the releases of example 1 at each epsilon, with the 2.5th and 97.5th "
    "percentile, and both published versions; dashed: epsilon itself."
)
_ROWS: Final = 8
_SHIFT: Final = 1.06  # neighbours on a logarithmic scale


def epl_appendix_page(result: AppendixResult) -> str:
    """Render the page.

    Args:
        result: Of the study.

    Returns:
        HTML.
    """
    settings = result.settings
    lead = (
        _SOURCE,
        f"{COUNTIES} counties and {DISTRICTS:,} enumeration districts of a simulated state like Washington in 1940; "
        f"{LAWS[settings.law]}; {settings.replicates} releases an epsilon; seed {settings.seed}. Nobody lives there "
        "and the key of the noise is known.",
    )
    figures = [*map(_example, result.examples), _lines(result)]
    return experiment_page("How empirical privacy loss behaves", lead, figures, result.tables(), DEFINITIONS)


def _example(example: Example) -> Captioned:
    epsilon, curve = float(example.published.epsilon), example.found.curve
    reach = 1.2 * (example.found.root_mean_square if curve is None else float(np.abs(curve.x).max() + 1))
    drawn = [DrawnLoss(f"example {example.number}", example.found)]
    svg = residuals_and_curves(drawn, (epsilon / 2, epsilon), example.counted, reach)
    return Captioned(svg, (_WHAT[example.number] + _EXAMPLE).format(epsilon=epsilon, half=epsilon / 2))


def _lines(result: AppendixResult) -> Captioned:
    ours = [(line.value, line.spread) for line in result.lines if line.spread is not None]
    asked = {value for value, _ in ours}
    figure, axes = wide_axes(_ROWS)
    published = (("reply", SA1_REPLY), ("program", SA1_PROGRAM))
    drawn: list[tuple[str, Sequence[tuple[Fraction, Spread]]]] = [("here", ours)]
    drawn += [(name, [(key, each) for key, each in lines.items() if key in asked]) for name, lines in published]
    for place, (label, points) in enumerate(drawn):
        if points:
            at = np.array([float(value) for value, _ in points]) * _SHIFT ** (place - 1)
            means = np.array([spread.mean for _, spread in points])
            bars = np.array([(spread.mean - spread.low, spread.high - spread.mean) for _, spread in points]).T
            axes.errorbar(
                at, means, bars, color=PALETTE[place], fmt=MARKERS[place], markersize=4, elinewidth=1, label=label
            )
    ends = [float(value) for value in sorted(asked)] or [0.1, 1.0]
    axes.plot([ends[0] / 1.2, ends[-1] * 1.2], [ends[0] / 1.2, ends[-1] * 1.2], LINES[1], color="grey", linewidth=0.8)
    log_scales(axes, both=True)
    axes.set(xlabel="epsilon", ylabel="largest |EPL(x)|")
    axes.legend(loc="upper left", frameon=False)
    return Captioned(as_svg(figure), _SA1)
