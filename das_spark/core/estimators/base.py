"""What an estimator is, and what it declares: the order of the steps of a run follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from das_spark.core.family import FamilyEstimate, MeasuredFamily, UpwardResult
    from das_spark.estimation import FamilyPlan


@dataclass(frozen=True, slots=True)
class Needs:
    """What an estimator needs.

    Attributes:
        rows: Whether it reads every answer of every query, or those that the parent's estimate can touch.
        upward: Levels through which it goes upwards before the first of them is estimated from the top: "none", "inner"
            (all but the lowest, or all in a run that measures all rows of it, too) or "all". They are measured first,
            and all rows of them: there is no estimate yet.
        arrays: Names of the arrays that it gives with the estimate of a geounit (`FamilyEstimate.arrays`).
        reads_everything: Whether it reads all that is measured at the levels of its upward pass: of single children,
            too, whose estimates are their parents', and queries that no pass of the level fits.
        solvers: The chain of solvers of a run that names none.
        most_sites: Most combinations of levels that the measured queries of a run may tell apart, so that covariances
            are matrices that a task can hold (`das_spark.estimation.Decomposition`); None where it makes none.
        most_cells: Most cells of a schema whose families its solvers take; None where they take any.
    """

    rows: Literal["support", "all"] = "support"
    upward: Literal["none", "inner", "all"] = "none"
    arrays: tuple[str, ...] = ()
    reads_everything: bool = False
    solvers: tuple[str, ...] = ("projected", "batched", "piqp", "clarabel", "osqp")
    most_sites: int | None = None
    most_cells: int | None = None

    def upward_levels(self, levels: Sequence[str]) -> tuple[str, ...]:
        """The levels of the upward pass, from the top; none where there is no such pass."""
        return {"none": (), "inner": tuple(levels[:-1]), "all": tuple(levels)}[self.upward]

    def all_rows(self, geolevel: str, levels: Sequence[str]) -> bool:
        """Whether a level must be measured on all rows."""
        return self.rows == "all" or geolevel in self.upward_levels(levels)


class Estimator(Protocol):
    """Makes estimates of the children of a family from what is public. Picklable, since tasks receive it."""

    @property
    def needs(self) -> Needs:
        """What it needs."""

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        """Carry what is known of a family upwards; never asked of an estimator without an upward pass.

        Args:
            family: Its measurements, and what came from below; it has no estimate of its parent.
            plan: How the families of the level are estimated.
        """

    def estimate(self, families: Sequence[MeasuredFamily], plan: FamilyPlan) -> Sequence[FamilyEstimate]:
        """Estimate the children of families, each by itself: what one gets does not depend on the others.

        Args:
            families: Their measurements, the estimates of their parents, and what the upward pass found.
            plan: How the families of the level are estimated.

        Returns:
            For each family whole numbers with a status; one that is infeasible or unsolved is no error here.
        """
