"""The restricted accuracy report of finished runs: estimates beside the confidential histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from das_spark import __version__
from das_spark.evaluation import (
    MOST_TILES,
    TOTAL,
    AccuracyReport,
    Boundaries,
    ErrorMap,
    Study,
    map_of,
    present_accuracy,
    study_of,
)
from das_spark.io.area_files import require_areas
from das_spark.io.input_places import is_there
from das_spark.pipeline.context import is_insecure
from das_spark.pipeline.features import uncertainties_of
from das_spark.pipeline.samples import require_one_population, sample_run
from das_spark.places import Place, place_of
from das_spark.privacy import (
    PUBLISHED_DELTA,
    Framework,
    compositions_of,
    epsilon_cks,
    rounded_up,
    worst_epsilon,
)
from das_spark.report import page
from das_spark.spark.coverage import IntervalsOf, interval_coverage
from das_spark.spark.evaluate import Subject, evaluate_levels
from das_spark.spark.evaluate_areas import Areas, areas_of_file, entity_areas
from das_spark.spark.finished_runs import (
    FinishedRun,
    Pair,
    alike_runs,
    check_same_geounits,
    require_truths,
    truth_of,
    truths,
)
from das_spark.spark.geounit_errors import geounit_errors
from das_spark.spark.readers import geography_reader
from das_spark.spark.session import session
from das_spark.spark.tables import read_table
from das_spark.store import write_durably
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from fractions import Fraction

    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.evaluation import Coverage
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.store import PublicLayout


#: Most geounits of a level that is drawn with boundaries: all tracts of a nation.
_MOST_DRAWN: Final = 100_000


def evaluate_run(context: RunContext) -> dict[str, str]:
    """Write the accuracy report of a run under its restricted root."""
    plan, restricted = context.plan, context.layout.restricted
    subject = Subject.of(plan.product, plan.queries)
    asked = _asked(context.spark, context.census, plan.evaluation.areas, plan.geography.reader, plan.geography.path)
    name = published_estimates(plan.spine)
    levels = [
        Pair(level, truth, read_table(context.spark, "histograms", context.layout.public.level(name, level)))
        for level, truth in truths(context.spark, restricted, plan.product, plan.spine)
    ]
    run = context.layout.run_id
    report = evaluate_levels(levels, subject, product=plan.product.name, run=run, areas=asked)
    insecure = is_insecure(context.key, context.measured_by)
    facts = facts_of_run(plan, run, context.created, __version__, insecure=insecure)
    coverage = _coverage(context.spark, plan, context.layout.public, levels)
    report = replace(report, coverage=coverage, facts=facts)
    write_durably(restricted.accuracy_json, report.to_json())
    write_durably(restricted.accuracy_html, page(present_accuracy(report)))
    figures = {}
    for entry in report.entries:
        if entry.frequencies.total and (entry.measure == TOTAL or entry.place == plan.spine.leaf.name):
            shown = entry.figures
            figures[f"error of {entry.place}, {entry.measure} (restricted)"] = (
                f"median {shown.median_absolute:.4g}, mean {shown.mean_absolute:.4g}, 95th percentile "
                f"{shown.p95_absolute:.4g}, bias {shown.bias:+.3g} {report.counted}"
            )
    met = [
        f"{line.place} {met.within / met.geounits:.1%} of {met.geounits:,}"
        for line in report.headlines("largest group")
        if (met := line.all_classes).geounits
    ]
    if met:
        figures[f"largest of {report.groups}, share within 5 points (restricted)"] = ", ".join(met)
    return figures


def evaluate_runs(
    run_folders: Sequence[Place], areas: Place | None = None, truth: Place | None = None
) -> tuple[AccuracyReport, ...]:
    """Compare the estimates of finished runs with confidential histograms. RESTRICTED.

    Args:
        run_folders: Folders of runs that still hold their restricted root, or any runs where `truth` is given.
        areas: CSV of leaf geocode and area, or None.
        truth: A run whose confidential histograms are taken for all; those of each run where None.

    Returns:
        One report a run, in order.

    Raises:
        InputError: The areas cannot be read; the runs were made in different ways; the truth is of other geography.
        OutputError: A folder is no run, or its confidential histograms were removed.
    """
    return report_runs(alike_runs(run_folders), areas, truth)


def study_runs(
    run_folders: Sequence[Place],
    *,
    areas: Place | None = None,
    truth: Place | None = None,
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


def report_runs(
    runs: Sequence[FinishedRun], areas: Place | None = None, truth: Place | None = None
) -> tuple[AccuracyReport, ...]:
    """The same of runs that are open already. RESTRICTED."""
    require_truths(runs, truth)
    if areas is not None:
        areas = areas.absolute()
        require_areas(areas)
    spark = session("das_spark evaluate")
    return tuple(_report(spark, run, areas, truth) for run in runs)


def map_runs(
    run_folders: Sequence[Place], truth: Place | None = None, boundaries: Boundaries | None = None
) -> ErrorMap | None:
    """Place the errors of the totals of geounits on a map, mean over the runs. RESTRICTED.

    Args:
        run_folders: Runs of one configuration, one at least.
        truth: A run whose confidential histograms are taken for all; those of each run where None.
        boundaries: Areas of geounits; tiles where None.

    Raises:
        InputError: The runs were made in different ways; no area has a geocode of the run.
        OutputError: A folder is no run, or its confidential histograms were removed.
    """
    runs = alike_runs(run_folders)
    require_truths(runs, truth)
    spark = session("das_spark evaluate")
    every = [pairs(spark, run, truth) for run in runs]
    # Levels have more and more geounits; those that nobody can draw are not brought to the driver.
    most = MOST_TILES if boundaries is None else _MOST_DRAWN
    few = list(takewhile(lambda of: of[0].truth.count() <= most, zip(*every, strict=True)))
    drawn = few if boundaries is not None else few[-1:]  # tiles are of the lowest of them
    levels = [geounit_errors(of[0].geolevel, [(pair.truth, pair.estimate) for pair in of]) for of in drawn]
    return map_of(levels, boundaries, runs[0].product.counted)


def pairs(spark: SparkSession, run: FinishedRun, truth: Place | None = None) -> list[Pair]:
    """Both histograms of every geolevel of the census, root first. RESTRICTED."""
    levels = [
        Pair(name, confidential, run.estimates(spark, name)) for name, confidential in truth_of(spark, run, truth)
    ]
    if truth is not None:
        check_same_geounits(run, truth, levels)
    return levels


def subject_of(run: FinishedRun) -> Subject:
    """What is compared in a finished run."""
    return Subject.of(run.product, run.measured())


def _report(spark: SparkSession, run: FinishedRun, areas: Place | None, truth: Place | None) -> AccuracyReport:
    geography = run.plan.geography
    named = None if areas is None else str(areas)
    asked = _asked(spark, run.census, named, geography.reader, geography.path)
    levels, name = pairs(spark, run, truth), run.product.name
    report = evaluate_levels(levels, subject_of(run), product=name, run=run.manifest.run_id, areas=asked)
    coverage = _coverage(spark, run.plan, run.public, levels)
    return replace(report, coverage=coverage, facts=facts_of_finished(run))


def facts_of_finished(run: FinishedRun) -> dict[str, str]:
    """What reports say of a finished run below their titles."""
    version = str(run.manifest.versions.get("das_spark", "unknown"))
    return facts_of_run(run.plan, run.manifest.run_id, run.manifest.created, version, insecure=run.is_insecure)


def facts_of_run(plan: RunPlan, run: str, created: str, version: str, *, insecure: bool) -> dict[str, str]:
    """What reports say of a run below their titles.

    Args:
        plan: What it did.
        run: Its name.
        created: When it was opened, UTC, ISO 8601.
        version: Of das_spark, which made it.
        insecure: Whether it was made under a test key.
    """
    budget = plan.budget
    spent = f"{budget.framework.symbol} = {budget.total}"
    if budget.framework is not Framework.PURE_DP:
        said = f"epsilon {epsilon_cks(budget.total, PUBLISHED_DELTA):.5g} by Canonne, Kamath, Steinke"
        # Shares of a spine that is made of areas are not looked up here: the statement has the worst of its paths.
        exact = worst_epsilon(compositions_of(budget), PUBLISHED_DELTA) if plan.spine.is_census else None
        if exact is not None:
            said += f", {rounded_up(exact.high)} at most by exact composition,"
        spent += f" ({said} at delta {float(PUBLISHED_DELTA):g})"
    else:
        spent += " (delta = 0)"
    return {
        "run": run,
        "product": f"{plan.product.title} ({plan.product.name})",
        "made": created.replace("T", " ").removesuffix("+00:00") + " UTC",
        "budget": spent + (", under a test key" if insecure else ""),
        "software": f"das_spark {version}",
        "configuration": plan.config_hash[:12],
    }


def _coverage(spark: SparkSession, plan: RunPlan, public: PublicLayout, levels: Sequence[Pair]) -> tuple[Coverage, ...]:
    """How often the intervals of a run cover the confidential counts; none where it has none."""
    truths = [(pair.geolevel, pair.truth) for pair in levels]
    census = plan.product.census(plan.spine)
    found: tuple[Coverage, ...] = ()
    first = plan.output.interval_formats[0]  # every format holds the same
    for uncertainty in uncertainties_of(plan):
        read = [
            (table, uncertainty.read(spark, public, table, first, table.levels(census, uncertainty.geolevels)))
            for table in uncertainty.tables
        ]
        found += interval_coverage(
            IntervalsOf(uncertainty.of, uncertainty.ending, read, uncertainty.geolevels, uncertainty.level), truths
        )
    return found


def _asked(
    spark: SparkSession, census: Spine, areas: str | None, reader: str | None, path: str | None
) -> tuple[Areas, ...]:
    """Areas that a file names, and the off-spine entities of a geography that the run has read."""
    named = () if areas is None else (areas_of_file(spark, place_of(areas), census),)
    if reader is None or path is None or not is_there(path):  # long after the run the files may be gone
        return named
    return (*named, *entity_areas(geography_reader(reader).read(spark, path).blocks))
