"""The places of a machine that a run file names: the files that a run reads, and the roots that it is written to.

A plan holds them as absolute paths: Spark's JVM keeps the working folder in which it was started, and a notebook may
have moved on. Everybody may read the resolved configuration, so that it holds no path: files are named by the last part
of theirs, and roots not at all. So a run is the same run however its places were typed. (That the input holds the same
records is a matter of its fingerprint, not of its path.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from das_spark.config.model import RunFile
    from das_spark.config.problems import Problems

#: Roots of a run, by section and key; what is left of them in the resolved configuration is nothing.
ROOTS: Final = (("output", "root"), ("output", "public"), ("output", "restricted"))
#: What a run reads.
SOURCES: Final = (
    ("input", "path"),
    ("input", "persons"),
    ("input", "units"),
    ("input", "geography"),
    ("geography", "path"),
    ("geography", "crosswalk"),
    ("evaluation", "areas"),
)
#: The ledger is no part of the resolved configuration at all.
PATH_KEYS: Final = (*SOURCES, *ROOTS, ("ledger", "path"))
#: How an address begins that only a library for it could open, such as `s3a://bucket/x` or `hdfs:/x`.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def absolute_places(run_file: RunFile, problems: Problems) -> RunFile:
    """Make every path of a run file absolute, seen from the working folder of now.

    Args:
        run_file: What the user wrote.
        problems: Where to note what is no path; nothing more is said of such a key.
    """
    for section, key in PATH_KEYS:
        table = getattr(run_file, section)
        value = getattr(table, key)
        if value is None:
            continue
        wrong = _wrong(value, is_root=(section, key) in ROOTS)
        if wrong:
            problems.add(f"{section}.{key}", wrong)
            problems.muted.add(f"{section}.{key}")
            continue
        run_file = run_file.model_copy(update={section: table.model_copy(update={key: absolute(value)})})
    return run_file


def absolute(value: str | Path) -> str:
    """The absolute path of a place; `~` is the home of whoever runs the command, as in a shell.

    Args:
        value: As it was typed. Links and `..` stay, since they mean what the operating system says.
    """
    # `os.path`: of a user who does not exist it leaves the name as it is, where `Path` fails.
    return str(Path(os.path.expanduser(value)).absolute())


def places_of(run_file: RunFile) -> dict[str, str]:
    """Every place that a run file names, by key path.

    Args:
        run_file: Result of `absolute_places`.
    """
    named = {f"{section}.{key}": getattr(getattr(run_file, section), key) for section, key in PATH_KEYS}
    return {key: value for key, value in named.items() if value is not None}


def without_places(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration that tells nothing of the machine: files by their names, no roots.

    Args:
        resolved: The configuration as JSON values.
    """
    found = dict(resolved)
    for section, key in SOURCES:
        if found[section].get(key) is not None:
            found[section] = {**found[section], key: _name(found[section][key])}
    for section, key in ROOTS:
        found[section] = {name: value for name, value in found[section].items() if name != key}
    return found


def _name(value: str) -> str:
    """The last part of a path; of one that ends in `..`, that of the folder which it leads to."""
    path = Path(value)
    return (path.resolve() if path.name == ".." else path).name


def _wrong(value: str, *, is_root: bool) -> str:
    """What is wrong with a path; empty where nothing is."""
    if not value.strip():
        return 'is empty; name a folder, such as "runs"' if is_root else "is empty; name a file or folder"
    if "\0" in value:
        return "holds a character that no path can have"
    if _ADDRESS.match(value) is None:
        return ""
    if is_root:
        return (
            f"{value} is no path of a mounted file system; runs are written to folders, whose rights are set and whose "
            "files are made durable: name a folder such as /data/runs, and copy public/ to other stores afterwards"
        )
    return (
        f"{value} is no path of a mounted file system; inputs are files or folders, by whose bytes the ledger of their "
        "budget is kept: copy them, or name their folder"
    )
