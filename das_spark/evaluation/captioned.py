"""Figures 1 and 3 of the study of the 1940 runs with their captions, of one release or of several side by side.

Source: Petti and Flaxman, Gates Open Research 2020.
"""

from __future__ import annotations

from collections.abc import Mapping

from das_spark.errors import UndefinedError
from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.homogeneity import Definition
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import AS_CODED, LossCurve, LossSettings, loss_curve
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.study_captions import bias_by_index_caption, residuals_and_loss_caption
from das_spark.evaluation.study_figures import bias_by_index, residuals_and_loss


def loss_figure(
    reports: Mapping[str, AccuracyReport], place: str, measure: str, settings: LossSettings = AS_CODED
) -> Captioned | None:
    """Figure 1: residuals and loss curve of one measure; None where no release has a curve.

    Args:
        reports: Label of a release, such as "epsilon 1/2" -> all of its runs pooled.
        place: A geolevel.
        measure: The query of the strata.
        settings: Of the curves.
    """
    curves: dict[str, tuple[Frequencies, LossCurve]] = {}
    for label, report in reports.items():
        for entry in report.entries:
            if (entry.place, entry.measure) == (place, measure):
                curves |= _curve(label, entry, settings)
    if not curves:
        return None
    of = (curves, f"strata of {place}", _counted(reports))
    return Captioned(residuals_and_loss(*of), f"{residuals_and_loss_caption(*of)} Strata: {measure}.")


def bias_figure(reports: Mapping[str, AccuracyReport], place: str, definition: Definition) -> Captioned | None:
    """Figure 3: residuals of totals by homogeneity index; None where no release has any.

    Args:
        reports: Label of a release -> all of its runs pooled.
        place: A geolevel.
        definition: Of the index.
    """
    lines = {
        label: dict(line.parts)
        for label, report in reports.items()
        for line in report.homogeneity
        if (line.place, line.definition) == (place, definition)
    }
    return bias_figure_of(lines, f"{place}, {definition}", _counted(reports)) if lines else None


def bias_figure_of(lines: Mapping[str, Mapping[int, Frequencies]], of: str, counted: str) -> Captioned:
    """Figure 3 of any lines, such as those by both definitions of the index.

    Args:
        lines: Label -> homogeneity index -> residuals; one at least.
        of: What the caption begins with.
        counted: What is counted, in the plural.
    """
    return Captioned(bias_by_index(lines, counted), f"{of}: {bias_by_index_caption(lines, counted)}")


def _curve(label: str, entry: Entry, settings: LossSettings) -> dict[str, tuple[Frequencies, LossCurve]]:
    residuals = entry.frequencies
    try:
        return {label: (residuals, loss_curve(residuals.values, residuals.counts, settings))}
    except UndefinedError:  # the table of losses says why
        return {}


def _counted(reports: Mapping[str, AccuracyReport]) -> str:
    return next((report.counted for report in reports.values()), "people")
