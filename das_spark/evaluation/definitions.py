"""What the words and numbers of an accuracy report mean, with their units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from das_spark.evaluation.metrics import ABSOLUTE_PROBABILITIES, PROBABILITIES
from das_spark.evaluation.statistics import STATISTICS

RESTRICTED: Final = "RESTRICTED: compares with confidential counts; not part of the protected release"
TOTAL: Final = "total"


def definitions(counted: str) -> Mapping[str, str]:
    """Every term of a report with its meaning.

    Args:
        counted: What is counted, in the plural: people or housing units.
    """
    return {
        "residual": f"protected minus confidential count, in {counted}",
        TOTAL: f"{counted} of each geounit (or area); all of them, empty ones too",
        "stratified": f"{counted} of each geounit (or area) in each stratum; strata that are zero in both histograms "
        "are left out of the figures and counted as double_zero",
        "query": f"{counted} of each geounit in each answer of a query; answers that are zero in both histograms are "
        "left out of the figures and counted as double_zero, but for the total, where every geounit counts",
        "population": f"classes of geounits by their confidential number of {counted}",
        "n": "how many counts are compared",
        "double_zero": "counts that are zero in both histograms",
        "exact": "how many of the n residuals are zero",
        "geounits": "how many geounits, over all runs that are pooled",
        "counted": f"{counted} in these geounits by the confidential counts, over all runs that are pooled",
        "l1": f"sum of absolute residuals over answers and geounits, in {counted}",
        "l1_per_geounit": f"l1 divided by geounits, in {counted}",
        "one_minus_tvd": "1 - l1 / (2 counted): one minus the total variation distance where a query counts everybody "
        "once; over all geounits of a geolevel, counted is the whole, so that geolevels can be compared; none where "
        "counted is zero; below zero where residuals exceed the counts",
        **{kind.name: kind.meaning.format(counted=counted) for kind in STATISTICS.values()},
        "quantiles": "of signed residuals, at probabilities " + ", ".join(map(str, PROBABILITIES)),
        "absolute_quantiles": "of absolute residuals, at probabilities "
        + ", ".join(map(str, ABSOLUTE_PROBABILITIES))
        + " (linear interpolation)",
        "absolute_quantiles_of_wrong": "the same over the residuals that are not zero (n - exact of them), as in the "
        "metrics released with the redistricting data of 2020",
        "largest group": "the group is the answer of the query that is largest in the protected counts (the first of "
        "several); the difference is that of its share in the protected and in the confidential counts of the "
        "geounit, absolute, as a share of 1; shares are of all that the query counts there; 0 where both counts are "
        "empty, undefined where one is",
        "relative error of the total": "absolute residual of the total divided by the confidential total, or by 1 "
        "where that is 0",
        "within": "how many geounits have a difference that is defined and at most 0.05 (5 percentage points), "
        "decided in integers",
        "undefined": "how many geounits have no difference, for they are empty in one histogram only",
        "share_within": "within / geounits",
        "mean_difference": "mean of the differences that are defined",
        "spread": "over runs: the value of each, their mean, and their standard deviation with divisor runs - 1",
        **_of_study(counted),
    }


def _of_study(counted: str) -> dict[str, str]:
    """Terms of the study of the 1940 runs."""
    return {
        "homogeneity index": f"how uniform the {counted} of a geounit are, by the confidential counts. empty strata: "
        "the number of strata without any; marginal product: the number of strata minus the product of how many levels "
        "of each attribute occur, as the program of the study of the 1940 runs computes it",
        "interval": "95 %, of the figure of the pooled residuals, as if they were independent: Student's t for the "
        "bias, by resampling for the others; for the largest of a curve it tells what samples of this size give; none "
        "for a single residual",
        "mean_of_runs": "mean of the figures of the runs, each of its own residuals, n / runs of them; no estimate of "
        "the figure of the pooled residuals where it depends on their number, as the largest of a curve does",
        "over_runs": "95 %, of mean_of_runs: Student's t on the figure of each run",
        "closest sample": "the simple random sample without replacement, each of it counting 1 / share, whose "
        "median absolute residual, empirical privacy loss (as coded), or both are closest to those of the release; of "
        "both: the least sum of squares of relative differences |a - b| / max(a, b)",
    }
