"""Which simple random samples are as good as a release, a line a place and measure, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Final

from das_spark.evaluation.metrics import ErrorFigures
from das_spark.evaluation.sampling import CLOSEST, ClosestSample, SamplePoint, closest_sample
from das_spark.report import JSON, ReportColumn, ReportTable

_HEADINGS: Final = {"by_median_absolute": "closest by error", "by_loss": "by loss", "by_both": "by both"}


@dataclass(frozen=True, slots=True)
class ClosestLine:
    """Samples that are as good as a release in one measure of one place.

    Attributes:
        place: A geolevel.
        measure: `total`, or the query of the strata.
        release: Median absolute residual, and empirical privacy loss, None where it is undefined.
        samples: The same of the samples, by share.
        closest: Shares of the closest ones, by each rule.
        total: Budget of the release, where there are several; None for one release.
    """

    place: str
    measure: str
    release: tuple[float, float | None]
    samples: tuple[SamplePoint, ...]
    closest: ClosestSample
    total: Fraction | None = None


def closest_line(
    of: tuple[str, str],
    figures: ErrorFigures,
    loss: float | None,
    samples: Sequence[SamplePoint],
    total: Fraction | None = None,
) -> ClosestLine | None:
    """The line of a release; None where it has no residuals or is exact (no sample is close to that), or has no sample.

    Args:
        of: Place and measure.
        figures: Errors of the release.
        loss: Its empirical privacy loss; None where it is undefined.
        samples: Samples of the same place and measure; those without residuals are passed over.
        total: Budget of the release, where there are several.
    """
    beside = tuple(point for point in samples if not isnan(point.median_absolute))
    if not (beside and figures.n and figures.largest):
        return None
    release = (figures.median_absolute, loss)
    return ClosestLine(*of, release, beside, closest_sample(beside, release), total)


def closest_table(lines: Iterable[ClosestLine], budget: str = "") -> ReportTable:
    """Lines on one release, or on one at several budgets.

    Args:
        lines: One a place and measure, and budget.
        budget: What the budgets are called; empty for one release, whose lines have no such column.
    """
    columns = (
        *((ReportColumn(budget, form="exact"),) if budget else ()),
        *map(ReportColumn, ("place", "measure")),
        ReportColumn("median_absolute", "median abs."),
        ReportColumn("empirical_privacy_loss", "privacy loss"),
        *(ReportColumn(rule, _HEADINGS[rule], "percent") for rule in CLOSEST),
        ReportColumn("samples", media=JSON),
    )
    rows = tuple(
        (
            *((one.total,) if budget else ()),
            *(one.place, one.measure, *one.release, *(getattr(one.closest, rule) for rule in CLOSEST)),
            tuple(
                {
                    "share": str(point.share),
                    "median_absolute": point.median_absolute,
                    "empirical_privacy_loss": point.loss,
                }
                for point in one.samples
            ),
        )
        for one in lines
    )
    return ReportTable("closest_samples", "Closest simple random samples", columns, rows)
