"""Durable steps on files: write, promote, destroy."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from das_spark.errors import OutputError
from das_spark.store.filesystem import disk_errors

#: Another device, a disk without hard links, or too many of them.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_SUCCESS = "_SUCCESS"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file that was written, and by what its bytes are known again.

    Attributes:
        name: Its name in its folder.
        size: Bytes.
        sha256: Checksum in hexadecimal.
    """

    name: str
    size: int
    sha256: str


def record_of(path: Path, name: str | None = None) -> FileRecord:
    """The record of a file, by reading it.

    Args:
        path: The file.
        name: The name to record, by default its own.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(name or path.name, path.stat().st_size, digest)


def part_files(folder: Path) -> tuple[Path, ...]:
    """The data files of a folder, sorted by name; markers, checksums and metadata left out.

    Args:
        folder: Need not exist.

    Returns:
        Files whose names begin with `part-`; none where there is no such folder.
    """
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if path.name.startswith("part-") and path.is_file()))


def finished(folder: Path) -> bool:
    """Whether the folder is a whole result: it holds `_SUCCESS`.

    Args:
        folder: Need not exist.
    """
    return (folder / _SUCCESS).is_file()


def write_durably(
    path: Path, content: str | bytes, *, mode: int = 0o666, check: Callable[[], None] = lambda: None
) -> None:
    """Write a small file in one step: a reader sees the old one or the new one, also after a power cut.

    Args:
        path: The file, replaced when it exists.
        content: Text (written as UTF-8) or bytes.
        mode: Who may read the file, from its first byte on; less what the umask takes away.
        check: Called as the last thing before the file appears, which the disk may have held up: raises where it must
            not appear any more.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        try:
            temporary.unlink(missing_ok=True)  # what another process left may be open to others
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            check()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    Args:
        folder: Exists.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def promote(
    staging: Path, target: Path, files: Sequence[FileRecord] | None = None, *, check: bool = True
) -> tuple[FileRecord, ...]:
    """Move exactly the recorded part files to their final folder, then set the marker.

    May be called again after a crash at any point: a file that already arrived is accepted when its bytes are the
    recorded ones.

    Args:
        staging: The folder where the files were written, or what is left of it; removed at the end.
        target: The final folder; created when it is missing.
        files: What to move, by default all part files of the staging folder. Others are destroyed with it.
        check: Whether the bytes are read again and compared with the records before they move.

    Returns:
        The records of the promoted files.

    Raises:
        OutputError: A recorded file is in neither folder with the recorded bytes, nothing is recorded and the staging
            folder is gone, the target holds a file that is not on the list, or the disk is full.
    """
    if files is None:
        require_staged(staging)
    records = tuple(record_of(path) for path in part_files(staging)) if files is None else tuple(files)
    check = check and files is not None  # what was just read need not be read again
    strangers = {path.name for path in part_files(target)} - {record.name for record in records}
    if strangers:
        raise OutputError(f"{target}: holds {sorted(strangers)[0]}, which is not part of what is promoted")
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for record in records:
            _promote_file(staging / record.name, target / record.name, record, check=check)
        sync_folder(target)
        succeed(target)
    discard(staging)
    return records


def replace_folder(staging: Path, target: Path, files: Sequence[FileRecord] | None = None) -> tuple[FileRecord, ...]:
    """Promote part files of a staging folder in the place of what a driver promoted that died.

    Args:
        staging: The folder where the files were written.
        target: The final folder; what is in it goes first.
        files: What was written, by those who wrote it; by default all part files are read once more.

    Returns:
        The records of the promoted files.

    Raises:
        OutputError: The staging folder is gone (what is in the target stays), or the disk is full.
    """
    require_staged(staging)
    discard(target)
    return promote(staging, target, files, check=False)


def require_staged(staging: Path) -> None:
    """Refuse to take a staging folder that has vanished for one that holds nothing.

    Args:
        staging: The folder where something was written.

    Raises:
        OutputError: It is not there.
    """
    if not staging.is_dir():
        raise OutputError(
            f"{staging}: what was written there is gone",
            hint="another process works in the same place: wait until it ends, and run the same command again",
        )


def _promote_file(source: Path, target: Path, record: FileRecord, *, check: bool) -> None:
    if not source.is_file():
        if not target.is_file() or record_of(target) != record:
            raise OutputError(f"{target}: the bytes that were staged for it are gone")
        return
    if check and record_of(source) != record:
        raise OutputError(f"{source}: not the bytes that were recorded when it was written")
    with source.open("rb") as file:
        os.fsync(file.fileno())
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
        source.unlink()


def link_parts(source: Path, target: Path) -> None:
    """Give the data files of a finished folder to a second one: hard links, or copies where the disk has no such links.

    Data files are written once and never changed in place, so that two folders can share them; either may be destroyed
    without the other. They are no result yet: `promote` makes them one.

    Args:
        source: The finished folder.
        target: A new folder; made.

    Raises:
        OutputError: The disk is full.
    """
    with disk_errors(target):
        target.mkdir(parents=True)
        for path in part_files(source):
            try:
                os.link(path, target / path.name)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                _copy(path, target / path.name)
        sync_folder(target)


def _copy(source: Path, target: Path) -> None:
    """Copy to another device; the target gets its name only when all bytes are down."""
    temporary = target.with_name(f".{target.name}.copy")
    with source.open("rb") as reader, temporary.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())
    temporary.replace(target)


def set_times(folder: Path, instant: datetime) -> None:
    """Give a folder and all it holds one time of change: when each file was written tells how long its making took.

    Args:
        folder: Need not exist.
        instant: What everybody may know, such as when the run began.
    """
    nanoseconds = int(instant.timestamp()) * 1_000_000_000
    for place, folders, files in os.walk(folder, topdown=False):  # a folder after what is in it
        for path in (*(Path(place, name) for name in (*files, *folders)), Path(place)):
            with suppress(FileNotFoundError):  # another driver may be clearing its staging folder
                os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)


def succeed(folder: Path) -> None:
    """Set the marker of a whole result, durably and as the last thing.

    Args:
        folder: Holds the whole result.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    with disk_errors(folder):
        descriptor = os.open(folder / _SUCCESS, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(folder)


def discard(folder: Path, *, fence: bool = False) -> None:
    """Destroy a folder and all it holds.

    The folder first loses its name, so that nobody sees half of it. With `fence` a plain file takes that name: a task
    of a dead driver that still runs somewhere then cannot write there (a file cannot hold files), whatever it tries.

    Args:
        folder: What to destroy; nothing happens when it does not exist (but the fence is set).
        fence: Whether the name is blocked for ever.

    Raises:
        OutputError: Something of it cannot be removed. What was destroyed must not be there: never is that ignored.
    """
    if not folder.parent.is_dir():
        if not fence:
            return
        folder.parent.mkdir(parents=True)
    doomed = folder.with_name(f".{folder.name}.destroyed")
    with disk_errors(folder):
        if doomed.exists():  # a driver died in the middle of it
            shutil.rmtree(doomed)
        while True:
            if folder.is_dir():
                folder.rename(doomed)
                shutil.rmtree(doomed)
            if not fence or _set_fence(folder):
                break
        sync_folder(folder.parent)


def _set_fence(path: Path) -> bool:
    """Put an empty file in the place of a folder; False when a late task has made the folder anew."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400))
    except FileExistsError:
        return not path.is_dir()
    return True


def close_to_others(folder: Path) -> None:
    """Take every permission in a folder from group and others, whatever umask it was written under.

    A task of a dead driver may still be cleaning up: what vanishes meanwhile needs no other mode.

    Args:
        folder: Closed too, with all it holds; links are left as they are. Need not exist.
    """
    for place, folders, files in os.walk(folder):  # passes over folders that are gone, where rglob fails
        for path in (Path(place), *(Path(place, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & 0o077:
                    path.chmod(stat.S_IMODE(mode) & ~0o077)


def open_as_marker(folder: Path) -> None:
    """Give the data files of a finished folder the mode of its marker: that of a new file of this process.

    Args:
        folder: Holds files that come from a place which is closed to others, and is open to its readers.
    """
    mode = stat.S_IMODE((folder / _SUCCESS).stat().st_mode)
    for path in part_files(folder):
        path.chmod(mode)


def nearest(folder: Path) -> Path:
    """A folder, or the nearest above it that exists.

    Args:
        folder: Need not exist.
    """
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def require_writable(folder: Path) -> None:
    """Refuse a place where nothing can be made, before anything is.

    Args:
        folder: Need not exist; its nearest existing parent is asked.

    Raises:
        OutputError: That is no folder, or this user may not write there.
    """
    place = nearest(folder)
    if not place.is_dir():
        raise OutputError(f"{folder}: cannot be written: {place} is no folder", hint="choose another output folder")
    if not os.access(place, os.W_OK | os.X_OK):
        hint = "give this user the right to write there, or choose another output folder"
        raise OutputError(f"{folder}: cannot be written: this user may not write to {place}", hint=hint)


def require_space(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk cannot hold.

    Args:
        folder: Where it will be written; its nearest existing parent is asked.
        needed: Bytes.

    Raises:
        OutputError: There is less room than that.
    """
    free = shutil.disk_usage(nearest(folder)).free
    if free < needed:
        raise OutputError(
            f"{folder}: about {needed / 1e9:.1f} GB will be written and {free / 1e9:.1f} GB are free",
            hint="make room, or set output.root to another disk; the run resumes where it stopped",
        )


def names_in(folder: Path) -> set[str]:
    """Names in a folder, but for those of half-written files that a killed process left behind.

    Args:
        folder: That is there.
    """
    return {path.name for path in folder.iterdir() if not (path.name.startswith(".") and path.name.endswith(".tmp"))}


def create_exclusively(path: Path, content: str) -> bool:
    """Write a small file in one step where there is none; of two processes that try, one does, and nothing is replaced.

    Args:
        path: The file.
        content: Text, written as UTF-8.

    Returns:
        Whether this call made it.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    # A word of its own: two machines that share the disk may have processes of one number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with disk_errors(path):
        try:
            write_durably(temporary, content)
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError:  # a disk without hard links
                return _create(path, content)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    return True


def _create(path: Path, content: str) -> bool:
    """The same, but for a power cut, which may leave half of the file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    sync_folder(path.parent)
    return True
