"""Files of the input as they were when they were listed: tasks read them, and no other ones of their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from das_spark.errors import InputError
from das_spark.io.input_files import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

#: Columns that say where a row lies.
POSITION: Final = ("row_file", "row_block", "row_id")
#: By what the place of a file is multiplied in the last one; below is the number of the row in its file.
_ROWS_OF_A_FILE: Final = 1 << 40
_PLACES: Final = pa.schema(zip(POSITION, (pa.string(), pa.int64(), pa.int64()), strict=True))


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file, and what tells it from another one of its path."""

    path: str
    size: int
    modified: int  # nanoseconds
    node: int

    @classmethod
    def of(cls, path: str) -> ListedFile:
        """List a file."""
        with readable(path):
            status = os.stat(path)
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read it, if it is the same before and after.

        Raises:
            InputError: It is another one, or cannot be read.
        """
        self._require_same()
        with readable(self.path):
            yield
        self._require_same()

    def _require_same(self) -> None:
        if ListedFile.of(self.path) != self:
            raise InputError(
                f"{self.path}: changed while it was read; nothing of it is kept",
                hint="let no file be delivered to [input] while a run reads it, and run the same command again",
            )


@dataclass(frozen=True, slots=True)
class Part:
    """What is read at once: a file, or a row group of it.

    Attributes:
        file: Place of the file among those that are listed.
        group: Of Parquet.
        before: Rows of the file before it.
        rows: Its own, where they are known.
    """

    file: int
    group: int = 0
    before: int = 0
    rows: int = 0


def number_in_file(row_id: int) -> int:
    """Return the number of a row in its file, from 1, by the last column of `POSITION`."""
    return row_id % _ROWS_OF_A_FILE


def with_places(schema: pa.Schema) -> pa.Schema:
    """Return a schema with `POSITION` behind."""
    return pa.schema([*schema, *_PLACES])


def placed(
    schema: pa.Schema, columns: Mapping[str, pa.Array], file: ListedFile, place: int, numbers: NDArray[np.int64]
) -> pa.RecordBatch:
    """Put columns together with where they lie; those of the schema that are not given are null.

    Args:
        schema: Of what is returned.
        columns: By name.
        file: That they are read from.
        place: Of the file.
        numbers: Of each row in it.
    """
    size = len(numbers)
    where = (
        pa.repeat(file.path, size),
        pa.repeat(pa.scalar(0, pa.int64()), size),
        pa.array(place * _ROWS_OF_A_FILE + numbers),
    )
    known = {**columns, **dict(zip(POSITION, where, strict=True))}
    arrays = [known[column.name] if column.name in known else pa.nulls(size, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
