"""Reports as data, and one renderer for each medium.

A function of another package turns numbers into a `Report`: sections of paragraphs, `ReportTable`s of raw values and
`Figure`s (panels of curves, bars, whiskers, boxes, violins, guides and regions of a map, with axes, title and caption).
The first screen has what was found in a sentence, three figures and a picture. `page` makes one self-contained HTML
file of it, `print_report` prints it, `csv_files` and `table_records` give its tables to programs (`json_text` writes
records with the facts around them); `markdown_text` makes what is read as plain text, and `markdown_page` a page of
such a text. Each column says how people read it and which media have it, so that a table is written once. Only
`figures` knows matplotlib, only `html` the template, and only `data`, which whoever writes the numbers of a page for
other programs imports by itself, Arrow.
"""

from das_spark.report.figures import drawn
from das_spark.report.files import csv_files, csv_text
from das_spark.report.html import markdown_page, page
from das_spark.report.json import json_text, records, table_records
from das_spark.report.markdown import code, escaped, markdown_text
from das_spark.report.model import (
    CSV,
    EVERYWHERE,
    JSON,
    PAGE,
    PEOPLE,
    PROGRAMS,
    RESTRICTED,
    STROKES,
    TERMINAL,
    Axis,
    Bars,
    Block,
    Boxes,
    Cell,
    Curve,
    Figure,
    Guide,
    KeyFigure,
    Legend,
    Medium,
    Panel,
    Regions,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    Violins,
    Whiskers,
)
from das_spark.report.terminal import print_report, print_table, table
from das_spark.report.text import csv_field, duration, known, number, percent, shown, size

__all__ = [
    "CSV",
    "EVERYWHERE",
    "JSON",
    "PAGE",
    "PEOPLE",
    "PROGRAMS",
    "RESTRICTED",
    "STROKES",
    "TERMINAL",
    "Axis",
    "Bars",
    "Block",
    "Boxes",
    "Cell",
    "Curve",
    "Figure",
    "Guide",
    "KeyFigure",
    "Legend",
    "Medium",
    "Panel",
    "Regions",
    "Report",
    "ReportColumn",
    "ReportSection",
    "ReportTable",
    "Span",
    "Violins",
    "Whiskers",
    "code",
    "csv_field",
    "csv_files",
    "csv_text",
    "drawn",
    "duration",
    "escaped",
    "json_text",
    "known",
    "markdown_page",
    "markdown_text",
    "number",
    "page",
    "percent",
    "print_report",
    "print_table",
    "records",
    "shown",
    "size",
    "table",
    "table_records",
]
