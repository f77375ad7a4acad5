"""A run, as one typed frozen value: read from TOML, checked as a whole, resolved against a product. No Spark, no data.

`load` reads run files into the sections of `model`; `resolve` (with `inputs`, `geography`, `acknowledgements`) makes a
`RunPlan` of them, or reports all that is wrong at once; `run_files` and `sweep` go from files to plans. A plan is
what every stage is given; `stages` says in which order they come, and `levels` what `das_spark.core` is given of it;
`published` which counts of another product its estimates are held to.
"""

from das_spark.config.acknowledgements import (
    ANSWERS_ALONE,
    BANNER,
    COUNTED_ELSEWHERE,
    PUBLISHED_ELSEWHERE,
    extent_of_loss,
    follows_from_people,
    is_void,
    notice_of_people,
    published_from_people,
    rules_from_people,
)
from das_spark.config.catalog import is_catalog_table, table_parts
from das_spark.config.counted_cells import CountedCell, counted_cells
from das_spark.config.draft import Draft, acknowledgement_sentences, draft_run_file, levels_of, readers_of
from das_spark.config.expected import ExpectedErrors, errors_of_tables, expected_errors, widths_of_intervals
from das_spark.config.features import run_file_keys
from das_spark.config.geography import AREA_READERS, CENSUS, known_levels, spine_of
from das_spark.config.inputs import (
    FILE_KEYS,
    GEOUNITS_OF_UNITS,
    READER_NEEDS,
    geounit_sentences,
    require_dataset,
)
from das_spark.config.levels import (
    lazy_levels,
    level_plan,
    levels_together,
    measurement_plan,
    needs_of,
    noise_streams,
    steps_of,
)
from das_spark.config.load import FOLDER, PRODUCT_FILE, absolute, nearest, shipped_run_files
from das_spark.config.model import SIMULATED, EvaluationSettings, InputSettings, SimulateSettings
from das_spark.config.named_statistics import Method, NamedStatistic, method_of, read_statistic, statistic_errors
from das_spark.config.neighbors import held_geolevel, holding_losses, neighbors_of
from das_spark.config.plan import (
    EstimationSettings,
    JointPlan,
    LedgerSettings,
    MeasurementOrigin,
    OriginKind,
    OutputSettings,
    RunPlan,
    as_begun,
    config_hash,
    difference,
    differences,
    differing_settings,
    plan_to_config,
    plans_in,
    same_estimation,
    sweep_config,
    without_total,
)
from das_spark.config.product_files import find_product
from das_spark.config.published import held_counts, held_sentence
from das_spark.config.reopen import estimation_plan, plan_from_config
from das_spark.config.resolve import unused_queries
from das_spark.config.run_files import load_parts, load_plan, load_run, plan_of
from das_spark.config.spine_choice import choose_spine
from das_spark.config.stages import (
    OF_A_LEVEL,
    PREPARING,
    Stage,
    StageKind,
    is_preparing,
    names_until,
    part_of,
    stage_names,
    stages_from_measurements,
    stages_of,
    stages_until,
)
from das_spark.config.suggest import (
    USUAL_KEPT,
    USUAL_LEVEL,
    SuggestedBudget,
    Target,
    read_targets,
    suggest_budget,
)
from das_spark.config.sweep import GridRun, SweepPlan, load_sweep, sample_shares

__all__ = [
    "ANSWERS_ALONE",
    "AREA_READERS",
    "BANNER",
    "CENSUS",
    "COUNTED_ELSEWHERE",
    "FILE_KEYS",
    "FOLDER",
    "GEOUNITS_OF_UNITS",
    "OF_A_LEVEL",
    "PREPARING",
    "PRODUCT_FILE",
    "PUBLISHED_ELSEWHERE",
    "READER_NEEDS",
    "SIMULATED",
    "USUAL_KEPT",
    "USUAL_LEVEL",
    "CountedCell",
    "Draft",
    "EstimationSettings",
    "EvaluationSettings",
    "ExpectedErrors",
    "GridRun",
    "InputSettings",
    "JointPlan",
    "LedgerSettings",
    "MeasurementOrigin",
    "Method",
    "NamedStatistic",
    "OriginKind",
    "OutputSettings",
    "RunPlan",
    "SimulateSettings",
    "Stage",
    "StageKind",
    "SuggestedBudget",
    "SweepPlan",
    "Target",
    "absolute",
    "acknowledgement_sentences",
    "as_begun",
    "choose_spine",
    "config_hash",
    "counted_cells",
    "difference",
    "differences",
    "differing_settings",
    "draft_run_file",
    "errors_of_tables",
    "estimation_plan",
    "expected_errors",
    "extent_of_loss",
    "find_product",
    "follows_from_people",
    "geounit_sentences",
    "held_counts",
    "held_geolevel",
    "held_sentence",
    "holding_losses",
    "is_catalog_table",
    "is_preparing",
    "is_void",
    "known_levels",
    "lazy_levels",
    "level_plan",
    "levels_of",
    "levels_together",
    "load_parts",
    "load_plan",
    "load_run",
    "load_sweep",
    "measurement_plan",
    "method_of",
    "names_until",
    "nearest",
    "needs_of",
    "neighbors_of",
    "noise_streams",
    "notice_of_people",
    "part_of",
    "plan_from_config",
    "plan_of",
    "plan_to_config",
    "plans_in",
    "published_from_people",
    "read_statistic",
    "read_targets",
    "readers_of",
    "require_dataset",
    "rules_from_people",
    "run_file_keys",
    "same_estimation",
    "sample_shares",
    "shipped_run_files",
    "spine_of",
    "stage_names",
    "stages_from_measurements",
    "stages_of",
    "stages_until",
    "statistic_errors",
    "steps_of",
    "suggest_budget",
    "sweep_config",
    "table_parts",
    "unused_queries",
    "widths_of_intervals",
    "without_total",
]
