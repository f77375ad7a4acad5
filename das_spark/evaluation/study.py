"""What the studies of the 1940 runs asked, of any run: privacy loss, bias by homogeneity, and samples as good as it.

Source: Petti and Flaxman (2020), figures 1 to 3 and table 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from das_spark.evaluation.captioned import bias_figure_of, loss_figure
from das_spark.evaluation.closest import ClosestLine, closest_json, closest_line, percent
from das_spark.evaluation.definitions import TOTAL
from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.homogeneity import DEFINITIONS
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.pooling import pool
from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.sampling import SamplePoint, SampleReport, unequal_seeds_note
from das_spark.evaluation.statistics import LOSS, REPLICATES, Statistic, statistics_json, statistics_of
from das_spark.evaluation.study_captions import trade_off_caption
from das_spark.evaluation.study_figures import trade_off

#: Geolevels, from the leaf up, of which the figures are drawn; the tables tell of all.
_DRAWN: Final = 2


@dataclass(frozen=True, slots=True)
class Study:
    """A study of one configuration, over one run or several.

    Attributes:
        report: All runs pooled.
        statistics: Every figure with its uncertainty.
        samples: Simple random samples of the same population; None where none was drawn.
        closest: Samples as good as the release; none where none was drawn.
    """

    report: AccuracyReport
    statistics: tuple[Statistic, ...]
    samples: SampleReport | None
    closest: tuple[ClosestLine, ...]

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Statistics and closest samples as JSON values, by name."""
        return {"statistics": statistics_json(self.statistics), "closest_samples": closest_json(self.closest)}

    def drawn(self) -> Iterator[Captioned]:
        """Figures 1, 2 and 3 as far as there is something to draw."""
        strata = [entry for entry in self._of_levels() if entry.measure != TOTAL][-_DRAWN:]
        for entry in reversed(strata):
            figure = loss_figure({"this release": self.report}, entry.place, entry.measure)
            if figure is not None:
                yield figure
        drawn = {entry.place for entry in strata}
        for closest in self.closest:
            if self.samples is not None and closest.measure != TOTAL and closest.place in drawn:
                yield from _trade_off(self.report, self.samples, closest)
        for entry in reversed(strata):
            lines: dict[str, dict[int, Frequencies]] = {
                line.definition: dict(line.parts)
                for line in self.report.homogeneity
                if line.place == entry.place and line.definition in DEFINITIONS
            }
            if lines:
                yield bias_figure_of(lines, entry.place, self.report.counted)

    def _of_levels(self) -> list[Entry]:
        """Entries of geolevels, without areas."""
        places = {line.place for line in self.report.homogeneity}
        return [entry for entry in self.report.entries if entry.place in places]


def study_of(
    reports: Sequence[AccuracyReport], samples: SampleReport | None = None, *, replicates: int = REPLICATES
) -> Study:
    """Study the runs of one configuration; a note says where samples are not as many as the runs.

    Args:
        reports: One a run.
        samples: Simple random samples of the same population, or None.
        replicates: Resamples behind an interval over residuals.

    Raises:
        InputError: There is no report, or they cannot be pooled; or the samples are of other geolevels.
    """
    whole = pool(reports)
    statistics = statistics_of(reports, replicates=replicates)
    closest = () if samples is None else tuple(_closest(whole, statistics, samples))
    notes = () if samples is None else unequal_seeds_note(len(reports), len(samples.seeds))
    return Study(replace(whole, notes=(*whole.notes, *notes)), statistics, samples, closest)


def sample_point(samples: SampleReport, share: Fraction, place: str, measure: str) -> SamplePoint:
    """Median absolute residual and empirical privacy loss of the samples of one share, over all seeds pooled.

    Args:
        samples: Simple random samples.
        share: Which.
        place: A geolevel.
        measure: `total`, or the query of the strata.
    """
    entry = samples.entry(share, place, measure)
    return SamplePoint(share, entry.figures.median_absolute, entry.privacy_loss().value)


def _closest(report: AccuracyReport, statistics: Sequence[Statistic], samples: SampleReport) -> Iterator[ClosestLine]:
    """One for all that was sampled too and is not exact."""
    losses = {
        (one.place, one.measure): one.value for one in statistics if (one.name, one.settings) == (LOSS, AS_CODED.name)
    }
    sampled = {(entry.place, entry.measure) for entry in samples.entries}
    for entry in report.entries:
        of = (entry.place, entry.measure)
        if of in sampled:
            points = [sample_point(samples, share, *of) for share in samples.shares]
            line = closest_line(of, entry.figures, losses[of], points)
            if line is not None:
                yield line


def _trade_off(report: AccuracyReport, samples: SampleReport, closest: ClosestLine) -> Iterator[Captioned]:
    """Figure 2 of one entry, where the release and some samples have a privacy loss."""
    error, loss = closest.release
    of = (closest.place, closest.measure)
    points = [(point, point.loss) for point in closest.samples if point.loss is not None]
    if loss is not None and points:
        residuals = [samples.entry(point.share, *of).frequencies.total for point, _ in points]
        caption = trade_off_caption(AS_CODED, [report.entry(*of).frequencies.total], residuals, report.counted)
        labelled = [(percent(point.share), known, point.median_absolute) for point, known in points]
        drawn = trade_off([("this release", loss, error)], labelled, report.counted)
        yield Captioned(drawn, f"{closest.place}, {closest.measure}: {caption}")
