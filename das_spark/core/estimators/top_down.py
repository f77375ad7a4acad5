"""TopDown: each family from its own measurements and the finished estimate of its parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from das_spark.core.estimators.base import Needs
from das_spark.core.family import FamilyEstimate, MeasuredFamily, UpwardResult
from das_spark.estimation import FamilyPlan, estimate_families


class TopDown:
    """The estimator of the production of 2020 (Abowd et al. 2022); the mathematics stand in `das_spark.estimation`."""

    needs: Final = Needs()

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        """There is no upward pass."""
        raise NotImplementedError

    def estimate(self, families: Sequence[MeasuredFamily], plan: FamilyPlan) -> Sequence[FamilyEstimate]:
        """Estimate the children of families."""
        return [FamilyEstimate(each) for each in estimate_families([family.problem for family in families], plan)]
