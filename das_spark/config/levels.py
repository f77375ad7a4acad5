"""What a plan says of the families of each level: how they are measured, with which noise, and how estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from das_spark.config.plan import RunPlan
from das_spark.config.published import held_counts
from das_spark.core import ESTIMATORS, LevelPlan, LevelStep, MeasurementPlan, Needs, level_steps
from das_spark.estimation import FamilyPlan
from das_spark.privacy import KeyedStream, RunKey, StreamDomain, cumulative_table


def steps_of(plan: RunPlan) -> tuple[LevelStep, ...]:
    """The steps through the levels of a run, in order, as its estimator needs them."""
    return level_steps(plan.spine.names, needs_of(plan))


def needs_of(plan: RunPlan) -> Needs:
    """What the estimator of a run needs; where all rows are measured anyhow, it goes upwards from the lowest level."""
    needs = ESTIMATORS[plan.estimation.estimator].needs
    is_complete = needs.upward == "inner" and plan.measurement_rows == "all"
    return replace(needs, upward="all") if is_complete else needs


def levels_together(plan: RunPlan) -> str:
    """Which levels were in the pass upwards and which was not, as a sentence for readers; empty without such a pass."""
    names = plan.spine.names
    upward = needs_of(plan).upward_levels(names)
    if not upward:
        return ""
    *others, last = upward
    listed = f"{', '.join(others)} and {last}" if others else last
    sentence = (
        f"The measurements of {listed} are combined in a pass upwards before the first estimate, so that each of these"
        " geolevels is estimated from its own measurements and those of all below it in the pass"
    )
    leaf = plan.spine.leaf.name
    if leaf in upward:
        return f"{sentence}."
    return (
        f"{sentence}; {leaf}, the lowest geolevel, is left out of the pass: it is measured after {last} is estimated,"
        f" without the answers that the estimates of {last} cannot touch, and estimated as by TopDown."
    )


def lazy_levels(plan: RunPlan) -> tuple[str, ...]:
    """Levels of which answers that the parents' estimates cannot touch, and single children, are not measured."""
    names = plan.spine.names
    return tuple(
        name for name in names[1:] if plan.measurement_rows == "support" and not needs_of(plan).all_rows(name, names)
    )


def level_plan(plan: RunPlan, geolevel: str) -> LevelPlan:
    """How the families of a level are estimated."""
    schema = plan.product.schema
    queries = {query.query: plan.queries[query.query] for query in plan.budget.level(geolevel).queries}
    queries["total"] = schema.query("total")
    classes = schema.query(plan.product.class_query) if plan.product.class_query else None
    if classes is not None:
        queries["class"] = classes
    queries |= {f"added:{each.name}": schema.query(each.query) for each in plan.added}
    held = held_counts(plan.product, units=plan.invariants.units)
    if held is not None:
        queries[held.name] = held.query
    passes = plan.estimation.passes.get(geolevel, ())
    return LevelPlan(
        size=schema.size,
        queries=queries,
        family=FamilyPlan(
            geolevel=geolevel,
            lowest=geolevel == plan.spine.leaf.name,
            zero_cells=np.flatnonzero(plan.product.zero_cells()).astype(np.int32),
            solvers=plan.estimation.solvers,
            gap_tolerance=plan.estimation.gap_tolerance,
            rounding=plan.estimation.rounding,
            failsafe=plan.estimation.failsafe,
            accept_uncertified=plan.estimation.accept_uncertified,
            classes=classes,
            passes=passes,
            queries={name: schema.query(name) for each in passes for name in each.names},
            workload=tuple(plan.queries.values()),
        ),
        estimator=ESTIMATORS[plan.estimation.estimator],
        held=held,
    )


def measurement_plan(
    plan: RunPlan, geolevel: str, shares: Mapping[str, Fraction], key: RunKey, attempt: int
) -> MeasurementPlan:
    """How the families of a level are measured.

    Args:
        plan: The run.
        geolevel: The level of the children.
        shares: Shares of the budget that its geounits have, by their text; "" stands for the level's.
        key: The run key.
        attempt: Number of the attempt at measuring the level.
    """
    queries = {query.query: plan.queries[query.query] for query in plan.budget.level(geolevel).queries}
    mechanisms = {}
    for share, part in shares.items():
        noise = {name: plan.budget.mechanism_at(geolevel, name, part) for name in queries}
        mechanisms[share] = {name: (cumulative_table(each), each.variance()) for name, each in noise.items()}
    return MeasurementPlan(
        queries=queries,
        mechanisms=mechanisms,
        streams=noise_streams(plan, geolevel, key, attempt),
        lazy=geolevel in lazy_levels(plan),
    )


def noise_streams(plan: RunPlan, geolevel: str, key: RunKey, attempt: int) -> dict[str, KeyedStream]:
    """The random bits of every query of a level, under one key."""
    # A test key exists to repeat a run byte for byte, so a repeated draw repeats the draw.
    number = 0 if key.is_insecure else attempt
    # Product and record are part of the domain: persons and units never share bits.
    return {
        query.query: key.derive(StreamDomain(plan.product.name, plan.product.record, geolevel, number, query.query))
        for query in plan.budget.level(geolevel).queries
    }
