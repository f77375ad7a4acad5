"""A report as one HTML file that needs nothing else: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from das_spark.report.figures import NARROW, PALETTE, RAMP, THEMED, WIDTH, drawn, is_map
from das_spark.report.model import Cell, Figure, Report, ReportColumn, ReportSection, ReportTable, Span
from das_spark.report.text import shown

#: A page with more sections than these has a list of them.
_MANY_SECTIONS = 3


@dataclass(frozen=True, slots=True)
class _Section:
    """A section with the name that links lead to."""

    anchor: str
    level: int
    title: str
    blocks: tuple[object, ...]


def page(report: Report) -> str:
    """Render the page."""
    sections = list(_sections(report))
    return _rendered(report, sections, [section for section in sections if section.title])


def markdown_page(text: str) -> str:
    """A text in Markdown as a page of the same kind: headings, paragraphs, lists, quotations and tables.

    Args:
        text: Begins with a heading of the first level, which becomes the title.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415

    title, _, rest = text.removeprefix("# ").partition("\n")
    # Without HTML: what stands between angle brackets in a text stays text.
    tokens = (reader := MarkdownIt("commonmark", {"html": False}).enable("table")).parse(rest)
    headings = [
        (token, _Section(f"s-{at}", 2, tokens[at + 1].content, ()))
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    for token, section in headings:
        token.attrSet("id", section.anchor)
    body = reader.renderer.render(tokens, reader.options, {})
    scrolled = '<div class="wide" tabindex="0" role="region" aria-label="table"><table class="words">'
    body = body.replace("<table>", scrolled).replace("</table>", "</table></div>")
    return _rendered(Report(title.strip(), ()), [], [each for _, each in headings], body)


def _rendered(report: Report, sections: Sequence[_Section], listed: Sequence[_Section], body: str = "") -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only reports pay for it

    numbers = count(1)
    template = Environment(
        loader=PackageLoader("das_spark.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    ).get_template("page.html")
    return template.render(
        report=report,
        sections=sections,
        body=body,
        contents=listed if sum(each.level == 2 for each in listed) > _MANY_SECTIONS else [],  # noqa: PLR2004
        colors={f"c{at}": color for at, color in enumerate(PALETTE)} | {f"r{at}": each for at, each in enumerate(RAMP)},
        svg=lambda figure, narrow=False: _themed(figure, next(numbers), NARROW if narrow else WIDTH),
        is_map=is_map,
        kind=_kind,
        columns_and_rows=lambda table: table.for_medium("page"),
        is_text=_is_text,
        cell=_cell,
    )


def _sections(report: Report) -> Iterator[_Section]:
    """Those that the page has, with names that no table has and no two of them share."""
    taken = {block.name for section in report.sections for block in section.blocks if isinstance(block, ReportTable)}
    for section in _shown(report.sections):
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        free = next(spelling for spelling in _spellings(name) if spelling not in taken)
        taken.add(free)
        yield _Section(free, section.level, section.title, section.blocks)


def _spellings(name: str) -> Iterator[str]:
    yield f"s-{name}"
    yield from (f"s-{name}-{number}" for number in count(2))


def _shown(sections: Iterable[ReportSection]) -> Iterator[ReportSection]:
    """Sections with something to show; a heading stays where parts of it follow."""
    every = [section for section in sections if "page" in section.media]
    return (section for section in every if any(_kind(block) for block in section.blocks))


def _kind(block: object) -> str:
    """Which block it is; empty for what the page leaves out."""
    if isinstance(block, ReportTable):
        return "table" if "page" in block.media else ""
    return "figure" if isinstance(block, Figure) else "text"


def _themed(figure: Figure, number: int, width: float) -> str:
    """The figure with the colors of the page, and with identifiers that no other figure of it has."""
    apart = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{number}-", drawn(figure, width))
    apart = re.sub(r" font-family: [^;\"]*;", "", apart)  # the style sheet of the page has one for all
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _variable(found.group()), apart, flags=re.IGNORECASE)


def _variable(color: str) -> str:
    name = THEMED.get(color.lower())
    return f"var(--{name})" if name else color


def _is_text(rows: list[list[Cell]], at: int) -> bool:
    values = [row[at] for row in rows if row[at] is not None]
    return bool(values) and all(isinstance(value, str | tuple) for value in values)


def _cell(value: Cell, column: ReportColumn) -> tuple[str, str]:
    """What a cell shows, and what stands small below it."""
    if isinstance(value, Span) and value.value is not None:
        return shown(value.value, column), shown(Span(value.low, value.high), column)
    return shown(value, column), ""
