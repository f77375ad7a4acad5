"""Standard streams that are closed, full or of another alphabet: one sentence names them, and no text fails in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Final, TextIO

from typing_extensions import Buffer

from das_spark.errors import OutputError

_STANDARD: Final = (0, 1, 2)
_HINT: Final = "lead it to a file, or to what reads all of it; an unfinished run goes on by its --run-id"


class _Stream(FileIO):
    """A standard stream that fails once at most: what is written after that is dropped."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, content: Buffer, /) -> int:
        if self.failure is None:
            try:
                return super().write(content)
            except OSError as error:
                self.failure = error
        return memoryview(content).nbytes


class _Output(_Stream):
    """Standard output, which tells of its failure: nobody reads what the command was begun for."""

    def write(self, content: Buffer, /) -> int:
        if self.failure is not None:
            return super().write(content)
        written = super().write(content)
        self.require_whole()
        return written

    def require_whole(self) -> None:
        """Refuse a stream that has failed."""
        if self.failure is not None:
            raise OutputError(f"standard output: {self.failure.strerror}", hint=_HINT) from self.failure


@contextmanager
def standard_error() -> Iterator[None]:
    """Carry out a block in which whatever standard error does not take is dropped: a closed terminal ends no work."""
    for descriptor in _STANDARD:
        _fill(descriptor)
    before = sys.stderr
    if before is None:
        with open(os.devnull, "w", encoding="utf-8") as sys.stderr:
            yield
    elif not _is_own(before, sys.__stderr__):
        yield
    else:
        sys.stderr = _text(_Stream(before), before, "backslashreplace")
        try:
            yield
        finally:
            sys.stderr.flush()
            sys.stderr = before


@contextmanager
def standard_output() -> Iterator[None]:
    """Carry out a block, and name standard output where it fails; what its encoding lacks is replaced.

    Raises:
        OutputError: Standard output is closed or full; nothing was begun where it was closed from the beginning.
    """
    before = sys.stdout
    if before is None:
        raise OutputError("standard output: is closed", hint=_HINT)
    if not _is_own(before, sys.__stdout__):
        yield
        return
    output = _Output(before)
    sys.stdout = text = _text(output, before, "replace")
    try:
        try:
            yield
        except SystemExit:  # how the command line ends, done or not
            text.flush()
            output.require_whole()
            raise
        text.flush()
        output.require_whole()  # a thread or a library may have kept to itself that it failed
    finally:
        with suppress(OutputError):  # another error ends the command
            text.flush()
        sys.stdout = before


def _fill(descriptor: int) -> None:
    """Keep a closed descriptor from becoming that of a file which the process opens, and others print into."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def _is_own(stream: TextIO, first: TextIO | None) -> bool:
    """Return whether a stream is the one that the interpreter began with, and no caller's, such as a notebook's."""
    return stream is first and isinstance(stream, TextIOWrapper)


def _text(raw: FileIO, like: TextIO, errors: str) -> TextIOWrapper:
    """Return a stream of text over a raw one, in the encoding of another."""
    like.flush()
    return TextIOWrapper(BufferedWriter(raw), like.encoding, errors, line_buffering=like.line_buffering > 0)
