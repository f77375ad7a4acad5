"""Lines of text files, such as records of fixed width: as Arrow batches, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa

from das_spark.io.listed_files import ListedFile, Part, numbered, with_numbers
from das_spark.io.table_folder import record_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Column of lines.
LINE: Final = "value"
#: Bytes that are read at once.
_BLOCK: Final = 1 << 24
_LINE_FEED, _RETURN = b"\n\r"
_ASCII: Final = bytes(range(1 << 7))


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of some files, as they were when they were listed.

    Attributes:
        files: The files.
        encoding: Of their text; bytes that are none become the sign of replacement.
    """

    files: tuple[ListedFile, ...]
    encoding: str

    @classmethod
    def of(cls, paths: Sequence[str], patterns: Sequence[str] = (), encoding: str = "UTF-8") -> TextLines:
        """List files.

        Args:
            paths: Files, or folders with files.
            patterns: Of a folder, the names that its files have; any where none are given.
            encoding: Of the text.
        """
        files = (file for path in paths for file in record_files(path, patterns))
        return cls(tuple(map(ListedFile.of, files)), encoding)

    @property
    def schema(self) -> pa.Schema:
        """Of the lines: value, and their numbers."""
        return with_numbers(pa.schema([(LINE, pa.string())]))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What there is to read."""
        return tuple(Part(place) for place in range(len(self.files)))

    def read(
        self, part: Part, digests: dict[str, str] | None = None, *, size: int = _BLOCK
    ) -> Iterator[pa.RecordBatch]:
        """Read the lines of a file.

        Args:
            part: Of the files.
            digests: To which the digest of the file is added, by its path.
            size: Bytes that are read at once.

        Raises:
            InputError: It is another one than it was, or cannot be read.
        """
        file, number = self.files[part.file], 0
        with file.hashed() as opened:
            stream = file.unpacked(opened)
            for lines in _lines(iter(lambda: stream.read(size), b""), self.encoding):
                numbers = np.arange(number + 1, number + 1 + len(lines))
                number += len(lines)
                yield numbered(self.schema, {LINE: lines}, numbers)
            if digests is not None:
                digests[file.path] = opened.sha256()


def _lines(blocks: Iterator[bytes], encoding: str) -> Iterator[pa.StringArray]:
    """Cut a text at line feeds, returns, and returns with line feeds."""
    decode, left = Decoder(encoding, "replace"), b""
    for block in chain(blocks, [b""]):
        lines, left = _cut(left + decode(block), whole=not block)
        yield lines


def _cut(text: bytes, *, whole: bool) -> tuple[pa.StringArray, bytes]:
    """Return the lines of a text, and what follows the last one."""
    data = np.frombuffer(text, dtype=np.uint8)
    begin, stop, ends = lines_of(data, line_ends(data, whole=whole), whole=whole)
    end = max(int(ends[-1]) + 1 if len(ends) else 0, int(stop[-1]) if len(stop) else 0)
    kept = np.ones(end + 1, dtype=np.bool_)
    kept[ends] = False
    kept[stop] = False  # the return before a line feed, or what is behind the last line
    values = data[:end][kept[:end]]
    offsets = np.concatenate([[0], np.cumsum(stop - begin)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(begin), pa.py_buffer(offsets), pa.py_buffer(values)), text[end:]


class Decoder:
    """Turns blocks of a text, one after the other, into UTF-8 without a mark of the order of bytes."""

    def __init__(self, encoding: str, errors: Literal["replace", "surrogateescape"]) -> None:
        """Begin.

        Args:
            encoding: Of the text.
            errors: What becomes of bytes that are no text: the sign of replacement; or they stay as they are.
        """
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=errors)
        self._kept: str = "surrogateescape" if errors == "surrogateescape" else "strict"
        # Where characters of ASCII are themselves, a block of them is what it becomes.
        self._is_ascii = _ASCII.decode(encoding, "replace") == _ASCII.decode("ascii")
        self._begun = False

    def __call__(self, block: bytes) -> bytes:
        """Turn a block; the last one is empty."""
        if self._begun and self._is_ascii and block and block.isascii() and not self._decoder.getstate()[0]:
            return block
        text = self._decoder.decode(block, final=not block)
        if not self._begun and text:
            self._begun, text = True, text.removeprefix("\ufeff")
        return text.encode("utf-8", self._kept)


def line_ends(data: NDArray[np.uint8], *, whole: bool) -> NDArray[np.int64]:
    """Return the places of the last byte of every line end.

    Args:
        data: A text.
        whole: Whether nothing follows: a return at its end may be the first half of a line end.
    """
    ends = np.flatnonzero((data == _LINE_FEED) | (data == _RETURN))
    following = data[np.minimum(ends + 1, len(data) - 1)]
    unknown = (ends + 1 == len(data)) & (not whole)
    halves = (data[ends] == _RETURN) & (unknown | ((ends + 1 < len(data)) & (following == _LINE_FEED)))
    return np.asarray(ends[~halves])


def lines_of(
    data: NDArray[np.uint8], ends: NDArray[np.int64], *, whole: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first byte of every line, the one behind its last, and the ends, of a text that begins with a line.

    Args:
        data: The text.
        ends: Places of the last byte of every line end.
        whole: Whether what follows the last one is a line.
    """
    begin = np.append(0, ends[:-1] + 1) if len(ends) else ends
    stop = ends - ((data[ends] == _LINE_FEED) & (ends > begin) & (data[ends - 1] == _RETURN))
    end = int(ends[-1]) + 1 if len(ends) else 0
    if whole and end < len(data):
        begin, stop = np.append(begin, end), np.append(stop, len(data))
    return begin, stop, ends
