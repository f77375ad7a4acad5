"""Readers of public geography: files in, every block with the entities that it lies in out, all checks passed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from das_spark.errors import ConfigurationError
from das_spark.io.geography._companions import look_at_crosswalk, read_crosswalk, read_quarters
from das_spark.io.geography.base import (
    NO_STATUS,
    NOTHING,
    EntityBlocks,
    GeographyReader,
)
from das_spark.io.geography.block_assignment import BlockAssignment
from das_spark.io.geography.grfc import Grfc
from das_spark.io.geography.pl94_header import Pl94Header
from das_spark.io.geography.tidy import Tidy

__all__ = [
    "GEOGRAPHY_READERS",
    "NOTHING",
    "NO_STATUS",
    "EntityBlocks",
    "GeographyReader",
    "geography_reader",
    "look_at_crosswalk",
    "read_crosswalk",
    "read_quarters",
]

_ALL: tuple[GeographyReader, ...] = (
    Grfc(),
    Pl94Header(),
    BlockAssignment(),
    Tidy(),
)

GEOGRAPHY_READERS: Mapping[str, GeographyReader] = MappingProxyType({each.name: each for each in _ALL})
"""Every reader of geography by its name."""


def geography_reader(name: str) -> GeographyReader:
    """Find a reader.

    Args:
        name: One of `GEOGRAPHY_READERS`.

    Raises:
        ConfigurationError: There is none of that name; the nearest is offered.
    """
    if name in GEOGRAPHY_READERS:
        return GEOGRAPHY_READERS[name]
    near = get_close_matches(name, GEOGRAPHY_READERS, n=1, cutoff=0.0)[0]
    raise ConfigurationError(
        f"no reader of geography is called {name!r}; known: {', '.join(GEOGRAPHY_READERS)}",
        hint=f"did you mean {near!r}?",
    )
