"""The official summary files read a second time, row by row, by the layout that the Census Bureau publishes."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

SUMLEV, GEOCODE, LOGRECNO = 2, 9, 7
KEY_COLUMNS = 5
#: Table -> segment, its first column behind the keys, and its columns.
PLACES = {
    "P1": ("00001", 0, 71),
    "P2": ("00001", 71, 73),
    "P3": ("00002", 0, 71),
    "P4": ("00002", 71, 73),
    "H1": ("00002", 144, 3),
    "P5": ("00003", 0, 10),
}
LEVELS = {"140": "tract", "150": "block group", "750": "block"}


def rows(folder: Path, part: str) -> Iterator[list[str]]:
    (path,) = folder.glob(f"??{part}*.pl")
    with path.open(encoding="latin-1", newline="") as file:
        yield from csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE)


def read_table(folder: Path, table: str) -> dict[str, dict[str, list[int]]]:
    """Level -> geocode -> values of one table."""
    segment, first, number = PLACES[table]
    begin = KEY_COLUMNS + first
    values = {row[4]: [int(value) for value in row[begin : begin + number]] for row in rows(folder, segment)}
    found: dict[str, dict[str, list[int]]] = {level: {} for level in LEVELS.values()}
    for row in rows(folder, "geo"):
        if level := LEVELS.get(row[SUMLEV]):
            assert row[GEOCODE] not in found[level]
            found[level][row[GEOCODE]] = values[row[LOGRECNO]]
    return found
