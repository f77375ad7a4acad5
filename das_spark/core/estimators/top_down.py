"""TopDown: each family from its own measurements and the finished estimate of its parent."""

from __future__ import annotations

from typing import Final

from das_spark.core.estimators.base import Needs
from das_spark.core.family import FamilyEstimate, MeasuredFamily, UpwardResult
from das_spark.estimation import FamilyPlan, estimate_family


class TopDown:
    """The estimator of the production of 2020 (Abowd et al. 2022); the mathematics stand in `das_spark.estimation`."""

    needs: Final = Needs()

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        """There is no upward pass."""
        raise NotImplementedError

    def estimate(self, family: MeasuredFamily, plan: FamilyPlan) -> FamilyEstimate:
        """Estimate the children of a family."""
        return FamilyEstimate(estimate_family(family.problem, plan))
