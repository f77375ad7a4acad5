"""A file that is written by a task, with the checksum by which its bytes are known again."""

from __future__ import annotations

import hashlib
import io
from typing import Any, BinaryIO

from das_spark.places import Place, system_of
from das_spark.store.commit import make_folder
from das_spark.store.digests import FileRecord


class HashedOutput(io.RawIOBase):
    """A file that is being written, and the checksum of what was written so far: it need not be read for that."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin."""
        super().__init__()
        self._file, self._digest, self._size = file, hashlib.sha256(), 0

    @classmethod
    def open(cls, place: Place) -> HashedOutput:
        """Begin a new file, and make the folders above it."""
        make_folder(place.parent)
        return cls(system_of(place).open_output(str(place)))

    def writable(self) -> bool:
        """As files say it."""
        return True

    def write(self, block: Any) -> int:  # noqa: ANN401 - whatever has a buffer
        """Write what has a buffer."""
        view = memoryview(block).cast("B")
        self._file.write(view)
        self._digest.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes that are written."""
        return self._size

    def close(self) -> None:
        """Finish the file, which counts from then on."""
        if not self.closed:
            self._file.close()
        super().close()

    def record(self, name: str) -> FileRecord:
        """What was written, under a name."""
        return FileRecord(name, self._size, self._digest.hexdigest())
