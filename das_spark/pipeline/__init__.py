"""The pipeline room: stages of a run, and the runner that goes through them."""

from das_spark.pipeline.assess import evaluate_runs, verify_run
from das_spark.pipeline.joint import JointSummary, run_parts
from das_spark.pipeline.measurements import MeasurementsSummary, publish_measurements
from das_spark.pipeline.reestimate import estimate_from, open_source
from das_spark.pipeline.runner import RunSummary, run_stages
from das_spark.pipeline.tabulate import TabulationSummary, tabulate_run
from das_spark.spark.checks import Check, VerificationReport

__all__ = [
    "Check",
    "JointSummary",
    "MeasurementsSummary",
    "RunSummary",
    "TabulationSummary",
    "VerificationReport",
    "estimate_from",
    "evaluate_runs",
    "open_source",
    "publish_measurements",
    "run_parts",
    "run_stages",
    "tabulate_run",
    "verify_run",
]
