"""The total that an epsilon allows by exact composition, and how much less noise that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import JointPlan, RunPlan, plans_in
from das_spark.privacy import compose_exactly, totals_at

if TYPE_CHECKING:
    from das_spark.privacy import Budget


_SHARES_AS_WRITTEN: Final = "all measured answers"


_SHARES_BEFORE_THE_SPINE: Final = (
    "all measured answers of geounits that have the share of their geolevel; when the spine is made, the statement has"
    " the worst of its paths"
)


def holds_for(plans: Sequence[RunPlan]) -> str:
    """Say of which answers an exact composition tells that is computed before spines are made."""
    return _SHARES_AS_WRITTEN if all(plan.spine.is_census for plan in plans) else _SHARES_BEFORE_THE_SPINE


def gain_record(loaded: RunPlan | JointPlan, epsilon: Fraction, delta: Fraction) -> dict[str, Any]:
    """Find the totals that have an epsilon by exact composition, and the noise they would buy, as JSON values."""
    plans = plans_in(loaded)
    totals = totals_at([plan.budget for plan in plans], epsilon, delta)
    budgets = [replace(plan.budget, total=total) for plan, total in zip(plans, totals, strict=True)]
    composed = compose_exactly(budgets)
    return {
        "run": loaded.name,
        "epsilon": str(epsilon),
        "delta": str(delta),
        "exact_epsilon_at_most": None if composed is None else composed.epsilon(delta).high,
        "holds_for": holds_for(plans),
        "parts": [
            {
                "run": plan.name,
                "framework": str(plan.budget.framework),
                "total": str(plan.budget.total),
                "total_at_epsilon": str(budget.total),
                "measurements": [
                    {"geolevel": level.geolevel, "query": item.query}
                    | _gain(plan.budget, budget, level.geolevel, item.query)
                    for level in budget.levels
                    for item in level.queries
                ],
            }
            for plan, budget in zip(plans, budgets, strict=True)
        ],
    }


def _gain(before: Budget, after: Budget, geolevel: str, query: str) -> dict[str, Any]:
    was, now = (math.sqrt(each.mechanism(geolevel, query).variance()) for each in (before, after))
    return {"standard_deviation": was, "standard_deviation_at_epsilon": now, "change": now / was - 1 if was else 0.0}
