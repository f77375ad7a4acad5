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
#: Why few may see a report that compares with the truth.
RESTRICTED: Final = "RESTRICTED: compares with confidential counts; not part of the protected release"


@dataclass(frozen=True, slots=True)
class Span:
    """An interval as one cell: CSV gives it two fields, JSON an object, people "low to high"."""

    low: float  #: lower end
    high: float  #: upper end
    level: float | None = None  #: its confidence, such as 0.95; None where it has none
    value: float | None = None  #: what lies between, if the cell shows it too; people see it first


#: a tuple is a list of values in JSON, and one field with blanks between them elsewhere.
Cell = str | bool | int | float | Fraction | Span | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column of a table."""

    name: str  #: its heading in CSV, its key in JSON
    heading: str = ""  #: what people read above it; the name where empty
    form: str = ""  #: how people read its numbers: a format specification such as ",.2f", or a name in `text.FORMS`
    media: frozenset[Medium] = EVERYWHERE  #: which have it
    #: Of a column of spans, its two headings in CSV; low_<name> and high_<name> where empty.
    fields: tuple[str, ...] = ()
    missing: str = "-"  #: what people read where there is no value


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of raw values."""

    name: str  #: of its CSV file, its key in JSON, and its anchor in the page
    title: str  #: heading; empty where the section's heading serves
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]  #: one value a column
    note: str = ""  #: what a reader must know about it
    media: frozenset[Medium] = EVERYWHERE  #: which have it
    folded: bool = False  #: whether the page shows it only when asked to; the title is what is clicked on
    marked: frozenset[int] = frozenset()  #: numbers of rows that stand out on the page

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
    """One axis of a plot."""

    label: str = ""  #: what it counts, with its unit
    #: "decades" is a logarithmic scale that is too long for ticks at 2 and 5; "symlog" is linear from -1 to 1.
    scale: Literal["linear", "log", "decades", "symlog"] = "linear"
    low: float | None = None  #: where it begins; None for where the data do
    high: float | None = None  #: where it ends
    ticks: tuple[tuple[float, str], ...] = ()  #: names at positions, in place of numbers
    form: str = ""  #: format of its numbers, such as ",.0f"
    sparse: bool = False  #: whether a "symlog" scale has ticks at powers of ten alone


Stroke = Literal["none", "solid", "dashed", "dashdot", "dotted"]
Values = Sequence[float]
#: What tells lines apart where colors do not.
STROKES: Final[tuple[Stroke, ...]] = ("solid", "dashed", "dashdot", "dotted")


@dataclass(frozen=True, slots=True)
class Curve:
    """Points, joined or not. NaN interrupts a line."""

    x: Values  #: across
    y: Values  #: up; in a plot with rows, numbers of rows from 0 at the top
    label: str = ""  #: in the legend; empty for none
    color: int | None = 0  #: number in the palette; None for grey
    stroke: Stroke = "solid"  #: how points are joined
    marker: int | None = None  #: number in the list of marks; None for none
    steps: bool = False  #: hold each value up to the next point
    texts: tuple[str, ...] = ()  #: written beside the points
    below: bool = False  #: whether these texts stand below and to the left, instead of above and to the right
    size: float = 6  #: of the marks, in points
    alpha: float = 1.0  #: opacity
    hollow: bool = False  #: whether marks are outlines


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar from 0 to each value; across in a plot with rows, up in others."""

    at: Values  #: positions: numbers of rows, or places across
    values: Values  #: lengths
    label: str = ""  #: in the legend; empty for none
    color: int = 0  #: number in the palette
    texts: tuple[str, ...] = ()  #: written at the ends of the bars
    thickness: float = 0.7  #: in rows


@dataclass(frozen=True, slots=True)
class Whiskers:
    """Intervals as lines; across in a plot with rows, up in others."""

    at: Values  #: positions
    low: Values  #: lower ends
    high: Values  #: upper ends
    color: int | None = 0  #: number in the palette; None for grey
    width: float = 1.5  #: of the line, in points
    values: Values = ()  #: a mark on each, if there are any
    label: str = ""  #: of the marks in the legend; empty for none
    marker: int = 0  #: number in the list of marks


@dataclass(frozen=True, slots=True)
class Boxes:
    """Box plots; across in a plot with rows, up in others. All attributes but the last have one value a box."""

    at: Values  #: positions
    low: Values  #: lower whiskers
    first: Values  #: first quartiles
    median: Values  #: medians
    third: Values  #: third quartiles
    high: Values  #: upper whiskers
    mean: Values  #: means, shown as black dots
    color: int = 0  #: number in the palette


@dataclass(frozen=True, slots=True)
class Violins:
    """Densities standing upright, and a mark at the mean of each."""

    at: Values  #: positions
    heights: tuple[Values, ...]  #: of each: where the density is read
    widths: tuple[Values, ...]  #: of each: the density as a part of its largest value
    means: Values  #: of each
    half: float  #: half the room of one, in units across
    label: str = ""  #: in the legend; empty for none
    color: int = 0  #: number in the palette
    marker: int = 0  #: number in the list of marks


@dataclass(frozen=True, slots=True)
class Guide:
    """A grey line to read by: at a value across or up, or where both axes are equal."""

    x: float | None = None  #: upright line there
    y: float | None = None  #: level line there; the diagonal where both are None
    dashed: bool = False  #: whether it is dashed
    color: int | None = None  #: number in the palette; None for grey
    label: str = ""  #: in the legend; empty for none


@dataclass(frozen=True, slots=True)
class Regions:
    """Areas of a map, colored by classes of a value; drawn with one unit as long across as up."""

    #: Of each region its rings, (across, up) each; holes are rings within rings.
    rings: tuple[tuple[tuple[Values, Values], ...], ...]
    values: Values  #: of each region; NaN for one without a value, which is drawn empty
    edges: Values  #: between classes, ascending; a class holds its lower edge
    labels: tuple[str, ...]  #: of each class, in the legend; one more than edges
    texts: tuple[str, ...] = ()  #: of each region, shown where a pointer rests on it


Series = Curve | Bars | Whiskers | Boxes | Violins | Guide | Regions


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot."""

    series: tuple[Series, ...]  #: drawn in this order
    x: Axis = Axis()  #: across
    y: Axis = Axis()  #: up
    title: str = ""  #: above it
    #: Names of rows, the first on top: then values run across, and the positions of bars, whiskers and boxes are
    #: numbers of rows.
    rows: tuple[str, ...] = ()
    aspect: float = 1.0  #: of a map: length of a unit up over one across


Legend = Literal["above", "right", "upper left", "upper right", "lower right", "best", "none"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its caption."""

    caption: str  #: what it shows, how it was computed
    panels: tuple[Panel, ...]  #: row by row; one fills the width
    columns: int = 2  #: how many plots side by side
    height: float | None = None  #: of a single plot, in rows of text; that of its named rows, or 7, where None
    #: Where labels of series stand: above or to the right of the plots, or in the first of them.
    legend: Legend = "none"
    title: str = ""  #: a few words above it; none where empty

    @property
    def alt(self) -> str:
        """What a reader is told who does not see it: title, and first sentence of the caption."""
        first = self.caption.split(". ")[0].rstrip(".")
        return f"{self.title}. {first}" if self.title else first


Block = str | ReportTable | Figure


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report under a heading."""

    title: str  #: heading
    blocks: tuple[Block, ...]  #: paragraphs (text), tables and figures, in order
    level: Literal[2, 3] = 2  #: 2 for a section, 3 for a part of the one before it
    media: frozenset[Medium] = EVERYWHERE  #: which have it


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the few numbers that the first screen of a page shows large."""

    value: str  #: as people read it, such as "3.1"
    unit: str  #: what it counts
    meaning: str  #: of what, and how it was computed, in one sentence


@dataclass(frozen=True, slots=True)
class Report:
    """A report."""

    title: str
    sections: tuple[ReportSection, ...]
    #: Sentence that says why only few may see it; empty for a public report. Its first word, RESTRICTED, stands in the
    #: last column of every CSV file.
    restricted: str = ""
    notices: tuple[str, ...] = ()  #: what must not be missed, such as that keys were insecure
    lead: tuple[str, ...] = ()  #: paragraphs below the title
    notes: tuple[str, ...] = ()  #: sentences that a reader must know
    definitions: Mapping[str, str] = field(default_factory=dict)  #: terms and their meaning, with units
    #: What it is about, below the title: run, product, date, version, budget.
    facts: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""  #: the answer in one or two sentences, computed from what the report holds
    key_figures: tuple[KeyFigure, ...] = ()  #: three at most, below the verdict
    picture: Figure | None = None  #: beside the key figures

    def tables(self, medium: Medium) -> list[ReportTable]:
        """The tables that a medium has."""
        return [
            block
            for section in self.sections
            if medium in section.media
            for block in section.blocks
            if isinstance(block, ReportTable) and medium in block.media
        ]
