"""Which simple random samples are as good as a release, a line a place and measure, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Any

from das_spark.evaluation.metrics import ErrorFigures
from das_spark.evaluation.restricted_csv import restricted_csv
from das_spark.evaluation.sampling import CLOSEST, ClosestSample, SamplePoint, closest_sample


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


def closest_json(lines: Iterable[ClosestLine]) -> list[dict[str, Any]]:
    """Lines on one release, as JSON values.

    Args:
        lines: One a place and measure.

    Returns:
        One object a line, with its samples; shares are exact, as text.
    """
    return [
        {
            "place": one.place,
            "measure": one.measure,
            "median_absolute": one.release[0],
            "empirical_privacy_loss": one.release[1],
            **{rule: None if share is None else str(share) for rule, share in _shares(one)},
            "samples": [
                {
                    "share": str(point.share),
                    "median_absolute": point.median_absolute,
                    "empirical_privacy_loss": point.loss,
                }
                for point in one.samples
            ],
        }
        for one in lines
    ]


def closest_csv(lines: Iterable[ClosestLine], budget: str = "") -> str:
    """Lines as CSV text; an empty field where there is no such sample.

    Args:
        lines: On one release, or on one at several budgets.
        budget: What the budgets are called; empty for one release, whose lines have no such column.
    """
    columns = ("place", "measure", "median_absolute", "empirical_privacy_loss", *CLOSEST)
    rows = [
        (
            *((one.total,) if budget else ()),
            *(one.place, one.measure, *one.release, *(share for _, share in _shares(one))),
        )
        for one in lines
    ]
    return restricted_csv((budget, *columns) if budget else columns, rows)


def percent(share: Fraction | None) -> str:
    """A share of the people; a dash for none.

    Args:
        share: From 0 to 1, or None.
    """
    return "-" if share is None else f"{float(100 * share):g} %"


def _shares(one: ClosestLine) -> list[tuple[str, Fraction | None]]:
    return [(rule, getattr(one.closest, rule)) for rule in CLOSEST]
