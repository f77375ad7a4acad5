"""Tables of reports as CSV that every program reads as it is."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from das_spark.report.model import Report, ReportTable, Span
from das_spark.report.text import csv_field, plain

#: Heading of the last column of restricted tables. A comment in the first line would be taken for the headings.
CLASSIFICATION: Final = "classification"


def csv_text(table: ReportTable, restricted: str = "") -> str:
    """A line of headings and a line a row; empty fields where there is no value, and no formulas.

    Args:
        table: The columns that CSV has are written.
        restricted: Sentence of the report; its first word stands in the last column.
    """
    names, rows = _flat(table, restricted)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([csv_field(value) for value in row] for row in (names, *rows))
    return buffer.getvalue()


def csv_files(report: Report) -> dict[str, str]:
    """The tables that CSV has, by names of files, which end in `.restricted.csv` where few may see them."""
    ending = ".restricted.csv" if report.restricted else ".csv"
    return {table.name + ending: csv_text(table, report.restricted) for table in report.tables("csv")}


def _flat(table: ReportTable, restricted: str) -> tuple[list[str], list[list[Any]]]:
    """Headings and plain values; a span becomes two fields."""
    columns, rows = table.for_medium("csv")
    spans = [bool(column.fields) or any(isinstance(row[at], Span) for row in rows) for at, column in enumerate(columns)]
    names: list[str] = []
    for column, span in zip(columns, spans, strict=True):
        names += (column.fields or (f"low_{column.name}", f"high_{column.name}")) if span else (column.name,)
    flat = []
    for row in rows:
        fields: list[Any] = []
        for cell, span in zip(row, spans, strict=True):
            if span:
                fields += (plain(cell.low), plain(cell.high)) if isinstance(cell, Span) else (None, None)
            else:
                fields.append(" ".join(str(plain(each)) for each in cell) if isinstance(cell, tuple) else plain(cell))
        flat.append([*fields, restricted.partition(":")[0]] if restricted else fields)
    return ([*names, CLASSIFICATION] if restricted else names), flat
