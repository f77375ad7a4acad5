"""How good the protected counts are: error figures, the accuracy report as data, and the page that shows it."""

from das_spark.evaluation.metrics import ErrorFigures, Frequencies, frequencies_of, pooled, union_residuals
from das_spark.evaluation.page import accuracy_page
from das_spark.evaluation.report import (
    AccuracyReport,
    Entry,
    Spread,
    pool,
    report_from_json,
    spread,
    spread_json,
)

__all__ = [
    "AccuracyReport",
    "Entry",
    "ErrorFigures",
    "Frequencies",
    "Spread",
    "accuracy_page",
    "frequencies_of",
    "pool",
    "pooled",
    "report_from_json",
    "spread",
    "spread_json",
    "union_residuals",
]
