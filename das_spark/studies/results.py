"""What every study gives: one report, from which terminal, page and CSV files are made, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from das_spark.report import EVERYWHERE, Cell, Figure, Report, ReportSection, ReportTable, records


class StudyResult(Protocol):
    """What a study returns."""

    def report(self, *, drawn: bool = False) -> Report:
        """Its tables; with figures, where they are drawn."""

    def to_json(self) -> str:
        """Everything that was found."""


def study_table(
    name: str,
    title: str,
    columns: Iterable[str],
    rows: Iterable[Sequence[Cell]],
    *,
    note: str = "",
    media: frozenset[Any] = EVERYWHERE,
) -> ReportTable:
    """A table whose fractions are written as the nearest floats."""
    return ReportTable.of(name, title, columns, ([plain(cell) for cell in row] for row in rows), note=note, media=media)


def study_report(
    title: str,
    lead: Sequence[str],
    figures: Sequence[Figure],
    tables: Sequence[ReportTable],
    definitions: Mapping[str, str],
    restricted: str = "",
) -> Report:
    """Figures first, then a section a table."""
    sections = (ReportSection("", tuple(figures)), *(ReportSection("", (table,)) for table in tables))
    return Report(title, sections, restricted, lead=tuple(lead), definitions=definitions)


def study_json(content: Mapping[str, Any], tables: Sequence[ReportTable] = (), **further: object) -> str:
    """Facts of a study, its tables by name, and what comes after them."""
    named = {"tables": {table.name: records(table) for table in tables}} if tables else {}
    return json.dumps({"format": 1, **content, **named, **further}, indent=1, allow_nan=False) + "\n"


def plain(cell: Cell) -> Cell:
    """A fraction as the nearest float, anything else as it is."""
    return float(cell) if isinstance(cell, Fraction) else cell
