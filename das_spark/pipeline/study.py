"""The study of finished runs of one configuration, beside simple random samples of their population. RESTRICTED."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from das_spark.evaluation import AccuracyReport, Study, study_of
from das_spark.pipeline.accuracy import report_runs
from das_spark.pipeline.samples import require_one_population, sample_run
from das_spark.spark.finished_runs import alike_runs


def study_runs(
    run_folders: Sequence[Path],
    *,
    areas: Path | None = None,
    truth: Path | None = None,
    shares: Sequence[Fraction] = (),
    seeds: int | None = None,
) -> tuple[tuple[AccuracyReport, ...], Study]:
    """Compare runs with confidential histograms, and with simple random samples where these are asked for. RESTRICTED.

    Args:
        run_folders: Runs of one configuration, one at least.
        areas: CSV of leaf geocode and area, or None.
        truth: A run whose confidential histograms are taken for all; those of each run where None.
        shares: Of the samples; none are drawn where there is none.
        seeds: Samples of every share; as many as there are runs where None.

    Returns:
        One report a run, in order, and what all of them say together.

    Raises:
        InputError: The areas cannot be read; the runs were made in different ways; the truth is of other geography; or
            the runs are of several populations, and samples are asked for.
        OutputError: A folder is no run, or its confidential histograms were removed.
    """
    runs = alike_runs(run_folders)
    if shares:
        require_one_population(runs, truth)
    reports = report_runs(runs, areas, truth)
    drawn = sample_run(run_folders[0], shares, range(seeds or len(runs)), truth) if shares else None
    return reports, study_of(reports, drawn)
