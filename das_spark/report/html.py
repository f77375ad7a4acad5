"""A report as one HTML file that needs nothing else: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

import re

from das_spark.report.figures import drawn
from das_spark.report.model import Cell, Figure, Report, ReportColumn, ReportTable, Span
from das_spark.report.text import shown


def page(report: Report) -> str:
    """Render the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only reports pay for it

    numbers = iter(range(1, 10_000))
    template = Environment(
        loader=PackageLoader("das_spark.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    ).get_template("page.html")
    return template.render(
        report=report,
        sections=[section for section in report.sections if "page" in section.media and _has_content(section.blocks)],
        svg=lambda figure: _drawn_apart(figure, next(numbers)),
        kind=_kind,
        columns_and_rows=lambda table: table.for_medium("page"),
        is_text=_is_text,
        cell=_cell,
    )


def _has_content(blocks: tuple[object, ...]) -> bool:
    return any(_kind(block) for block in blocks)


def _kind(block: object) -> str:
    """Which block it is; empty for what the page leaves out."""
    if isinstance(block, ReportTable):
        return "table" if "page" in block.media else ""
    return "figure" if isinstance(block, Figure) else "text"


def _drawn_apart(figure: Figure, number: int) -> str:
    """The figure with identifiers that no other figure of the page has."""
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{number}-", drawn(figure))


def _is_text(rows: list[list[Cell]], at: int) -> bool:
    values = [row[at] for row in rows if row[at] is not None]
    return bool(values) and all(isinstance(value, str | tuple) for value in values)


def _cell(value: Cell, column: ReportColumn) -> tuple[str, str]:
    """What a cell shows, and what stands small below it."""
    if isinstance(value, Span) and value.value is not None:
        return shown(value.value, column), shown(Span(value.low, value.high), column)
    return shown(value, column), ""
