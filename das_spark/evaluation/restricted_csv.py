"""Tables of restricted figures as CSV that every program reads as it is: who may see it stands in a column.

The names of such files end in `.restricted.csv`. A comment in the first line would be taken for the headings.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from das_spark.evaluation.definitions import RESTRICTED

#: Heading of the last column, and what stands in it: the first word of the sentence that other files begin with.
CLASSIFICATION: Final = "classification"
_RESTRICTED: Final = RESTRICTED.partition(":")[0]


def restricted_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line of headings and the rows, each of which says in its last field that it is restricted.

    Args:
        columns: Headings, without the last one.
        rows: Cells; numbers are written in full, None and numbers that are not finite as empty fields.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*columns, CLASSIFICATION))
    writer.writerows((*map(_cell, row), _RESTRICTED) for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value
