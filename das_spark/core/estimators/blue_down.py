"""BlueDown: from the top, each family nearest to what the measurements of its own and all lower levels say together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from das_spark.core.estimators.base import Needs
from das_spark.core.family import FamilyEstimate
from das_spark.core.linear import MOST_SITES, below_children, decomposition, upward
from das_spark.estimation import FamilyPrior, estimate_families

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.core.family import MeasuredFamily, UpwardResult
    from das_spark.estimation import FamilyPlan


#: Families of a nation with twice as many cells were certified by none of the solvers that take a prior.
_MOST_CELLS: Final = 2**18


class BlueDown:
    """Top-down from best linear unbiased estimates (Ghazi et al. 2026; estimation/README.md, sections 13 to 15).

    The pass upwards leaves the lowest level out where that is measured as lazily as for TopDown, and begins with it
    where all its rows are measured; its families are those of TopDown in any case. All others are sought in the
    precision of everything that is known of them and below.
    """

    needs: Final = Needs(
        upward="inner",
        reads_everything=True,
        solvers=("projected", "batched", "structured", "interior", "piqp", "clarabel", "osqp"),
        most_sites=MOST_SITES,
        most_cells=_MOST_CELLS,
    )

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        """What the children and all below them say of their parent; of the children, what lies below them."""
        return upward(family, plan)

    def estimate(self, families: Sequence[MeasuredFamily], plan: FamilyPlan) -> Sequence[FamilyEstimate]:
        """Estimate the children of families; of the lowest level, which nothing is known below, as TopDown does."""
        problems = [family.problem for family in families]
        if not plan.lowest:
            algebra = decomposition(plan)
            priors = [FamilyPrior.of(family.problem, below_children(family, algebra), algebra) for family in families]
            problems = [replace(problem, prior=prior) for problem, prior in zip(problems, priors, strict=True)]
        return [FamilyEstimate(family) for family in estimate_families(problems, plan)]
