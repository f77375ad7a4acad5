"""The file of a ledger: lines are added under an exclusive lock, durably, all or none; nothing is ever taken out."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from das_spark.errors import PrivacyGuardError
from das_spark.privacy import AttemptLine, Ledger, LedgerEntry, line_of
from das_spark.store.commit import sync_folder, write_durably
from das_spark.store.filesystem import Place, disk_errors

if TYPE_CHECKING:
    from das_spark.store.layout import RestrictedLayout

LEDGER_SUFFIX = ".privacy-ledger.jsonl"
Mended = Callable[[Path], None]
#: Makes, of the ledger as it is under the lock, the lines that are to be added; raises where nothing may be.
Change = Callable[[Ledger], Sequence[LedgerEntry | AttemptLine]]


def commit_entry(file: Path, entry: LedgerEntry, mended: Mended = lambda _: None) -> Ledger:
    """Enter a run in a ledger, or its new state: `update_ledger` with nothing to ask.

    Args:
        file: The ledger.
        entry: The run.
        mended: As in `update_ledger`.
    """
    return update_ledger(file, lambda _: [entry], mended)


def update_ledger(file: Path, change: Change, mended: Mended = lambda _: None) -> Ledger:
    """Add lines to a ledger, durably, all or none, from what stands in it under an exclusive lock.

    A last line that a power cut tore is cut off: no run draws before its line is durable, so that nothing was drawn
    under it.

    Args:
        file: The ledger; its folder is there.
        change: What to add; lines that stand there already are not written again.
        mended: Is told of the file where its last line was cut off.

    Returns:
        The whole ledger, what was added included.

    Raises:
        OutputError: If it cannot be written; then it is as it was.
        PrivacyGuardError: If it cannot be understood, or `change` refuses.
    """
    with disk_errors(file), os.fdopen(_open(file), "r+b", buffering=0) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        content = opened.readall()
        whole = _without_torn_end(content)
        after, added = _parsed(whole), b""
        for line in change(after):
            before, after = after, after.with_line(line)
            if after != before:
                added += line_of(line).encode() + b"\n"
        if whole != content:
            opened.truncate(len(whole))
            mended(file)
        if added:
            end = b"" if whole.endswith(b"\n") or not whole else b"\n"  # a whole entry, but for its end
            _append(opened, end + added)
        os.fsync(opened.fileno())  # also of a line that stands there: whoever wrote it may have died before this
        if not content:
            sync_folder(file.parent)
        return after


def read_ledger(file: Path) -> Ledger:
    """The runs in one copy of a ledger, but for a last line that was half written.

    Args:
        file: The copy, which is there.

    Raises:
        PrivacyGuardError: If it cannot be understood.
    """
    return _parsed(_without_torn_end(file.read_bytes()))


def _without_torn_end(content: bytes) -> bytes:
    """A ledger without a last line that has no end and is no JSON; a whole entry that lacks its end alone is kept."""
    start = content.rfind(b"\n") + 1
    try:
        json.loads(content[start:].decode() or "null")
    except ValueError:
        return content[:start]
    return content


def _parsed(content: bytes) -> Ledger:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise PrivacyGuardError(
            f"privacy ledger, line {number}: is no text", hint="restore the ledger from its copy"
        ) from error
    return Ledger.from_json_lines(text)


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise unwritable(file) from error


def unwritable(file: Path) -> PrivacyGuardError:
    """The refusal of a run that cannot be charged.

    Args:
        file: The ledger.
    """
    return PrivacyGuardError(
        f"{file}: the privacy ledger of this input cannot be written, so that the run cannot be charged",
        hint="runs on this input are counted in that file: get the right to write it from its owner",
    )


def _append(opened: FileIO, line: bytes) -> None:
    """Write a line durably, or leave the file as it was: half an entry would bar every later run on the input."""
    size = os.fstat(opened.fileno()).st_size
    try:
        if opened.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened.fileno())
    except OSError:
        opened.truncate(size)
        raise


#: Key that says whether the ledger is known to have the entry, and its value as long as it is not.
_LEDGER: Final = "ledger"
_CHARGING: Final = "charging"
_CHARGED: Final = "charged"


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The entry of a run in its restricted root.

    Attributes:
        entry: The run, as it stands or is about to stand in the ledger.
        entered: Whether the ledger is known to have an entry of the run: one without has been lost, or rolled back.
    """

    entry: LedgerEntry
    entered: bool

    @property
    def is_charged(self) -> bool:
        """Whether the ledger is known to have the run as charged."""
        return self.entered and self.entry.is_charged

    @classmethod
    def find(cls, restricted: RestrictedLayout[Place]) -> Self | None:
        """The own entry of a run as it was last written; None where the run is not entered yet.

        Args:
            restricted: Its restricted root.

        Raises:
            PrivacyGuardError: It cannot be understood.
        """
        file = restricted.ledger_entry
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        entry = LedgerEntry.from_json(text)
        state = json.loads(text).get(_LEDGER, _CHARGED)  # earlier versions did not say it
        if state not in (_CHARGING, _CHARGED):
            raise PrivacyGuardError(f"{file}: '{state}' is no state of a run in its ledger")
        return cls(entry, state == _CHARGED)

    def save(self, restricted: RestrictedLayout[Place]) -> None:
        """Write the own entry, durably.

        Args:
            restricted: The restricted root of the run.

        Raises:
            OutputError: The disk is full.
        """
        state = _CHARGED if self.entered else _CHARGING
        record = {_LEDGER: state, **self.entry.as_record()}
        write_durably(restricted.ledger_entry, json.dumps(record, ensure_ascii=False), mode=0o600)
