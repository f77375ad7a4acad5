"""A file system without renames, locks, tombstones and modes, as stores of objects are: a double for tests."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from das_spark.store.filesystem import Capabilities, Location


class ObjectStore:
    """Objects by key. One can be put only as a whole; a folder is there as long as a key begins with its name."""

    capabilities = Capabilities(renames=False, locks=False, tombstones=False, modes=False)

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self._one = threading.Lock()

    def at(self, path: str) -> Location:
        """A place in this store."""
        return Location(self, PurePosixPath(path))

    def put(self, path: str, content: bytes) -> None:
        with self._one:
            self.objects[path] = content
            self.puts.append(path)

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        with self._one:
            if path in self.objects:
                return False
            self.objects[path] = content
            self.puts.append(path)
            return True

    def write(self, path: str, content: bytes, *, mode: int = 0o666, check: Callable[[], None] = lambda: None) -> None:
        check()
        self.put(path, content)

    def read(self, path: str) -> bytes:
        try:
            return self.objects[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def open_input(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def open_output(self, path: str) -> BinaryIO:
        store = self

        class Upload(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    store.put(path, self.getvalue())
                super().close()

        return Upload()

    def upload(self, file: Path, path: str) -> None:
        self.put(path, file.read_bytes())

    def download(self, path: str, file: Path) -> None:
        file.write_bytes(self.read(path))

    def uri(self, path: str) -> str:
        return f"objects://{path}"

    def set_time(self, path: str, instant: datetime) -> None:
        pass

    def move(self, source: str, target: str) -> None:
        self.put(target, self.read(source))
        self.remove(source)

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.read(source))

    share = copy

    def sync(self, path: str) -> None:
        pass

    def names(self, folder: str) -> set[str]:
        prefix = f"{folder}/"
        return {key.removeprefix(prefix).partition("/")[0] for key in self.objects if key.startswith(prefix)}

    def is_file(self, path: str) -> bool:
        return path in self.objects

    def is_folder(self, path: str) -> bool:
        return bool(self.names(path))

    def size(self, path: str) -> int:
        return len(self.read(path))

    def version(self, path: str) -> str:
        return hashlib.sha256(self.read(path)).hexdigest()

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        pass

    def remove(self, path: str) -> None:
        self.objects.pop(path, None)

    def destroy(self, folder: str, *, tombstone: bool = False) -> None:
        keys = [key for key in list(self.objects) if key.startswith(f"{folder}/")]
        for key in sorted(keys, key=lambda each: not each.endswith("/_SUCCESS")):
            self.remove(key)

    def remove_empty(self, folder: str) -> None:
        pass

    def free_space(self, path: str) -> int | None:
        return None

    @contextmanager
    def hold(self, path: str, word: str) -> Iterator[None]:
        if not self.create(path, word.encode()):
            raise BlockingIOError(path)
        try:
            yield
        finally:
            if self.objects.get(path) == word.encode():
                self.remove(path)

    def is_held(self, path: str) -> bool:
        return self.is_file(path)
