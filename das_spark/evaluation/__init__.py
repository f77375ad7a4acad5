"""How good the protected counts are: error figures, the accuracy report as data, and the page that shows it."""

from das_spark.evaluation.comparing import Difference, paired_difference, unpaired_difference
from das_spark.evaluation.comparison_page import comparison_page
from das_spark.evaluation.lines import Criterion, QueryErrors
from das_spark.evaluation.metrics import ErrorFigures, Frequencies, frequencies_of, pooled
from das_spark.evaluation.page import accuracy_page
from das_spark.evaluation.pooling import headline_spreads, pool, spread
from das_spark.evaluation.privacy_loss import (
    AS_CODED,
    AS_WRITTEN,
    FLAXMAN,
    LossCurve,
    LossSettings,
    PrivacyLoss,
    empirical_privacy_loss,
    loss_curve,
)
from das_spark.evaluation.queries import compared_queries, demographic_groups
from das_spark.evaluation.report import AccuracyReport, Entry, report_from_json
from das_spark.evaluation.run_comparison import ComparedLine, RunComparison, compare_reports
from das_spark.evaluation.run_record import (
    ESTIMATE,
    FAMILY_FIGURES,
    MEASURE,
    PUBLIC_RECORD,
    RESTRICTED_RECORD,
    EstimatedLevel,
    FamilyLine,
    Incident,
    Opening,
    RunRecord,
    ShareLine,
    SpendingLine,
    StageLine,
    StageMetrics,
    present_run,
)
from das_spark.evaluation.sampling import (
    CLOSEST,
    SHARES,
    SHARES_OF_FIGURE_2,
    ClosestSample,
    SampleEntry,
    SamplePoint,
    SampleReport,
    closest_sample,
)
from das_spark.evaluation.spine import (
    CategoryFigures,
    Distances,
    LevelMove,
    SharePath,
    SpineLevelLine,
    SpineReport,
    present_spine,
    share_path,
)
from das_spark.evaluation.spreads import Spread, spread_json
from das_spark.evaluation.statistics import Statistic, statistics_of
from das_spark.evaluation.study import Study, study_of
from das_spark.evaluation.study_captions import bias_by_index_caption, residuals_and_loss_caption, trade_off_caption
from das_spark.evaluation.study_figures import bias_by_index, residuals_and_loss, trade_off
from das_spark.evaluation.uncertainty import Interval, bootstrap, over_runs

__all__ = [
    "AS_CODED",
    "AS_WRITTEN",
    "CLOSEST",
    "ESTIMATE",
    "FAMILY_FIGURES",
    "FLAXMAN",
    "MEASURE",
    "PUBLIC_RECORD",
    "RESTRICTED_RECORD",
    "SHARES",
    "SHARES_OF_FIGURE_2",
    "AccuracyReport",
    "CategoryFigures",
    "ClosestSample",
    "ComparedLine",
    "Criterion",
    "Difference",
    "Distances",
    "Entry",
    "ErrorFigures",
    "EstimatedLevel",
    "FamilyLine",
    "Frequencies",
    "Incident",
    "Interval",
    "LevelMove",
    "LossCurve",
    "LossSettings",
    "Opening",
    "PrivacyLoss",
    "QueryErrors",
    "RunComparison",
    "RunRecord",
    "SampleEntry",
    "SamplePoint",
    "SampleReport",
    "ShareLine",
    "SharePath",
    "SpendingLine",
    "SpineLevelLine",
    "SpineReport",
    "Spread",
    "StageLine",
    "StageMetrics",
    "Statistic",
    "Study",
    "accuracy_page",
    "bias_by_index",
    "bias_by_index_caption",
    "bootstrap",
    "closest_sample",
    "compare_reports",
    "compared_queries",
    "comparison_page",
    "demographic_groups",
    "empirical_privacy_loss",
    "frequencies_of",
    "headline_spreads",
    "loss_curve",
    "over_runs",
    "paired_difference",
    "pool",
    "pooled",
    "present_run",
    "present_spine",
    "report_from_json",
    "residuals_and_loss",
    "residuals_and_loss_caption",
    "share_path",
    "spread",
    "spread_json",
    "statistics_of",
    "study_of",
    "trade_off",
    "trade_off_caption",
    "unpaired_difference",
]
