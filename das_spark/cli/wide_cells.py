"""`interval --wider-than`: the share of cells of published tables whose intervals are too wide, by geolevel."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from das_spark.cli.options import console, print_json, require_new, write_new
from das_spark.evaluation import MEASUREMENTS, WidthLimit
from das_spark.report import ReportTable, csv_text, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from das_spark.evaluation import WideCells
    from das_spark.pipeline import IntervalSource

_COLUMNS = ("of", "level", "table", "geolevel", "column", "label", "cells", "wider", "share")


def show_wide_cells(measured: IntervalSource, limit: WidthLimit, out: Path | None, *, as_json: bool) -> None:
    """Count wide intervals and print them, by column as JSON or CSV, by table and geolevel for people.

    Args:
        measured: What is known, and wanted.
        limit: What is wider.
        out: CSV to write, if any; it must not be there.
        as_json: Print JSON instead of tables.
    """
    if out is not None:
        require_new(out)
    from das_spark.pipeline import wide_intervals  # noqa: PLC0415 - wrong options are refused before Spark is imported

    found = wide_intervals(measured, limit)
    if out is not None:
        write_new(out, csv_text(ReportTable.of("wide_cells", "", _COLUMNS, [each.to_json() for each in found])))
    if as_json:
        facts = {"wider_than": str(limit), "notices": measured.notices, "file": out}
        print_json({**facts, "cells": [each.to_json() for each in found]})
        return
    _print(found, limit, measured.plan.product.counted, console())
    if out is not None:
        console().print(f"by column in {out}")


def _print(found: Sequence[WideCells], limit: WidthLimit, counted: str, out: Console) -> None:
    for (of, level), cells in groupby(found, key=lambda each: (each.of, each.level)):
        rows = []
        for (name, geolevel), own in groupby(cells, key=lambda each: (each.table, each.geolevel)):
            columns = list(own)
            count, wider = (sum(getattr(each, key) for each in columns) for key in ("cells", "wider"))
            worst = max(columns, key=lambda each: each.share)
            share = f"{worst.column} ({worst.share:.1%})" if worst.wider else ""
            rows.append((name, geolevel, f"{count:,}", f"{wider:,}", f"{wider / count:.1%}" if count else "-", share))
        meant = (
            "of the truth, by the measurements alone" if of == MEASUREMENTS else "of published counts, by replicates"
        )
        unit = "" if limit.is_share else f" {counted}"
        title = f"Cells whose {100 * level:g} % interval is wider than {limit}{unit}; {meant}"
        out.print(table(title, ("table", "geolevel", "cells", "wider", "share", "most of them"), rows, left=2))
    out.print("a cell is a column of a geounit; its width is the greatest count of the interval minus the least one")
