"""What the store asks of a file system: a few operations, each with the atomicity and durability that it must have.

Everything that a run promises (a level is drawn once, half a table is never taken for a whole one, a killed driver's
run can go on) rests on these and on nothing else. `PosixFileSystem` is the implementation for disks; any other one must
pass the conformance suite of the tests. What not every file system can do is said by its `Capabilities`, and the store
has another way there:

- no `renames`: files are copied to their place one by one, and are a result when their marker is there, written last;
- no `locks`: a lock is a file that is created exclusively, and stays when its holder dies until somebody removes it;
- no `tombstones`: a late task of a dead driver may write to the folder of an attempt that was destroyed. It is never
  promoted, since files are promoted by name and checksum, from the folder of the attempt that the journal names;
- no `modes`: who may open a file is decided for the whole root, outside of this software.

Whatever the umask of a process, nothing that is made or moved here may be written by everybody, where there are modes.

A file system must be strongly consistent: once an operation has returned, every process finds what it did.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from textwrap import shorten
from typing import BinaryIO, Final, Protocol, Self, overload

from das_spark.errors import OutputError
from das_spark.process import OTHERS_WRITE

#: Begin of the names of files on which a place is tried; nothing of a result is called so.
TRIED: Final = ".tried-"
_NO_NAMES: Final = ("", ".", "..")
#: Errors of a file that cannot grow.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: A disk with less than so many bytes is full: what was half written has been removed when that is asked.
_LITTLE = 16 << 20
#: Characters of what a store said that an error repeats.
_SAID: Final = 200
_OPEN_FOLDER: Final = 0o777 & ~OTHERS_WRITE
#: Another device, a disk without hard links, or too many of them.
_NO_LINK: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a file system can do beyond what every one must.

    Attributes:
        renames: `move` gives a file another name in one step and copies nothing.
        locks: A lock ends with the process that holds it, however it ends.
        tombstones: A plain file in the place of a folder keeps everybody from writing into that folder.
        modes: Files and folders can be closed to other users, and have times of change that can be set.
    """

    renames: bool
    locks: bool
    tombstones: bool
    modes: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder; it may be neither a file nor a folder.

    Attributes:
        path: Its path, or its address.
        is_folder: Whether it is a folder, or a link to one.
        is_file: Whether it is a file, or a link to one.
        is_link: Whether it is a link.
    """

    path: str
    is_folder: bool
    is_file: bool
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


class FileSystem(Protocol):
    """The operations; paths are texts, with `/` between their parts. What is missing raises `FileNotFoundError`.

    A file system that is no disk takes the address of a path for the path, too.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beyond what every one must."""

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        """Make a small file where there is none: whole, durable, and by one process only of those that try at once.

        Returns:
            Whether this call made it; what was there is never replaced.
        """

    def write(self, path: str, content: bytes, *, mode: int = 0o666) -> None:
        """Write a small file durably, in one step: a reader sees the old one or the new one, never a part."""

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""

    def open_input(self, path: str) -> BufferedReader:
        """A file to read from, at any place in it."""

    def open_output(self, path: str) -> BinaryIO:
        """A new file to write from its beginning to its end; nobody else writes it, and it counts when it is closed."""

    def uri(self, path: str) -> str:
        """The address of a path, by which others name it who do not know which file system is meant."""

    def move(self, source: str, target: str) -> None:
        """Give a file another name, in the place of a file of that name; its bytes and, after `sync`, its name last.

        Under the new name there is the old file or the whole new one at every moment, and the new one is there before
        the old name is gone.
        """

    def copy(self, source: str, target: str) -> None:
        """Give a new file the bytes of another one, durably."""

    def share(self, source: str, target: str) -> None:
        """Give a file that is never changed a second name, or a durable copy; either can be deleted by itself."""

    def sync(self, path: str) -> None:
        """Make durable what others wrote into a file, or the names in a folder."""

    def names(self, folder: str) -> set[str]:
        """Names of the files and folders in a folder; none where there is no such folder."""

    def files(self, folder: str) -> dict[str, str]:
        """Names of the files in a folder, each with a text that changes whenever the file does."""

    def files_below(self, folder: str) -> dict[str, str]:
        """The same of all files in a folder and below it, by their paths as seen from the folder."""

    def entries(self, folder: str) -> list[Entry]:
        """What is in a folder, by names in order; nothing where there is no such folder."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file of this name."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name; where folders are mere prefixes, whether a file is below it."""

    def size(self, path: str) -> int:
        """Bytes of a file."""

    def version(self, path: str) -> str:
        """A text that changes whenever the file does, such as its size and time of change."""

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        """Make a folder and those above it, as far as they are missing; nothing, where folders are mere prefixes."""

    def remove(self, path: str) -> None:
        """Destroy a file, durably; nothing where it is missing."""

    def destroy(self, folder: str, *, tombstone: bool = False) -> None:
        """Destroy a folder with all that it holds, durably; nothing where there is no such folder.

        When it returns nothing is left, or it raises; its marker goes before anything else. With `tombstone`, and where
        the file system has any, a plain file takes its name, which keeps late tasks from writing there.
        """

    def remove_empty(self, folder: str) -> None:
        """Remove a folder in which nothing is; one that holds something, or is missing, stays as it is."""

    def free_space(self, path: str) -> int | None:
        """Bytes that can still be written; the folder need not exist. None where nothing limits them."""

    def hold(self, path: str, word: str) -> AbstractContextManager[None]:
        """Hold a lock: a file that contains the word of its holder, by which a holder finds out that it lost it.

        Raises:
            BlockingIOError: Another process holds it.
        """

    def is_held(self, path: str) -> bool:
        """Whether some process holds a lock."""

    def holder(self, path: str) -> str:
        """The word of the last holder of a lock; empty where there is none."""


class PosixFileSystem:
    """Disks of this machine, and network disks that behave like them."""

    capabilities: Final = Capabilities(renames=True, locks=True, tombstones=True, modes=True)

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        """As `FileSystem`: by a hard link, which appears in one step and never replaces anything."""
        if not content:
            return self._create_in_place(path, content, mode)  # an empty file is whole from the first
        # A word of its own: two machines that share the disk may have processes of one number.
        temporary = _beside(path, f"{secrets.token_hex(4)}.tmp")
        try:
            self.write(temporary, content, mode=mode)
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError:  # a disk without hard links: the same, but a power cut may leave half of the file
                return self._create_in_place(path, content, mode)
        finally:
            _unlink(temporary)
        self.sync(os.path.dirname(path))
        return True

    def _create_in_place(self, path: str, content: bytes, mode: int) -> bool:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & ~OTHERS_WRITE)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.sync(os.path.dirname(path))
        return True

    def write(self, path: str, content: bytes, *, mode: int = 0o666) -> None:
        """As `FileSystem`: beside the place, and renamed when it is whole."""
        temporary = _beside(path, f"{os.getpid()}.tmp")
        try:
            _unlink(temporary)  # what another process left may be open to others
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & ~OTHERS_WRITE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            _unlink(temporary)
        self.sync(os.path.dirname(path))

    def read(self, path: str) -> bytes:
        """As `FileSystem`."""
        return Path(path).read_bytes()

    def open_input(self, path: str) -> BufferedReader:
        """As `FileSystem`."""
        return open(path, "rb")

    def open_output(self, path: str) -> BinaryIO:
        """As `FileSystem`."""
        self.make_folder(os.path.dirname(path) or ".")
        return open(path, "wb", opener=_open_closed)

    def uri(self, path: str) -> str:
        """As `FileSystem`: itself."""
        return path

    def move(self, source: str, target: str) -> None:
        """As `FileSystem`: renamed, or copied to another device."""
        _close(source)  # whoever wrote it, and under what umask
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(source, target)
            os.unlink(source)

    def copy(self, source: str, target: str) -> None:
        """As `FileSystem`."""
        _copy(source, target)

    def share(self, source: str, target: str) -> None:
        """As `FileSystem`: a hard link, or a copy where the disk has no such links."""
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            _copy(source, target)

    def sync(self, path: str) -> None:
        """As `FileSystem`."""
        descriptor = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def names(self, folder: str) -> set[str]:
        """As `FileSystem`."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return set(os.listdir(folder))
        return set()

    def files(self, folder: str) -> dict[str, str]:
        """As `FileSystem`."""
        found = dict[str, str]()
        for name in self.names(folder):
            if (state := self._state(f"{folder}/{name}")) is not None:
                found[name] = state
        return found

    def _state(self, path: str) -> str | None:
        """The version of a file; None of a folder, and of what has vanished since it was listed."""
        with suppress(FileNotFoundError):
            return self.version(path) if os.path.isfile(path) else None
        return None

    def files_below(self, folder: str) -> dict[str, str]:
        """As `FileSystem`."""
        found, left = dict[str, str](), list(self.names(folder))
        while left:
            name = left.pop()
            path = f"{folder}/{name}"
            if (state := self._state(path)) is not None:
                found[name] = state
            else:
                left += [f"{name}/{inner}" for inner in self.names(path)]
        return found

    def entries(self, folder: str) -> list[Entry]:
        """As `FileSystem`."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listed:
            each = sorted(listed, key=lambda entry: entry.name)
            return [Entry(one.path, one.is_dir(), one.is_file(), one.is_symlink()) for one in each]
        return []

    def is_file(self, path: str) -> bool:
        """As `FileSystem`."""
        return os.path.isfile(path)

    def is_folder(self, path: str) -> bool:
        """As `FileSystem`."""
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        """As `FileSystem`."""
        return os.stat(path).st_size

    def version(self, path: str) -> str:
        """As `FileSystem`."""
        found = os.stat(path)
        return f"{found.st_size} {found.st_mtime_ns}"

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        """As `FileSystem`; the mode is that of the last folder."""
        folder = Path(path)
        for each in reversed([above for above in folder.parents if not above.exists()]):
            each.mkdir(mode=_OPEN_FOLDER, exist_ok=True)
        folder.mkdir(mode=mode & ~OTHERS_WRITE, exist_ok=True)

    def remove(self, path: str) -> None:
        """As `FileSystem`."""
        _unlink(path)
        self.sync(os.path.dirname(path))

    def destroy(self, folder: str, *, tombstone: bool = False) -> None:
        """As `FileSystem`: the folder loses its name first, so that nobody sees half of it."""
        if not os.path.isdir(os.path.dirname(folder) or "."):
            if not tombstone:
                return
            self.make_folder(os.path.dirname(folder))
        doomed = _beside(folder, "destroyed")
        if os.path.exists(doomed):  # a driver died in the middle of it
            shutil.rmtree(doomed)
        while True:
            if os.path.isdir(folder):
                os.rename(folder, doomed)
                shutil.rmtree(doomed)
            if not tombstone or self._set_tombstone(folder):
                break
        self.sync(os.path.dirname(folder))

    @staticmethod
    def _set_tombstone(path: str) -> bool:
        """Put an empty file in the place of a folder; False when a late task has made the folder anew."""
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400))
        except FileExistsError:
            return not os.path.isdir(path)
        return True

    def remove_empty(self, folder: str) -> None:
        """As `FileSystem`."""
        with suppress(OSError):
            os.rmdir(folder)

    def free_space(self, path: str) -> int | None:
        """As `FileSystem`: of the disk that holds the nearest folder above."""
        return shutil.disk_usage(nearest(Path(path))).free

    @contextmanager
    def hold(self, path: str, word: str) -> Iterator[None]:
        """As `FileSystem`: the system releases it when the process ends, however it ends."""
        import fcntl  # noqa: PLC0415 - POSIX only: reading a layout must not need it

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, word.encode(), 0)
            os.fsync(descriptor)
            yield
        finally:
            os.close(descriptor)

    def is_held(self, path: str) -> bool:
        """As `FileSystem`; on this machine or on one that shares the disk and its locks."""
        import fcntl  # noqa: PLC0415 - as above

        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def holder(self, path: str) -> str:
        """As `FileSystem`."""
        with suppress(OSError):
            return self.read(path).decode()
        return ""


POSIX: Final = PosixFileSystem()


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder in a file system that is no disk of this machine: layouts are made of these as of `Path`.

    Attributes:
        system: The file system.
        path: Its path there.
    """

    system: FileSystem
    path: PurePosixPath

    def __str__(self) -> str:
        """The address, which the operations of the file system take, too."""
        return self.system.uri(str(self.path))

    def __truediv__(self, name: str) -> Self:
        """Something in this folder."""
        return type(self)(self.system, self.path / name)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    @property
    def parent(self) -> Self:
        """The folder that it lies in."""
        return type(self)(self.system, self.path.parent)

    @property
    def parents(self) -> tuple[Self, ...]:
        """The folders above it, the nearest first."""
        return tuple(type(self)(self.system, parent) for parent in self.path.parents)

    def with_name(self, name: str) -> Self:
        """Something beside it.

        Raises:
            OutputError: It is the whole of a store, and nothing is beside it.
        """
        if not self.path.name:
            raise OutputError(f"{self}: is the whole of a store", hint="name a folder or a file in it")
        return type(self)(self.system, self.path.with_name(name))

    def is_file(self) -> bool:
        """Whether there is a file of this name."""
        return self.system.is_file(str(self))

    def is_dir(self) -> bool:
        """Whether there is a folder of this name."""
        return self.system.is_folder(str(self))

    def exists(self) -> bool:
        """Whether there is anything of this name."""
        return self.is_file() or self.is_dir()

    def open(self, mode: str = "rb") -> BufferedReader:
        """The file, to read from."""
        return self.system.open_input(str(self))

    def iterdir(self) -> Iterator[Self]:
        """What is in this folder."""
        return (self / name for name in sorted(self.system.names(str(self))))

    def read_bytes(self) -> bytes:
        """The content of a small file."""
        return self.system.read(str(self))

    def read_text(self, encoding: str = "utf-8") -> str:
        """The content of a small file of text."""
        return self.read_bytes().decode(encoding)

    def resolve(self) -> Self:
        """Itself: there are no links."""
        return self

    absolute = resolve

    def is_absolute(self) -> bool:
        """Whether every process means the same place by it: always."""
        return True

    @property
    def suffix(self) -> str:
        """The ending of the last part of the path, with its dot; empty where it has none."""
        return self.path.suffix

    @property
    def stem(self) -> str:
        """The last part of the path without its ending."""
        return self.path.stem


#: Where something lies: a `Path` on the disks of this machine, a `Location` in any other file system.
Place = Path | Location


@overload
def inside(root: Path, *parts: str) -> Path: ...
@overload
def inside(root: Place, *parts: str) -> Place: ...
def inside(root: Place, *parts: str) -> Place:
    """The path of something in a folder: the only way to it from names, and no name leads out of the folder.

    Args:
        root: The folder; it may be a link itself, and need not exist.
        parts: Names of folders, and perhaps of a file, each in the one before.

    Raises:
        OutputError: A part is no single name; or, on a disk, a link below the folder leads out of it.
    """
    path = root
    for part in parts:
        if part in _NO_NAMES or "/" in part or "\0" in part:
            raise OutputError(f"{root}: {part!r} is no name of a file or folder in it")
        path = path / part
    if isinstance(path, Path):
        real, expected = os.path.realpath(str(root)), os.path.realpath(path)
        if os.path.commonpath((real, expected)) != real:
            raise OutputError(
                f"{path}: a link on the way leads out of {root}",
                hint="put the files themselves there, or move the folder",
            )
    return path


def system_of(place: str | Place) -> FileSystem:
    """The file system in which something lies; a text is a path on the disks of this machine."""
    return place.system if isinstance(place, Location) else POSIX


def as_input(place: Place) -> Path | BufferedReader:
    """What libraries read a file from: on a disk its path, elsewhere the file, opened."""
    return place if isinstance(place, Path) else place.open()


def size_of(place: Place) -> int:
    """Bytes of a file."""
    return system_of(place).size(str(place))


def copy_file(source: Place, target: Place) -> None:
    """Give a new file the bytes of another one, durably: by the file system of both, or through this machine."""
    if system_of(source) == system_of(target):
        system_of(target).copy(str(source), str(target))
        return
    with system_of(source).open_input(str(source)) as read, system_of(target).open_output(str(target)) as written:
        shutil.copyfileobj(read, written, 1 << 22)
    system_of(target).sync(str(target))


def move_file(source: Place, target: Place) -> None:
    """Give a file another place; as `FileSystem.move` within one file system."""
    if system_of(source) == system_of(target):
        system_of(target).move(str(source), str(target))
        return
    copy_file(source, target)
    system_of(source).remove(str(source))


def seen_from(folder: Place, place: Place) -> str:
    """The path of something in a folder as seen from there, with `/` between its parts; "." of the folder itself."""
    if isinstance(folder, Path) and isinstance(place, Path):
        return place.relative_to(folder).as_posix()
    whole, prefix = str(place), f"{folder}/"
    if whole == str(folder):
        return "."
    if not whole.startswith(prefix):
        raise ValueError(f"{place} does not lie in {folder}")
    return whole.removeprefix(prefix)


def nearest(folder: Path) -> Path:
    """A folder, or the nearest above it that exists."""
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def _beside(path: str, ending: str) -> str:
    """A hidden name beside a path, of one that is being made or destroyed."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{ending}")


def _open_closed(path: str, flags: int) -> int:
    """Open a file that, where it is made, not everybody may write."""
    return os.open(path, flags, 0o666 & ~OTHERS_WRITE)


def _close(path: str) -> None:
    """Take from everybody the permission to write a file or folder."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & OTHERS_WRITE:
        os.chmod(path, mode & ~OTHERS_WRITE)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _copy(source: str, target: str) -> None:
    """Copy a file; the target gets its name only when all bytes are down."""
    temporary = _beside(target, "copy")
    with open(source, "rb") as reader, open(temporary, "wb", opener=_open_closed) as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())
    os.replace(temporary, target)


def want_of_room(error: BaseException) -> int:
    """Return the number of the system's error where a file could not grow, such as ENOSPC; 0 for any other error.

    Args:
        error: Looked at with all that it was raised from, or was raised while it was handled. The JVM and Arrow say the
            same in the words of the system.
    """
    seen: BaseException | None = error
    while seen is not None:
        for number in _NO_ROOM:
            if (isinstance(seen, OSError) and seen.errno == number) or os.strerror(number) in str(seen):
                return number
        seen = seen.__cause__ or seen.__context__
    return 0


def no_room(what: str, number: int, *, where_known: bool = False) -> OutputError:
    """Return the error of a file that could not grow.

    Args:
        what: What could not be done, or written.
        number: Result of `want_of_room`, not 0.
        where_known: Whether it is known that no scratch file of Spark was meant.
    """
    if number == errno.EFBIG:
        said, fix = "no file of this process may grow so large (ulimit -f)", "raise that limit"
    else:
        other = "" if where_known else ", or on one that holds scratch files of Spark (spark.local.dir)"
        said, fix = f"no space left on the disk{other}", "make room, or set output.root to another disk"
    return OutputError(f"{what}: {said}", hint=f"{fix}; a run resumes where it stopped")


@contextmanager
def disk_errors(place: Place) -> Iterator[None]:
    """Turn the many faces of a file that cannot grow, Spark's among them, into one error that says what to do.

    Raises:
        OutputError: The disk is full, a limit is reached, or the place cannot be written.
    """
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        if number := want_of_room(error):
            raise no_room(str(place), number, where_known=_has_little_room(place)) from error
        if isinstance(place, Location) and isinstance(error, OSError):
            raise OutputError(
                f"{place}: {said(error)}",
                hint="is the address right, and may this user read and write there? A run resumes where it stopped",
            ) from error
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
            raise OutputError(
                f"{place}: cannot be written ({type(error).__name__})", hint="choose another output folder"
            ) from error
        raise


def said(error: OSError) -> str:
    """What a store said, in one line."""
    text = (error.strerror or str(error)).strip() or type(error).__name__
    return shorten(text.splitlines()[0], _SAID, placeholder=" ...")


def _has_little_room(place: Place) -> bool:
    """Whether the disk of a place is full; Spark does not say whose disk it was that filled."""
    free = system_of(place).free_space(str(place))
    return free is not None and free < _LITTLE
