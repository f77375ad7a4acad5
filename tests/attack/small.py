"""Small schemas with tables, and all records that meet given columns, found by trying every one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.tabulation import Line, Table, tabulate


def schema(*sizes: int) -> Schema:
    return Schema("small", tuple(Attribute(f"a{n}", tuple(map(str, range(size)))) for n, size in enumerate(sizes)))


def table(of: Schema, *lines: dict[str, tuple[int, ...]] | tuple[dict[str, tuple[int, ...]], ...], name: str = "T"):
    """A table of a total and lines under it; a line of several selections tallies them."""
    made = [
        Line(1, str(n), {}, line) if isinstance(line, tuple) else Line(1, str(n), line) for n, line in enumerate(lines)
    ]
    return Table.of(name=name, title=name, universe="all", schema=of, prefix=name, lines=[Line(0, "Total", {}), *made])


def histogram(counts) -> Histogram:
    return Histogram.from_dense(np.asarray(counts, dtype=np.int64))


def values_of(matrix, records: Histogram):
    return tabulate(matrix, records.cells, np.array([0, len(records.cells)]), records.counts)[0]


def every_solution(tables, impossible, values) -> list[tuple[int, ...]]:
    """All whole counts of cells that meet the columns, cell by cell, as long as no column is exceeded."""
    counted = np.array([column.times(each.schema) for each in tables for column in each.columns])

    def after(cell: int, left) -> Iterator[tuple[int, ...]]:
        if cell == len(impossible):
            if not left.any():
                yield ()
            return
        for count in range(1 if impossible[cell] else int(max(values)) + 1):
            rest = left - count * counted[:, cell]
            if (rest < 0).any():
                return
            yield from ((count, *others) for others in after(cell + 1, rest))

    return list(after(0, np.asarray(values)))
