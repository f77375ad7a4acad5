"""Accuracy and privacy of one release at several budgets, beside simple random samples of the same population, as data.

The comparison is that of Petti and Flaxman (2020, Gates Open Research 3:1722), figure 2 and table 1, for any release:
median absolute residual and empirical privacy loss of the pooled residuals of all runs at a budget, in every geolevel,
for totals and for strata.

RESTRICTED: the figures come from confidential counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.closest import ClosestLine, closest_line
from das_spark.evaluation.metrics import ErrorFigures
from das_spark.evaluation.pooling import pool
from das_spark.evaluation.privacy_loss import AS_CODED, LossSettings, PrivacyLoss, empirical_privacy_loss
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.restricted_csv import restricted_csv
from das_spark.evaluation.sampling import ClosestSample, SampleEntry, SamplePoint, SampleReport
from das_spark.evaluation.uncertainty import LEVEL, Interval, over_runs

_TWO: Final = 2


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How wrong a release at one budget, or samples of one share, are in one geolevel, and what they tell.

    Attributes:
        kind: `release` or `sample`.
        size: The budget, or the share of the sample; exact.
        place: A geolevel, or a kind of area.
        measure: `total`, or the query of the strata.
        figures: Of the residuals of all runs (or seeds) pooled, people.
        loss: Empirical privacy loss of the same residuals.
        over_runs: Mean over the runs of the median absolute residual of each, with its interval, people; None for one
            run and for samples.
    """

    kind: Literal["release", "sample"]
    size: Fraction
    place: str
    measure: str
    figures: ErrorFigures
    loss: PrivacyLoss
    over_runs: Interval | None = None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The accuracy-privacy curve of a release.

    Attributes:
        product: Name of the product.
        budget: What the budgets are called: epsilon or rho.
        runs: Budget -> names of its runs.
        points: By kind, budget or share, then as in the accuracy report.
        closest: By budget; none where there are no samples, or the release is exact.
        seeds: Seeds of the samples.
        settings: How empirical privacy losses were computed.
        notes: Sentences that a reader must know.
        counted: What is counted, in the plural.
        pooled: Budget -> all of its runs as one, ascending.
    """

    product: str
    budget: str
    runs: Mapping[Fraction, tuple[str, ...]]
    points: tuple[CurvePoint, ...]
    closest: tuple[ClosestLine, ...] = ()
    seeds: tuple[int, ...] = ()
    settings: LossSettings = AS_CODED
    notes: tuple[str, ...] = ()
    counted: str = "people"
    pooled: Mapping[Fraction, AccuracyReport] = field(default_factory=dict)

    @property
    def cost(self) -> Fraction:
        """What all runs cost together, exactly."""
        return sum((total * len(names) for total, names in self.runs.items()), Fraction(0))

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Places and measures, in the order of the accuracy report."""
        return tuple(dict.fromkeys((point.place, point.measure) for point in self.points if point.kind == "release"))

    def curve(self, kind: Literal["release", "sample"], place: str, measure: str) -> tuple[CurvePoint, ...]:
        """The points of a place and measure, in the order of budgets or shares.

        Args:
            kind: Of the points.
            place: A geolevel.
            measure: `total`, or the query of the strata.
        """
        key = (kind, place, measure)
        return tuple(point for point in self.points if (point.kind, point.place, point.measure) == key)

    def closest_to(self, total: Fraction, place: str, measure: str) -> ClosestSample | None:
        """The closest samples of a budget, place and measure; None where there are none.

        Args:
            total: The budget.
            place: A geolevel.
            measure: `total`, or the query of the strata.
        """
        key = (total, place, measure)
        return next((each.closest for each in self.closest if (each.total, each.place, each.measure) == key), None)


def sweep_report(
    runs: Mapping[Fraction, Sequence[AccuracyReport]],
    samples: SampleReport | None,
    budget: str,
    settings: LossSettings = AS_CODED,
) -> SweepReport:
    """Put the runs of a sweep and the samples beside each other.

    Args:
        runs: Budget -> accuracy of each of its runs, one at least.
        samples: Samples of the same population; None where nothing is to be compared with.
        budget: What the budgets are called: epsilon or rho.
        settings: How empirical privacy losses are computed.

    Raises:
        InputError: There is no run, or reports are not about the same places and measures.
    """
    if not runs:
        raise InputError("a sweep without runs has no curve")
    pooled = {total: pool(reports) for total, reports in runs.items()}
    first = next(iter(pooled.values()))
    release = [
        _release_point(total, entry, [report.entries[row] for report in runs[total]], settings)
        for total, report in sorted(pooled.items())
        for row, entry in enumerate(report.entries)
    ]
    drawn = [] if samples is None else [_sample_point(entry, settings) for entry in samples.pooled().entries]
    return SweepReport(
        product=first.product,
        budget=budget,
        runs={total: report.runs for total, report in sorted(pooled.items())},
        points=(*release, *drawn),
        closest=tuple(_closest(release, drawn)),
        seeds=() if samples is None else samples.seeds,
        settings=settings,
        notes=tuple(dict.fromkeys(note for report in pooled.values() for note in report.notes)),
        counted=first.counted,
        pooled=dict(sorted(pooled.items())),
    )


def curve_csv(report: SweepReport) -> str:
    """All points as a table.

    Args:
        report: Of a sweep.
    """
    names = ("n", "double_zero", "median_absolute", "mean_absolute", "p95_absolute", "rmse", "bias", "largest")
    columns = ("kind", "size", "place", "measure", *names)
    tail = ("privacy_loss", "privacy_loss_plateau", "why_undefined", "run_median_low", "run_median_high")
    rows = [
        (
            *(point.kind, point.size, point.place, point.measure),
            *(getattr(point.figures, name) for name in names),
            *(point.loss.value, point.loss.plateau, point.loss.why_undefined),
            *((None, None) if point.over_runs is None else (point.over_runs.low, point.over_runs.high)),
        )
        for point in report.points
    ]
    return restricted_csv((*columns, *tail), rows)


def _release_point(total: Fraction, pooled: Entry, each: Sequence[Entry], settings: LossSettings) -> CurvePoint:
    loss = empirical_privacy_loss(pooled.frequencies.values, pooled.frequencies.counts, settings)
    medians = [entry.figures.median_absolute for entry in each]
    varies = len(medians) >= _TWO and all(map(isfinite, medians))
    interval = over_runs(medians, LEVEL) if varies else None
    return CurvePoint("release", total, pooled.place, pooled.measure, pooled.figures, loss, interval)


def _sample_point(entry: SampleEntry, settings: LossSettings) -> CurvePoint:
    loss = entry.privacy_loss(settings)
    return CurvePoint("sample", entry.share, entry.place, entry.measure, entry.figures, loss)


def _closest(release: Iterable[CurvePoint], drawn: Iterable[CurvePoint]) -> Iterator[ClosestLine]:
    """A line for every point of the release that can be compared."""
    points: dict[tuple[str, str], list[SamplePoint]] = {}
    for each in drawn:
        found = SamplePoint(each.size, each.figures.median_absolute, each.loss.value)
        points.setdefault((each.place, each.measure), []).append(found)
    for point in release:
        of = (point.place, point.measure)
        line = closest_line(of, point.figures, point.loss.value, points.get(of, ()), point.size)
        if line is not None:
            yield line
