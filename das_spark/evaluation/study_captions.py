"""What the figures of `das_spark.evaluation.study_figures` show: what was computed, from what, how many, how set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import LossCurve, LossSettings
from das_spark.evaluation.study_figures import bin_width, shown_reach
from das_spark.evaluation.violins import CUT, NARROWEST

_MAXIMUM = "A maximum over a noisy curve grows as residuals get fewer: compare at equal n only."


def settings_in_words(settings: LossSettings, counted: str = "people") -> str:
    """Kernel and range of a loss curve.

    Args:
        settings: Of the curve.
        counted: What is counted, in the plural.
    """
    size = f"{settings.bandwidth:g} x the standard deviation of the residuals"
    kernel = size if settings.bandwidth_of == "deviation" else f"{settings.bandwidth:g} {counted}"
    return (
        f"f is a Gaussian kernel density of the residuals with a kernel deviation of {kernel}, read in steps of 1 "
        f"from -B to B, B = {settings.multiplier:g} x the larger absolute value of percentiles "
        f"{100 - settings.percentile:g} and {settings.percentile:g} (settings: {settings.name})"
    )


def residuals_and_loss_caption(
    curves: Mapping[str, tuple[Frequencies, LossCurve]], title_counted: str = "counts", counted: str = "people"
) -> str:
    """Caption of figure 1.

    Args:
        curves: As drawn.
        title_counted: As drawn.
        counted: As drawn.
    """
    width = bin_width(shown_reach(curve for _, curve in curves.values()))
    each = "each residual" if width == 1 else f"residuals in each bin of {width} {counted}"
    settings = dict.fromkeys(curve.settings for _, curve in curves.values())
    words = [settings_in_words(one, counted) for one in settings]
    lines = [
        f"{label}: n = {curve.n:,}, kernel deviation {curve.kernel_deviation:.3g} {counted}, largest absolute loss "
        f"{curve.maximum:.3g}, median {curve.plateau:.3g}, {_beyond(residuals, curve)}"
        for label, (residuals, curve) in curves.items()
    ]
    return (
        f"Left: number of {title_counted} with {each} (protected minus confidential). Right: the loss "
        f"ln f(x) - ln f(x + 1); {'; or '.join(words)}. {'; '.join(lines)}. {_MAXIMUM}"
    )


def trade_off_caption(
    settings: LossSettings, release_residuals: Sequence[int], sample_residuals: Sequence[int], counted: str = "people"
) -> str:
    """Caption of figure 2.

    Args:
        settings: Of the losses that are drawn.
        release_residuals: Number of residuals of each point of the release.
        sample_residuals: The same of the samples.
        counted: As drawn.
    """
    released, sampled = _between(release_residuals), _between(sample_residuals)
    return (
        f"Median absolute residual in {counted} against the empirical privacy loss, the largest absolute value of "
        f"ln f(x) - ln f(x + 1); {settings_in_words(settings, counted)}. Circles, joined: the protected release at the "
        f"budgets named ({released} residuals a point). Squares, dashed: simple random samples of the "
        f"shares named, weighted by 1 / share ({sampled}). {_MAXIMUM}"
    )


def bias_by_index_caption(lines: Mapping[str, Mapping[int, Frequencies]], counted: str = "people") -> str:
    """Caption of figure 3.

    Args:
        lines: As drawn.
        counted: As drawn.
    """
    each = [
        f"{label}: " + ", ".join(f"{index} ({line[index].total:,})" for index in sorted(line))
        for label, line in lines.items()
    ]
    return (
        f"Residuals of totals (protected minus confidential {counted}) by homogeneity index. Marks: means (bias). "
        f"Violins: Gaussian kernel densities with Scott's bandwidth, {NARROWEST:g} {counted} at least, each scaled to "
        f"the same width, cut where at most {CUT:.1%} of the residuals of a line lie beyond; means are over all. "
        f"Number of residuals by index: {'; '.join(each)}."
    )


def _beyond(residuals: Frequencies, curve: LossCurve) -> str:
    """The share of residuals that the range leaves out."""
    bound = abs(curve.density_at[0] - 0.5)
    beyond = residuals.counts[abs(residuals.values) > bound].sum() / residuals.total
    return f"{beyond:.1%} of the residuals beyond B = {bound:g}"


def _between(numbers: Sequence[int]) -> str:
    """The smallest and the largest number."""
    if not numbers:
        return "none"
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
