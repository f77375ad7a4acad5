"""Processes that hold keys or counts of people: their guards, the signals that end them, numbers alike everywhere."""

from __future__ import annotations

import os
import re
import resource
import signal
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

#: Environment of the interpreters that we start: they import nothing from the working folder, where programs of others
#: may have the names of modules.
SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
#: Environment of processes that estimate: sums in another order have other last bits, and tasks use all cores already.
ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
#: What names the kernels of OpenBLAS, which it chooses by the processor otherwise: others round differently.
KERNELS: Final = "OPENBLAS_CORETYPE"
#: Those that every processor with the instructions has that they are made of.
_SHARED_KERNELS: Final = "Haswell"
_INSTRUCTIONS: Final = frozenset(("avx2", "fma"))
#: Permission of everybody to write.
OTHERS_WRITE: Final = 0o002


def forbid_core_files() -> None:
    """Let the system write no core file of this process, nor of those that it starts from now on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def guard_process() -> None:
    """Guard a process that is das_spark's alone: no core file, and no file or folder that everybody may write.

    Its numbers and those of the processes that it starts are the same on every machine, if numpy is imported later.
    """
    os.environ.update(same_numbers())
    forbid_core_files()
    os.umask(closed_umask())


def same_numbers() -> dict[str, str]:
    """Return the environment in which estimates depend neither on cores nor on the processor.

    Libraries read it when they are imported. Who names kernels of OpenBLAS keeps them.
    """
    named = os.environ.get(KERNELS)
    return ONE_THREAD | ({KERNELS: named} if named else _shared_kernels())


@cache
def _shared_kernels() -> dict[str, str]:
    """Return the kernels that processors share, as a variable; none where this one lacks their instructions."""
    with suppress(OSError):  # of systems that are not Linux nothing is known
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if flags and set(flags.group(1).split()) >= _INSTRUCTIONS:
            return {KERNELS: _SHARED_KERNELS}
    return {}


def closed_umask() -> int:
    """Return the umask of this process with the permission of everybody to write added to it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask | OTHERS_WRITE


#: Signals by which schedulers and closed terminals end a process.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal asks this process to end; whatever heeds Ctrl-C heeds it."""

    def __init__(self, number: int) -> None:
        """Name the signal by its number."""
        super().__init__(number)
        self.signal = signal.Signals(number)


def take_signals() -> None:
    """Let SIGTERM and SIGHUP interrupt this process as Ctrl-C does, where nobody ignores or handles them yet."""
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    """Interrupt the process once: whoever closes a session may send both signals, and a last line is to come."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)


def interruption(error: BaseException | None) -> signal.Signals | None:
    """Return the signal that interrupted the process, if that is what an error is, or failed while it was handled."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error.signal if isinstance(error, Ended) else signal.SIGINT
        error = error.__cause__ or error.__context__
    return None
