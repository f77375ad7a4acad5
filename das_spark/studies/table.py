"""Results of an experiment as tables of raw values: the terminal, the page, JSON and CSV show the same ones."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction

Cell = str | int | float | Fraction | None


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        name: Of its CSV file, and its key in JSON.
        title: What is said above it.
        columns: Headings.
        rows: Values, one a column; None where there is none.
        left: How many first columns hold names.
        note: What a reader must know about it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left: int = 1
    note: str = ""

    def to_csv(self) -> str:
        """A line of headings and a line a row; fractions as decimals, empty where there is no value."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([plain(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def records(self) -> list[dict[str, str | int | float | None]]:
        """A mapping a row, for JSON."""
        return [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows]


def plain(cell: Cell) -> str | int | float | None:
    """The value as JSON and CSV hold it.

    Args:
        cell: A value of a table.

    Returns:
        A fraction as the nearest float, anything else as it is.
    """
    return float(cell) if isinstance(cell, Fraction) else cell


def shown(cell: Cell) -> str:
    """The value as a reader sees it: four significant digits, a dash for none.

    Args:
        cell: A value of a table; whole numbers are not rounded.
    """
    value = plain(cell)
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
