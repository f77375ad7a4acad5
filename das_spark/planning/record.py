"""What a run would measure, how exactly, and at what expense of privacy, as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from das_spark.config import (
    ANSWERS_ALONE,
    USUAL_LEVEL,
    errors_of_tables,
    expected_errors,
    extent_of_loss,
    geounit_sentences,
    held_sentence,
    holding_losses,
    levels_together,
    plan_to_config,
    published_from_people,
    rules_from_people,
    widths_of_intervals,
)
from das_spark.planning.gain import holds_for
from das_spark.planning.unused import unused_shares
from das_spark.privacy import (
    POWERS,
    PUBLISHED_DELTA,
    TYPE_ONE,
    DiscreteLaplace,
    Framework,
    compose_exactly,
    compositions_of,
    epsilon_bun_steinke,
    epsilon_cks,
    joint_costs,
    worst_odds,
)

if TYPE_CHECKING:
    from das_spark.config import JointPlan, RunPlan
    from das_spark.planning.geounits import GeounitCounts
    from das_spark.privacy import Mechanism


_ANSWER_BYTES = 8


#: Of estimation, a cell: the dearest measured family of interior points takes 9 microseconds (tests/benchmarks).
_CELL_SECONDS = 1e-5


def plan_record(plan: RunPlan, geounits: GeounitCounts) -> dict[str, Any]:
    """Return the plan as JSON values."""
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
        "replaced": _replaced(plan),
        "measurements": [
            _measurement(plan, level.geolevel, item.query) for level in budget.levels for item in level.queries
        ],
        "geolevels": [_geolevel(plan, level.name, geounits) for level in plan.spine.levels],
        "conversions": _conversions(plan),
        "exact": _exact(plan),
        "losses": _losses(plan),
        "passes": config["estimation"]["passes"],
        "estimation": levels_together(plan),
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
        "held_to": _held_to(plan),
        "intervals": _intervals(plan, geounits.counts),
        "warnings": [share.sentence(plan.budget.framework.symbol) for share in unused_shares(plan, geounits.counts)],
    }


def joint_record(plan: JointPlan) -> dict[str, Any]:
    """Return the cost of the parts of a joint run together, as JSON values."""
    total_is = ANSWERS_ALONE if any(part.acknowledged for part in plan.parts.values()) else ""
    return {"run": plan.name, **joint_costs([part.budget for part in plan.parts.values()]), "total_is": total_is}


def _replaced(plan: RunPlan) -> str:
    """In what neighbours differ."""
    records = plan.product.records
    if records.at_most == 1:
        return "one record replaced"
    return f"all records of one {records.contributed_by} replaced, {records.at_most} at most"


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


def _geolevel(plan: RunPlan, geolevel: str, geounits: GeounitCounts) -> dict[str, Any]:
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


def _held_to(plan: RunPlan) -> str:
    """Which published counts the estimates are held to, and from where they are taken; empty without any."""
    sentence = held_sentence(plan.product)
    if not sentence:
        return ""
    if plan.published_part:
        return f"{sentence} They are taken from part {plan.published_part!r} of this joint run, when it is done."
    return f"{sentence} They are taken from {plan.input.published}."


def _conversions(plan: RunPlan) -> list[dict[str, Any]]:
    """Epsilon at the published delta by both conversions; none for pure differential privacy."""
    if plan.budget.framework is Framework.PURE_DP:
        return []
    rho, delta = plan.budget.total, PUBLISHED_DELTA
    return [
        {"conversion": "Canonne, Kamath, Steinke (2020)", "delta": float(delta), "epsilon": epsilon_cks(rho, delta)},
        {"conversion": "Bun, Steinke (2016)", "delta": float(delta), "epsilon": epsilon_bun_steinke(rho, delta)},
    ]


def _exact(plan: RunPlan) -> dict[str, Any] | None:
    """What all measured answers cost by their exact composition, in certified bounds; None where it is not known."""
    composed = compose_exactly([plan.budget])
    if composed is None:
        return None
    found = composed.epsilon(PUBLISHED_DELTA)
    low, high = composed.trade_off(np.array(TYPE_ONE))
    return {
        "delta": float(PUBLISHED_DELTA),
        "epsilon_at_least": found.low,
        "epsilon_at_most": found.high,
        "trade_off": [
            {"type_one_error": each, "type_two_at_least": least, "type_two_at_most": most}
            for each, least, most in zip(TYPE_ONE, low.tolist(), high.tolist(), strict=True)
        ],
        "odds_at_most": {str(power): odds for power, odds in zip(POWERS, _odds(plan), strict=True)},
        # Where a spine is made of areas, the statement of the run has the worst pair of its paths.
        "holds_for": holds_for([plan]),
    }


def _odds(plan: RunPlan) -> tuple[float, ...]:
    return worst_odds(compositions_of(plan.budget), plan.budget.framework, plan.budget.total)


def _intervals(plan: RunPlan, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expected widths of intervals by table and geolevel; none where it is not known how many geounits there are."""
    level = plan.output.interval_level or USUAL_LEVEL
    tables, found = plan.product.tables, []
    for of, errors in errors_of_tables(expected_errors(plan, counts, tables), tables, plan.spine):
        widths = widths_of_intervals(errors.everywhere, plan, level)
        alone = widths_of_intervals(errors.first_class, plan, level)
        found.append(
            {
                "table": of.name,
                "geolevel": errors.geolevel,
                "level": str(level),
                "total": float(widths[0]),
                "mean_of_columns": float(widths.mean()),
                "total_first_class": float(alone[0]),
                "mean_of_columns_first_class": float(alone.mean()),
            }
        )
    return found


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
            "exact_delta": float(PUBLISHED_DELTA),
            "exact_epsilon_at_most": None if loss.exact is None else loss.exact.high,
            "odds_at_most": {str(power): odds for power, odds in zip(POWERS, loss.odds, strict=True)},
        }
        for what, loss in about
    ]
