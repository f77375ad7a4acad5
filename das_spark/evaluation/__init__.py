"""How good the protected counts are: error figures, the accuracy report as data, and the page that shows it."""

from das_spark.evaluation.lines import Criterion, QueryErrors
from das_spark.evaluation.metrics import ErrorFigures, Frequencies, frequencies_of, pooled, union_residuals
from das_spark.evaluation.page import accuracy_page
from das_spark.evaluation.pooling import headline_spreads, pool, spread
from das_spark.evaluation.queries import compared_queries, demographic_groups
from das_spark.evaluation.report import AccuracyReport, Entry, report_from_json
from das_spark.evaluation.spreads import Spread, spread_json

__all__ = [
    "AccuracyReport",
    "Criterion",
    "Entry",
    "ErrorFigures",
    "Frequencies",
    "QueryErrors",
    "Spread",
    "accuracy_page",
    "compared_queries",
    "demographic_groups",
    "frequencies_of",
    "headline_spreads",
    "pool",
    "pooled",
    "report_from_json",
    "spread",
    "spread_json",
    "union_residuals",
]
