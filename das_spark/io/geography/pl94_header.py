"""The geographic header of the official P.L. 94-171 files of 2020: blocks with their entities, one file a state."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.geography._entities import Rows, checked, sixteen
from das_spark.io.geography.base import ACTIVE, NO_STATUS, NOTHING, STATUS_OF, EntityBlocks
from das_spark.io.readers._begin import data_files, first_line
from das_spark.io.readers._pl94_files import BLOCK, GEO
from das_spark.io.readers._rows import Check, with_place
from das_spark.io.readers._sources import files_in, is_folder, require_path

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_SUMMARY_LEVEL: Final = 2
_GEOCODE: Final = 9
#: Column of the entities -> name and 0-based place in a row of the header.
_FIELDS: Final[Mapping[str, tuple[str, int]]] = {
    "aiannhce": ("AIANHH", 35),
    "cousubfp": ("COUSUB", 17),
    "placefp": ("PLACE", 29),
    "sdunilea": ("SDUNI", 82),
    "sdseclea": ("SDSEC", 81),
    "sdelmlea": ("SDELM", 80),
}

STATUS_NOTE: Final = (
    "the files do not give the functional status of places and county subdivisions: each counts as functioning"
)


class Pl94Header:
    """The reader of `<st>geo2020.pl`: rows of summary level 750, 97 columns delimited by ``|``, in Latin-1.

    The column FUNCSTAT of a block's row is that of the block. So every place and county subdivision that a block lies
    in counts as functioning ("A"), statistical ones too; `notes` of the result say so.
    """

    name = "pl94_header"

    def look(self, path: str) -> None:
        """See whether there is a header of the right number of columns; see `GeographyReader`.

        Args:
            path: A header, or a folder that holds those of all states.

        Raises:
            InputError: See `GeographyReader`.
        """
        for each in self._paths(None, path):
            for file in data_files(each):
                columns = first_line(file, utf8=False).count("|") + 1
                if columns != GEO.columns:
                    hint = "is it a geographic header of 2020 (<st>geo2020.pl)?"
                    raise InputError(f"{file}: {columns} columns in its first line, expected {GEO.columns}", hint=hint)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read one header, or those of all states in a folder; see `GeographyReader`.

        Args:
            spark: The session.
            path: A header, or a folder that holds those of all states.

        Raises:
            InputError: See `GeographyReader`.
        """
        paths = self._paths(spark, path)
        placed = with_place(spark.read.option("encoding", "ISO-8859-1").text(paths))
        parts = F.split("value", r"\|", -1)
        whole = F.size(parts) == GEO.columns
        fields = {name: (field, F.get(parts, F.lit(place))) for name, (field, place) in _FIELDS.items()}
        rows = Rows(
            file=path,
            placed=placed,
            whole=whole,
            is_block=F.get(parts, F.lit(_SUMMARY_LEVEL)) == BLOCK,
            geocode=sixteen(F.get(parts, F.lit(_GEOCODE))),
            geocode_field="GEOCODE",
            fields=fields | functioning(fields),
            checks=(Check(path, "", f"{GEO.columns} columns", ~whole),),
        )
        return checked(rows, (STATUS_NOTE,))

    @staticmethod
    def _paths(spark: SparkSession | None, path: str) -> list[str]:
        require_path(path)
        if not is_folder(path):
            return [path]
        found = [each for each in files_in(spark, path) if fnmatch(each.rsplit("/", 1)[-1].lower(), GEO.pattern)]
        if not found:
            raise InputError(f"{path}: no geographic header ({GEO.pattern})", hint="unzip the files of the states")
        return found


def functioning(fields: Mapping[str, tuple[str, Column]]) -> dict[str, tuple[str, Column]]:
    """Columns of functional status for files that have none: active where there is an entity.

    Args:
        fields: Column of the entities -> what the file calls it, and its text; places and county subdivisions among
            them.

    Returns:
        Column of functional status -> what the file calls the code of that entity, and the status.
    """
    status = {}
    for name, code in STATUS_OF.items():
        field, text = fields[code]
        nowhere = F.coalesce(F.trim(text), F.lit("")).isin("", NOTHING[code])
        status[name] = (field, F.when(nowhere, F.lit(NO_STATUS)).otherwise(F.lit(ACTIVE)))
    return status
