"""Reports as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from das_spark.report.model import Cell, ReportTable, Span
from das_spark.report.text import plain


def records(table: ReportTable) -> list[dict[str, Any]]:
    """An object a row, of the columns that JSON has; null where there is no number."""
    columns, rows = table.for_medium("json")
    return [{column.name: _value(cell) for column, cell in zip(columns, row, strict=True)} for row in rows]


def table_records(tables: Iterable[ReportTable]) -> dict[str, list[dict[str, Any]]]:
    """The records of tables by their names."""
    return {table.name: records(table) for table in tables}


def json_text(facts: Mapping[str, object], lists: Mapping[str, Iterable[object]], indent: int | None = 1) -> str:
    """One object: facts first, then lists with a line an element, for those that are long.

    Args:
        facts: By name.
        lists: By name; one that is a mapping is an object of lists.
        indent: Of the facts.
    """
    parts = {name: json.dumps(value, indent=indent, allow_nan=False) for name, value in facts.items()}
    for name, values in lists.items():
        if isinstance(values, Mapping):
            parts[name] = _object({key: _lines(value) for key, value in values.items()})
        else:
            parts[name] = _lines(values)
    return _object(parts) + "\n"


def _object(parts: Mapping[str, str]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in parts.items()) + "\n}"


def _lines(values: Iterable[object]) -> str:
    lines = [json.dumps(value, allow_nan=False) for value in values]
    return "[\n " + ",\n ".join(lines) + "\n]" if lines else "[]"


def _value(cell: Cell) -> object:
    if isinstance(cell, Span):
        ends = {"low": plain(cell.low), "high": plain(cell.high)}
        middle = {} if cell.value is None else {"value": plain(cell.value)}
        return middle | ends | ({} if cell.level is None else {"level": cell.level})
    return [_value(each) for each in cell] if isinstance(cell, tuple) else plain(cell)
