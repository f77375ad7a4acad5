"""The files of the project: those that git knows, or would know if they were added."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def tracked(*patterns: str) -> list[str]:
    """Return the paths in the checkout of files that are there, in order.

    Args:
        patterns: Of git, such as ``*.md``; all files where there are none.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]
