"""Tables of restricted figures as CSV text, which says who may see it before anything else."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import isfinite

from das_spark.evaluation.definitions import RESTRICTED


def restricted_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A comment line that says who may see the table, a line of headings, and the rows.

    Args:
        columns: Headings.
        rows: Cells; numbers are written in full, None and numbers that are not finite as empty fields.
    """
    buffer = io.StringIO()
    buffer.write(f"# {RESTRICTED}\n")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value
