"""What a flavour of microdata files must offer, and the block of rows that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das_spark.io.writers._columns import FileColumns, Scope


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one file, column-wise and still as codes.

    Attributes:
        geocodes: Leaf geocodes of the batch, K of them.
        owner: Shape (n,): position of each row's geocode in `geocodes`.
        code: Shape (n,): cell (persons) or kind (units) of each row.
        numbers: Shape (n,) each: the number columns, by scope.
    """

    geocodes: tuple[str, ...]
    owner: NDArray[np.int64]
    code: NDArray[np.int64]
    numbers: Mapping[Scope, NDArray[np.int64]]


class Sink(Protocol):
    """One open file."""

    def write(self, rows: Rows) -> None:
        """Append rows.

        Args:
            rows: What comes next in the file; cut from the rows of a batch.
        """

    def close(self) -> None:
        """Finish the file; it is whole only after this."""


class Flavour(Protocol):
    """A way to write microdata."""

    @property
    def name(self) -> str:
        """As the configuration spells it."""

    @property
    def suffix(self) -> str:
        """Of its files, with the dot."""

    @property
    def has_metadata_file(self) -> bool:
        """Whether comments stand in a text file beside the data instead of inside."""

    def open(self, path: Path, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file.

        Args:
            path: The file; it must not exist.
            columns: What it holds.
            notices: Sentences that every file must carry, such as that the run is insecure.
        """
        ...
