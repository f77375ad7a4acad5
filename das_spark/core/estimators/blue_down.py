"""BlueDown: from the top, each family nearest to what the measurements of its own and all lower levels say together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.core.estimators.base import Needs
from das_spark.core.family import FamilyEstimate, GeounitArrays, MeasuredFamily, UpwardResult
from das_spark.estimation import (
    Decomposition,
    FamilyKnowledge,
    FamilyPlan,
    FamilyPrior,
    Gaussian,
    estimate_family,
    informed,
)

if TYPE_CHECKING:
    from das_spark.histogram import Query


#: Name of the array that stands where nothing is known.
UNKNOWN: Final = "unknown"


class BlueDown:
    """Top-down from best linear unbiased estimates (Ghazi et al. 2026; estimation/README.md, sections 13 to 15).

    The pass upwards leaves the lowest level out, so that it is measured as lazily as for TopDown; its families are
    those of TopDown, too. All others are sought in the precision of everything that is known of them and below.
    """

    needs: Final = Needs(
        upward="inner",
        reads_everything=True,
        solvers=("batched", "structured", "piqp", "clarabel", "osqp"),
    )

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        """What the children and all below them say of their parent; of the children, what lies below them."""
        algebra = decomposition(plan)
        below = _below(family, algebra)
        together = FamilyKnowledge.of(family.problem, informed(family.problem, below, algebra), algebra).together()
        return UpwardResult([_arrays(each) for each in below], _arrays(together))

    def estimate(self, family: MeasuredFamily, plan: FamilyPlan) -> FamilyEstimate:
        """Estimate the children of a family; of the lowest level, which nothing is known below, as TopDown does."""
        problem = family.problem
        if plan.lowest:
            return FamilyEstimate(estimate_family(problem, plan))
        algebra = decomposition(plan)
        prior = FamilyPrior.of(problem, _below(family, algebra), algebra)
        return FamilyEstimate(estimate_family(replace(problem, prior=prior), plan))


def decomposition(plan: FamilyPlan) -> Decomposition:
    """The components of a run's workload; made once a process."""
    return _decomposition(plan.workload, plan.zero_cells.tobytes(), plan.classes)


@lru_cache(maxsize=8)
def _decomposition(workload: tuple[Query, ...], zero_cells: bytes, classes: Query | None) -> Decomposition:
    return Decomposition.of(workload, np.frombuffer(zero_cells, dtype=np.int32), classes)


def _arrays(known: Gaussian | None) -> GeounitArrays:
    """What travels; where nothing is known an array says that, so that no geounit is missing."""
    return {UNKNOWN: np.zeros(0)} if known is None else known.arrays()


def _below(family: MeasuredFamily, algebra: Decomposition) -> list[Gaussian | None]:
    """What lies below each child, as the pass upwards left it."""
    given = family.upward or [{}] * len(family.problem.children)
    return [None if not arrays or UNKNOWN in arrays else Gaussian.of(algebra, arrays) for arrays in given]
