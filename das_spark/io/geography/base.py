"""What every reader of geography gives back: a row a block, with the entities that it lies in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from das_spark.geography import ENTITY_COLUMNS, NO_AIAN_AREA, NO_ENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GEOCODE: Final = "geocode"

#: The functional status of what does not exist.
NO_STATUS: Final = "9"

#: The functional status that readers give where their files know none: an active government.
ACTIVE: Final = "A"

#: Columns of functional status, and the code that each is about.
STATUS_OF: Final[Mapping[str, str]] = MappingProxyType({"cousubfs": "cousubfp", "placefs": "placefp"})

_OWN_NOTHING: Final = {"aiannhce": NO_AIAN_AREA} | dict.fromkeys(STATUS_OF, NO_STATUS)

#: Column -> what it holds for a block that lies in no such entity; its length is that of every code of the column.
NOTHING: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OWN_NOTHING.get(name, NO_ENTITY) for name in ENTITY_COLUMNS}
)


@dataclass(frozen=True, slots=True)
class EntityBlocks:
    """The blocks of a geography.

    Attributes:
        blocks: Columns geocode (16 digits, every block once) and `ENTITY_COLUMNS`, in this order; text without nulls.
        notes: Sentences about what the files do not say and what was taken instead.
    """

    blocks: DataFrame
    notes: tuple[str, ...] = ()


class GeographyReader(Protocol):
    """A kind of geographic files."""

    @property
    def name(self) -> str:
        """How commands and run files call it."""
        ...

    def look(self, path: str) -> None:
        """See, cheaply and without Spark, whether the files are there and begin as they should; rows are for `read`.

        Args:
            path: File or folder; what is not local is left to `read`.

        Raises:
            InputError: A file or column is missing, or a file is not of the kind that the reader reads.
        """
        ...

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read and check a geography.

        Args:
            spark: The session.
            path: File or folder.

        Returns:
            Every block, once.

        Raises:
            InputError: A file or column is missing, a row is malformed, a block stands twice, or an AIAN code is not
                assigned; all problems of the rows together (`BadInputError`).
        """
        ...
