"""Results are committed once: written aside, promoted file by file, and whole when their marker is there.

A folder is a result when it holds `_SUCCESS`, which is written last and made durable; whatever lacks it is none. Data
files are called `part-*`, are written once and never changed in place. What is done here needs no more of a file system
than `das_spark.store.filesystem` says.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from das_spark.errors import OutputError
from das_spark.places import Place, copy_file, disk_errors, for_all, inside, move_file, nearest, size_of, system_of
from das_spark.store.digests import FileRecord, appeared, commit, record_of, require_committed

SUCCESS = "_SUCCESS"


def part_files(folder: Place) -> tuple[Place, ...]:
    """The data files of a folder, sorted by name; markers, checksums and metadata left out.

    Args:
        folder: Need not exist.

    Returns:
        Files whose names begin with `part-`; none where there is no such folder.
    """
    names = system_of(folder).files(str(folder))
    return tuple(folder / name for name in sorted(names) if name.startswith("part-"))


def finished(folder: Place) -> bool:
    """Whether the folder is a whole result: it holds `_SUCCESS`.

    Args:
        folder: Need not exist.
    """
    return (folder / SUCCESS).is_file()


def write_durably(path: Place, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a small file in one step: a reader sees the old one or the new one, also after a power cut.

    Args:
        path: The file, replaced when it exists.
        content: Text (written as UTF-8) or bytes.
        mode: Who may read the file, from its first byte on; less what the umask takes away.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    with disk_errors(path):
        system_of(path).write(str(path), _bytes(content), mode=mode)


def write_texts(folder: Place, texts: Mapping[str, str | bytes], *, restricted: bool = False) -> tuple[str, ...]:
    """Write small files by name into a folder, each in one step.

    Args:
        folder: Made where it is not there yet.
        texts: Contents by name: text (written as UTF-8) or bytes.
        restricted: Whether only their owner may read the files, and enter a folder that is made.

    Returns:
        The names.

    Raises:
        OutputError: The disk is full, the folder cannot be made or written, or a name leads out of it.
    """
    with disk_errors(folder):
        make_folder(folder, mode=0o700 if restricted else 0o777)
    for name, text in texts.items():
        write_durably(inside(folder, name), text, mode=0o600 if restricted else 0o666)
    return tuple(texts)


def create_exclusively(path: Place, content: str | bytes, *, mode: int = 0o666) -> bool:
    """Write a small file in one step where there is none; of two processes that try, one does, and nothing is replaced.

    Args:
        path: The file.
        content: Text (written as UTF-8) or bytes.
        mode: As in `write_durably`.

    Returns:
        Whether this call made it.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    with disk_errors(path):
        return system_of(path).create(str(path), _bytes(content), mode=mode)


def names_in(folder: Place) -> set[str]:
    """Names in a folder, but for those of half-written files that a killed process left behind."""
    found = system_of(folder).names(str(folder))
    return {name for name in found if not (name.startswith(".") and name.endswith(".tmp"))}


def files_below(folder: str | Place, *, without: Collection[str] = ()) -> list[str]:
    """Every file in a folder and below it, by its path as seen from the folder, sorted part by part."""
    found = system_of(folder).files_below(str(folder))
    return sorted((name for name in found if name.split("/")[0] not in without), key=lambda each: each.split("/"))


def make_folder(folder: Place, *, mode: int = 0o777) -> None:
    """Make a folder and those above it, as far as they are missing."""
    system_of(folder).make_folder(str(folder), mode=mode)


def sync_folder(folder: Place) -> None:
    """Make the names in a folder durable."""
    system_of(folder).sync(str(folder))


def promote(
    staging: Place, target: Place, files: Sequence[FileRecord] | None = None, *, check: bool = True
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
    unknown = {path.name for path in part_files(target)} - {record.name for record in records}
    if unknown:
        raise OutputError(f"{target}: holds {sorted(unknown)[0]}, which is not part of what is promoted")
    commit(target, records)
    with disk_errors(target):
        make_folder(target)
        for_all((staging, target), lambda record: _promote_file(staging, target, record, check=check), records)
        sync_folder(target)
        succeed(target)
    appeared(target)
    discard(staging)
    return records


def promote_empty(target: Place) -> None:
    """Commit a table without rows, which has no file.

    Raises:
        OutputError: The disk is full.
    """
    commit(target, ())
    with disk_errors(target):
        make_folder(target)
        succeed(target)


def replace_folder(staging: Place, target: Place, files: Sequence[FileRecord] | None = None) -> tuple[FileRecord, ...]:
    """Promote part files of a staging folder in the place of what a driver promoted that died.

    Args:
        staging: The folder where the files were written.
        target: The final folder; what is in it goes first.
        files: What was written, by those who wrote it; by default all part files are read once more. None were where a
            table has no rows: where folders are prefixes, there is no staging folder then.

    Returns:
        The records of the promoted files.

    Raises:
        OutputError: The staging folder is gone (what is in the target stays), or the disk is full.
    """
    if files is not None and not files:
        discard(target)
        promote_empty(target)
        return ()
    require_staged(staging)
    discard(target)
    return promote(staging, target, files, check=False)


@contextmanager
def new_folder(out: Place) -> Iterator[Place]:
    """Write a folder under a hidden name beside its own, which it is given when all of it is there, and not before.

    What an earlier attempt left there that died is removed first; what is there after an error, too. Where nothing can
    be renamed it is written in its place, what lists its files comes last, and that hidden name is a file which says
    that somebody writes; a process that is killed leaves both.

    Args:
        out: The folder; it must not exist, or be empty.

    Yields:
        Where to write; need not exist.

    Raises:
        OutputError: There is something already, the disk is full, or the place cannot be written.
    """
    with disk_errors(out):
        target = unfinished_beside(out)
        if not system_of(out).capabilities.renames:
            with _alone(out, target):
                yield out
            return
        _require_empty(out)
        make_folder(target.parent)
        discard(target)
        try:
            yield target
            os.replace(str(target), str(out.absolute()))
            sync_folder(target.parent)
        finally:
            discard(target)


@contextmanager
def _alone(out: Place, marker: Place) -> Iterator[None]:
    """Keep others from writing a folder of a store meanwhile; after an error nothing of it is left."""
    if not create_exclusively(marker, secrets.token_hex(16)):
        raise OutputError(
            f"{out}: another process writes there, or was killed while it did",
            hint=f"choose another folder; if nobody writes there any more, remove {marker} and what lies in {out}",
        )
    try:
        _require_empty(out)
        try:
            yield
        except BaseException:
            discard(out)
            raise
    finally:
        system_of(marker).remove(str(marker))


def _require_empty(folder: Place) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputError(f"{folder}: is there already, and not an empty folder", hint="choose another folder")


def unfinished_beside(out: Place) -> Place:
    """The hidden name beside a file or folder under which what is made for it lies meanwhile."""
    return out.absolute().with_name(f".{out.absolute().name}.unfinished")


def require_staged(staging: Place) -> None:
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


def _promote_file(staging: Place, folder: Place, record: FileRecord, *, check: bool) -> None:
    source, target = inside(staging, record.name), inside(folder, record.name)
    try:
        if check and record_of(source) != record:
            raise OutputError(f"{source}: not the bytes that were recorded when it was written")
        system_of(source).sync(str(source))
        move_file(source, target)
    except FileNotFoundError:  # it has arrived, or nothing has
        if not target.is_file() or record_of(target) != record:
            raise OutputError(f"{target}: the bytes that were staged for it are gone") from None


def link_parts(source: Place, target: Place) -> None:
    """Give the data files of a finished folder to a second one, sharing their bytes where the disk can.

    Data files are written once and never changed in place, so that two folders can share them; either may be destroyed
    without the other. They are no result yet: `promote` makes them one.

    Args:
        source: The finished folder.
        target: A new folder; made.

    Raises:
        OutputError: The disk is full.
    """
    require_committed(source)
    with disk_errors(target):
        make_folder(target)
        for_all((source, target), lambda path: _share(path, target / path.name), part_files(source))
        sync_folder(target)


def _share(source: Place, target: Place) -> None:
    if system_of(source) == system_of(target):
        system_of(target).share(str(source), str(target))
    else:
        copy_file(source, target)


def copy_parts(source: Place, target: Place) -> None:
    """Copy the data files of a finished folder into a new one, durably: those of another run, which may go its way.

    Args:
        source: The finished folder.
        target: A new folder; made.
    """
    require_committed(source)
    make_folder(target)
    for_all((source, target), lambda path: copy_file(path, target / path.name), part_files(source))
    sync_folder(target)


def succeed(folder: Place) -> None:
    """Set the marker of a whole result, durably and as the last thing.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    create_exclusively(folder / SUCCESS, b"", mode=0o644)
    sync_folder(folder)  # also of a marker that is there: whoever set it may have died before this


def discard(folder: Place, *, tombstone: bool = False) -> None:
    """Destroy a folder and all it holds.

    Args:
        folder: What to destroy; nothing happens when it does not exist (but the tombstone is set).
        tombstone: Whether the name is blocked for ever, where the file system can: a task of a dead driver that still
            runs somewhere then cannot write there, whatever it tries.

    Raises:
        OutputError: Something of it cannot be removed. What was destroyed must not be there: never is that ignored.
    """
    with disk_errors(folder):
        system_of(folder).destroy(str(folder), tombstone=tombstone)


def remove_whole(place: Place) -> None:
    """Destroy a file, or a folder with all that it holds; of a link the link alone.

    Raises:
        OutputError: Something of it cannot be removed.
    """
    if place.is_dir() and not (isinstance(place, Path) and place.is_symlink()):
        discard(place)
        return
    with disk_errors(place):
        system_of(place).remove(str(place))


def bytes_of(place: Place) -> int:
    """Bytes of a file, or of all files below a folder."""
    if place.is_file():
        return size_of(place)
    return sum(for_all(place, lambda name: size_of(place / name), files_below(place)))


def set_times(folder: Place, instant: datetime) -> None:
    """Give a folder and all it holds one time of change: when each file was written tells how long its making took.

    Args:
        folder: Need not exist.
        instant: What everybody may know, such as when the run began.
    """
    if not isinstance(folder, Path):
        return  # a store keeps when each object was put
    nanoseconds = int(instant.timestamp()) * 1_000_000_000
    for place, folders, files in os.walk(folder, topdown=False):  # a folder after what is in it
        for path in (*(Path(place, name) for name in (*files, *folders)), Path(place)):
            with suppress(FileNotFoundError):  # another driver may be clearing its staging folder
                os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)


def close_to_others(folder: Place) -> None:
    """Take every permission in a folder from group and others, whatever umask it was written under.

    A task of a dead driver may still be cleaning up: what vanishes meanwhile needs no other mode.
    """
    if not isinstance(folder, Path):  # who may open what is decided for the whole root
        return
    for place, folders, files in os.walk(folder):  # passes over folders that are gone, where rglob fails
        for path in (Path(place), *(Path(place, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & 0o077:
                    path.chmod(stat.S_IMODE(mode) & ~0o077)


def open_as_marker(folder: Place) -> None:
    """Give the data files of a finished folder the mode of its marker: that of a new file of this process."""
    if not isinstance(folder, Path):
        return
    mode = stat.S_IMODE((folder / SUCCESS).stat().st_mode)
    for path in part_files(folder):
        os.chmod(str(path), mode)


def require_writable(folder: Place) -> None:
    """Refuse a place where nothing can be made, before anything is.

    Args:
        folder: Need not exist; its nearest existing parent is asked.

    Raises:
        OutputError: That is no folder, or this user may not write there.
    """
    if not isinstance(folder, Path):
        return
    place = nearest(folder)
    if not place.is_dir():
        raise OutputError(f"{folder}: cannot be written: {place} is no folder", hint="choose another output folder")
    if not os.access(place, os.W_OK | os.X_OK):
        hint = "give this user the right to write there, or choose another output folder"
        raise OutputError(f"{folder}: cannot be written: this user may not write to {place}", hint=hint)


def require_space(folder: Place, needed: int) -> None:
    """Refuse to begin what the disk cannot hold.

    Args:
        folder: Where it will be written; its nearest existing parent is asked.
        needed: Bytes.

    Raises:
        OutputError: There is less room than that.
    """
    free = system_of(folder).free_space(str(folder))
    if free is not None and free < needed:
        raise OutputError(
            f"{folder}: about {needed / 1e9:.1f} GB will be written and {free / 1e9:.1f} GB are free",
            hint="make room, or set output.root to another disk; the run resumes where it stopped",
        )


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
