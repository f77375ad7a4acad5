"""das_spark: the disclosure avoidance system of a national census on PySpark with open solvers.

From Python as from the command line:

    import das_spark

    run = das_spark.protect("conf/quickstart.toml", settings=["budget.epsilon=1/2"])
    counts = run.table("P1", "Tract").pandas()

or step by step:

    plan = das_spark.load_plan("conf/quickstart.toml", settings=["budget.epsilon=1/2"])
    summary = das_spark.run(plan)
    report = das_spark.verify("runs/latest")
    counts = das_spark.open_run("runs/latest").table("P1", "Tract").pandas()

Importing the package imports neither Spark nor a solver; the functions do, when they are called. How far they are they
say to the logger `das_spark` of Python's `logging`, a record a stage, unless they are given a function for that.

A session of Spark that is active, or that is given as `spark`, is used. Spark must have been started with
`spark.io.encryption.enabled` (on a cluster also `spark.authenticate` and `spark.network.crypto.enabled`) where real
people are drawn for under a real key, or compared with: spill files would hold them in the clear. Synthetic people,
test keys, verification, tables and intervals need none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import ConfigurationError, DasError
from das_spark.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import JointPlan, RunPlan, SweepPlan
    from das_spark.evaluation import AccuracyReport, RunComparison
    from das_spark.pipeline import (
        JointSummary,
        MeasurementsSummary,
        RunSummary,
        SweepSummary,
        VerificationReport,
    )
    from das_spark.results import OpenedRun

__version__ = "0.1.0"
__all__ = [
    "DasError",
    "compare",
    "estimate",
    "evaluate",
    "load_plan",
    "load_sweep",
    "open_run",
    "protect",
    "publish_measurements",
    "run",
    "run_parts",
    "sweep",
    "verify",
]


def load_plan(
    path: str | Path,
    *,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    files: bool = True,
) -> RunPlan:
    """Read a run file and check everything that can be checked before Spark starts.

    Args:
        path: The TOML file.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.
        files: Whether the input files must be there.

    Raises:
        ConfigurationError: With all problems together, each with its key path.
    """
    from das_spark import config  # noqa: PLC0415 - see the module's docstring; so below

    return config.load_plan(path, overlays, settings, files=files)


def load_sweep(
    path: str | Path,
    *,
    epsilon: Sequence[str | int | Fraction] = (),
    rho: Sequence[str | int | Fraction] = (),
    vary: Sequence[str] = (),
    runs: int = 4,
    samples: Sequence[str | int | Fraction] | None = None,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
) -> SweepPlan:
    """Read a run file and lay a grid of budgets and settings over it, checked before Spark starts.

    Args:
        path: The TOML file; its own total is used only where settings vary and no budgets are named.
        epsilon: The budgets, exact: texts such as "0.25", whole numbers or fractions.
        rho: The same, where the strategy is one of zero-concentrated differential privacy.
        vary: Texts `key.path=value,value`: each value with each of the others and with every budget.
        runs: Runs at each point of the grid.
        samples: Shares of simple random samples to compare with; 5 % to 95 % where None.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.

    Raises:
        ConfigurationError: With all problems of grid and run file together.
    """
    from das_spark import config  # noqa: PLC0415

    return config.load_sweep(
        path,
        epsilon=epsilon,
        rho=rho,
        vary=vary,
        runs=runs,
        samples=samples,
        overlays=overlays,
        settings=settings,
    )


def _followed_by(progress: Callable[[str], None] | None) -> Callable[[str], None]:
    """What a caller follows a run with: a function, or else logging."""
    from das_spark.telemetry import ToLogger  # noqa: PLC0415

    return progress or ToLogger()


def protect(
    conf: RunPlan | str | Path,
    *,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> OpenedRun:
    """Carry out a run, or resume it, and open what it published. Spends the budget of the run file, once.

    Where no logging is set up and no function is given, a line a stage goes to standard error.

    Args:
        conf: A run file, the name of one that comes with das_spark, or a plan.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.
        run_id: Name of the run folder; made up where None.
        test_key: INSECURE: a text from which all noise follows; marks every output.
        spark: The session; found or started where None.
        progress: Is given a line at a time; the logger `das_spark` where None.

    Returns:
        The run: its tables, estimates and measurements as Arrow, pandas or Spark.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import run_stages  # noqa: PLC0415
    from das_spark.results import OpenedRun as Opened  # noqa: PLC0415
    from das_spark.telemetry import said_somewhere  # noqa: PLC0415

    if isinstance(conf, str | Path):
        conf = load_plan(conf, overlays=overlays, settings=settings)
    elif overlays or settings:
        raise ConfigurationError("a plan is resolved already", hint="give overlays and settings with the run file")
    with said_somewhere():
        done = run_stages(conf, run_id=run_id, test_key=test_key, spark=spark, progress=_followed_by(progress))
    # Where the two roots lie apart there is no folder of both.
    return Opened.at(done.layout.folder if done.layout.folder.is_dir() else done.layout.public.path)


def run(
    plan: RunPlan | str | Path,
    *,
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> RunSummary:
    """Carry out a run, or resume it.

    Args:
        plan: The plan, or the path of a run file.
        run_id: Name of the run folder; made up where None.
        test_key: INSECURE: a text from which all noise follows; marks every output.
        spark: The session; found or started where None.
        progress: Is given a line at a time; the logger `das_spark` where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import run_stages  # noqa: PLC0415

    if isinstance(plan, str | Path):
        plan = load_plan(plan)
    return run_stages(plan, run_id=run_id, test_key=test_key, spark=spark, progress=_followed_by(progress))


def run_parts(
    plan: JointPlan | str | Path,
    *,
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> JointSummary:
    """Carry out a joint run, such as conf/pl94_2020.toml, or resume it: one ledger and one statement for all parts.

    Args:
        plan: The plan, or the path of a run file with `run.parts`.
        run_id: Name of the joint run; made up where None.
        test_key: INSECURE: a text from which all noise follows; marks every output.
        spark: The session; found or started where None.
        progress: Is given a line at a time; the logger `das_spark` where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.config import load_parts  # noqa: PLC0415
    from das_spark.pipeline import run_parts as run_together  # noqa: PLC0415

    if isinstance(plan, str | Path):
        plan = load_parts(plan)
    return run_together(plan, run_id=run_id, test_key=test_key, spark=spark, progress=_followed_by(progress))


def sweep(
    plan: SweepPlan,
    out: str | Path,
    *,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> SweepSummary:
    """Carry out a grid of runs, or go on where it stopped, and compare it with simple random samples. RESTRICTED.

    Args:
        plan: The grid, such as `load_sweep("conf/quickstart.toml", epsilon=["0.25", "1"], runs=2)`.
        out: Folder of the sweep; made, or that of an earlier call for the same sweep.
        test_key: INSECURE: a text from which all noise follows; marks every output.
        spark: The session; found or started where None.
        progress: Is given a line at a time, first what all runs cost together; the logger `das_spark` where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import run_sweep  # noqa: PLC0415

    return run_sweep(plan, place_of(out), test_key=test_key, spark=spark, progress=_followed_by(progress))


def verify(
    run_folder: str | Path, *, spark: SparkSession | None = None, manifest_sha256: str = ""
) -> VerificationReport:
    """Check what a run has written, independently of how it was made; nothing in its folder is changed.

    Args:
        run_folder: The folder of the run, or `runs/latest`, or its address.
        spark: The session; found or started where None.
        manifest_sha256: SHA-256 that the manifest must have, as the run printed it or its publisher says it. Where the
            folder has the restricted root of the run, the manifest is compared with the ledger besides.

    Raises:
        OutputError: It is not the folder of a run, or a link lies in it.
    """
    from das_spark.pipeline import verify_run  # noqa: PLC0415

    return verify_run(place_of(run_folder), spark, manifest_sha256=manifest_sha256)


def open_run(run_folder: str | Path) -> OpenedRun:
    """A finished run to work with: its estimates, measurements and tables, as Arrow, pandas or Spark.

    Args:
        run_folder: The folder of the run or its public folder, such as `runs/latest`, or the address
            of either, such as `s3://bucket/runs/mine`.

    Raises:
        OutputError: It is not the folder of a finished run.
    """
    from das_spark.results import OpenedRun as Opened  # noqa: PLC0415

    return Opened.at(place_of(run_folder))


def publish_measurements(
    run_folder: str | Path, out: str | Path, *, spark: SparkSession | None = None
) -> MeasurementsSummary:
    """Write the noisy measurements of a finished run into a folder that others can estimate from without anything else.

    Args:
        run_folder: The folder of the run, or `runs/latest`.
        out: The folder to make; it must not exist, or be empty.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: The run has not kept every noisy answer (`measurement.rows`).
        OutputError: It is not the folder of a finished run, or the folder cannot be written.
    """
    from das_spark.pipeline import publish_measurements as publish  # noqa: PLC0415

    return publish(place_of(run_folder), place_of(out), spark)


def estimate(
    run_folder: str | Path | None = None,
    *,
    from_measurements: str | Path | None = None,
    plan: RunPlan | None = None,
    settings: Sequence[str] = (),
    run_id: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> RunSummary:
    """Estimate from measurements that exist, into a new run: no confidential input, no key, no budget.

    Args:
        run_folder: A finished run to estimate again.
        from_measurements: A folder of measurements instead.
        plan: What measurements of others are (`load_plan` with `files=False`).
        settings: Texts `key.path=value`, of estimation and output.
        run_id: Name of the run folder; an unfinished run of that name is resumed.
        spark: The session; found or started where None.
        progress: Is given a line at a time; the logger `das_spark` where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import estimate_from, open_source  # noqa: PLC0415

    source = open_source(place_of(run_folder), place_of(from_measurements), settings, plan)
    return estimate_from(source, run_id=run_id, spark=spark, progress=_followed_by(progress))


def evaluate(
    run_folders: Sequence[str | Path], *, areas: str | Path | None = None, truth: str | Path | None = None
) -> Sequence[AccuracyReport]:
    """Compare the estimates of runs with confidential histograms. RESTRICTED: not protected by noise.

    `das_spark.evaluation.study_of` takes what is returned, and adds empirical privacy loss and uncertainty;
    `das_spark.pipeline.study_runs` does both, and sets simple random samples beside the runs.

    Args:
        run_folders: Folders of runs of one configuration, or `runs/latest`.
        areas: CSV of leaf geocode and area; None for none.
        truth: A run whose confidential histograms are taken for all; those of each run where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import evaluate_runs  # noqa: PLC0415

    named = (place_of(each) for each in (areas, truth))
    return evaluate_runs([place_of(folder) for folder in run_folders], *named)


def compare(
    run_folders: Sequence[str | Path], *, truth: str | Path | None = None, paired: bool = False
) -> RunComparison:
    """Set the runs of two configurations side by side. RESTRICTED: not protected by noise.

    Args:
        run_folders: Runs of one configuration and of another, or two runs.
        truth: A run whose confidential histograms are taken for all; those of each run where None.
        paired: Pair the runs of the two configurations in the order given, for they share test keys.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.pipeline import compare_runs  # noqa: PLC0415

    return compare_runs([place_of(folder) for folder in run_folders], place_of(truth), paired=paired)
