"""The numbers of a report for other programs: every table and every figure of its page as CSV and as Parquet."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from das_spark.report.files import CLASSIFICATION
from das_spark.report.model import (
    Bars,
    Boxes,
    Curve,
    Figure,
    Guide,
    Regions,
    Report,
    ReportTable,
    Series,
    Span,
    Violins,
    Whiskers,
)
from das_spark.report.text import csv_field, plain

#: Columns of the data of a figure: a row a mark; `x` and `y` are as drawn, `row` is the name of a row.
_OF_FIGURE: Final = ("panel", "series", "row", "x", "y", "low", "high", "text")


def data_files(report: Report) -> dict[str, bytes]:
    """Every table and figure of the page, by names of files: `NAME.csv` and `NAME.parquet`.

    A table has the name of its anchor, a figure that of its title. A span is three columns: the value where it has one,
    low_<name> and high_<name>. Fractions are text, so that they stay exact. A restricted report says so in the last
    column and in the names, which end in `.restricted.csv` and `.restricted.parquet`.
    """
    ending = ".restricted" if report.restricted else ""
    files = {}
    for name, table in _named(report):
        marked = table
        if report.restricted:
            word = pa.array([report.restricted.partition(":")[0]] * table.num_rows, pa.string())
            marked = table.append_column(CLASSIFICATION, word)
        as_csv, as_parquet = io.BytesIO(), io.BytesIO()
        csv.write_csv(_without_formulas(marked), as_csv)
        parquet.write_table(marked, as_parquet)
        files[f"{name}{ending}.csv"] = as_csv.getvalue()
        files[f"{name}{ending}.parquet"] = as_parquet.getvalue()
    return files


def _named(report: Report) -> Iterator[tuple[str, pa.Table]]:
    """Tables and figures with names that no two of them share."""
    taken: set[str] = set()
    pictures = () if report.picture is None else (report.picture,)
    blocks = (block for section in report.sections if "page" in section.media for block in section.blocks)
    for block in (*pictures, *blocks):
        if isinstance(block, Figure):
            name, table = f"figure_{_slug(block.title or block.alt)}", _figure(block)
        elif isinstance(block, ReportTable) and "page" in block.media:
            name, table = _slug(block.name), _table(block)
        else:
            continue
        free = name if name not in taken else next(each for at in count(2) if (each := f"{name}_{at}") not in taken)
        taken.add(free)
        yield free, table


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _table(table: ReportTable) -> pa.Table:
    columns, rows = table.for_medium("page")
    found: dict[str, list[Any]] = {}
    for at, column in enumerate(columns):
        cells = [row[at] for row in rows]
        spans = [cell for cell in cells if isinstance(cell, Span)]
        if not spans or any(span.value is not None for span in spans):
            found[column.name] = [_plain(cell.value if isinstance(cell, Span) else cell) for cell in cells]
        if spans:
            low, high = column.fields or (f"low_{column.name}", f"high_{column.name}")
            found[low] = [_plain(cell.low) if isinstance(cell, Span) else None for cell in cells]
            found[high] = [_plain(cell.high) if isinstance(cell, Span) else None for cell in cells]
    return _arrow(found)


def _plain(cell: Any) -> Any:  # noqa: ANN401 - a cell of any kind
    return " ".join(str(plain(each)) for each in cell) if isinstance(cell, tuple) else plain(cell)


def _arrow(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Columns of one type each: text where a column holds words among its numbers."""
    made = {}
    for name, values in columns.items():
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            made[name] = pa.array([None if value is None else float(value) for value in values])
        elif len(kinds) > 1:
            made[name] = pa.array([None if value is None else str(value) for value in values])
        else:
            made[name] = pa.array(values, None if kinds else pa.string())
    return pa.table(made)


def _without_formulas(table: pa.Table) -> pa.Table:
    """The same with an apostrophe before what a spreadsheet would carry out: Parquet keeps texts as they are."""
    columns = [
        pa.array([csv_field(value) for value in column.to_pylist()], pa.string())
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=[str(csv_field(name)) for name in table.column_names])


def _figure(figure: Figure) -> pa.Table:
    rows = []
    for panel in figure.panels:
        for one in panel.series:
            for mark in _marks(one, across=bool(panel.rows)):
                row = {**dict.fromkeys(_OF_FIGURE), "panel": panel.title, **mark}
                at = mark.get("y")
                if panel.rows and at is not None and 0 <= round(at) < len(panel.rows):
                    row["row"] = panel.rows[round(at)]
                rows.append(row)
    return _arrow({name: [plain(row[name]) for row in rows] for name in _OF_FIGURE})


def _marks(one: Series, *, across: bool) -> Iterator[dict[str, Any]]:
    """The marks of a series; in a plot with rows, values run across."""
    if isinstance(one, Curve):
        texts = (*one.texts, *[None] * len(one.x))
        for x, y, text in zip(one.x, one.y, texts, strict=False):
            yield {"series": one.label, "x": float(x), "y": float(y), "text": text}
        return
    first, second = ("y", "x") if across else ("x", "y")
    label = "" if isinstance(one, Boxes | Guide | Regions) else one.label
    for mark in _measured(one):
        yield {"series": label, **{{"at": first, "value": second}.get(name, name): each for name, each in mark.items()}}


def _measured(one: Series) -> Iterator[dict[str, Any]]:
    """Position and value of each mark, with its ends where it has any."""
    match one:
        case Bars():
            yield from ({"at": float(at), "value": float(value)} for at, value in zip(one.at, one.values, strict=True))
        case Whiskers():
            middles: Sequence[float | None] = one.values if len(one.values) else [None] * len(one.at)
            for at, low, high, value in zip(one.at, one.low, one.high, middles, strict=True):
                yield {"at": float(at), "value": value, "low": float(low), "high": float(high)}
        case Boxes():
            for at, low, median, high in zip(one.at, one.low, one.median, one.high, strict=True):
                yield {"at": float(at), "value": float(median), "low": float(low), "high": float(high)}
        case Violins():
            yield from ({"at": float(at), "value": float(mean)} for at, mean in zip(one.at, one.means, strict=True))
        case Regions():
            for value, text in zip(one.values, one.texts, strict=True):
                yield {"value": float(value), "text": text}
        case Curve() | Guide():  # points are read as they are, and guides are no data
            return
