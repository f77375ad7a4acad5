"""Reports as Markdown, for those that are read as text: what the page has, without its figures."""

from __future__ import annotations

import re
from typing import Final

from das_spark.names import visible
from das_spark.report.model import Report, ReportTable
from das_spark.report.text import shown

#: What Markdown, also that of GitHub, reads otherwise than as itself: a backslash, code, strikethrough, mathematics,
#: headings, links and cells of tables; emphasis (not a sign of multiplication between blanks, nor an underscore within
#: a name); the beginning of a tag and of an entity; and what makes a list or a quotation of a line that begins with it.
_SPECIAL: Final = re.compile(
    r"[\\`~$#\[\]|]"
    r"|(?<! )\*|\*(?! )"
    r"|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#|[A-Za-z][0-9A-Za-z]*;)"
    r"|^[>=]|^[+-](?= )|^-(?=-)"
)


def escaped(text: str) -> str:
    """A text within a line of Markdown, which shows it as it is and takes nothing of it for its own.

    Args:
        text: Any; line breaks and whatever else is not printable are spelled out.
    """
    line = _SPECIAL.sub(r"\\\g<0>", visible(text).strip(" "))
    return re.sub(r"^([0-9]+)(?=[.)](?: |$))", r"\1\\", line)


def code(text: str) -> str:
    """A text as code within a line of Markdown, in as many backticks as it needs; not for cells of tables."""
    spelled = visible(text)
    fence = "`" * (max(map(len, re.findall("`+", spelled)), default=0) + 1)
    space = " " if "`" in spelled else ""
    return f"{fence}{space}{spelled}{space}{fence}"


def markdown_text(report: Report) -> str:
    """Title, banners, verdict, facts, lead and notes, then the sections with their tables."""
    lines = [f"# {escaped(report.title)}", ""]
    lines += [part for text in (report.restricted, *report.notices) if text for part in (f"**{escaped(text)}**", "")]
    lines += [part for text in (report.verdict,) if text for part in (escaped(text), "")]
    lines += [f"- {escaped(name)}: {escaped(text)}" for name, text in report.facts.items()]
    lines += [f"- {escaped(text)}" for text in (*report.lead, *report.notes)]
    for section in report.sections:
        if "page" in section.media:
            lines += ["", f"{'#' * section.level} {escaped(section.title)}"]
            for block in section.blocks:
                if isinstance(block, str):
                    lines += ["", escaped(block)]
                elif isinstance(block, ReportTable) and "page" in block.media:
                    lines += ["", *_table(block)]
    if report.definitions:
        lines += ["", *(f"- {escaped(word)}: {escaped(meaning)}" for word, meaning in report.definitions.items())]
    return "\n".join(lines) + "\n"


def _table(table: ReportTable) -> list[str]:
    columns, rows = table.for_medium("page")
    cells = [[escaped(shown(cell, column)) for cell, column in zip(row, columns, strict=True)] for row in rows]
    heads = [escaped(column.heading or column.name) for column in columns]
    lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(columns), *cells)]
    return [escaped(table.note), "", *lines] if table.note else lines
