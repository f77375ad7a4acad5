"""Find runs that exist by the folders that people name."""

from __future__ import annotations

import json
from pathlib import Path

from das_spark.errors import OutputError
from das_spark.io.layout import JOINT_MARKER, PublicLayout, RunLayout
from das_spark.io.restricted_layout import RestrictedLayout
from das_spark.io.run_marker import MARKER, PUBLIC, RESTRICTED, RunMarker, is_public_root


def open_public(path: str | Path) -> PublicLayout:
    """The public root of a finished or running run, for those who hold nothing else.

    Args:
        path: The public folder, or a run folder that holds one; or the restricted root of a run whose roots lie apart.

    Raises:
        OutputError: None of them.
    """
    given = Path(path).absolute()  # Spark's JVM may have another working folder than whoever names the run now
    for folder in (given, given / PUBLIC):
        if is_public_root(folder):
            return PublicLayout(folder)
    try:
        return find_run(path).public
    except PermissionError as error:
        raise _no_run(path, MARKER) from error


def find_run(path: str | Path) -> RunLayout:
    """The layout of an existing run with both roots.

    Args:
        path: The run folder, or a link to it such as `runs/latest`; or its restricted root, which says where the public
            one is. The public root alone stands for what everybody may know, and leads to nothing else.

    Raises:
        OutputError: There is no run, or its restricted root is to be named.
    """
    given = Path(path).resolve()
    for folder in (given / RESTRICTED, given):
        marker = RunMarker.find(folder)
        if marker is not None and marker.is_restricted:
            return _with_public(folder, marker)
    for folder in (given, given / PUBLIC):
        if is_public_root(folder):
            raise OutputError(
                f"{path}: the public root of a run, and its restricted root is asked for",
                hint="name the folder of the run, or where its roots lie apart its restricted root: the folder of its "
                "name below output.restricted",
            )
    raise _no_run(path, f"{RESTRICTED}/{MARKER}")


def _with_public(restricted: Path, marker: RunMarker) -> RunLayout:
    """The run whose restricted root is found."""
    run = restricted.parent
    root, run_id, public = run.parent, run.name, run / PUBLIC
    if marker.public:
        root, run_id, public = Path(marker.root), marker.run_id, Path(marker.public)
    if not is_public_root(public) or not marker.marks(public):
        raise OutputError(
            f"{public}: not a run folder, and {restricted} has its public root there",
            hint=f"is the disk mounted? Where the root was moved, {restricted / MARKER} must name its new place",
        )
    return RunLayout(root, run_id, PublicLayout(public), RestrictedLayout(restricted))


def _no_run(path: str | Path, missing: str) -> OutputError:
    """The error that names what was meant, perhaps."""
    try:
        parts = json.loads((Path(path) / JOINT_MARKER).read_text(encoding="utf-8"))["parts"].values()
    except (OSError, ValueError, KeyError, AttributeError):
        return OutputError(f"{path}: not a run folder (no {missing})", hint="name a folder under runs/, or runs/latest")
    named = " or ".join(str(Path(path).parent / part) for part in parts)
    return OutputError(f"{path}: a joint run, and one of its parts is asked for", hint=f"name {named}")
