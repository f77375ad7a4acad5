"""The table of a run file that a strategy of a production spine needs, whose levels the census does not have."""

from __future__ import annotations

from typing import Any

from das_spark.products import PRODUCTS


def geography_of(product: str, strategy: str) -> dict[str, Any]:
    """`[geography]` of a run with the strategy; empty where the census spine serves."""
    levels = {level.name for level in PRODUCTS[product].geolevels}
    if levels.issuperset(PRODUCTS[product].strategies[strategy].geolevels):
        return {}
    return {"spine": "dhc", "reader": "tidy", "path": "areas.csv"}
