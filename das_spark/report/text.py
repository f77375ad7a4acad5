"""How values read: numbers, times, sizes. The same on pages and in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite, isnan
from typing import Any, Final

from das_spark.names import is_formula
from das_spark.report.model import Cell, ReportColumn, Span


def number(value: float | Fraction | None) -> str:
    """Four significant digits, from 10,000 on a whole number with commas; a dash for none and for NaN."""
    if value is None or isnan(value):
        return "-"
    value = float(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"  # noqa: PLR2004 - digits suffice


def known(value: float | None, spell: Callable[[float], str]) -> str:
    """Spell a number; a dash for none."""
    return "-" if value is None else spell(value)


def size(count: float) -> str:
    """A number of bytes: three significant digits and a unit of powers of 1,000, from B to TB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - a thousand of a unit is one of the next
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def percent(share: float | Fraction) -> str:
    """A share in percent, with as many digits as it needs: 5 %, 0.25 %."""
    return f"{float(100 * share):g} %"


#: Forms of a column that are no format specification.
FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "number": number,
    "exact": str,
    "duration": duration,
    "size": size,
    "percent": percent,
}


def shown(cell: Cell, column: ReportColumn) -> str:
    """A value as people read it."""
    if isinstance(cell, Span):
        ends = column.missing if isnan(cell.low) else f"{shown(cell.low, column)} to {shown(cell.high, column)}"
        return ends if cell.value is None else f"{shown(cell.value, column)} ({ends})"
    if isinstance(cell, tuple):
        return " ".join(shown(each, column) for each in cell)
    if cell is None or (isinstance(cell, float) and isnan(cell)):
        return column.missing
    return _shown_number(cell, column.form) if isinstance(cell, int | float | Fraction) else cell


def _shown_number(value: float | Fraction, form: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if form in FORMS:
        return FORMS[form](value)
    if form:
        return format(float(value) if isinstance(value, Fraction) else value, form)
    return f"{value:,}" if isinstance(value, int) else number(value)


def csv_field(value: object) -> object:
    """A value as a field of CSV: what a spreadsheet would carry out as a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value


def plain(cell: Cell) -> object:
    """A value as programs read it: fractions exact as text, nothing where a number is not finite."""
    if isinstance(cell, Fraction):
        return str(cell)
    return None if isinstance(cell, float) and not isfinite(cell) else cell
