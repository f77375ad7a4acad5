"""Readers of confidential input: files in, counts by leaf geounit and cell out, all checks passed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from das_spark.errors import ConfigurationError
from das_spark.io.readers.base import BadInputError, IngestedTables, Problem, Reader
from das_spark.io.readers.cef_2020 import Cef2020
from das_spark.io.readers.ipums_1940 import Ipums1940
from das_spark.io.readers.pl94_summary import Pl94Summary
from das_spark.io.readers.simulated import Simulated
from das_spark.io.readers.tidy_counts import TidyCounts
from das_spark.io.readers.tidy_records import TidyRecords

if TYPE_CHECKING:
    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

__all__ = ["READERS", "BadInputError", "IngestedTables", "Problem", "Reader", "look", "reader"]

_ALL: tuple[Reader, ...] = (
    Ipums1940(),
    Cef2020(),
    Pl94Summary(),
    TidyCounts(),
    TidyRecords(),
    Simulated(),
)

READERS: Mapping[str, Reader] = MappingProxyType({each.name: each for each in _ALL})
"""Every reader by its name in ``input.reader``."""


def reader(name: str) -> Reader:
    """Find a reader.

    Args:
        name: As in ``input.reader``.

    Raises:
        ConfigurationError: There is none of that name; the nearest is named.
    """
    if name in READERS:
        return READERS[name]
    near = get_close_matches(name, READERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(READERS)}"
    raise ConfigurationError(f"input.reader: no reader {name!r}", hint=hint)


def look(settings: InputSettings, product: Product, spine: Spine) -> None:
    """See, cheaply and without Spark, whether the input of a run is there and begins as its reader expects.

    Args:
        settings: How the run reads its input.
        product: What it publishes.
        spine: Its levels.

    Raises:
        DasError: As `Reader.look`.
    """
    reader(settings.reader).look(settings, product, spine)
