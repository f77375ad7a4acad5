"""How good the protected counts are: error figures, the accuracy report as data, and the page that shows it."""

from das_spark.evaluation.lines import Criterion, QueryErrors
from das_spark.evaluation.metrics import ErrorFigures, Frequencies, frequencies_of, pooled, union_residuals
from das_spark.evaluation.page import accuracy_page
from das_spark.evaluation.pooling import headline_spreads, pool, spread
from das_spark.evaluation.queries import compared_queries, demographic_groups
from das_spark.evaluation.report import AccuracyReport, Entry, report_from_json
from das_spark.evaluation.spine_figures import merged_levels
from das_spark.evaluation.spine_lines import CategoryFigures, Distances, LevelLine, LevelMove, SharePath, share_path
from das_spark.evaluation.spine_page import budget_text, spine_page
from das_spark.evaluation.spine_report import SpineReport
from das_spark.evaluation.spreads import Spread, spread_json

__all__ = [
    "AccuracyReport",
    "CategoryFigures",
    "Criterion",
    "Distances",
    "Entry",
    "ErrorFigures",
    "Frequencies",
    "LevelLine",
    "LevelMove",
    "QueryErrors",
    "SharePath",
    "SpineReport",
    "Spread",
    "accuracy_page",
    "budget_text",
    "compared_queries",
    "demographic_groups",
    "frequencies_of",
    "headline_spreads",
    "merged_levels",
    "pool",
    "pooled",
    "report_from_json",
    "share_path",
    "spine_page",
    "spread",
    "spread_json",
    "union_residuals",
]
