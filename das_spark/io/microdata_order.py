"""The order of records in a microdata file: whether it follows from what the records say.

Whoever writes records may tell by their order what no record tells. A run writes them by geocode, then by the class of
the unit, then by cell, and gives people to the units of a class in turn. A file does not name cells, but columns with
codes: the cells that a combination of codes can stand for have a first and a last one, so that records are in order
where cells that ascend could have been these. Records of which every cell has codes of its own have one order only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das_spark.products import CODE_SEPARATOR

if TYPE_CHECKING:
    from das_spark.products import CodedColumn, MicrodataCodes

Integers = NDArray[np.int64]


@dataclass(slots=True)
class RecordOrder:
    """Records as they stand in a file, and the places in which some are out of order."""

    sequence: list[Integers] = field(default_factory=list)  # shape (3, runs): place, kind and combination of codes
    last: Integers | None = None  # place, kind, number in the unit, and unit of the last person
    wrong: set[int] = field(default_factory=set)  # places

    def take(self, place: Integers, kind: Integers, code: Integers) -> None:
        """Take further records, those that are alike in all three at once or apart."""
        rows = np.stack([place, kind, code])
        changed = np.ones(rows.shape[1], dtype=bool)
        changed[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
        self.sequence.append(rows[:, changed])

    def take_people(self, place: Integers, kind: Integers, number: Integers, unit: Integers) -> None:
        """Take further people: within a class of a geounit, all first persons of units stand before the second ones."""
        rows = np.stack([place, kind, number, unit])
        if self.last is not None:
            rows = np.concatenate([self.last, rows], axis=1)
        before, after = rows[:, :-1], rows[:, 1:]
        together = (before[:2] == after[:2]).all(axis=0)
        ascending = (after[2] > before[2]) | ((after[2] == before[2]) & (after[3] > before[3]))
        self.wrong |= set(np.unique(after[0][together & ~ascending]).tolist())
        self.last = rows[:, -1:] if rows.shape[1] else self.last

    def misordered(self, places: list[str], combinations: list[str], codes: MicrodataCodes) -> set[int]:
        """Return the places in which records are out of order.

        Args:
            places: Text of every place, by its number.
            combinations: Text of every combination of codes, by its number.
            codes: What the columns hold.
        """
        if not self.sequence:
            return self.wrong
        place, kind, code = np.concatenate(self.sequence, axis=1)
        new = np.append(True, place[1:] != place[:-1])
        return (
            self.wrong | _unsorted(place[new], places, codes) | _unsorted_cells(place, kind, code, combinations, codes)
        )


def _unsorted(place: Integers, places: list[str], codes: MicrodataCodes) -> set[int]:
    """Places that come again or too late; where codes are no geocodes, their order does not follow from their text."""
    known, times = np.unique(place, return_counts=True)
    wrong = set(known[times > 1].tolist())
    if not codes.spans:
        texts = pa.array(places, pa.string()).take(pa.array(place))
        late = pc.less(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False).astype(bool)
        wrong |= set(place[1:][late].tolist())
    return wrong


def _unsorted_cells(
    place: Integers, kind: Integers, code: Integers, combinations: list[str], codes: MicrodataCodes
) -> set[int]:
    """Places whose classes, or cells within a class, do not ascend."""
    same = place[1:] == place[:-1]
    wrong = set(place[1:][same & (kind[1:] < kind[:-1])].tolist())
    low, high = (ends[code] for ends in cell_ranges(combinations, codes))
    part = np.append(0, np.cumsum(~(same & (kind[1:] == kind[:-1]))))
    step = 2 * int(high.max(initial=0)) + 2
    reached = np.maximum.accumulate(part * step + low)
    return wrong | set(place[reached > part * step + high].tolist())


def cell_ranges(combinations: list[str], codes: MicrodataCodes) -> tuple[Integers, Integers]:
    """Return where the cells of each combination of codes begin and end in the order in which records are written.

    Args:
        combinations: Texts of the columns with codes, joined.
        codes: What the columns hold.

    Returns:
        First and last position, (combinations,) each; of an unknown code, those of all records.
    """
    shape, listed = codes.schema.shape, len(codes.listed)
    strides = np.cumprod([1, *reversed(shape[1:])])[::-1]
    size = len(combinations)
    lows, highs = np.zeros((len(shape), size), dtype=np.int64), np.repeat(np.array(shape)[:, None] - 1, size, axis=1)
    behind = np.full(size, bool(listed))  # whether it may stand for what is listed behind all cells
    counted = np.ones(size, dtype=bool)  # whether it may stand for a cell
    texts = [text.split(CODE_SEPARATOR) for text in combinations]
    for number, column in enumerate(codes.coded):
        if not column.attributes:
            continue
        known: dict[str, int] = {}
        found = np.array([known.setdefault(parts[number], len(known)) for parts in texts], dtype=np.int64)
        ends = [_levels_of(text, column, codes) for text in known]
        for order, name in enumerate(column.attributes):
            axis = codes.schema.axis(name)
            lows[axis] = np.maximum(lows[axis], np.array([end.low[order] for end in ends])[found])
            highs[axis] = np.minimum(highs[axis], np.array([end.high[order] for end in ends])[found])
        behind &= np.array([end.listed for end in ends])[found]
        counted &= np.array([end.counted for end in ends])[found]
    low, high = strides @ lows, strides @ highs
    cells = codes.schema.size
    # Records of a cell that are told apart follow the others of that cell; what is listed follows all cells.
    return 2 * np.where(counted, low, cells), np.where(behind, 2 * (cells + listed), 2 * high + 1)


@dataclass(frozen=True, slots=True)
class _Levels:
    """The levels of attributes that a text of a column stands for: the first and the last of each attribute."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    counted: bool  # whether it stands for any
    listed: bool  # whether it stands for what is listed


def _levels_of(text: str, column: CodedColumn, codes: MicrodataCodes) -> _Levels:
    shape = tuple(codes.schema.shape[codes.schema.axis(name)] for name in column.attributes)
    of_levels = column.texts[:-1] if codes.listed else column.texts
    listed = bool(codes.listed) and text == column.texts[-1]
    levels = [place for place, known in enumerate(of_levels) if known == text]
    if column.divided and text == column.divided:
        levels.append(len(of_levels) - 1)
    if not levels:
        # A code that the layout does not know breaks another rule, and may stand anywhere.
        return _Levels((0,) * len(shape), tuple(size - 1 for size in shape), not listed, bool(codes.listed))
    places = np.stack(np.unravel_index(np.array(levels), shape))
    return _Levels(tuple(places.min(axis=1).tolist()), tuple(places.max(axis=1).tolist()), True, listed)
