"""Reports as Markdown, for those that are read as text: what the page has, without its figures."""

from __future__ import annotations

from das_spark.report.model import Report, ReportTable
from das_spark.report.text import shown


def markdown_text(report: Report) -> str:
    """Title, banners, verdict, facts, lead and notes, then the sections with their tables."""
    lines = [f"# {report.title}", ""]
    lines += [part for text in (report.restricted, *report.notices) if text for part in (f"**{text}**", "")]
    lines += [part for text in (report.verdict,) if text for part in (_escaped(text), "")]
    lines += [f"- {name}: {_escaped(text)}" for name, text in report.facts.items()]
    lines += [f"- {_escaped(text)}" for text in (*report.lead, *report.notes)]
    for section in report.sections:
        if "page" in section.media:
            lines += ["", f"{'#' * section.level} {section.title}"]
            for block in section.blocks:
                if isinstance(block, str):
                    lines += ["", _escaped(block)]
                elif isinstance(block, ReportTable) and "page" in block.media:
                    lines += ["", *_table(block)]
    if report.definitions:
        lines += ["", *(f"- {word}: {_escaped(meaning)}" for word, meaning in report.definitions.items())]
    return "\n".join(lines) + "\n"


def _table(table: ReportTable) -> list[str]:
    columns, rows = table.for_medium("page")
    cells = [[_escaped(shown(cell, column)) for cell, column in zip(row, columns, strict=True)] for row in rows]
    heads = [column.heading or column.name for column in columns]
    lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(columns), *cells)]
    return [_escaped(table.note), "", *lines] if table.note else lines


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
