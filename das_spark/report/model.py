"""What a report says, as data: sections of text, tables and figures. Renderers and the drawing of figures lie beside.

Values in tables stay raw (numbers, fractions, None); each column says how people read it (`form`, see `text.FORMS`) and
which media have it, so that one table serves the page, the terminal, CSV and JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal

Medium = Literal["page", "terminal", "csv", "json"]
EVERYWHERE: Final[frozenset[Medium]] = frozenset({"page", "terminal", "csv", "json"})
#: What people read, and what programs read.
PEOPLE: Final[frozenset[Medium]] = frozenset({"page", "terminal"})
PROGRAMS: Final[frozenset[Medium]] = frozenset({"csv", "json"})
PAGE: Final[frozenset[Medium]] = frozenset({"page"})
TERMINAL: Final[frozenset[Medium]] = frozenset({"terminal"})
CSV: Final[frozenset[Medium]] = frozenset({"csv"})
JSON: Final[frozenset[Medium]] = frozenset({"json"})


@dataclass(frozen=True, slots=True)
class Span:
    """An interval as one cell: CSV gives it two fields, JSON an object, people "low to high".

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Its confidence, such as 0.95; None where it has none.
        value: What lies between, if the cell shows it too; people see it first.
    """

    low: float
    high: float
    level: float | None = None
    value: float | None = None


#: A tuple is a list of values in JSON, and one field with blanks between them elsewhere.
Cell = str | bool | int | float | Fraction | Span | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column of a table.

    Attributes:
        name: Its heading in CSV, its key in JSON.
        heading: What people read above it; the name where empty.
        form: How people read its numbers: a format specification such as ",.2f", or a name in `text.FORMS`.
        media: Which have it.
        fields: Of a column of spans, its two headings in CSV; low_<name> and high_<name> where empty.
        missing: What people read where there is no value.
    """

    name: str
    heading: str = ""
    form: str = ""
    media: frozenset[Medium] = EVERYWHERE
    fields: tuple[str, ...] = ()
    missing: str = "-"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of raw values.

    Attributes:
        name: Of its CSV file, its key in JSON, and its anchor in the page.
        title: Heading; empty where the section's heading serves.
        columns: In order.
        rows: One value a column.
        note: What a reader must know about it.
        media: Which have it.
        folded: Whether the page shows it only when asked to; the title is what is clicked on.
        marked: Numbers of rows that stand out on the page.
    """

    name: str
    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    media: frozenset[Medium] = EVERYWHERE
    folded: bool = False
    marked: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Iterable[str | tuple[str, ...] | ReportColumn],
        rows: Iterable[Iterable[Cell] | Mapping[str, Cell]],
        *,
        note: str = "",
        media: frozenset[Medium] = EVERYWHERE,
        folded: bool = False,
        marked: frozenset[int] = frozenset(),
    ) -> ReportTable:
        """A table from any rows.

        Args:
            name: As of the table.
            title: As of the table.
            columns: A text stands for a column that has no more than a name, a tuple for name, heading and form.
            rows: Values in the order of the columns, or by their names; what else a mapping has is left out.
            note: As of the table.
            media: As of the table.
            folded: As of the table.
            marked: As of the table.
        """
        made = tuple(map(_column, columns))
        values = (
            tuple(row[column.name] for column in made) if isinstance(row, Mapping) else tuple(row) for row in rows
        )
        return cls(name, title, made, tuple(values), note, media, folded, marked)

    def for_medium(self, medium: Medium) -> tuple[list[ReportColumn], list[list[Cell]]]:
        """The columns that a medium has, and the rows without the others."""
        kept = [at for at, column in enumerate(self.columns) if medium in column.media]
        return [self.columns[at] for at in kept], [[row[at] for at in kept] for row in self.rows]


def _column(of: str | tuple[str, ...] | ReportColumn) -> ReportColumn:
    if isinstance(of, ReportColumn):
        return of
    name, heading, form = (of, "", "") if isinstance(of, str) else (*of, "")[:3]
    return ReportColumn(name, heading, form)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a plot.

    Attributes:
        label: What it counts, with its unit.
        scale: "decades" is a logarithmic scale that is too long for ticks at 2 and 5; "symlog" is linear from -1 to 1.
        low: Where it begins; None for where the data do.
        high: Where it ends.
        ticks: Names at positions, in place of numbers.
        form: Format of its numbers, such as ",.0f".
    """

    label: str = ""
    scale: Literal["linear", "log", "decades", "symlog"] = "linear"
    low: float | None = None
    high: float | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    form: str = ""


Stroke = Literal["none", "solid", "dashed", "dashdot", "dotted"]
Values = Sequence[float]
#: What tells lines apart where colors do not.
STROKES: Final[tuple[Stroke, ...]] = ("solid", "dashed", "dashdot", "dotted")


@dataclass(frozen=True, slots=True)
class Curve:
    """Points, joined or not. NaN interrupts a line.

    Attributes:
        x: Across.
        y: Up; in a plot with rows, numbers of rows from 0 at the top.
        label: In the legend; empty for none.
        color: Number in the palette; None for grey.
        stroke: How points are joined.
        marker: Number in the list of marks; None for none.
        steps: Hold each value up to the next point.
        texts: Written beside the points.
        below: Whether these texts stand below and to the left, instead of above and to the right.
        size: Of the marks, in points.
        alpha: Opacity.
        hollow: Whether marks are outlines.
    """

    x: Values
    y: Values
    label: str = ""
    color: int | None = 0
    stroke: Stroke = "solid"
    marker: int | None = None
    steps: bool = False
    texts: tuple[str, ...] = ()
    below: bool = False
    size: float = 6
    alpha: float = 1.0
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar from 0 to each value; across in a plot with rows, up in others.

    Attributes:
        at: Positions: numbers of rows, or places across.
        values: Lengths.
        label: In the legend; empty for none.
        color: Number in the palette.
        texts: Written at the ends of the bars.
        thickness: In rows.
    """

    at: Values
    values: Values
    label: str = ""
    color: int = 0
    texts: tuple[str, ...] = ()
    thickness: float = 0.7


@dataclass(frozen=True, slots=True)
class Whiskers:
    """Intervals as lines; across in a plot with rows, up in others.

    Attributes:
        at: Positions.
        low: Lower ends.
        high: Upper ends.
        color: Number in the palette; None for grey.
        width: Of the line, in points.
        values: A mark on each, if there are any.
        label: Of the marks in the legend; empty for none.
        marker: Number in the list of marks.
    """

    at: Values
    low: Values
    high: Values
    color: int | None = 0
    width: float = 1.5
    values: Values = ()
    label: str = ""
    marker: int = 0


@dataclass(frozen=True, slots=True)
class Boxes:
    """Box plots; across in a plot with rows, up in others. All attributes but the last have one value a box.

    Attributes:
        at: Positions.
        low: Lower whiskers.
        first: First quartiles.
        median: Medians.
        third: Third quartiles.
        high: Upper whiskers.
        mean: Means, shown as black dots.
        color: Number in the palette.
    """

    at: Values
    low: Values
    first: Values
    median: Values
    third: Values
    high: Values
    mean: Values
    color: int = 0


@dataclass(frozen=True, slots=True)
class Violins:
    """Densities standing upright, and a mark at the mean of each.

    Attributes:
        at: Positions.
        heights: Of each: where the density is read.
        widths: Of each: the density as a part of its largest value.
        means: Of each.
        half: Half the room of one, in units across.
        label: In the legend; empty for none.
        color: Number in the palette.
        marker: Number in the list of marks.
    """

    at: Values
    heights: tuple[Values, ...]
    widths: tuple[Values, ...]
    means: Values
    half: float
    label: str = ""
    color: int = 0
    marker: int = 0


@dataclass(frozen=True, slots=True)
class Guide:
    """A grey line to read by: at a value across or up, or where both axes are equal.

    Attributes:
        x: Upright line there.
        y: Level line there; the diagonal where both are None.
        dashed: Whether it is dashed.
        color: Number in the palette; None for grey.
        label: In the legend; empty for none.
    """

    x: float | None = None
    y: float | None = None
    dashed: bool = False
    color: int | None = None
    label: str = ""


Series = Curve | Bars | Whiskers | Boxes | Violins | Guide


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot.

    Attributes:
        series: Drawn in this order.
        x: Across.
        y: Up.
        title: Above it.
        rows: Names of rows, the first on top: then values run across, and the positions of bars, whiskers and boxes
            are numbers of rows.
    """

    series: tuple[Series, ...]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""
    rows: tuple[str, ...] = ()


Legend = Literal["above", "right", "upper left", "upper right", "lower right", "best", "none"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its caption.

    Attributes:
        caption: What it shows, how it was computed.
        panels: Row by row; one fills the width.
        columns: How many plots side by side.
        height: Of a single plot, in rows of text; that of its named rows, or 7, where None.
        legend: Where labels of series stand: above or to the right of the plots, or in the first of them.
    """

    caption: str
    panels: tuple[Panel, ...]
    columns: int = 2
    height: float | None = None
    legend: Legend = "none"

    @property
    def alt(self) -> str:
        """What a reader is told who does not see it: the first sentence of the caption."""
        return self.caption.split(". ")[0].rstrip(".")


Block = str | ReportTable | Figure


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report under a heading.

    Attributes:
        title: Heading.
        blocks: Paragraphs (text), tables and figures, in order.
        level: 2 for a section, 3 for a part of the one before it.
        media: Which have it.
    """

    title: str
    blocks: tuple[Block, ...]
    level: Literal[2, 3] = 2
    media: frozenset[Medium] = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Report:
    """A report.

    Attributes:
        title: Its name.
        sections: In order.
        restricted: Sentence that says why only few may see it; empty for a public report. Its first word, RESTRICTED,
            stands in the last column of every CSV file.
        notices: What must not be missed, such as that keys were insecure.
        lead: Paragraphs below the title.
        notes: Sentences that a reader must know.
        definitions: Terms and their meaning, with units.
    """

    title: str
    sections: tuple[ReportSection, ...]
    restricted: str = ""
    notices: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)

    def tables(self, medium: Medium) -> list[ReportTable]:
        """The tables that a medium has."""
        return [
            block
            for section in self.sections
            if medium in section.media
            for block in section.blocks
            if isinstance(block, ReportTable) and medium in block.media
        ]
