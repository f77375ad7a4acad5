"""Our figures under the names of the published ones, from reports on runs and on samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import isnan

from das_spark.evaluation import AccuracyReport, Statistic, pool, statistics_of
from das_spark.evaluation.homogeneity import MARGINAL_PRODUCT
from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.evaluation.sampling import SHARES_OF_FIGURE_2, SamplePoint, SampleReport, closest_sample
from das_spark.evaluation.statistics import LOSS, REPLICATES
from das_spark.evaluation.study import sample_point
from das_spark.products.e2e_1940 import STRATA
from das_spark.studies.published_1940 import (
    PRIVACY_LOSS,
    Key,
    bias_at,
    nearest_share,
    protected,
    published,
    sampled,
)
from das_spark.studies.replication import Measured

_COUNTY = "County"


def our_figures(
    runs: Mapping[Fraction, Sequence[AccuracyReport]],
    samples: SampleReport | None = None,
    *,
    replicates: int = REPLICATES,
) -> dict[Key, Measured]:
    """All figures of ours that were published.

    Args:
        runs: Epsilon -> reports on the runs with it; epsilons that were not published are left out.
        samples: Simple random samples of the same population, or None.
        replicates: Resamples behind an interval over residuals; 0 for no such intervals.

    Raises:
        InputError: Reports on the runs with one epsilon cannot be pooled.
    """
    found: dict[Key, Measured] = {}
    points = [] if samples is None else _points(samples)
    for epsilon, reports in runs.items():
        statistics = statistics_of(reports, replicates=replicates)
        found |= dict(_of_release(epsilon, statistics))
        found |= dict(_of_indices(epsilon, reports))
        found |= dict(_nearest(epsilon, statistics, points))
    if samples is not None:
        found |= dict(_of_samples(samples))
    known = published()
    return {key: measured for key, measured in found.items() if key in known}


def _of_release(epsilon: Fraction, statistics: Sequence[Statistic]) -> Iterator[tuple[Key, Measured]]:
    for one in statistics:
        if one.settings in ("", AS_CODED.name):
            name = PRIVACY_LOSS if one.name == LOSS else one.name
            ends = None if one.interval is None else (one.interval.low, one.interval.high)
            yield protected(epsilon, one.place, one.measure, name), Measured(one.value, ends, one.n)


def _of_indices(epsilon: Fraction, reports: Sequence[AccuracyReport]) -> Iterator[tuple[Key, Measured]]:
    """Biases by homogeneity index as the program of the study computes it, with their intervals over residuals."""
    for line in pool(reports).homogeneity:
        if line.definition == MARGINAL_PRODUCT:
            for index, told in line.numbers():
                ends = None if isnan(told["low"]) else (told["low"], told["high"])
                yield bias_at(epsilon, line.place, index), Measured(told["bias"], ends, int(told["n"]))


def _points(samples: SampleReport) -> list[SamplePoint]:
    """What table 1 chooses from: strata of counties, shares of figure 2."""
    return [sample_point(samples, share, _COUNTY, STRATA) for share in samples.shares if share in SHARES_OF_FIGURE_2]


def _nearest(
    epsilon: Fraction, statistics: Sequence[Statistic], points: Sequence[SamplePoint]
) -> Iterator[tuple[Key, Measured]]:
    """The share of the sample whose loss is nearest, as table 1 chose it."""
    of = {(one.name, one.settings): one.value for one in statistics if (one.place, one.measure) == (_COUNTY, STRATA)}
    error, loss = of.get(("median_absolute", "")), of.get((LOSS, AS_CODED.name))
    if error is not None and points:
        nearest = closest_sample(points, (error, loss)).by_loss
        yield nearest_share(epsilon), Measured(None if nearest is None else float(nearest))


def _of_samples(samples: SampleReport) -> Iterator[tuple[Key, Measured]]:
    for entry in samples.pooled().entries:
        shown, of = entry.figures, (entry.share, entry.place, entry.measure)
        for name in ("median_absolute", "p95_absolute", "largest", "rmse"):
            yield sampled(*of, name), Measured(getattr(shown, name), None, shown.n)
        yield sampled(*of, PRIVACY_LOSS), Measured(entry.privacy_loss().value, None, shown.n)
