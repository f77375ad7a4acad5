"""The privacy ledger of a dataset, and the entry that a run keeps of itself.

One file a dataset, in one folder: the operator's (`ledger.path`), or `ledgers` beside the runs. Nothing is ever written
beside the input. Lines are added durably, all or none, and nothing is ever taken out: under an exclusive lock on disks,
elsewhere as an object that is created exclusively. A ledger counts the runs of many machines; it lies where all of them
reach it. A run's own entry is never behind it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from das_spark.errors import PrivacyGuardError
from das_spark.places import Location, Place, disk_errors, is_address, place_of
from das_spark.privacy import AttemptLine, DrawState, Ledger, LedgerEntry, chained_lines
from das_spark.store.commit import make_folder, names_in, sync_folder, write_durably
from das_spark.store.digests import BEFORE_NOISE
from das_spark.store.layout import LEDGERS
from das_spark.store.numbered import add_numbered, read_lines, read_numbered
from das_spark.store.runs import RunMarker

if TYPE_CHECKING:
    from das_spark.config import InputSettings, RunPlan
    from das_spark.store.layout import RestrictedLayout, RunLayout

LEDGER_SUFFIX = ".privacy-ledger.jsonl"
Mended = Callable[[Path], None]
#: Makes, of the ledger as it is under the lock, the lines that are to be added; raises where nothing may be.
Change = Callable[[Ledger], Sequence[LedgerEntry | AttemptLine]]


def commit_entry(file: Place, entry: LedgerEntry, mended: Mended = lambda _: None) -> Ledger:
    """Enter a run in a ledger, or its new state: `update_ledger` with nothing to ask."""
    return update_ledger(file, lambda _: [entry], mended)


def update_ledger(file: Place, change: Change, mended: Mended = lambda _: None) -> Ledger:
    """Add lines to a ledger, durably, all or none, from what stands in it under an exclusive lock.

    A last line that a power cut tore is cut off: no run draws before its line is durable, so that nothing was drawn
    under it. Each line that is added contains the digest of all that stands before it then.

    Args:
        file: The ledger; its folder is there.
        change: What to add; lines that stand there already are not written again.
        mended: Is given the file where its last line was cut off.

    Returns:
        The whole ledger, what was added included.

    Raises:
        OutputError: If it cannot be written; then it is as it was.
        PrivacyGuardError: If it cannot be understood, or `change` refuses.
    """
    if isinstance(file, Location):
        with disk_errors(file):
            return _update_numbered(file, change)
    with disk_errors(file), os.fdopen(_open(file), "r+b", buffering=0) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        content = opened.readall()
        whole = _without_torn_end(content)
        ledger = _parsed(whole, file)
        end = b"" if whole.endswith(b"\n") or not whole else b"\n"  # a whole entry, but for its end
        added = chained_lines(ledger.news_in(change(ledger)), whole + end)
        if added:
            ledger = _parsed(whole + end + added, file)
        if whole != content:
            opened.truncate(len(whole))
            mended(file)
        if added:
            _append(opened, end + added)
        os.fsync(opened.fileno())  # also of a line that stands there: whoever wrote it may have died before this
        if not content:
            sync_folder(file.parent)
        return ledger


def _update_numbered(file: Location, change: Change) -> Ledger:
    """Add lines as the next object, which only one of those creates that read the same ledger; the others read anew."""
    while True:
        number, content = read_numbered(file)
        ledger = _parsed(content, file)
        added = chained_lines(ledger.news_in(change(ledger)), content)
        if not added:
            return ledger
        ledger = _parsed(content + added, file)
        if add_numbered(file, number, added):
            return ledger


def read_ledger(file: Place) -> Ledger:
    """The runs in one copy of a ledger, but for a last line that was half written.

    Args:
        file: The copy, which is there.

    Raises:
        PrivacyGuardError: If it cannot be understood.
    """
    return _parsed(_without_torn_end(read_lines(file)), file)


def _without_torn_end(content: bytes) -> bytes:
    """A ledger without a last line that has no end and is no JSON; a whole entry that lacks its end alone is kept."""
    start = content.rfind(b"\n") + 1
    try:
        json.loads(content[start:].decode() or "null")
    except ValueError:
        return content[:start]
    return content


#: File -> the ledger as this process parsed it last: of a file that begins with the same bytes, the rest is parsed.
_PARSED: Final[dict[Place, Ledger]] = {}


def _parsed(content: bytes, file: Place) -> Ledger:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise PrivacyGuardError(
            f"privacy ledger, line {number}: is no text", hint="restore the ledger from its copy"
        ) from error
    ledger = Ledger.from_json_lines(text, _PARSED.get(file))
    _PARSED[file] = ledger
    return ledger


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise unwritable(file) from error


def unwritable(file: Place) -> PrivacyGuardError:
    """The refusal of a run that cannot be charged."""
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
_SHA256: Final = "ledger_sha256"
_CHARGING: Final = "charging"
_CHARGED: Final = "charged"


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The entry of a run in its restricted root.

    Attributes:
        entry: The run, as it stands or is about to stand in the ledger.
        entered: Whether the ledger is known to have an entry of the run: one without has been lost, or rolled back.
        sha256: Of the ledger as of when the run last entered something, with which every later state of it begins;
            empty where the run was not entered yet, or by an earlier version.
    """

    entry: LedgerEntry
    entered: bool
    sha256: str = field(default="", compare=False)

    @property
    def is_charged(self) -> bool:
        """Whether the ledger is known to have the run as charged."""
        return self.entered and self.entry.is_charged

    @classmethod
    def find(cls, restricted: RestrictedLayout) -> Self | None:
        """The own entry of a run as it was last written; None where the run is not entered yet.

        Raises:
            PrivacyGuardError: It cannot be understood.
        """
        file = restricted.ledger_entry
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        entry, record = LedgerEntry.from_json(text), json.loads(text)
        state = record.get(_LEDGER, _CHARGED)  # earlier versions did not say it
        if state not in (_CHARGING, _CHARGED):
            raise PrivacyGuardError(f"{file}: '{state}' is no state of a run in its ledger")
        return cls(entry, state == _CHARGED, record.get(_SHA256, ""))

    def save(self, restricted: RestrictedLayout) -> None:
        """Write the own entry, durably.

        Raises:
            OutputError: The disk is full.
        """
        state = _CHARGED if self.entered else _CHARGING
        record = {_LEDGER: state, _SHA256: self.sha256, **self.entry.as_record()}
        write_durably(restricted.ledger_entry, json.dumps(record, ensure_ascii=False), mode=0o600)


def require_covered(layout: RunLayout, table: str) -> None:
    """Refuse a public table of a run while no entry of the ledger covers it.

    A run that draws nothing, but estimates from measurements that exist, names no ledger: the run that measured was
    charged, and all else is post-processing.

    Args:
        layout: The run.
        table: Name of the table.

    Raises:
        PrivacyGuardError: The run is not entered; or not charged, and the table follows from noisy answers.
    """
    marker = RunMarker.find(layout.restricted.path)
    if marker is None or not marker.ledger:
        return
    own = OwnEntry.find(layout.restricted)
    if own is None or not own.entered:
        missing = "is not in the ledger of its dataset"
    elif not own.is_charged and table not in BEFORE_NOISE:
        missing = "is not charged in the ledger of its dataset"
    else:
        return
    raise PrivacyGuardError(
        f"{layout.public.path}: table {table} would be public, and run {layout.run_id} {missing}",
        hint="nothing was published; this is a fault of das_spark: report it",
    )


def ledger_folder(plan: RunPlan, layout: RunLayout) -> Place:
    """The folder of the ledgers of a run: the one that it was begun with, else the operator's, else that of the runs.

    The last of them is made, and closed to others: names of ledgers may tell of inputs. No other folder is.

    Returns:
        An absolute path.

    Raises:
        PrivacyGuardError: A folder that was named cannot be reached or written.
        OutputError: The folder with the runs cannot be made.
    """
    marker = RunMarker.find(layout.restricted.path)
    begun = "" if marker is None else marker.ledger
    if begun:
        why = f"run {layout.run_id} was begun with the ledgers in {begun}, and"
        return _reachable(
            place_of(begun), why, "bring that folder back (is its disk mounted?), or begin a run of another name"
        )
    if plan.ledger.path is not None:
        folder = place_of(plan.ledger.path).absolute()
        return _reachable(folder, "ledger.path:", "make the folder, or mount its disk; it is never made by a run")
    folder = layout.root.absolute() / LEDGERS
    if not isinstance(folder, Path):
        return folder  # there is nothing to make
    with disk_errors(folder):
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            folder.chmod(0o700)  # an earlier version left it open
        sync_folder(folder.parent)
    return _reachable(folder, "ledgers:", "name another folder: ledger.path")


def ledger_with(layout: RunLayout) -> Ledger:
    """The ledger in which a run stands; without runs where it has none, or none that can be read.

    What cannot be read refuses runs; what is only said of a run is said all the same.

    Raises:
        PrivacyGuardError: Its own entry cannot be understood.
    """
    own, marker = OwnEntry.find(layout.restricted), RunMarker.find(layout.restricted.path)
    if own is None or marker is None or not marker.ledger:
        return Ledger()
    for file in _ledgers_in(place_of(marker.ledger)):
        with suppress(PrivacyGuardError, OSError):
            found = read_ledger(file)
            if found.find(own.entry.run_id) is not None:
                return found
    return Ledger()


def _ledgers_in(folder: Place) -> list[Place]:
    """All ledgers of a folder, by name."""
    return [folder / name for name in sorted(names_in(folder)) if name.endswith(LEDGER_SUFFIX)]


def _reachable(folder: Place, why: str, hint: str) -> Place:
    if not isinstance(folder, Path):
        return folder  # it was tried, or will be found out: a folder there is a mere prefix
    if not folder.is_dir():
        raise PrivacyGuardError(f"{why} there is no folder {folder}", hint=hint)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PrivacyGuardError(f"{why} {folder} cannot be written", hint="get the right to write there from its owner")
    return folder


@dataclass(frozen=True, slots=True)
class DatasetLedger:
    """The ledger of one dataset.

    Attributes:
        folder: Of the ledgers.
        name: Of the dataset, or half of a checksum of its contents where it has none.
    """

    folder: Place
    name: str

    @classmethod
    def of(cls, folder: Place, settings: InputSettings, contents: Sequence[str]) -> DatasetLedger:
        """The ledger of an input.

        Args:
            folder: Result of `ledger_folder`.
            settings: Of the input.
            contents: Result of `contents_of`; of no account where the dataset has a name.
        """
        if settings.dataset:
            return cls(folder, settings.dataset)
        whole = contents[0] if settings.is_simulated else hashlib.sha256("".join(contents).encode()).hexdigest()
        return cls(folder, whole[:32])

    @property
    def file(self) -> Place:
        """The file, or what stands for it where files cannot grow (`das_spark.store.numbered`)."""
        return self.folder / f"{self.name}{LEDGER_SUFFIX}"

    def read(self) -> Ledger:
        """All runs, and nothing where there is no file yet.

        Raises:
            PrivacyGuardError: It cannot be understood, or not be written.
        """
        if not self.file.exists():
            return Ledger()
        if isinstance(self.file, Path) and not os.access(self.file, os.R_OK | os.W_OK):
            raise unwritable(self.file)
        return read_ledger(self.file)

    def count_earlier(self, files: Sequence[Place]) -> tuple[str, ...]:
        """Count runs of earlier versions' ledgers in this one, which lacks them. Their files stay as they are.

        Args:
            files: The ledgers.

        Returns:
            The runs that were entered.

        Raises:
            PrivacyGuardError: A ledger cannot be understood, or this one not be written.
            OutputError: The disk is full.
        """
        counted: list[str] = []
        for file in files:
            earlier = read_ledger(file)
            known = {entry.run_id for entry in self.read().entries}
            if any(entry.run_id not in known for entry in earlier.real):
                update_ledger(self.file, partial(_lacking, earlier))
                counted += [entry.run_id for entry in earlier.entries if entry.run_id not in known]
        return tuple(counted)

    def same_people(self, contents: Sequence[str], identity: str) -> tuple[Place, ...]:
        """Find ledgers of the same people that have no name, in which earlier versions counted runs.

        Runs under test keys are not summed, so that theirs do not count.

        Args:
            contents: Of the confidential files.
            identity: Of the input, by which earlier versions named their ledgers.

        Raises:
            PrivacyGuardError: The people are counted under the name of another dataset: releases from them would be
                summed in two places. Or another ledger of the folder cannot be understood.
        """
        nameless = []
        for file in _ledgers_in(self.folder):
            if file == self.file:
                continue
            ledger, is_of_input = read_ledger(file), file.name.removesuffix(LEDGER_SUFFIX) == identity[:32]
            same = [entry for entry in ledger.real if is_of_input or set(entry.contents) & set(contents)]
            if not same:
                continue
            if name := next((entry.dataset for entry in ledger.entries if entry.dataset), ""):
                raise PrivacyGuardError(
                    f"the same records are counted under the dataset '{name}': run {same[0].run_id}",
                    hint=f'set input.dataset = "{name}"; two names would hide what all releases from these records '
                    "cost together",
                )
            nameless.append(file)
        return tuple(nameless)


def left_behind(settings: InputSettings) -> tuple[Place, ...]:
    """Find the ledgers that an earlier version has kept beside an input.

    Args:
        settings: Of the input.
    """
    if settings.is_simulated:
        return ()
    named = [
        Path(name).resolve()
        for name in (settings.path, settings.persons, settings.units)
        if name and not is_address(name)  # earlier versions read nothing but disks
    ]
    beside = [path.with_name(path.name + LEDGER_SUFFIX) for path in named]
    return tuple(file for file in beside if file.is_file())


def _lacking(earlier: Ledger, ledger: Ledger) -> list[LedgerEntry | AttemptLine]:
    """The runs of one ledger that another one lacks, with their attempts, as they may follow there."""
    lacking = [entry for entry in earlier.entries if ledger.find(entry.run_id) is None]
    names = {entry.run_id for entry in lacking}
    states = [
        replace(line, state=state)
        for line in earlier.attempts
        if line.entry in names
        for state in dict.fromkeys((DrawState.OPENED, line.state))
    ]
    return [*lacking, *states]
