"""Readers: files in; confidential counts, or public geography, out, all checks passed. One module a format.

A reader of confidential input (`READERS`) reads persons, units and the geounits that exist, and gives counts by leaf
geounit and cell; a reader of geography (`GEOGRAPHY_READERS`) gives every block with the entities that it lies in.
Whatever is wrong in the rows of files is refused together (`das_spark.spark.problems`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from das_spark.errors import ConfigurationError, did_you_mean
from das_spark.spark.readers.base import EntityBlocks, GeographyReader, IngestedTables, Reader
from das_spark.spark.readers.block_assignment import BlockAssignment
from das_spark.spark.readers.cef_2020 import Cef2020
from das_spark.spark.readers.grfc import Grfc
from das_spark.spark.readers.ipums_1940 import Ipums1940
from das_spark.spark.readers.pl94 import Pl94Summary
from das_spark.spark.readers.pl94_header import Pl94Header
from das_spark.spark.readers.published import PublishedTables
from das_spark.spark.readers.simulated import Simulated
from das_spark.spark.readers.tidy import TidyCounts, TidyRecords
from das_spark.spark.readers.tidy_areas import Tidy, look_at_crosswalk, read_crosswalk, read_quarters

if TYPE_CHECKING:
    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

_Kind = TypeVar("_Kind")

__all__ = [
    "GEOGRAPHY_READERS",
    "READERS",
    "EntityBlocks",
    "GeographyReader",
    "IngestedTables",
    "Reader",
    "geography_reader",
    "look",
    "look_at_crosswalk",
    "read_crosswalk",
    "read_quarters",
    "reader",
]

_READERS: tuple[Reader, ...] = (
    Ipums1940(),
    Cef2020(),
    Pl94Summary(),
    TidyCounts(),
    TidyRecords(),
    PublishedTables(),
    Simulated(),
)
_OF_GEOGRAPHY: tuple[GeographyReader, ...] = (Grfc(), Pl94Header(), BlockAssignment(), Tidy())

READERS: Mapping[str, Reader] = MappingProxyType({each.name: each for each in _READERS})
"""Every reader of confidential input by its name in ``input.reader``."""

GEOGRAPHY_READERS: Mapping[str, GeographyReader] = MappingProxyType({each.name: each for each in _OF_GEOGRAPHY})
"""Every reader of public geography by its name."""


def reader(name: str) -> Reader:
    """Find a reader of confidential input by its name in ``input.reader``.

    Raises:
        ConfigurationError: There is none of that name; the nearest is offered.
    """
    return _named(READERS, name, "input.reader: no reader")


def geography_reader(name: str) -> GeographyReader:
    """Find a reader of geography.

    Raises:
        ConfigurationError: There is none of that name; the nearest is offered.
    """
    return _named(GEOGRAPHY_READERS, name, "no reader of geography is called")


def _named(readers: Mapping[str, _Kind], name: str, problem: str) -> _Kind:
    if name in readers:
        return readers[name]
    hint = did_you_mean(name, readers, 0.0)
    raise ConfigurationError(f"{problem} {name!r}; known: {', '.join(readers)}", hint=hint)


def look(settings: InputSettings, product: Product, spine: Spine) -> None:
    """See, cheaply and without Spark, whether the input of a run is there and begins as expected: `Reader.look`."""
    reader(settings.reader).look(settings, product, spine)
