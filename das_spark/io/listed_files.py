"""Files of the input as they were when they were listed: tasks read them, and no other ones of their names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from das_spark.errors import InputError
from das_spark.io.input_files import codec_of
from das_spark.io.input_places import readable
from das_spark.places import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

#: Column of the number of a row in its file, from 1.
ROW: Final = "row_number"

#: Bytes that are read at once.
_BLOCK: Final = 1 << 22


class HashedFile:
    """The bytes of a file that is read from its begin to its end, whose digest is taken meanwhile."""

    closed = False  # as Arrow asks of files

    def __init__(self, file: BinaryIO) -> None:
        """Begin."""
        self._file, self._digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or all that follow."""
        block = self._file.read(size)
        self._digest.update(block)
        return block

    def close(self) -> None:
        """Leave the file to whoever opened it."""

    def sha256(self) -> str:
        """Read what is left, and return the digest of all."""
        while self.read(_BLOCK):
            pass
        return self._digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file, and what tells it from another one of its path.

    Attributes:
        path: Its path, or its address.
        size: Bytes.
        told: Of a file on a disk, time of change in nanoseconds and node; elsewhere the version that the store gives.
    """

    path: str
    size: int
    told: tuple[tuple[str, int | str], ...]

    @classmethod
    def of(cls, path: str) -> ListedFile:
        """List a file."""
        with readable(path):
            return cls.found(path)

    @classmethod
    def found(cls, path: str) -> ListedFile:
        """List a file, as `of`, but that it raises what the system does."""
        place = place_of(path)
        if isinstance(place, Path):
            status = os.stat(path)
            return cls(path, status.st_size, (("mtime_ns", status.st_mtime_ns), ("node", status.st_ino)))
        return cls(path, place.system.size(path), (("version", place.system.version(path)),))

    @property
    def facts(self) -> dict[str, int | str]:
        """What tells it from another one, by name, as records of an input have it."""
        return {"bytes": self.size, **dict(self.told)}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read it, if it is the same before and after.

        Raises:
            InputError: It is another one, or cannot be read.
        """
        self._require_same()
        try:
            with readable(self.path):
                yield
        except InputError:
            self._require_same()  # a store does not go on with a file that is another one by now
            raise
        self._require_same()

    @contextmanager
    def hashed(self) -> Iterator[HashedFile]:
        """Open it, if it is the same before and after.

        Raises:
            InputError: It is another one, or cannot be read.
        """
        with self.unchanged(), place_of(self.path).open("rb") as file:
            yield HashedFile(file)

    def unpacked(self, file: HashedFile) -> BinaryIO | HashedFile:
        """Return the text of the file, which is compressed or not as its name says."""
        codec = codec_of(self.path)
        return file if codec is None else pa.CompressedInputStream(pa.PythonFile(file, "r"), codec)

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


def with_numbers(schema: pa.Schema) -> pa.Schema:
    """Return a schema with `ROW` behind."""
    return schema.append(pa.field(ROW, pa.int64()))


def numbered(schema: pa.Schema, columns: Mapping[str, pa.Array], numbers: NDArray[np.int64]) -> pa.RecordBatch:
    """Put columns together with the numbers of rows; those of the schema that are not given are null.

    Args:
        schema: Of what is returned.
        columns: By name.
        numbers: Of each row in its file.
    """
    known, size = {**columns, ROW: pa.array(numbers)}, len(numbers)
    arrays = [known[column.name] if column.name in known else pa.nulls(size, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
