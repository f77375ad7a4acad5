"""The study of three mechanisms on a simulated hierarchy as one HTML page with its figures."""

from __future__ import annotations

from typing import Final

import numpy as np

from das_spark.evaluation.drawing import LINES, PALETTE, Captioned, as_svg, panels
from das_spark.studies.curves import DrawnLoss, residuals_and_curves
from das_spark.studies.flaxman import FlaxmanResult
from das_spark.studies.flaxman_direct import NORMAL, DirectEstimate
from das_spark.studies.flaxman_mechanisms import Mechanism
from das_spark.studies.noise import LAWS
from das_spark.studies.page import experiment_page

_SOURCE = "A. D. Flaxman, Empirical quantification of privacy loss with examples relevant to the 2020 US Census, 2019"
DEFINITIONS: Final = {
    "GDPC": "Geometric mechanism: every leaf count plus noise at epsilon.",
    "RDPC": "Raked: every count of every level plus noise at epsilon / (J + 1); then every family of siblings is "
    "scaled, from the top down, to sum to its parent.",
    "ADPC": "Averaged: the mean of P geometric counts of every leaf at epsilon / P each.",
    "EPL(x)": "ln f(x) - ln f(x + 1), f the Gaussian kernel density of the residuals of all leaves (factor 0.15 of "
    "their standard deviation), x up to twice the 95th percentile of residuals. A figure of the release, no bound.",
    "plateau": "Median of |EPL(x)|.",
    "direct estimate": "ln of how often something happens in releases of D, over how often in releases of D', in which "
    "one person has left the first leaf; residuals are taken from the count in D both times.",
}
_LESS_OBVIOUS: Final = (
    "Left: residuals (protected minus exact) of the leaves in one release of each mechanism. Right: EPL(x) of the same "
    "residuals; dashed: {low:g} and {high:g}. Each mechanism is shown at the epsilon at which the study finds a loss "
    "of about {low:g}."
)
_DIRECT: Final = (
    "Direct estimate at epsilon = {epsilon:g} from {replicates:,} releases of D and of D': log ratios of the share of "
    "releases in which the residual of the first leaf is k (left), of their kernel density (middle), and of the share "
    "in which it is k or more (right); bars: 95 percent of sampling error; dashed: epsilon."
)


def flaxman_page(result: FlaxmanResult) -> str:
    """Render the page.

    Args:
        result: Of the study.

    Returns:
        HTML.
    """
    settings = result.settings
    shape = " / ".join(f"{number:,}" for number in result.areas)
    lead = (
        f"The study: {_SOURCE}.",
        f"{settings.persons:,} simulated people in {shape} areas ({settings.levels} levels below the root, on average "
        f"{settings.persons / result.areas[-1]:.2f} people a leaf); {LAWS[settings.law]}; P = {settings.parts}; "
        f"seed {settings.seed}. Nobody lives there and the key of the noise is known.",
    )
    figures = [_less_obvious(result)]
    if result.direct is not None:
        figures.append(_direct(result.direct))
    tables = [table for table in result.tables() if table.name != "direct_points"]
    return experiment_page("Empirical privacy loss of three mechanisms", lead, figures, tables, DEFINITIONS)


def _less_obvious(result: FlaxmanResult) -> Captioned:
    compared = result.compared()
    low = float(min(result.settings.epsilons))
    drawn = [DrawnLoss(f"{line.mechanism}, epsilon {float(line.epsilon):g}", line.found) for line in compared]
    curves = [line.found.curve for line in compared if line.found.curve is not None]
    reach = max([1.0, *(float(np.abs(curve.x).max()) for curve in curves)])
    svg = residuals_and_curves(drawn, (low, 2 * low), "leaves", reach * 1.1, max(1, round(reach / 20)))
    return Captioned(svg, _LESS_OBVIOUS.format(low=low, high=2 * low))


def _direct(direct: DirectEstimate) -> Captioned:
    figure, plots = panels(3, 3)
    epsilon = float(direct.epsilon)
    for axes, events in zip(plots, ("equal", "density", "at least"), strict=True):
        for place, mechanism in enumerate(Mechanism):
            reading = next(one for one in direct.readings if (one.mechanism, one.events) == (mechanism, events))
            colour, line, label = PALETTE[place], LINES[place], mechanism.value
            if events == "density":
                axes.plot(reading.k, reading.log_ratio, line, color=colour, linewidth=1.2, label=label)
                continue
            beside = reading.k + 0.15 * (place - 1)  # so that the bars of the three do not cover each other
            bars = NORMAL * reading.standard_error
            axes.errorbar(
                beside, reading.log_ratio, bars, fmt="o", linestyle=line, color=colour, markersize=3, linewidth=0.8
            )
        for level in (-epsilon, epsilon):
            axes.axhline(level, color="grey", linewidth=0.8, linestyle="--")
        axes.set_title(events, fontsize=10, loc="left")
        axes.set_xlabel("k (people)")
    plots[0].set_ylabel("ln ratio")
    figure.legend(*plots[1].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return Captioned(as_svg(figure), _DIRECT.format(epsilon=epsilon, replicates=direct.replicates))
