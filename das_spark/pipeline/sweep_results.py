"""What is made of a finished sweep: the accuracy-privacy curve beside simple random samples. RESTRICTED."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import OutputError
from das_spark.evaluation import (
    AccuracyReport,
    SampleReport,
    SweepReport,
    present_sweep,
    report_from_json,
    sweep_report,
)
from das_spark.pipeline.accuracy import evaluate_runs
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.samples import sample_run
from das_spark.report import csv_files, page
from das_spark.store import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import SweepPlan
    from das_spark.report import ReportTable
    from das_spark.store import RunLayout, SweepLayout


def evaluate_sweep(
    plan: SweepPlan,
    runs: Sequence[RunLayout],
    layout: SweepLayout,
    session: Callable[[], SparkSession],
    progress: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Pool the runs at each budget, and compare them with samples of the same population."""
    reports: dict[Fraction, list[AccuracyReport]] = {}
    for run, where in zip(plan, runs, strict=True):
        reports.setdefault(run.total, []).append(_accuracy(where, plan.base.evaluation.areas))
    samples = _samples(plan, runs, layout, session, progress) if plan.shares else None
    return sweep_report(reports, samples, plan.total_key)


def write_results(
    report: SweepReport, layout: SweepLayout, tables_of_page: Sequence[ReportTable] = (), *, insecure: bool = False
) -> None:
    """Write `curve.restricted.csv`, `closest_samples.restricted.csv` and `sweep.html`, for their owner alone."""
    found = present_sweep(report, tables_of_page, insecure=insecure)
    files = csv_files(found)
    for path in (layout.curve, layout.closest_samples):
        layout.write(path, files[path.name])
    layout.write(layout.page, page(found))


def _accuracy(run: RunLayout, areas: str | None) -> AccuracyReport:
    """Accuracy of a run: as the run has found it, or found now where it was told not to."""
    if run.restricted.accuracy_json.is_file():
        return report_from_json(run.restricted.accuracy_json.read_text(encoding="utf-8"))
    (report,) = evaluate_runs([run.folder], None if areas is None else Path(areas))
    return report


def _samples(
    plan: SweepPlan,
    runs: Sequence[RunLayout],
    layout: SweepLayout,
    session: Callable[[], SparkSession],
    progress: Callable[[str], None],
) -> SampleReport:
    """As many samples of each share as there are runs at each budget, so that both have as many residuals."""
    shares, seeds = tuple(sorted(plan.shares)), tuple(range(plan.runs))
    if layout.samples.is_file():
        kept = SampleReport.from_json(layout.samples.read_text(encoding="utf-8"))
        if (kept.shares, kept.seeds) == (shares, seeds):
            return kept
    source = next((run for run in runs if _has_leaves(run, plan)), None)
    if source is None:
        raise OutputError(
            f"{layout.path}: no run of the sweep has its confidential histograms any more, and samples need them",
            hint="leave the comparison out: --samples none",
        )
    spark = session()
    with Progress(progress, f"sweep {plan.base.name}").stage(spark, f"{len(shares) * len(seeds)} samples"):
        drawn = sample_run(source.folder, shares, seeds, spark=spark)
    layout.write(layout.samples, drawn.to_json())
    return drawn


def _has_leaves(run: RunLayout, plan: SweepPlan) -> bool:
    return finished(run.restricted.level("histograms", plan.base.spine.leaf.name))
