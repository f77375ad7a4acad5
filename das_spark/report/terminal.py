"""Reports and tables in the terminal: without frames, so that they survive in a log file.

Texts are printed as they are, whatever console prints them: nothing in them is markup, an emoji or a control.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from das_spark.names import visible
from das_spark.report.model import Report, ReportTable
from das_spark.report.text import shown

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text


def print_report(report: Report, out: Console) -> None:
    """Banners, title, verdict and lead, tables that the terminal has, and notes."""
    for notice in (report.restricted, *report.notices):
        if notice:
            out.print(_text(notice), style="bold red")
    out.print(_text(report.title), style="bold")
    if report.verdict:
        out.print(_text(report.verdict))
    for paragraph in report.lead:
        out.print(_text(paragraph))
    for section in report.sections:
        for block in section.blocks if "terminal" in section.media else ():
            if isinstance(block, ReportTable) and "terminal" in block.media:
                out.print()
                print_table(block if block.title else replace(block, title=section.title), out)
    for note in report.notes:
        out.print(_text(f"note: {note}"))


def print_table(of: ReportTable, out: Console) -> None:
    """A table of raw values, and its note."""
    columns, rows = of.for_medium("terminal")
    texts = [all(isinstance(row[at], str | tuple) for row in rows if row[at] is not None) for at in range(len(columns))]
    cells = [[shown(cell, column) for cell, column in zip(row, columns, strict=True)] for row in rows]
    out.print(_grid(of.title, [column.heading or column.name for column in columns], cells, texts))
    if of.note:
        out.print(_text(of.note))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> Group:
    """A table of texts.

    Args:
        title: Printed above.
        columns: Headings.
        rows: Cells, turned to text.
        left: How many first columns hold text; the others are numbers and stand to the right.
    """
    return _grid(
        title, columns, ([str(cell) for cell in row] for row in rows), [at < left for at in range(len(columns))]
    )


def _grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[bool]) -> Group:
    from rich.console import Group  # noqa: PLC0415 - pure packages build reports, and know nothing of terminals
    from rich.table import Table  # noqa: PLC0415

    cells = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column, text in zip(columns, texts, strict=True):
        cells.add_column(_text(column), justify="left" if text else "right", overflow="fold")
    for row in rows:
        cells.add_row(*map(_text, row))
    return Group(_text(title, "bold"), cells)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(visible(text, keep="\n"), style=style)
