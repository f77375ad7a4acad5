"""The algorithm: noisy answers of confidential histograms, and whole-number estimates from them, level by level.

The unit of work is the *family*: a geounit of one level of geography and its children. `measure_family` answers every
query of the plan on each child's confidential histogram and adds exact integer noise, drawn for the address (level,
geounit, query, answer) alone, so that it is the same wherever and however often it is drawn. It is the only function
that is given confidential counts. An `Estimator` then makes the children's estimates from what is public: their noisy
answers, the bounds that follow from declared invariants, and the finished estimate of their parent. TopDown solves each
family by weighted least squares under those constraints and rounds the solution (`das_spark.estimation`). An estimator
declares what it needs (`Needs`): all rows of the measurements or only those that the parent's estimate can touch; a
pass upwards through the levels before the first estimate, or none; arrays, such as standard errors, that go with its
estimates.

`level_steps` derives the order of the steps from that declaration, and `run_levels`, the only loop over the levels,
carries them out on an `Executor`, which brings the rows of each family together: `InProcess` in memory, for tests,
audits, studies and small runs; Spark, for everything else. Both give the same bytes. Nothing here knows of files, Spark
or clocks.
"""

from das_spark.core.estimators import ESTIMATORS, Estimator, Needs, TopDown
from das_spark.core.family import (
    UNMEASURED,
    ConfidentialFamily,
    DeclaredBounds,
    FamilyEstimate,
    GeounitArrays,
    MeasuredFamily,
    NoisyAnswers,
    UpwardResult,
)
from das_spark.core.in_process import InProcess, LevelInput
from das_spark.core.levels import GROUP_TOTAL, Executor, LevelPlan, LevelStep, Work, level_steps, run_levels
from das_spark.core.measure import MeasurementPlan, measure_families, measure_family
from das_spark.core.published import DividedCounts, HeldCounts, PublishedFamily
from das_spark.core.saved import read_family, saved_family

__all__ = [
    "ESTIMATORS",
    "GROUP_TOTAL",
    "UNMEASURED",
    "ConfidentialFamily",
    "DeclaredBounds",
    "DividedCounts",
    "Estimator",
    "Executor",
    "FamilyEstimate",
    "GeounitArrays",
    "HeldCounts",
    "InProcess",
    "LevelInput",
    "LevelPlan",
    "LevelStep",
    "MeasuredFamily",
    "MeasurementPlan",
    "Needs",
    "NoisyAnswers",
    "PublishedFamily",
    "TopDown",
    "UpwardResult",
    "Work",
    "level_steps",
    "measure_families",
    "measure_family",
    "read_family",
    "run_levels",
    "saved_family",
]
