"""The pipeline room: stages of a run, and the runner that goes through them."""

from das_spark.pipeline.accuracy import evaluate_runs, map_runs, study_runs
from das_spark.pipeline.assess import verify_run
from das_spark.pipeline.compare import compare_runs
from das_spark.pipeline.driver import require_begun
from das_spark.pipeline.joint import JointSummary, run_parts
from das_spark.pipeline.measurements import MeasurementsSummary, publish_measurements
from das_spark.pipeline.reestimate import estimate_from, open_source
from das_spark.pipeline.runner import run_stages
from das_spark.pipeline.summary import RunSummary
from das_spark.pipeline.sweep import SweepSummary, run_sweep
from das_spark.pipeline.table_writing import TabulationSummary
from das_spark.spark.checks import Check, VerificationReport

__all__ = [
    "Check",
    "JointSummary",
    "MeasurementsSummary",
    "RunSummary",
    "SweepSummary",
    "TabulationSummary",
    "VerificationReport",
    "compare_runs",
    "estimate_from",
    "evaluate_runs",
    "map_runs",
    "open_source",
    "publish_measurements",
    "require_begun",
    "run_parts",
    "run_stages",
    "run_sweep",
    "study_runs",
    "verify_run",
]
