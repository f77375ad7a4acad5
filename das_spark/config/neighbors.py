"""The neighbours of a run: what a replaced record may change, and the partial losses that hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from das_spark.config.acknowledgements import is_void
from das_spark.privacy import UNIT, ExactCounts, NeighborRelation, attribute_losses, within_geolevel_losses

if TYPE_CHECKING:
    from fractions import Fraction

    from das_spark.config.plan import RunPlan
    from das_spark.privacy import LedgerEntry, Loss


def exact_counts(plan: RunPlan) -> ExactCounts:
    """Return what a run publishes exactly."""
    declared = plan.invariants
    return ExactCounts(
        record=plan.product.noun,
        geolevels=plan.spine.names,
        total_at=declared.total_at,
        units=declared.units,
        vacant=declared.units and declared.vacant,
    )


def neighbors_of(plan: RunPlan, held_to: Iterable[LedgerEntry] = ()) -> NeighborRelation:
    """Return the neighbour relation of a run, and of the releases whose published counts its estimates are held to.

    Args:
        plan: The run.
        held_to: Entries of these releases.
    """
    others = (entry.exact_counts for entry in held_to)
    return NeighborRelation((exact_counts(plan), *(counts for counts in others if counts is not None)))


def held_geolevel(plan: RunPlan, relation: NeighborRelation | None = None) -> str | None:
    """Return the geolevel from which on it is protected where in a geounit a record lies; None for the root.

    Args:
        plan: The run.
        relation: Of the run and what it is held to; by default of the run alone.
    """
    # A record may go from one part of an area to another, which are geounits of this level.
    exact = (relation or neighbors_of(plan)).exact_at(plan.product.noun)
    whole = [level for level in exact if level not in plan.spine.names or plan.spine.total_key_at(level) is None]
    if not whole:
        return None
    known = [level.name for level in plan.product.geolevels] if plan.spine.is_census else list(plan.spine.names)
    lowest = max(known.index(level) if level in known else len(known) for level in whole)
    # Of a level that the run does not have, or that lies below it, the next one below, or its leaf.
    return next((name for name in plan.spine.names if known.index(name) >= lowest), plan.spine.leaf.name)


def holding_losses(
    plan: RunPlan, paths: Sequence[Sequence[Fraction]] = (), relation: NeighborRelation | None = None
) -> tuple[tuple[Loss, ...], tuple[Loss, ...]]:
    """Return the partial losses that hold of everything that a run publishes: about attributes, and about the place.

    Units that follow from people tell in which geounit and in which class of unit a person lives. What is left are the
    attributes that do not decide the class. Exact numbers of occupied units tell whether a unit is occupied, and what
    else its attributes say of that: nothing is left then of a unit.

    Args:
        plan: The run.
        paths: Shares of the geounits on every path through a spine that has shares of its own.
        relation: Of the run and what it is held to; by default of the run alone.
    """
    product, found = plan.product, relation or neighbors_of(plan)
    attributes = attribute_losses(plan.budget, plan.queries, product.schema, paths=paths)
    if product.record == UNIT and found.occupied_at:
        attributes = ()
    within = within_geolevel_losses(plan.budget, paths=paths, held_within=held_geolevel(plan, found))
    if not is_void(plan):
        return attributes, within
    classes = product.schema.query(product.class_query)
    kept = tuple(loss for axis, loss in enumerate(attributes) if not classes.involves(axis))
    return kept, ()
