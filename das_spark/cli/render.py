"""How numbers and tables look in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

#: Width of tables where no terminal says one: log files and pipes.
PLAIN_WIDTH = 160


def console() -> Console:
    """Where results are printed: standard output."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> Group:
    """A table without frames, which survives in a log file.

    Args:
        title: Printed above.
        columns: Headings.
        rows: Cells, turned to text.
        left: How many first columns hold text; the others are numbers and stand to the right.
    """
    cells = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        cells.add_column(column, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        cells.add_row(*(cell if isinstance(cell, str) else str(cell) for cell in row))
    return Group(Text(title, style="bold"), cells)


def number(value: float | None) -> str:
    """A measured or computed number, to four significant digits; a dash for none and for NaN.

    Args:
        value: The number, or None.

    Returns:
        The text; from 10,000 on a whole number with commas.
    """
    if value is None or isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"  # noqa: PLR2004 - from there on, digits suffice


def size(count: float) -> str:
    """A number of bytes.

    Args:
        count: Bytes, 0 or more.

    Returns:
        Three significant digits and a unit of powers of 1,000, from B to TB.
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - a thousand of a unit is one of the next
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def shown_places(places: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Places as a person who looks from the working folder would name them.

    Args:
        places: By name, absolute.

    Returns:
        Rows of name and place: relative where it lies below the working folder.
    """
    here = Path.cwd()
    return [(name, str(path.relative_to(here) if path.is_relative_to(here) else path)) for name, path in places.items()]
