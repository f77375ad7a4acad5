"""What is inferred: whole-number estimates of a parent's children from their noisy answers, with proof.

`estimate_family` is all that other rooms call. The equations stand in README.md.
"""

from das_spark.estimation.allocation import (
    Allocation,
    Allotment,
    TreeVariances,
    Wanted,
    best_allocation,
    determines_cells,
)
from das_spark.estimation.chain import FAMILY_SOLVERS
from das_spark.estimation.components import Decomposition, Frame
from das_spark.estimation.family import UNPROVED, estimate_families, estimate_family
from das_spark.estimation.gls import FamilyKnowledge, FamilyPrior, Gaussian, informed, is_exact, variances
from das_spark.estimation.problem import (
    LEAST_VARIANCE,
    FamilyBounds,
    FamilyDiagnostics,
    FamilyFlows,
    FamilyGroups,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    FamilyStatus,
    OuterPass,
)
from das_spark.estimation.solvers import SOLVERS
from das_spark.estimation.unions import UnionPart, spread_at_top, union_above

__all__ = [
    "FAMILY_SOLVERS",
    "LEAST_VARIANCE",
    "SOLVERS",
    "UNPROVED",
    "Allocation",
    "Allotment",
    "Decomposition",
    "FamilyBounds",
    "FamilyDiagnostics",
    "FamilyFlows",
    "FamilyGroups",
    "FamilyKnowledge",
    "FamilyMeasurement",
    "FamilyPlan",
    "FamilyPrior",
    "FamilyProblem",
    "FamilyResult",
    "FamilyStatus",
    "Frame",
    "Gaussian",
    "OuterPass",
    "TreeVariances",
    "UnionPart",
    "Wanted",
    "best_allocation",
    "determines_cells",
    "estimate_families",
    "estimate_family",
    "informed",
    "is_exact",
    "spread_at_top",
    "union_above",
    "variances",
]
