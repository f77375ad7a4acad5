"""The cumulative ledger of an input: one entry a run, made before any draw.

It is kept twice: beside the input, and with the runs by what the input holds. So runs that reach the same files by
another path, by another key of [input] or as a copy are still counted together, as long as either is shared.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.config.inputs import SIMULATED
from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.io.files import sync_folder
from das_spark.io.full_disk import disk_errors
from das_spark.io.layout import LEDGERS
from das_spark.privacy import Ledger, LedgerEntry

if TYPE_CHECKING:
    from das_spark.config.plan import InputSettings, RunPlan
    from das_spark.io.layout import RunLayout

_SUFFIX = ".privacy-ledger.jsonl"
_BLOCK = 1 << 22
Mended = Callable[[Path], None]


def fingerprint(settings: InputSettings) -> tuple[str, list[dict[str, object]]]:
    """Identity of an input: a checksum over its files' contents, or over the simulator's arguments.

    Args:
        settings: Where the input is.

    Returns:
        SHA-256 in hexadecimal, and name, size, time of change and checksum of each file (restricted).

    Raises:
        InputError: If a file cannot be read.
    """
    whole = hashlib.sha256()
    if settings.reader == SIMULATED:
        whole.update(json.dumps(dict(settings.simulate), sort_keys=True, default=str).encode())
        return whole.hexdigest(), []
    files = [_examined(path) for path in sorted(set(_files(settings)))]
    for content in sorted(str(each["sha256"]) for each in files):
        whole.update(content.encode())
    return whole.hexdigest(), files


def is_unchanged(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> bool:
    """Whether the files of an input have the sizes and times of change that they had, and there is no other one.

    Args:
        settings: Where the input is.
        files: As `fingerprint` gave them.

    Raises:
        InputError: A file or folder of the settings is not there.
    """
    return not _changed(settings, files)


def require_unchanged(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> None:
    """Refuse an input that is not, after it was read, what its identity was taken from before.

    Args:
        settings: Where the input is.
        files: As `fingerprint` gave them.

    Raises:
        InputError: A file has changed, is gone, or has come.
    """
    changed = _changed(settings, files)
    if changed:
        raise InputError(
            f"{changed[0]}: changed while it was read; nothing of it is kept",
            hint="let no file be delivered to [input] while a run reads it, and run the same command again",
        )


def _changed(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> list[str]:
    before = {str(each["file"]): (each["bytes"], each["mtime_ns"]) for each in files}
    now: dict[str, tuple[object, object]] = {}
    if settings.reader != SIMULATED:
        for path in _files(settings):
            with suppress(FileNotFoundError):  # gone since its folder was listed
                status = path.stat()
                now[str(path)] = (status.st_size, status.st_mtime_ns)
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def ledger_files(plan: RunPlan, layout: RunLayout, identity: str) -> tuple[Path, ...]:
    """Where the ledger of an input lies: with the runs, and beside each of its files or folders that hold records.

    Beside the input it is made where that folder can be written. Where it is there already it counts in any case: a run
    that cannot be entered in it does not draw.

    Args:
        plan: The run.
        layout: Where the run lies.
        identity: Result of `fingerprint`.

    Returns:
        At least the copy with the runs, first.
    """
    found = [ledger_with_runs(layout, identity)]
    settings = plan.input
    if settings.reader != SIMULATED:
        for source in filter(None, (settings.path, settings.persons, settings.units)):
            path = Path(source).resolve()
            beside = path.with_name(path.name + _SUFFIX)
            # An input that was withdrawn, folder and all, has a ledger with the runs alone.
            writable = os.access(path.parent, os.W_OK) and path.parent.stat().st_mode & stat.S_IWUSR
            if writable or beside.exists():
                found.append(beside)
    return tuple(dict.fromkeys(found))


def ledger_with_runs(layout: RunLayout, identity: str) -> Path:
    """The copy of an input's ledger that lies with the runs.

    Args:
        layout: Of a run.
        identity: Result of `fingerprint`.
    """
    return layout.root / LEDGERS / f"{identity[:32]}{_SUFFIX}"


def make_folder(layout: RunLayout) -> None:
    """Make the folder of the ledgers with the runs, durably, and close it to others: their names tell of the inputs.

    Args:
        layout: Of a run.

    Raises:
        OutputError: It cannot be made.
    """
    folder = layout.root / LEDGERS
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            folder.chmod(0o700)  # an earlier version left it open
        sync_folder(folder.parent)


def enter(files: Sequence[Path], entry: LedgerEntry, mended: Mended = lambda _: None) -> Ledger:
    """Enter a run in every copy of the ledger of its input: see `commit`.

    Args:
        files: Result of `ledger_files`.
        entry: The run.
        mended: As in `commit`.

    Returns:
        All runs that stand in any copy.
    """
    return reduce(Ledger.union, [commit(file, entry, mended) for file in files])


def commit(file: Path, entry: LedgerEntry, mended: Mended = lambda _: None) -> Ledger:
    """Enter a run in the ledger of its input, durably, before it draws, or its new state; it is charged once.

    A last line that a power cut tore is cut off: no run draws before its line is durable, so that nothing was drawn
    under it.

    Args:
        file: One copy of the ledger.
        entry: The run.
        mended: Is told of the copy where its last line was cut off.

    Returns:
        The whole ledger, this run included.

    Raises:
        OutputError: If it cannot be written; then it is as it was.
        PrivacyGuardError: If it cannot be understood.
    """
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(_open(file), "r+b", buffering=0) as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            content = opened.readall()
            whole = _without_torn_end(content)
            before = _parsed(whole)
            after = before.with_entry(entry)
            if whole != content:
                opened.truncate(len(whole))
                mended(file)
            if after != before:
                end = b"" if whole.endswith(b"\n") or not whole else b"\n"  # a whole entry, but for its end
                _append(opened, end + entry.to_json().encode() + b"\n")
            os.fsync(opened.fileno())  # also of a line that stands there: whoever wrote it may have died before this
            if not content:
                sync_folder(file.parent)
            return after


def read(file: Path) -> Ledger:
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


def entries_of(files: Sequence[Path], run_id: str) -> tuple[LedgerEntry, ...]:
    """What the copies of a ledger say of a run, each that knows it.

    Args:
        files: Result of `ledger_files`.
        run_id: As in its entry.

    Raises:
        PrivacyGuardError: One cannot be understood.
    """
    found = []
    for file in files:
        with suppress(OSError):  # of what cannot be read `commit` will tell
            found += [entry for entry in read(file).entries if entry.run_id == run_id]
    return tuple(found)


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise OutputError(
            f"{file}: the privacy ledger of this input cannot be written, so that the run cannot be charged",
            hint="runs on this input are counted in that file: get the right to write it from its owner",
        ) from error


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


def _files(settings: InputSettings) -> Iterator[Path]:
    for name in (settings.path, settings.persons, settings.units, settings.geography):
        if name is None:
            continue
        path = Path(name)
        if path.is_dir():
            yield from (each for each in path.rglob("*") if each.is_file() and not each.name.endswith(_SUFFIX))
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: no such file or folder", hint="check [input] in the run file")


def _examined(path: Path) -> dict[str, object]:
    """Size and time of change of a file before it is read, and its checksum."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__})", hint="check its permissions") from error
    return {
        "file": str(path),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": digest.hexdigest(),
    }
