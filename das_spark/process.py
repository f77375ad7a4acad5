"""Guards of processes that hold keys or counts of people: core files, permissions, and from where they import."""

from __future__ import annotations

import os
import resource
from typing import Final

#: Environment of the interpreters that we start: they import nothing from the working folder, where programs of others
#: may have the names of modules.
SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
#: Permission of everybody to write.
OTHERS_WRITE: Final = 0o002


def forbid_core_files() -> None:
    """Let the system write no core file of this process, nor of those that it starts from now on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def guard_process() -> None:
    """Guard a process that is das_spark's alone: no core file, and no file or folder that everybody may write."""
    forbid_core_files()
    os.umask(closed_umask())


def closed_umask() -> int:
    """Return the umask of this process with the permission of everybody to write added to it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask | OTHERS_WRITE
