"""Whether a workload has covariances, and whether a task can hold them, known before anything is spent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from das_spark.core.linear import MOST_SITES
from das_spark.estimation import Decomposition, determines_cells

if TYPE_CHECKING:
    from das_spark.config.plan import RunPlan
    from das_spark.histogram import Query
    from das_spark.products import Product


def too_many_sites(product: Product, queries: Collection[Query], most: int) -> str:
    """What is wrong, as a sentence without its subject, where a workload tells too many combinations of levels apart.

    Args:
        product: What the run publishes; its structural zeros and classes tell levels apart, too.
        queries: All that it measures.
        most: Most combinations.
    """
    classes = product.schema.query(product.class_query) if product.class_query else None
    zeros = np.flatnonzero(product.zero_cells()).astype(np.int32)
    algebra = Decomposition.of(tuple(queries), zeros, classes)
    if algebra.sites <= most:
        return ""
    names = [attribute.name for attribute in product.schema.attributes]
    apart = [
        f"{len(attribute.sizes)} of {name}"
        for name, attribute in zip(names, algebra.attributes, strict=True)
        if len(attribute.sizes) > 1
    ]
    return (
        f"holds for each geounit a matrix of all combinations of levels that the measured queries tell apart, and these"
        f" are {algebra.sites:,} ({', '.join(apart)}), more than {most:,}"
    )


def undetermined(plan: RunPlan, levels: Sequence[str]) -> str:
    """Return what is wrong where measurements of geolevels do not determine the counts of geounits; empty if they do.

    A geounit is known by its own answers and by its children. Those of the lowest level have no children here; and on a
    spine of areas single children are not measured, so that geounits of any level can have none.

    Args:
        plan: The run.
        levels: The geolevels that are combined, from the top.
    """
    if too_many_sites(plan.product, plan.queries.values(), MOST_SITES):
        return ""  # refused for that, and the matrices would take gigabytes
    zeros = np.flatnonzero(plan.product.zero_cells()).astype(np.int32)
    exact = plan.invariants.total_levels(plan.spine.names)
    for level in reversed(levels if not plan.spine.is_census else levels[-1:]):
        names = [item.query for item in plan.budget.level(level).queries]
        queries = [plan.queries[name] for name in names]
        if not determines_cells(queries, zeros, is_total_exact=level in exact):
            return (
                f"needs counts of all cells that the measurements determine, and those of {level} ({', '.join(names)})"
                f" do not determine them; add the query detailed to budget.level_queries.{level}"
            )
    return ""
