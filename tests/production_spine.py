"""What a run file needs of a product besides: a production spine for its strategy, and counts that it is held to."""

from __future__ import annotations

from typing import Any

from das_spark.products import PRODUCTS


def geography_of(product: str, strategy: str) -> dict[str, Any]:
    """`[geography]` of a run with the strategy; empty where the census spine serves."""
    levels = {level.name for level in PRODUCTS[product].geolevels}
    if levels.issuperset(PRODUCTS[product].strategies[strategy].geolevels):
        return {}
    return {"spine": "dhc", "reader": "tidy", "path": "areas.csv"}


def published_of(product: str) -> dict[str, Any]:
    """What `[input]` names of a run whose counts the product is held to; empty where there are none."""
    return {} if PRODUCTS[product].published is None else {"published": "runs/before"}
