"""Where the command line prints, and how it names places; `das_spark.report` says how tables and numbers look."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

#: Width of tables where no terminal says one: log files and pipes.
PLAIN_WIDTH = 160


def console() -> Console:
    """Where results are printed: standard output."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False)


def shown_places(places: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Places as a person who looks from the working folder would name them.

    Args:
        places: By name, absolute.

    Returns:
        Rows of name and place: relative where it lies below the working folder.
    """
    here = Path.cwd()
    return [(name, str(path.relative_to(here) if path.is_relative_to(here) else path)) for name, path in places.items()]
