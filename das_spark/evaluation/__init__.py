"""How good the protected counts are, in numbers, and what reports say of them.

A task reduces pairs of histograms to rows that add up (`tallies`); from the summed rows come the metric rows
(`metric_rows`) of an `AccuracyReport` (`accuracy`), of one run or of several pooled. `statistics` is the registry of
figures of residuals; `study` computes them with their uncertainty, `samples` sets simple random samples beside them,
`comparison` compares two configurations, `sweep` several budgets, `spine` two spines, `run_record` what a run did.
Each ends in one function `present_...`, which turns the numbers into a `das_spark.report.Report` for every medium.
`error_map` places the errors of geounits on a map.
RESTRICTED, but for spines: residuals tell of confidential counts.
"""

from das_spark.evaluation.accuracy import (
    TOTAL,
    AccuracyReport,
    Entry,
    pool,
    report_from_json,
    spread,
)
from das_spark.evaluation.comparison import (
    Over,
    RunComparison,
    compare_reports,
    method_of,
    present_comparison,
)
from das_spark.evaluation.count_classes import COUNT_CLASSES, TOTAL_CLASSES, error_classes
from das_spark.evaluation.coverage import MEASUREMENTS, REPLICATES_OF_RUN, TOTAL_OF, Coverage, tally_coverage
from das_spark.evaluation.error_map import (
    MOST_TILES,
    Area,
    Boundaries,
    ErrorMap,
    GeounitErrors,
    map_of,
)
from das_spark.evaluation.metric_rows import (
    Criterion,
    HomogeneityRow,
    QueryErrors,
    homogeneity_rows_of,
    metric_rows_of,
)
from das_spark.evaluation.metrics import (
    Frequencies,
    frequencies_of,
    pooled,
)
from das_spark.evaluation.present import (
    present_accuracy,
)
from das_spark.evaluation.privacy_loss import (
    AS_CODED,
    FLAXMAN,
    LossCurve,
    LossSettings,
    loss_curve,
)
from das_spark.evaluation.run_record import (
    FAMILY_FIGURES,
    DriverAttempt,
    EstimatedLevel,
    FamilyRow,
    LogEntry,
    RunRecord,
    ShareRow,
    SpendingRow,
    StageMetrics,
    StageRow,
    present_run,
)
from das_spark.evaluation.samples import (
    SHARES,
    SHARES_OF_FIGURE_2,
    Draw,
    ResidualSums,
    ResidualTally,
    SamplePoint,
    SampleReport,
    StratifiedCells,
    TallyKey,
    closest_sample,
    entries_of,
    gather,
    residuals,
)
from das_spark.evaluation.spine import (
    SharePath,
    SpineLevelRow,
    SpineReport,
    present_spine,
    share_path,
)
from das_spark.evaluation.statistics import LOSS
from das_spark.evaluation.study import (
    REPLICATES,
    PooledStatistic,
    Study,
    statistics_of,
    study_of,
)
from das_spark.evaluation.study_figures import (
    bias_figure,
    loss_figure,
)
from das_spark.evaluation.sweep import (
    GridPoint,
    SweepReport,
    present_sweep,
    sweep_record,
    sweep_report,
)
from das_spark.evaluation.tallies import (
    MARGINAL_PRODUCT,
    ComparedSide,
    Comparison,
    ErrorTally,
    Paired,
    absolute_differences,
    compared_queries,
    demographic_groups,
    in_order,
    paired,
    single_answers,
    sizes_of,
    tally,
    total_of,
)
from das_spark.evaluation.uncertainty import (
    Interval,
    over_runs,
)

__all__ = [
    "AS_CODED",
    "COUNT_CLASSES",
    "FAMILY_FIGURES",
    "FLAXMAN",
    "LOSS",
    "MARGINAL_PRODUCT",
    "MEASUREMENTS",
    "MOST_TILES",
    "REPLICATES",
    "REPLICATES_OF_RUN",
    "SHARES",
    "SHARES_OF_FIGURE_2",
    "TOTAL",
    "TOTAL_CLASSES",
    "TOTAL_OF",
    "AccuracyReport",
    "Area",
    "Boundaries",
    "ComparedSide",
    "Comparison",
    "Coverage",
    "Criterion",
    "Draw",
    "DriverAttempt",
    "Entry",
    "ErrorMap",
    "ErrorTally",
    "EstimatedLevel",
    "FamilyRow",
    "Frequencies",
    "GeounitErrors",
    "GridPoint",
    "HomogeneityRow",
    "Interval",
    "LogEntry",
    "LossCurve",
    "LossSettings",
    "Over",
    "Paired",
    "PooledStatistic",
    "QueryErrors",
    "ResidualSums",
    "ResidualTally",
    "RunComparison",
    "RunRecord",
    "SamplePoint",
    "SampleReport",
    "SharePath",
    "ShareRow",
    "SpendingRow",
    "SpineLevelRow",
    "SpineReport",
    "StageMetrics",
    "StageRow",
    "StratifiedCells",
    "Study",
    "SweepReport",
    "TallyKey",
    "absolute_differences",
    "bias_figure",
    "closest_sample",
    "compare_reports",
    "compared_queries",
    "demographic_groups",
    "entries_of",
    "error_classes",
    "frequencies_of",
    "gather",
    "homogeneity_rows_of",
    "in_order",
    "loss_curve",
    "loss_figure",
    "map_of",
    "method_of",
    "metric_rows_of",
    "over_runs",
    "paired",
    "pool",
    "pooled",
    "present_accuracy",
    "present_comparison",
    "present_run",
    "present_spine",
    "present_sweep",
    "report_from_json",
    "residuals",
    "share_path",
    "single_answers",
    "sizes_of",
    "spread",
    "statistics_of",
    "study_of",
    "sweep_record",
    "sweep_report",
    "tally",
    "tally_coverage",
    "total_of",
]
