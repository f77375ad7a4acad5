"""Runs of two configurations side by side. RESTRICTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from das_spark.config import differing_settings
from das_spark.errors import InputError
from das_spark.evaluation import Over, RunComparison, compare_reports, method_of
from das_spark.pipeline.accuracy import pairs, subject_of
from das_spark.places import Place
from das_spark.spark.compare import difference_frequencies
from das_spark.spark.evaluate import evaluate_levels
from das_spark.spark.finished_runs import FinishedRun, check_same_shape, require_one_truth, require_truths
from das_spark.spark.session import session

if TYPE_CHECKING:
    from das_spark.evaluation import Frequencies
    from das_spark.spark.finished_runs import Pair


def compare_runs(
    run_folders: Sequence[Place], truth: Place | None = None, over: Over | None = None, *, paired: bool = False
) -> RunComparison:
    """Set the runs of two configurations side by side. RESTRICTED.

    Args:
        run_folders: Runs of one configuration and of another, in any order; or two runs of one.
        truth: A run whose confidential histograms are taken for all; those of each run where None.
        over: What intervals cover; runs where there are several of each configuration, where None.
        paired: Pair the runs of the two configurations in the order given, for they share test keys.

    Raises:
        InputError: There are more than two configurations, or not as many runs of both where they are taken in pairs;
            the runs are of different products, geolevels, geounits or confidential histograms.
        OutputError: A folder is no run, or its confidential histograms were removed.
    """
    first, second = _sides([FinishedRun.at(folder) for folder in run_folders])
    check_same_shape(first[0], second[0], "compare runs of one product, with the same geolevels")
    method = method_of(len(first), len(second), over, paired=paired)
    require_truths((*first, *second), truth)
    spark = session("das_spark evaluate --compare")
    levels = {run.folder: pairs(spark, run, truth) for run in (*first, *second)}
    if truth is None:
        leaves = {folder: level[-1].truth for folder, level in levels.items()}
        require_one_truth(leaves, hint="compare runs on the same input")
    subjects = {run.folder: subject_of(run) for run in (*first, *second)}
    reports = {
        run.folder: evaluate_levels(
            levels[run.folder], subjects[run.folder], product=run.product.name, run=run.manifest.run_id
        )
        for run in (*first, *second)
    }
    together = () if method == "welch" else zip(first, second, strict=True)
    differences = [_differences(one, other, levels) for one, other in together]
    differing = differing_settings(first[0].plan, second[0].plan)
    one, other = ([reports[run.folder] for run in side] for side in (first, second))
    return compare_reports(one, other, differences, differing, over, paired=paired)


def _sides(runs: Sequence[FinishedRun]) -> tuple[list[FinishedRun], list[FinishedRun]]:
    """The runs that were made like the first one, and the others."""
    if len(runs) < 2:  # noqa: PLR2004 - a comparison has two sides
        raise InputError("one run: there is nothing to compare it with", hint="name runs of two configurations")
    alike = [not differing_settings(runs[0].plan, run.plan) for run in runs]
    first, second = ([run for run, same in zip(runs, alike, strict=True) if same is side] for side in (True, False))
    if not second:
        if len(first) == 2:  # noqa: PLR2004
            return first[:1], first[1:]
        raise InputError(
            f"all {len(runs)} runs were made in the same way",
            hint="leave --compare out to pool them, or name runs of two configurations",
        )
    for run in second[1:]:
        if differing := differing_settings(second[0].plan, run.plan):
            raise InputError(
                f"more than two configurations: {second[0].folder} and {run.folder} differ in {next(iter(differing))}",
                hint="compare two at a time, or make a sweep",
            )
    return first, second


def _differences(
    one: FinishedRun, other: FinishedRun, levels: Mapping[Place, Sequence[Pair]]
) -> dict[tuple[str, str], Frequencies]:
    """Place and measure -> how often each difference of absolute residuals occurs in a pair of runs."""
    mine, theirs = levels[one.folder], levels[other.folder]
    strata = one.product.schema.query(one.product.strata)
    found = {}
    for first, second in zip(mine, theirs, strict=True):
        for measure, counted in difference_frequencies(first.truth, first.estimate, second.estimate, strata).items():
            found[first.geolevel, measure] = counted
    return found
