"""A lock where no system tells that its holder has died: numbered objects, and a sign of life every few seconds.

A lock is a folder. Each holder creates the object of the next number exclusively, with its word in it, and renews a
second one beside it (`.life`) as long as it lives. Whoever finds the last holder without a sign of life for `_LEASE`
seconds of its own clock, or gone from this machine, may create the next number: of several that try, one does. No two
clocks are compared. A holder that slept finds another word, and publishes nothing (`das_spark.store.lock`).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from das_spark.places.filesystem import FileSystem

#: Seconds between two signs of life.
_BEAT: Final = 5.0
#: Seconds without one after which a holder counts as dead: several may be late, on a store that answers slowly.
_LEASE: Final = 45.0
_LIFE: Final = ".life"


@contextmanager
def hold_by_lease(system: FileSystem, path: str, word: str) -> Iterator[None]:
    """Hold a lock; as `FileSystem.hold`.

    Raises:
        BlockingIOError: Another process holds it, or was quicker.
    """
    last = _last(system, path)
    if last and _lives(system, path, last):
        raise BlockingIOError(path)
    own = f"{path}/{last + 1:08d}"
    _renew(system, own, 0)
    if not system.create(own, json.dumps({"word": word, "process": _process()}).encode(), mode=0o600):
        raise BlockingIOError(path)
    for number in range(1, last + 1):
        for ending in ("", _LIFE):
            system.remove(f"{path}/{number:08d}{ending}")
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(system, own, ended), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        with suppress(OSError):  # it ends by itself, where the store cannot be reached
            system.remove(own)
            system.remove(f"{own}{_LIFE}")


def holder_of_lease(system: FileSystem, path: str) -> str:
    """The word of the last holder of a lock; empty where there is none."""
    last = _last(system, path)
    return _read(system, path, last).get("word", "") if last else ""


def is_leased(system: FileSystem, path: str) -> bool:
    """Whether some process holds a lock; takes seconds, where that is to be found out by its signs of life."""
    last = _last(system, path)
    return bool(last) and _lives(system, path, last)


def _last(system: FileSystem, path: str) -> int:
    """The highest number of a lock, 0 where nobody holds it."""
    return max((int(name) for name in system.names(path) if name.isdigit()), default=0)


def _read(system: FileSystem, path: str, number: int) -> dict[str, str]:
    """What a holder says of itself; nothing where it has just let go."""
    with suppress(FileNotFoundError):
        content = json.loads(system.read(f"{path}/{number:08d}"))
        return {name: str(value) for name, value in content.items()}
    return {}


def _lives(system: FileSystem, path: str, number: int) -> bool:
    """Whether a holder lives: known at once of one on this machine, of any other by a sign of life."""
    holder = _read(system, path, number)
    if not holder:
        return False
    known = _lives_here(holder["process"])
    if known is not None:
        return known
    life, began = f"{path}/{number:08d}{_LIFE}", time.monotonic()
    first = _sign(system, life)
    while time.monotonic() - began < _LEASE:
        time.sleep(_BEAT / 5)
        if not system.is_file(f"{path}/{number:08d}"):
            return False
        if _sign(system, life) != first:
            return True
    return False


def _sign(system: FileSystem, life: str) -> bytes:
    with suppress(FileNotFoundError):
        return system.read(life)
    return b""


def _beat(system: FileSystem, own: str, ended: threading.Event) -> None:
    number = 0
    while not ended.wait(_BEAT):
        number += 1
        with suppress(OSError):  # the next one may come through
            _renew(system, own, number)


def _renew(system: FileSystem, own: str, number: int) -> None:
    system.write(f"{own}{_LIFE}", f"{_process()} {number}".encode(), mode=0o600)


def _process() -> str:
    """This process, told from all others: machine and boot, name space of its number, number and start."""
    return f"{_machine()} {os.getpid()} {_start(os.getpid())}"


def _machine() -> str:
    boot = _text("/proc/sys/kernel/random/boot_id")
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()} {boot} {space}".replace("  ", " ")


def _start(process: int) -> str:
    """When a process of this machine began, in ticks since the boot; empty where there is none, or none that tells."""
    return (
        _text(f"/proc/{process}/stat").rpartition(")")[2].split(" ")[20:21][0] if _text(f"/proc/{process}/stat") else ""
    )


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    return ""


def _lives_here(process: str) -> bool | None:
    """Whether a process of this machine lives; None of another machine."""
    machine, _, rest = process.rpartition(" ")
    machine, _, number = machine.rpartition(" ")
    if machine != _machine() or not number.isdigit() or not rest:
        return None
    return _start(int(number)) == rest
