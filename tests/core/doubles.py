"""An estimator with an upward pass and standard errors: what the seam between levels must carry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from das_spark.core import FamilyEstimate, MeasuredFamily, Needs, UpwardResult
from das_spark.estimation import FamilyPlan, estimate_family

TOTAL = "total"


class TotalsFromAllLevels:
    """Counts of TopDown; beside them the best linear unbiased estimate of every geounit's total, from all levels.

    Upward, own answers are combined with the sum of the children's; downward, each child takes its part of what its
    parent knows better (generalised least squares on a tree, one number a geounit).
    """

    def __init__(self, upward: str = "all") -> None:
        self.needs = Needs(upward=upward, arrays=("mean", "standard_error"))

    def upward(self, family: MeasuredFamily, plan: FamilyPlan) -> UpwardResult:
        values, variance = _own(family)
        children = []
        for position, below in enumerate(family.upward or [{}] * len(values)):
            mean, own = values[position], variance[position]
            if below:
                weight = 1 / own + 1 / below["variance"][0]
                mean = (mean / own + below["mean"][0] / below["variance"][0]) / weight
                own = 1 / weight
            children.append({"mean": np.array([mean]), "variance": np.array([own])})
        parent = {name: np.array([sum(child[name][0] for child in children)]) for name in ("mean", "variance")}
        return UpwardResult(children, parent)

    def estimate(self, families: Sequence[MeasuredFamily], plan: FamilyPlan) -> list[FamilyEstimate]:
        return [self._estimate(family, plan) for family in families]

    def _estimate(self, family: MeasuredFamily, plan: FamilyPlan) -> FamilyEstimate:
        result = estimate_family(family.problem, plan)
        if not family.upward:  # of a level that did not go upwards nothing is known but its parent
            children = len(family.problem.children)
            mean, error = (family.parent[name] / children for name in ("mean", "standard_error"))
            return FamilyEstimate(result, [{"mean": mean, "standard_error": error}] * children)
        means = np.array([each["mean"][0] for each in family.upward])
        variances = np.array([each["variance"][0] for each in family.upward])
        if family.parent is not None:
            share = variances / variances.sum()
            means = means + share * (family.parent["mean"][0] - means.sum())
            variances = variances - share**2 * (variances.sum() - family.parent["standard_error"][0] ** 2)
        arrays = [
            {"mean": np.array([mean]), "standard_error": np.array([np.sqrt(variance)])}
            for mean, variance in zip(means, variances, strict=True)
        ]
        return FamilyEstimate(result, arrays)


def _own(family: MeasuredFamily) -> tuple[np.ndarray, np.ndarray]:
    """The noisy total of each child, from the answers of its partition of all cells, and its variance."""
    values = variance = None
    for measurement in family.problem.measurements:
        if len(measurement.rows) == measurement.query.rows:
            values, variance = (
                measurement.values.sum(axis=1).astype(np.float64),
                measurement.variance * len(measurement.rows),
            )
    return values, variance
