"""Take names and folders that are free: what another process has put there is never replaced."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from das_spark.io.files import sync_folder, write_durably
from das_spark.io.full_disk import disk_errors


def names_in(folder: Path) -> set[str]:
    """Names in a folder, but for those of half-written files that a killed process left behind.

    Args:
        folder: That is there.
    """
    return {path.name for path in folder.iterdir() if not (path.name.startswith(".") and path.name.endswith(".tmp"))}


def create_durably(path: Path, content: str) -> bool:
    """Write a small file in one step where there is none; of two processes that try, one does, and nothing is replaced.

    Args:
        path: The file.
        content: Text, written as UTF-8.

    Returns:
        Whether this call made it.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    # A word of its own: two machines that share the disk may have processes of one number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with disk_errors(path):
        try:
            write_durably(temporary, content)
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError:  # a disk without hard links
                return _create(path, content)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    return True


def _create(path: Path, content: str) -> bool:
    """The same, but for a power cut, which may leave half of the file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    sync_folder(path.parent)
    return True
