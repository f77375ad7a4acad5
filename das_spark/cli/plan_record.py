"""A plan as JSON values: every number that is known before anything is read or spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from das_spark.cli.unread import unread_shares
from das_spark.config import (
    ANSWERS_ALONE,
    extent_of_loss,
    geounit_sentences,
    holding_losses,
    plan_to_config,
    published_from_people,
    rules_from_people,
)
from das_spark.privacy import PUBLISHED_DELTA, DiscreteLaplace, Framework, epsilon_bun_steinke, epsilon_cks, joint_costs

if TYPE_CHECKING:
    from das_spark.cli.geounits import Geounits
    from das_spark.config import JointPlan, RunPlan
    from das_spark.privacy import Mechanism

_ANSWER_BYTES = 8
#: Of estimation, a cell: the dearest measured family of interior points takes 9 microseconds (tests/benchmarks).
_CELL_SECONDS = 1e-5


def plan_record(plan: RunPlan, geounits: Geounits) -> dict[str, Any]:
    """The plan as JSON values.

    Args:
        plan: The run.
        geounits: Sizes of the levels, as far as they are known.
    """
    budget, config = plan.budget, plan_to_config(plan)
    return {
        "run": plan.name,
        "product": {
            "name": plan.product.name,
            "title": plan.product.title,
            "counts": plan.product.counted,
            "cells": plan.product.schema.size,
        },
        "spine": config["geography"],
        "config_hash": plan.config_hash,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "total_is": extent_of_loss(plan),
        "measurements": [
            _measurement(plan, level.geolevel, item.query) for level in budget.levels for item in level.queries
        ],
        "geolevels": [_geolevel(plan, level.name, geounits) for level in plan.spine.levels],
        "conversions": _conversions(plan),
        "losses": _losses(plan),
        "passes": config["estimation"]["passes"],
        "invariants": [
            *plan.invariants.describe(
                leaf=plan.spine.leaf.name,
                counted=plan.product.counted_in_totals,
                in_parts=plan.spine.total_key_at(plan.invariants.total_at) is not None,
            ),
            *rules_from_people(plan.acknowledged),
            *geounit_sentences(plan.input),
        ],
        "from_people": published_from_people(plan.acknowledged, plan.spine.leaf.name),
        "warnings": [each.sentence(plan.budget.framework.symbol) for each in unread_shares(plan, geounits.counts)],
    }


def joint_record(plan: JointPlan) -> dict[str, Any]:
    """What the parts of a joint run cost together, as JSON values.

    Args:
        plan: The joint run.
    """
    total_is = ANSWERS_ALONE if any(each.acknowledged for each in plan.parts.values()) else ""
    return {"run": plan.name, **joint_costs([each.budget for each in plan.parts.values()]), "total_is": total_is}


def _measurement(plan: RunPlan, geolevel: str, query: str) -> dict[str, Any]:
    budget = plan.budget
    mechanism = budget.mechanism(geolevel, query)
    name, parameter = _parameter(mechanism)
    return {
        "geolevel": geolevel,
        "query": query,
        "geolevel_share": str(budget.level(geolevel).share),
        "query_share": str(budget.level(geolevel).share_of(query)),
        "spent": str(budget.spent(geolevel, query)),
        "mechanism": type(mechanism).__name__,
        name: str(parameter),
        "parameter": float(parameter),
        "standard_deviation": math.sqrt(mechanism.variance()),
        "answers_per_geounit": plan.queries[query].rows,
    }


def _parameter(mechanism: Mechanism) -> tuple[str, Any]:
    if isinstance(mechanism, DiscreteLaplace):
        return "scale", mechanism.scale
    return "sigma_squared", mechanism.sigma_squared


def _geolevel(plan: RunPlan, geolevel: str, geounits: Geounits) -> dict[str, Any]:
    answers = sum(plan.queries[item.query].rows for item in plan.budget.level(geolevel).queries)
    count = geounits.counts.get(geolevel)
    largest = geounits.largest.get(geolevel)
    return {
        "geolevel": geolevel,
        "geounits": count,
        "largest_family": largest,
        "answers_per_geounit": answers,
        "measurement_bytes_at_most": None if count is None else count * answers * _ANSWER_BYTES,
        # Most families work on fewer cells: those that their parent occupies.
        "cpu_seconds_at_most": None if count is None else count * plan.product.schema.size * _CELL_SECONDS,
        # A family is held once as measurements and a few times as variables of its problem.
        "family_bytes_at_most": None
        if largest is None
        else largest * (answers + 4 * plan.product.schema.size) * _ANSWER_BYTES,
    }


def _conversions(plan: RunPlan) -> list[dict[str, Any]]:
    """Epsilon at the published delta by both conversions; none for pure differential privacy."""
    if plan.budget.framework is Framework.PURE_DP:
        return []
    rho, delta = plan.budget.total, PUBLISHED_DELTA
    return [
        {"conversion": "Canonne, Kamath, Steinke (2020)", "delta": float(delta), "epsilon": epsilon_cks(rho, delta)},
        {"conversion": "Bun, Steinke (2016)", "delta": float(delta), "epsilon": epsilon_bun_steinke(rho, delta)},
    ]


def _losses(plan: RunPlan) -> list[dict[str, Any]]:
    attributes, within = holding_losses(plan)
    about = [("one attribute", loss) for loss in attributes] + [("place within", loss) for loss in within]
    return [
        {
            "about": what,
            "name": loss.name,
            "spent": str(loss.spent),
            "epsilon": loss.epsilon,
            "delta": float(loss.delta),
        }
        for what, loss in about
    ]
