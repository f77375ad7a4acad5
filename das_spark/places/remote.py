"""Every file system that is no disk of this machine, by fsspec: stores of objects (S3, Azure, Google Cloud) and HDFS.

What is asked of fsspec is little, and no more than `tests/places/test_conformance.py` has tried on servers: an object
is put as a whole, created where there is none (`pipe_file(mode="create")`; opening with "xb" overwrites on some), read,
listed, copied, removed. An answer that says "there is none" for any error, such as fsspec's `isfile`, is never asked
for: a marker that cannot be reached is not a marker that is missing.

Credentials are those of the platform's usual chain (environment, profile, role of the machine) and of fsspec's own
configuration; no address holds any.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from das_spark.places.filesystem import Capabilities, Entry
from das_spark.places.lease import hold_by_lease, holder_of_lease, is_leased
from das_spark.places.waiting import at_once

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Scheme of an address -> the package that fsspec needs for it; none where it needs no other.
SCHEMES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hdfs": "pyarrow",
    "webhdfs": "requests",
    "memory": "",
}
#: Those in which a file can be renamed, and appears under its name by that alone.
_HADOOP: Final = ("hdfs", "webhdfs")
#: Bytes that a file may have which is read at once, and of those that one request brings without asking for the size.
_SMALL: Final = 8 << 20
_BEGINNING: Final = 1 << 18
#: Bytes of a block that is read ahead, and of a part that is uploaded.
_BLOCK: Final = 8 << 20
#: What stores say of an object that changes with its content.
_OF_CONTENT: Final = ("ETag", "etag", "md5Hash", "size")
#: What they say of when it was written.
_OF_TIME: Final = ("generation", "LastModified", "last_modified", "mtime", "created")
#: fsspec's objects of this process, by scheme and authority: none is handed on to a process that is forked.
_MADE: Final[dict[tuple[int, str, str], AbstractFileSystem]] = {}


@dataclass(frozen=True, slots=True)
class RemoteFileSystem:
    """A store of objects, or HDFS. It goes to tasks as a value, and is opened where it is used.

    Attributes:
        scheme: A key of `SCHEMES`.
        authority: Such as the name of a bucket; everything that the address has before its path.
    """

    scheme: str
    authority: str

    @property
    def capabilities(self) -> Capabilities:
        """As `FileSystem`: none."""
        return Capabilities(renames=False, locks=False, tombstones=False, modes=False)

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        """As `FileSystem`: by a condition on the request; on HDFS by a rename, which replaces nothing."""
        with self._asked(path) as (files, key):
            if self.scheme in _HADOOP:
                self._make_parent(files, key)
                return self._create_by_rename(files, key, content)
            try:
                files.pipe_file(key, content, mode="create")
            except FileExistsError:
                # Perhaps by this very call: the answer was lost, and the request was sent again.
                return bool(files.cat_file(key) == content != b"")
            return True

    @staticmethod
    def _create_by_rename(files: AbstractFileSystem, key: str, content: bytes) -> bool:
        folder, _, name = key.rpartition("/")
        temporary = f"{folder}/.{name}.{secrets.token_hex(8)}.tmp"
        files.pipe_file(temporary, content)
        try:
            with suppress(OSError):  # whether it was moved is seen
                files.mv(temporary, key)
            return not _is_there(files, temporary)
        finally:
            with suppress(FileNotFoundError):
                files.rm_file(temporary)

    def write(self, path: str, content: bytes, *, mode: int = 0o666) -> None:
        """As `FileSystem`: an object is put as a whole."""
        with self._asked(path) as (files, key):
            self._make_parent(files, key)
            files.pipe_file(key, content)

    def read(self, path: str) -> bytes:
        """As `FileSystem`."""
        with self._asked(path) as (files, key):
            return bytes(files.cat_file(key))

    def open_input(self, path: str) -> io.BufferedReader:
        """As `FileSystem`: a small file is read at once."""
        with self._asked(path) as (files, key):
            content = _read_small(files, key, ranges=self.scheme not in _HADOOP)
        if content is None:
            return io.BufferedReader(_Download(self, path))
        return io.BufferedReader(cast("io.RawIOBase", io.BytesIO(content)))

    def open_output(self, path: str) -> BinaryIO:
        """As `FileSystem`: the object is there when the file is closed, and not where it is left by an error."""
        return cast("BinaryIO", _Upload(self, path))

    def uri(self, path: str) -> str:
        """As `FileSystem`."""
        root = f"{self.scheme}://{self.authority}"
        return path if path.startswith(f"{self.scheme}://") else f"{root}{path}"

    def move(self, source: str, target: str) -> None:
        """As `FileSystem`: copied there, and removed here."""
        self.copy(source, target)
        self.remove(source)

    def copy(self, source: str, target: str) -> None:
        """As `FileSystem`: by the store itself."""
        with self._asked(target) as (files, key):
            files.cp_file(self._key(files, source), key)

    share = copy

    def sync(self, path: str) -> None:
        """As `FileSystem`: what was put is durable."""

    def names(self, folder: str) -> set[str]:
        """As `FileSystem`."""
        return set(self._listed(folder))

    def entries(self, folder: str) -> list[Entry]:
        """As `FileSystem`."""
        place, listed = self.uri(folder).rstrip("/"), sorted(self._listed(folder).items())
        kinds = {name: info["type"] for name, info in listed}
        return [Entry(f"{place}/{name}", kind == "directory", kind == "file") for name, kind in kinds.items()]

    def files(self, folder: str) -> dict[str, str]:
        """As `FileSystem`: from one listing."""
        return {name: _state(info) for name, info in self._listed(folder).items() if info["type"] == "file"}

    def files_below(self, folder: str) -> dict[str, str]:
        """As `FileSystem`: from one listing."""
        with self._asked(folder) as (files, key):
            files.invalidate_cache()
            found = files.find(key, detail=True)
        return {name: _state(info) for name, info in _in_folder(key, found.values()).items()}

    def _listed(self, folder: str) -> dict[str, dict[str, Any]]:
        """Names in a folder -> what the store says of each."""
        with self._asked(folder) as (files, key):
            files.invalidate_cache()
            try:
                listed = files.ls(key, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return {}
        return _in_folder(key, listed)

    def is_file(self, path: str) -> bool:
        """As `FileSystem`."""
        with self._asked(path) as (files, key):
            files.invalidate_cache()
            return _is_there(files, key)

    def is_folder(self, path: str) -> bool:
        """As `FileSystem`."""
        return bool(self._listed(path))

    def size(self, path: str) -> int:
        """As `FileSystem`."""
        with self._asked(path) as (files, key):
            return int(_info(files, key)["size"])

    def version(self, path: str) -> str:
        """As `FileSystem`: what the store says of the object that changes with it."""
        with self._asked(path) as (files, key):
            files.invalidate_cache()
            info = _info(files, key)
        return _said_of(info, (*_OF_CONTENT, *_OF_TIME))

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        """As `FileSystem`: folders are prefixes."""

    def remove(self, path: str) -> None:
        """As `FileSystem`."""
        with self._asked(path) as (files, key), suppress(FileNotFoundError):
            files.rm_file(key)

    def destroy(self, folder: str, *, tombstone: bool = False) -> None:
        """As `FileSystem`: until nothing is listed, since a late task may still write."""
        for _ in range(_TRIES):
            names = self.files_below(folder)
            if not names:
                break
            markers = {name for name in names if f"/{name}".endswith("/_SUCCESS")}
            for some in (markers, names.keys() - markers):
                at_once(lambda name: self.remove(f"{folder}/{name}"), some)
        else:
            raise OSError(errno.ENOTEMPTY, "cannot be emptied: something writes there", self.uri(folder))
        if self.scheme in _HADOOP:
            with self._asked(folder) as (files, key), suppress(FileNotFoundError):
                files.rm(key, recursive=True)

    def remove_empty(self, folder: str) -> None:
        """As `FileSystem`: a prefix without objects is none."""

    def free_space(self, path: str) -> int | None:
        """As `FileSystem`."""
        return None

    def hold(self, path: str, word: str) -> AbstractContextManager[None]:
        """As `FileSystem`: by a lease, since nobody tells a store that a process has died."""
        return hold_by_lease(self, path, word)

    def is_held(self, path: str) -> bool:
        """As `FileSystem`."""
        return is_leased(self, path)

    def holder(self, path: str) -> str:
        """As `FileSystem`."""
        return holder_of_lease(self, path)

    # How fsspec is asked.

    def opened(self) -> AbstractFileSystem:
        """The file system of fsspec in this process, which remembers no listing."""
        known = (os.getpid(), self.scheme, self.authority)
        if known not in _MADE:
            from fsspec import get_filesystem_class  # noqa: PLC0415 - only where a place asks for it

            made = get_filesystem_class(self.scheme)
            options = made._get_kwargs_from_urls(self.uri("/"))
            # Threads that come at once make one each; all get the first.
            _MADE.setdefault(known, made(skip_instance_cache=True, use_listings_cache=False, **options))
        return _MADE[known]

    def _key(self, files: AbstractFileSystem, path: str) -> str:
        """A path as fsspec has it."""
        return cast("str", files._strip_protocol(self.uri(path)))

    def _make_parent(self, files: AbstractFileSystem, key: str) -> None:
        """Make the folder of a file, where folders are more than prefixes."""
        if self.scheme in _HADOOP:
            files.makedirs(key.rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _asked(self, path: str) -> Iterator[tuple[AbstractFileSystem, str]]:
        """Ask something of a path; what goes wrong is an `OSError`, whatever the library of the store raises."""
        try:
            files = self.opened()
            yield files, self._key(files, path)
        except OSError:
            raise
        except ImportError as error:
            package = SCHEMES[self.scheme]
            raise OSError(
                errno.ENOSYS, f"needs the package {package}: pip install {package}", self.uri(path)
            ) from error
        except Exception as error:
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}", self.uri(path)) from error


#: How often a folder is emptied into which something may still write.
_TRIES: Final = 5


def _in_folder(key: str, listed: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was listed in a folder, by its path as seen from there."""
    prefix = key.rstrip("/") + "/"
    return {
        name.removeprefix(prefix): info for info in listed if (name := str(info["name"]).rstrip("/")).startswith(prefix)
    }


def _state(info: dict[str, Any]) -> str:
    """What changes with the content; where no digest of it is kept, when it was written."""
    kept = any(info.get(name) is not None for name in _OF_CONTENT[:-1])
    return _said_of(info, _OF_CONTENT if kept else (*_OF_CONTENT, *_OF_TIME))


def _said_of(info: dict[str, Any], names: Iterable[str]) -> str:
    return " ".join(str(info[name]) for name in names if info.get(name) is not None)


def _info(files: AbstractFileSystem, key: str) -> dict[str, Any]:
    return cast("dict[str, Any]", files.info(key))


def _is_there(files: AbstractFileSystem, key: str) -> bool:
    """Whether there is a file; only an answer that says so means that there is none."""
    try:
        return bool(_info(files, key)["type"] == "file")
    except FileNotFoundError:
        return False


def _read_small(files: AbstractFileSystem, key: str, *, ranges: bool) -> bytes | None:
    """A small file; None where it is large. Most are so small that one request is enough, where ranges can be asked."""
    try:
        beginning = bytes(files.cat_file(key, start=0, end=_BEGINNING)) if ranges else b""
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:  # noqa: BLE001 - each refuses a range of an empty object in its own way; what is worse is met below
        beginning = b""
    if 0 < len(beginning) < _BEGINNING:
        return beginning
    return bytes(files.cat_file(key)) if _info(files, key)["size"] <= _SMALL else None


class _Download(io.RawIOBase):
    """A file of fsspec that is being read, some blocks at a time."""

    def __init__(self, system: RemoteFileSystem, path: str) -> None:
        super().__init__()
        self._system, self._path = system, path
        with system._asked(path) as (files, key):
            self._file = files.open(key, "rb", block_size=_BLOCK)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever has a buffer
        with self._system._asked(self._path):
            return cast("int", self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return cast("int", self._file.seek(offset, whence))

    def tell(self) -> int:
        return cast("int", self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            super().close()


class _Upload(io.RawIOBase):
    """A file of fsspec that is being written, and does not appear where an error ends the writing."""

    def __init__(self, system: RemoteFileSystem, path: str) -> None:
        super().__init__()
        self._system, self._path = system, path
        with system._asked(path) as (files, key):
            system._make_parent(files, key)
            self._file = files.open(key, "wb", block_size=_BLOCK)

    def writable(self) -> bool:
        return True

    def write(self, block: Any) -> int:  # noqa: ANN401 - whatever has a buffer
        view = memoryview(block).cast("B")
        with self._system._asked(self._path):
            self._file.write(view.tobytes())
        return len(view)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and not self.closed:
            with suppress(Exception):  # the error that ends the writing is the one to tell
                self._file.discard()
            with suppress(AttributeError):
                self._file.closed = True  # what fsspec still holds of it is not put when it is forgotten
            super().close()
        self.close()

    def close(self) -> None:
        if not self.closed:
            try:
                with self._system._asked(self._path):
                    self._file.close()
            finally:
                super().close()
