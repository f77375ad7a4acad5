"""Stores of objects that fail in a given way: doubles for tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("object_store", Path(__file__).with_name("object_store.py"))
object_store = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = object_store
_spec.loader.exec_module(object_store)


class Died(BaseException):
    """Stands for a driver that is killed: nothing of the product may catch it."""


class DyingStore(object_store.ObjectStore):
    """Its user dies instead of changing anything for the nth time; `lives` counts down, None is for ever."""

    lives: int | None = None

    def _live(self) -> None:
        if self.lives is not None:
            if not self.lives:
                raise Died
            self.lives -= 1

    def put(self, path: str, content: bytes) -> None:
        self._live()
        super().put(path, content)

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        self._live()
        return super().create(path, content, mode=mode)

    def remove(self, path: str) -> None:
        self._live()
        super().remove(path)


class LateStore(object_store.ObjectStore):
    """Lists what there was some changes ago; what is read by its name is there at once."""

    late = 3

    def __init__(self) -> None:
        super().__init__()
        self._before: list[set[str]] = [set()]

    def _changed(self) -> None:
        self._before.append(set(self.objects))

    def put(self, path: str, content: bytes) -> None:
        super().put(path, content)
        self._changed()

    def create(self, path: str, content: bytes, *, mode: int = 0o666) -> bool:
        made: bool = super().create(path, content, mode=mode)
        self._changed()
        return made

    def remove(self, path: str) -> None:
        super().remove(path)
        self._changed()

    def names(self, folder: str) -> set[str]:
        listed = self._before[max(len(self._before) - 1 - self.late, 0)]
        prefix = f"{folder}/"
        return {key.removeprefix(prefix).partition("/")[0] for key in listed if key.startswith(prefix)}
