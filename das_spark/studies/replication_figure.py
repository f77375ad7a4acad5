"""Published figures against ours, and the figures of the study redrawn from our runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from das_spark.evaluation import AccuracyReport, pool
from das_spark.evaluation.captioned import bias_figure, loss_figure
from das_spark.evaluation.drawing import MARKERS, PALETTE, Captioned, as_svg, log_scales, wide_axes
from das_spark.evaluation.homogeneity import MARGINAL_PRODUCT
from das_spark.products.e2e_1940 import STRATA
from das_spark.studies.agreement import Expectation
from das_spark.studies.replication import Comparison

#: Budgets of figures 1 and 3.
DRAWN: Final = (Fraction(1, 2), Fraction(1), Fraction(2))
_LEAF: Final = "Enumdist"
_HEIGHT: Final = 11


def published_against_ours(comparisons: Sequence[Comparison]) -> Captioned:
    """Every positive figure that both have, on logarithmic scales.

    Args:
        comparisons: Of published figures and ours.
    """
    figure, axes = wide_axes(_HEIGHT)
    for at, expectation in enumerate(Expectation):
        points = [
            (each.published, each.ours.value)
            for each in comparisons
            if each.rule.expectation is expectation and each.published and each.ours and each.ours.value
            if each.published > 0 and each.ours.value > 0
        ]
        if points:
            across, up = zip(*points, strict=True)
            (line,) = axes.plot(across, up, MARKERS[at % len(MARKERS)], label=str(expectation), alpha=0.7)
            line.set_color(PALETTE[at % len(PALETTE)])
    log_scales(axes, both=True, decades=True)
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="grey", linewidth=0.8, zorder=0)
    axes.set(xlabel="published", ylabel="ours")
    axes.legend(frameon=False)
    caption = (
        "Published figures (across) and ours (up), where both are above zero; people, but for privacy losses and "
        "shares. On the line both are equal. Classes: what could be expected."
    )
    return Captioned(as_svg(figure), caption)


def study_figures(runs: Mapping[Fraction, Sequence[AccuracyReport]]) -> Iterator[Captioned]:
    """Figures 1 and 3 of the study from our runs, at its budgets as far as we have them.

    Args:
        runs: Epsilon -> reports on the runs with it.
    """
    whole = {f"epsilon {epsilon}": pool(runs[epsilon]) for epsilon in DRAWN if epsilon in runs}
    drawn = {1: loss_figure(whole, _LEAF, STRATA), 3: bias_figure(whole, _LEAF, MARGINAL_PRODUCT)}
    for number, figure in drawn.items():
        if figure is not None:
            yield Captioned(figure.svg, f"Figure {number}. {figure.caption}")
