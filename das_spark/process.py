"""Guards of processes that hold keys or counts of people, and what makes their numbers the same on every machine."""

from __future__ import annotations

import os
import re
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path
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
