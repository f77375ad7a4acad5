"""Simple random samples of the population of a finished run. RESTRICTED."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from das_spark.evaluation import SampleReport
from das_spark.places import Place
from das_spark.spark.finished_runs import FinishedRun, require_one_truth, require_truths, truth_of
from das_spark.spark.sample import sample_levels
from das_spark.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sample_run(
    run_folder: Place,
    shares: Sequence[Fraction],
    seeds: Sequence[int],
    truth: Place | None = None,
    *,
    spark: SparkSession | None = None,
) -> SampleReport:
    """Draw simple random samples of the population of a run and compare them with it. RESTRICTED."""
    run = FinishedRun.at(run_folder)
    require_truths([run], truth)
    spark = spark or session("das_spark evaluate")
    _, leaves = truth_of(spark, run, truth)[-1]
    strata = run.product.schema.query(run.product.strata)
    return sample_levels(leaves, run.census, strata, shares, seeds, counted=run.product.counted)


def require_one_population(runs: Sequence[FinishedRun], truth: Place | None = None) -> None:
    """Refuse runs of several populations: samples of one are no samples of the others. RESTRICTED.

    What runs are pooled by leaves their input out.
    """
    if truth is not None or len(runs) == 1:
        return
    require_truths(runs)
    spark = session("das_spark evaluate")
    require_one_truth(
        {run.folder: truth_of(spark, run)[-1][1] for run in runs},
        ": samples of one population are not comparable with both",
        hint="name runs on the same input, or leave --samples out",
    )
