"""The geographic header of the official P.L. 94-171 summary files of 2020: blocks with their entities."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.io.input_fields import Names, sixteen
from das_spark.io.input_files import require_path
from das_spark.io.input_places import is_folder
from das_spark.spark.readers._areas import (
    STATUS_NOTE,
    STATUS_OF,
    AreaLines,
    BlockPass,
    areas_of,
    filled_codes,
    read_blocks,
    status_of,
)
from das_spark.spark.readers._passes import Rule
from das_spark.spark.readers._pl94_files import BLOCK_LEVEL, HEADER, HEADER_PLACES, lines_of, summary_files
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.io.input_fields import Rows

#: Column of the entities -> name and 0-based place in a row of the header.
_FIELDS: Final[Mapping[str, tuple[str, int]]] = {
    "aiannhce": ("AIANHH", 35),
    "cousubfp": ("COUSUB", 17),
    "placefp": ("PLACE", 29),
    "sdunilea": ("SDUNI", 82),
    "sdseclea": ("SDSEC", 81),
    "sdelmlea": ("SDELM", 80),
}


class Pl94Header:
    """The reader of `<st>geo2020.pl`: rows of summary level 750, 97 columns delimited by ``|``, in Latin-1.

    The column FUNCSTAT of a block's row is that of the block. So every place and county subdivision that a block lies
    in counts as functioning ("A"), statistical ones too; `notes` of the result say so.
    """

    name = "pl94_header"

    def files(self, path: str) -> list[str]:
        """See `GeographyReader`."""
        return self._paths(path)

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        for file in self._paths(path):
            HEADER.look(file)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read one header, or those of all states in a folder; see `GeographyReader`."""
        lines = lines_of(self._paths(path))
        table = Reading(Names(path, (), self.name), _HeaderLines(), lines)
        once = Rule(path, "GEOCODE", "each block once")
        return EntityBlocks(read_blocks(spark, path, [table], BlockPass.of_areas(once)), (STATUS_NOTE,))

    @staticmethod
    def _paths(path: str) -> list[str]:
        require_path(path)
        if not is_folder(path):
            return [path]
        files = [file for file in summary_files(path) if fnmatch(file.rsplit("/", 1)[-1].lower(), HEADER.pattern)]
        if not files:
            raise InputError(f"{path}: no geographic header ({HEADER.pattern})", hint="unzip the files of the states")
        return files


class _HeaderLines(AreaLines):
    """Lines of blocks, among those of other summary levels."""

    __slots__ = ()

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        places = {name: HEADER_PLACES[name] for name in ("SUMLEV", "GEOCODE")} | dict(_FIELDS.values())
        lines = HEADER.line(places).cut(rows, tuple(places))
        is_block = np.asarray(pc.equal(lines.column("SUMLEV"), BLOCK_LEVEL))
        columns = {name: lines.column(name).filter(pa.array(is_block)) for name in places}
        blocks = lines.of(is_block, columns)
        fields = {name: (field, blocks.column(field)) for name, (field, _) in _FIELDS.items()}
        for name, code in STATUS_OF.items():
            field, texts = fields[code]
            fields[name] = (field, status_of(filled_codes(texts, code), name))
        return areas_of(blocks, sixteen(blocks.column("GEOCODE")), "GEOCODE", fields)
