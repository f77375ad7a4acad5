"""Hadoop's file systems for the store: HDFS, S3A, ABFS, GCS, viewfs, whatever Spark itself can read.

Small files go through the JVM as they are; of large ones the JVM is told where they lie on the disk of this machine.
How a kind of file system creates a file exclusively and replaces one in one step is not the same everywhere, and
nothing that Hadoop could be asked says it: `_KINDS` does, and a kind that it does not know is refused.
"""

from __future__ import annotations

import io
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from das_spark.config import is_address, parse_address
from das_spark.errors import OutputError
from das_spark.store.filesystem import POSIX, Capabilities, Location

if TYPE_CHECKING:
    from datetime import datetime

#: Bytes that are read at once of a file that is read through the JVM.
_BLOCK: Final = 1 << 20
_NO_LIMIT: Final = 1 << 62


class Creation(StrEnum):
    """How a file is created by one of those who try."""

    LINK = "link"  # by a hard link of this machine: Hadoop's local file system looks first and writes then
    RENAME = "rename"  # written aside, and given its name unless there is one
    CREATE = "create"  # created without overwriting, which the service decides
    CONDITIONAL = "conditional"  # put on condition that there is none, where the service knows conditions


@dataclass(frozen=True, slots=True)
class _Kind:
    creation: Creation
    renames: bool  # a file is given another name, in the place of one, in one step


_KINDS: Final = {
    # The name node decides, under one lock.
    "hdfs": _Kind(Creation.RENAME, renames=True),
    # The same name node, asked by HTTP; its renames know no overwriting.
    "webhdfs": _Kind(Creation.CREATE, renames=False),
    "swebhdfs": _Kind(Creation.CREATE, renames=False),
    "file": _Kind(Creation.LINK, renames=True),
    # A rename copies there; a put is whole when it is there, and may have a condition.
    "s3a": _Kind(Creation.CONDITIONAL, renames=False),
    "gs": _Kind(Creation.CREATE, renames=False),
    "abfs": _Kind(Creation.CREATE, renames=False),
    "abfss": _Kind(Creation.CREATE, renames=False),
}
#: What Hadoop can be asked about a path.
_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"
_PERMISSIONS: Final = "fs.capability.paths.permissions"
_LATE_LISTING: Final = "fs.capability.directory.listing.inconsistent"
#: Exceptions of Java -> those of Python, of which the store knows.
_ERRORS: Final = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "java.nio.file.NoSuchFileException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.fs.PathIsNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
    "java.nio.file.AccessDeniedException": PermissionError,
}


def located(address: str) -> Location:
    """The place of an address; nothing is asked of the file system yet.

    Raises:
        OutputError: It is no address.
    """
    found = parse_address(address)
    if found is None:
        raise OutputError(f"{address}: no address of a file system", hint="such as hdfs://cluster/runs")
    path = PurePosixPath(found.path)
    return Location(HadoopFileSystem(f"{found.scheme}://{found.authority}", str(path)), path)


def place_named(text: str | Path) -> Path | Location:
    """The place that a user names: a path of a disk, or an address such as `hdfs://cluster/runs/mine`."""
    return located(text) if isinstance(text, str) and is_address(text) else Path(text)


@dataclass(frozen=True)
class HadoopFileSystem:
    """One file system of Hadoop, below one folder: what a `viewfs` has there is found by that folder.

    Attributes:
        root: Scheme and authority.
        base: The folder, by which the capabilities are found.
    """

    root: str
    base: str = field(default="/", compare=False)

    def uri(self, path: str) -> str:
        """The address of a path, as Spark and others take it."""
        return f"{self.root}{path}"

    @cached_property
    def _jvm(self) -> Any:  # noqa: ANN401 - py4j has no types
        from das_spark.spark.hadoop_gateway import gateway  # noqa: PLC0415 - no Java before it is needed

        return gateway().jvm

    @cached_property
    def _configuration(self) -> Any:  # noqa: ANN401 - as above
        from das_spark.spark.hadoop_gateway import configuration  # noqa: PLC0415 - as above

        return configuration()

    @cached_property
    def _system(self) -> Any:  # noqa: ANN401 - as above
        with self._opening():
            # One of our own: Spark's has checksum files where the system is local, and ours must not change that.
            system = self._jvm.org.apache.hadoop.fs.FileSystem.newInstance(
                self._jvm.java.net.URI(f"{self.root}/"), self._configuration
            )
            system.setWriteChecksum(False)
            system.setVerifyChecksum(False)
            return system

    @cached_property
    def _context(self) -> Any:  # noqa: ANN401 - as above
        with self._opening():
            return self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._jvm.java.net.URI(f"{self.root}/"), self._configuration
            )

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            with _java_errors(self.root):
                yield
        except OSError as error:
            raise OutputError(
                f"{self.root}: cannot be opened ({error})",
                hint="does Hadoop's configuration know it (HADOOP_CONF_DIR, or spark.hadoop.* in the property file "
                "that DAS_SPARK_ENV names), and are its classes in $SPARK_HOME/jars?",
            ) from error

    @cached_property
    def _resolved(self) -> tuple[str, str]:
        """Scheme and path of the nearest folder that is there: a mount of `viewfs` leads elsewhere."""
        place = PurePosixPath(self.base)
        for folder in (place, *place.parents):
            with suppress(FileNotFoundError), _java_errors(self.uri(str(folder))):
                found = self._system.resolvePath(self._path(str(folder)))
                rest = "" if folder == place else str(place.relative_to(folder))
                path = str(PurePosixPath(str(found.toUri().getPath())) / rest)
                return str(found.toUri().getScheme()), path
        raise OutputError(
            f"{self.uri(self.base)}: cannot be reached", hint="is its host right, or the mount table of the viewfs?"
        )

    @cached_property
    def _kind(self) -> _Kind:
        scheme = self._resolved[0]
        known = _KINDS.get(scheme)
        if known is None:
            raise OutputError(
                f"{self.uri(self.base)}: of {scheme}:// it is not known how a file is created by one process alone",
                hint=f"known are {', '.join(_KINDS)}; or write the run to a folder of a disk",
            )
        if known.creation is Creation.CONDITIONAL and not self._has(_CONDITIONAL):
            raise OutputError(
                f"{self.uri(self.base)}: this {scheme}:// cannot create a file on condition that there is none",
                hint="Hadoop 3.4.2 or later does, with fs.s3a.create.conditional.enabled",
            )
        if self._has(_LATE_LISTING):
            raise OutputError(
                f"{self.uri(self.base)}: lists files later than they are there",
                hint="choose a place that is strongly consistent",
            )
        return known

    @cached_property
    def capabilities(self) -> Capabilities:
        """As `FileSystem`: renames by the kind; modes as Hadoop says; locks and tombstones nowhere."""
        modes = self._has(_PERMISSIONS) or self._resolved[0] in {"hdfs", "file"}
        return Capabilities(renames=self._kind.renames, locks=False, tombstones=False, modes=modes)

    def _has(self, capability: str) -> bool:
        with suppress(OSError), _java_errors(self.uri(self.base)):
            return bool(self._system.hasPathCapability(self._path(self.base), capability))
        return False

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        """As `FileSystem`, in the way of the kind (`Creation`)."""
        creation = self._kind.creation
        if creation is Creation.LINK:
            self.make_folder(os.path.dirname(path))
            return POSIX.create(self._on_disk(path), content, mode=mode)
        if creation is Creation.RENAME:
            if self.is_file(path):
                return False
            temporary = _beside(path)
            self._put(temporary, content, mode)
            try:
                self._rename(temporary, path, overwrite=False)
            except FileExistsError:
                return False
            finally:
                self._delete(temporary)
            return True
        try:
            self._put(path, content, mode, exclusive=creation)
        except FileExistsError:
            return False
        return True

    def _on_disk(self, path: str) -> str:
        """Where a path lies whose file system is local in the end."""
        return str(PurePosixPath(self._resolved[1]) / PurePosixPath(path).relative_to(self.base))

    def write(self, path: str, content: bytes, *, mode: int = 0o666, check: Callable[[], None] = lambda: None) -> None:
        """As `FileSystem`: beside the place and renamed, or put as a whole where a rename copies."""
        if not self._kind.renames:
            check()
            self._put(path, content, mode)
            return
        temporary = _beside(path)
        try:
            self._put(temporary, content, mode)
            check()
            self._rename(temporary, path)
        finally:
            self._delete(temporary)

    def _put(self, path: str, content: bytes, mode: int, exclusive: Creation | None = None) -> None:
        with _java_errors(path):
            there = self._path(path)
            if exclusive is Creation.CONDITIONAL:
                opened = self._system.createFile(there).overwrite(True).must(_CONDITIONAL, "true").build()
            else:
                opened = self._system.create(there, exclusive is None)
            try:
                opened.write(content)
                if opened.hasCapability("hsync"):
                    opened.hsync()
            finally:
                opened.close()
            if mode != _OPEN_FILE and self.capabilities.modes:
                self._set_mode(path, mode)

    def _set_mode(self, path: str, mode: int) -> None:
        with _java_errors(path):
            permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
            self._system.setPermission(self._path(path), permission)

    def read(self, path: str) -> bytes:
        """As `FileSystem`."""
        with _java_errors(path):
            opened = self._system.open(self._path(path))
            try:
                return bytes(opened.readAllBytes())
            finally:
                opened.close()

    def open_input(self, path: str) -> BinaryIO:
        """As `FileSystem`: read through the JVM, as much at a time as is asked for."""
        with _java_errors(path):
            size = self.size(path)
            return io.BufferedReader(_Input(self._system.open(self._path(path)), path, size), _BLOCK)

    def open_output(self, path: str) -> BinaryIO:
        """As `FileSystem`: on the disk of this machine, and given to the file system when it is closed."""
        return _Output(self, path)

    def upload(self, file: Path, path: str) -> None:
        """Put a file of this machine, whatever its size; it counts when it is there as a whole."""
        with _java_errors(path):
            target = _beside(path) if self._kind.renames else path
            self._system.copyFromLocalFile(False, True, self._path_on_disk(file), self._path(target))
            if target != path:
                self._rename(target, path)

    def download(self, path: str, file: Path) -> None:
        """Get a file to this machine, whatever its size."""
        with _java_errors(path):
            self._system.copyToLocalFile(False, self._path(path), self._path_on_disk(file), True)

    def move(self, source: str, target: str) -> None:
        """As `FileSystem`: renamed, or copied where a rename would copy."""
        if self._kind.renames:
            self._rename(source, target)
        else:
            self.copy(source, target)
            self.remove(source)

    def _rename(self, source: str, target: str, *, overwrite: bool = True) -> None:
        with _java_errors(source):
            if self._resolved[0] == "file":  # where Hadoop removes the old file first, and renames then
                written = Path(self._on_disk(source))
                POSIX.move(str(written), self._on_disk(target))
                # A mount of a local folder writes checksums beside files, whatever it is told.
                written.with_name(f".{written.name}.crc").unlink(missing_ok=True)
                return
            options: Any = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
            chosen = self._gateway.new_array(options, 1)
            chosen[0] = options.OVERWRITE if overwrite else options.NONE
            self._context.rename(self._path(source), self._path(target), chosen)

    @property
    def _gateway(self) -> Any:  # noqa: ANN401 - py4j has no types
        from das_spark.spark.hadoop_gateway import gateway  # noqa: PLC0415 - as above

        return gateway()

    def copy(self, source: str, target: str) -> None:
        """As `FileSystem`."""
        with _java_errors(source):
            aside = _beside(target) if self._kind.renames else target
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(
                self._system, self._path(source), self._system, self._path(aside), False, True, self._configuration
            )
            if aside != target:
                self._rename(aside, target)

    share = copy

    def sync(self, path: str) -> None:
        """As `FileSystem`: nothing, since what is closed is durable, and names are the file system's own."""

    def names(self, folder: str) -> set[str]:
        """As `FileSystem`."""
        with suppress(FileNotFoundError, NotADirectoryError), _java_errors(folder):
            if not self.is_file(folder):
                return {str(each.getPath().getName()) for each in self._system.listStatus(self._path(folder))}
        return set()

    def is_file(self, path: str) -> bool:
        """As `FileSystem`."""
        found = self._status(path)
        return found is not None and bool(found.isFile())

    def is_folder(self, path: str) -> bool:
        """As `FileSystem`."""
        found = self._status(path)
        return found is not None and bool(found.isDirectory())

    def _status(self, path: str) -> Any:  # noqa: ANN401 - py4j has no types
        with suppress(FileNotFoundError, NotADirectoryError), _java_errors(path):
            return self._system.getFileStatus(self._path(path))
        return None

    def size(self, path: str) -> int:
        """As `FileSystem`."""
        with _java_errors(path):
            return int(self._system.getFileStatus(self._path(path)).getLen())

    def version(self, path: str) -> str:
        """As `FileSystem`."""
        with _java_errors(path):
            found = self._system.getFileStatus(self._path(path))
            return f"{found.getLen()} {found.getModificationTime()}"

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        """As `FileSystem`; the mode is that of the last folder."""
        with _java_errors(path):
            self._system.mkdirs(self._path(path))
            if mode != _OPEN_FOLDER and self.capabilities.modes:
                self._set_mode(path, mode)

    def remove(self, path: str) -> None:
        """As `FileSystem`."""
        self._delete(path)

    def destroy(self, folder: str, *, tombstone: bool = False) -> None:
        """As `FileSystem`: markers first, since not every file system removes a folder in one step."""
        for name in self.names(folder):
            if name == "_SUCCESS":
                self._delete(f"{folder}/{name}")
        if not self.is_folder(folder):
            return
        with _java_errors(folder):
            self._system.delete(self._path(folder), True)
        if self.is_folder(folder):
            raise OSError(f"{folder}: cannot be removed")

    def remove_empty(self, folder: str) -> None:
        """As `FileSystem`."""
        with suppress(OSError):
            if self.is_folder(folder) and not self.names(folder):
                self._delete(folder)

    def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError), _java_errors(path):
            self._system.delete(self._path(path), False)

    def free_space(self, path: str) -> int | None:
        """As `FileSystem`."""
        place = PurePosixPath(path)
        there = next((each for each in (place, *place.parents) if self.is_folder(str(each))), place)
        with _java_errors(path):
            # Of where a mount leads to: asked itself, the file system of the mounts fails.
            resolved = self._system.resolvePath(self._path(str(there)))
            left = int(resolved.getFileSystem(self._configuration).getStatus(resolved).getRemaining())
        return left if left < _NO_LIMIT else None

    def set_time(self, path: str, instant: datetime) -> None:
        """Give a file or folder a time of change, where the file system keeps one that can be set."""
        if self.capabilities.modes:
            with _java_errors(path):
                self._system.setTimes(self._path(path), int(instant.timestamp()) * 1000, -1)

    @contextmanager
    def hold(self, path: str, word: str) -> Iterator[None]:
        """As `FileSystem`: a file that is created exclusively, and stays when its holder dies."""
        if not self.create(path, word.encode(), mode=0o600):
            raise BlockingIOError(path)
        try:
            yield
        finally:
            with suppress(FileNotFoundError):
                if self.read(path) == word.encode():  # not the lock of who has taken it over
                    self.remove(path)

    def is_held(self, path: str) -> bool:
        """As `FileSystem`."""
        return self.is_file(path)

    def _path(self, path: str) -> Any:  # noqa: ANN401 - py4j has no types
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path))

    def _path_on_disk(self, file: Path) -> Any:  # noqa: ANN401 - py4j has no types
        return self._jvm.org.apache.hadoop.fs.Path("file", None, str(file.absolute()))


_OPEN_FILE: Final = 0o666
_OPEN_FOLDER: Final = 0o777


class _Input(io.RawIOBase):
    """A file that the JVM reads."""

    def __init__(self, opened: Any, path: str, size: int) -> None:  # noqa: ANN401 - py4j has no types
        super().__init__()
        self._opened, self._path, self._size, self._place = opened, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever has a buffer
        wanted = min(len(buffer), max(self._size - self._place, 0))
        if not wanted:
            return 0
        with _java_errors(self._path):
            self._opened.seek(self._place)
            found = bytes(self._opened.readNBytes(wanted))
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            with _java_errors(self._path):
                self._opened.close()
        super().close()


class _Output(io.FileIO):
    """A file on the disk of this machine that is put where it belongs when it is closed."""

    def __init__(self, system: HadoopFileSystem, path: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="das_spark-")
        os.close(descriptor)
        self._system, self._path, self._file = system, path, Path(name)
        super().__init__(name, "wb")

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._system.upload(self._file, self._path)
        finally:
            self._file.unlink(missing_ok=True)


def _beside(path: str) -> str:
    """A hidden name beside a path that no other process has."""
    folder, name = os.path.split(path)
    return f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"


@contextmanager
def _java_errors(path: str) -> Iterator[None]:
    """Exceptions of Java as those of Python that the store knows."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - only addresses of Hadoop need it

    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        name = str(thrown.getClass().getName())
        if name == "org.apache.hadoop.ipc.RemoteException":  # of a name node; it says which one it was there
            name = str(thrown.getClassName())
        kind = _ERRORS.get(name, OSError)
        raise kind(f"{path}: {name.rpartition('.')[2]}: {thrown.getMessage()}") from error
    except Py4JError as error:
        raise OSError(f"{path}: {error}") from error
