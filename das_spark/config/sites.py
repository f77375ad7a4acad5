"""Whether the covariances of a workload are matrices that a task can hold, known before anything is spent."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation import Decomposition

if TYPE_CHECKING:
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
        f"{len(each.sizes)} of {name}"
        for name, each in zip(names, algebra.attributes, strict=True)
        if len(each.sizes) > 1
    ]
    return (
        f"holds for each geounit a matrix of all combinations of levels that the measured queries tell apart, and these"
        f" are {algebra.sites:,} ({', '.join(apart)}), more than {most:,}"
    )
