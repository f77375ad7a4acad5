"""What every study gives: one report, from which terminal, page and CSV files are made, and JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from das_spark.errors import ConfigurationError
from das_spark.report import EVERYWHERE, Cell, Figure, Report, ReportSection, ReportTable


class StudyResult(ABC):
    """What a study returns; a study says what its parts are."""

    definitions: ClassVar[Mapping[str, str]]
    restricted: ClassVar[str] = ""

    @property
    @abstractmethod
    def title(self) -> str:
        """Of the report."""

    @abstractmethod
    def lead(self) -> Sequence[str]:
        """Paragraphs below the title."""

    @abstractmethod
    def tables(self) -> Sequence[ReportTable]:
        """In their order, for every medium."""

    @abstractmethod
    def figures(self) -> Iterable[Figure]:
        """Drawn for the page only."""

    @abstractmethod
    def content(self) -> Mapping[str, Any]:
        """What JSON holds."""

    def report(self, *, drawn: bool = False) -> Report:
        """Figures first, where they are drawn, then a section a table."""
        figures = ReportSection("", tuple(self.figures()) if drawn else ())
        sections = (figures, *(ReportSection("", (table,)) for table in self.tables()))
        return Report(self.title, sections, self.restricted, lead=tuple(self.lead()), definitions=self.definitions)

    def to_json(self) -> str:
        """Everything that was found."""
        return json.dumps(self.content(), indent=1, allow_nan=False) + "\n"


def study_table(
    name: str,
    title: str,
    columns: Iterable[str | tuple[str, ...]],
    rows: Iterable[Sequence[Cell] | Mapping[str, Cell]],
    *,
    note: str = "",
    media: frozenset[Any] = EVERYWHERE,
) -> ReportTable:
    """A table whose fractions are written as the nearest floats."""
    made = ReportTable.of(name, title, columns, rows, note=note, media=media)
    return replace(made, rows=tuple(tuple(map(as_float, row)) for row in made.rows))


def as_float(cell: Cell) -> Cell:
    """A fraction as the nearest float, anything else as it is."""
    return float(cell) if isinstance(cell, Fraction) else cell


def require_least(least: int, **settings: int) -> None:
    """Refuse settings below the least that is possible.

    Raises:
        ConfigurationError: One is.
    """
    for name, value in settings.items():
        if value < least:
            raise ConfigurationError(f"{name}: expected {least} or more, found {value}")
