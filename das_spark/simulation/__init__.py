"""Populations that nobody lives in: the one room where numpy's random numbers are allowed.

:data:`LIKES` names them; each is made in independent parts (one, or one a state), the same for the same seed and share.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from das_spark.simulation.census_1940 import CENSUS_1940
from das_spark.simulation.census_2020 import CENSUS_2020, STATE_2020
from das_spark.simulation.population import Kind, Population, share_of
from das_spark.simulation.quickstart import QUICKSTART

__all__ = ["LIKES", "Kind", "Population", "parts_of", "share_of"]

LIKES: Mapping[str, Kind] = MappingProxyType(
    {kind.name: kind for kind in (QUICKSTART, CENSUS_1940, CENSUS_2020, STATE_2020)}
)
"""Every kind of population by its name."""


def parts_of(like: str, share: Fraction) -> tuple[int, ...]:
    """Numbers of the parts of a population.

    Args:
        like: Its name.
        share: Of the whole.
    """
    return LIKES[like].parts(share)
