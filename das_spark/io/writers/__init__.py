"""Writers of microdata; a flavour is one module and one line here."""

from collections.abc import Mapping
from types import MappingProxyType

from das_spark.io.writers.base import Flavour, Rows, Sink
from das_spark.io.writers.parquet import ParquetFlavour
from das_spark.io.writers.ppmf import PpmfFlavour
from das_spark.io.writers.text import TextFlavour

WRITERS: Mapping[str, Flavour] = MappingProxyType(
    {flavour.name: flavour for flavour in (ParquetFlavour(), TextFlavour(), PpmfFlavour())}
)

__all__ = ["WRITERS", "Flavour", "ParquetFlavour", "PpmfFlavour", "Rows", "Sink", "TextFlavour"]
