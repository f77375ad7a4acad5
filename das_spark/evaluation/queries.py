"""Which queries an accuracy report compares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from das_spark.histogram import DETAILED, SEPARATOR, TOTAL, Query, Schema

#: Attributes that say of which demographic group somebody is: Hispanic origin and race.
_DEMOGRAPHIC: Final = ("hispanic", "cenrace", "race")


def total_of(query: Query) -> Query:
    """The query of the total on the schema of another one.

    Args:
        query: Any query of the schema.
    """
    return Query(TOTAL, query.shape, tuple(np.zeros(size, dtype=np.int64) for size in query.shape))


def demographic_groups(schema: Schema) -> Query | None:
    """The groups among which the largest is compared: origin by race, as far as the schema has them; else None.

    Args:
        schema: Of the product.
    """
    names = [attribute.name for attribute in schema.attributes if attribute.name in _DEMOGRAPHIC]
    return schema.query(SEPARATOR.join(names)) if names else None


def compared_queries(schema: Schema, measured: Iterable[str], strata: str) -> tuple[Query, ...]:
    """All that is compared in every geolevel: what is measured, and what every report holds.

    Args:
        schema: Of the product.
        measured: Spelling of the queries that the run measures, in any geolevel.
        strata: The query of the stratified counts.

    Returns:
        The total, the strata, what is measured, each attribute, the demographic groups and the detailed query: each
        once, under the first of its names, the fewest answers first.

    Raises:
        QueryError: A query names what the schema does not have.
    """
    groups = demographic_groups(schema)
    spelled = [TOTAL, strata, *measured, *(attribute.name for attribute in schema.attributes)]
    return in_order([*map(schema.query, spelled), *([groups] if groups else []), schema.query(DETAILED)])


def in_order(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Queries once each, under the first of their names; the fewest answers first.

    Args:
        queries: Of one schema; those that have the same answers count as one.
    """
    return tuple(sorted(dict.fromkeys(queries), key=lambda query: query.rows))
