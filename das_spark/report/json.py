"""Reports as JSON text."""

from __future__ import annotations

import json
from typing import Any

from das_spark.report.model import Cell, Report, ReportTable, Span
from das_spark.report.text import plain


def json_text(report: Report) -> str:
    """Facts of the report, its definitions and notes, and its tables by name; null where there is no number."""
    content: dict[str, Any] = {"classification": report.restricted} if report.restricted else {}
    content |= dict(report.facts) | {"definitions": dict(report.definitions), "notes": list(report.notes)}
    content |= {table.name: records(table) for table in report.tables("json")}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def records(table: ReportTable) -> list[dict[str, Any]]:
    """An object a row, of the columns that JSON has."""
    columns, rows = table.for_medium("json")
    return [{column.name: _value(cell) for column, cell in zip(columns, row, strict=True)} for row in rows]


def _value(cell: Cell) -> object:
    if isinstance(cell, Span):
        ends = {"low": plain(cell.low), "high": plain(cell.high)}
        middle = {} if cell.value is None else {"value": plain(cell.value)}
        return middle | ends | ({} if cell.level is None else {"level": cell.level})
    return [_value(each) for each in cell] if isinstance(cell, tuple) else plain(cell)
