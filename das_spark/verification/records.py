"""Rules on microdata: every leaf has the records of its estimates, and the units of its invariants.

The files were reduced to some rows of each geounit: two sums of weights in the place of all its records, and its units
by class. Several formats are compared at once: the side of estimates and invariants is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np

from das_spark.products import PERSONS_EQUAL, TOLD
from das_spark.verification.families import (
    FamilyRule,
    Found,
    Key,
    differing_lines,
    format_note,
    names_of,
    summed,
    summed_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.products import MicrodataCodes
    from das_spark.verification.families import Families, Lists, Rows

UNITS_EQUAL: Final = "units equal invariants"
POPULATIONS: Final = "unit populations"
#: People (or units) of a geounit from which on sums of weights are not exact.
_MOST: Final = 1 << 31


class CellWeights(Protocol):
    """What stands for the records of a cell."""

    @property
    def codes(self) -> MicrodataCodes:
        """What the columns of the files hold."""

    def of_cells(
        self, cells: NDArray[np.int64], *, beside: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the weights of cells, shape ``(cells, 2)``, and which of them there may be.

        Args:
            cells: Their numbers.
            beside: Whether these are no cells of estimates, but kinds of what is listed besides, numbered behind the
                cells, and `TOLD`.
        """


@dataclass(frozen=True, slots=True)
class _RecordRule(FamilyRule):
    """What is judged of the records of leaves, format by format.

    Attributes:
        level: That of the leaves.
        formats: Those of the files.
    """

    level: str
    formats: tuple[str, ...]

    rules: ClassVar[tuple[str, ...]]

    @property
    def expected(self) -> tuple[Key, ...]:
        """Every rule in each format."""
        return tuple(
            (rule, self.level, format_note(format, self.formats)) for format in self.formats for rule in self.rules
        )

    def _by_format(self, rows: Rows) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """The note of each format, and which rows are of it."""
        place = rows.texts("format").among(self.formats)
        return ((format_note(format, self.formats), place == number) for number, format in enumerate(self.formats))


@dataclass(frozen=True, slots=True)
class RecordsEqual(_RecordRule):
    """As many records of each combination of codes in each geounit as the estimates have people (or units).

    Units that are listed are expected, too. Where people live in units, those of a cell live in units of its class:
    kinds of group quarters may share all codes.

    Attributes:
        weights: What stands for the records of a cell.
        listed: Whether units are listed besides what is counted.
    """

    needs: ClassVar = ("estimates", "invariants", "records", "told")
    rules: ClassVar = (PERSONS_EQUAL,)

    weights: CellWeights
    listed: bool

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        if families.level != self.level:
            return
        size, estimates, cells = len(families.geocodes), families.rows("estimates"), families.cells("estimates")
        sums, lost = self._summed(size, estimates.geounit[cells.row], cells.cell, cells.count)
        # Lists of different lengths are no histogram: nothing equals it.
        whole = estimates.lists("cells").whole & estimates.lists("counts").whole & ~cells.crooked
        lost[estimates.geounit[~whole]] = True
        number = len(estimates) + len(cells.cell)
        beside = [*(self._listed(families) if self.listed else ()), *self._told_apart(families)]
        if beside:
            geounit, cell, count = (np.concatenate(column) for column in zip(*beside, strict=True))
            kept = count != 0
            number += int(np.count_nonzero(kept & (cell != TOLD)))
            more, also = self._summed(size, geounit[kept], cell[kept], count[kept], beside=True)
            sums, lost = sums + more, lost | also
        records = families.rows("records")
        said = np.stack([records.numbers(name, 0) for name in ("one", "other")], axis=1)
        for note, own in self._by_format(records):
            differs = (summed_rows(records.geounit[own], said[own], size) != sums).any(axis=1)
            yield Found(PERSONS_EQUAL, number, names_of(families.geocodes, lost | differs), note)

    def _summed(
        self,
        size: int,
        geounit: NDArray[np.int64],
        cell: NDArray[np.int64],
        count: NDArray[np.int64],
        *,
        beside: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Sums of weights by geounit, shape ``(size, 2)``, and of which there are none, since a cell cannot be."""
        weights, there = self.weights.of_cells(cell, beside=beside)
        lost = np.bincount(geounit, np.abs(count.astype(np.float64)), size) >= _MOST
        lost[geounit[~there]] = True
        return summed_rows(geounit, count[:, None] * weights, size), lost

    def _listed(self, families: Families) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Geounit, cell and count of units that are listed, each kind as a cell of its own behind the others.

        Vacant units are the housing units less the households that were estimated, or those that another product has
        published, by kind.
        """
        codes, size = self.weights.codes, len(families.geocodes)
        behind, invariants = codes.schema.size - 1, families.rows("invariants")
        values, name = invariants.lists("values"), invariants.texts("name")
        place, geounit = _places(values), invariants.geounit[values.row]
        units, vacant = name.are("units")[values.row], name.are("vacant")[values.row]
        facilities = units & (place > 0)
        yield geounit[facilities], place[facilities] + behind, values.values[facilities]
        if not codes.lists_vacant:
            return
        if codes.vacant_kinds > 1:
            told = families.rows("told")
            kinds = told.lists("vacant_kinds")
            yield told.geounit[kinds.row], _places(kinds) + codes.listed[-codes.vacant_kinds] + behind, kinds.values
            return
        first = (units | vacant) & (place == 0)
        count = summed(geounit[first], values.values[first], size)
        count -= summed(families.rows("estimates").geounit, families.totals, size)
        yield np.arange(size), np.full(size, codes.listed[-1] + behind), count

    def _told_apart(self, families: Families) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Geounit, `TOLD` and count of the records that another product tells apart."""
        if any(each.divided for each in self.weights.codes.coded):
            told = families.rows("told")
            yield told.geounit, np.full(len(told), TOLD), told.numbers("divided", 0)


@dataclass(frozen=True, slots=True)
class UnitsEqual(_RecordRule):
    """As many unit records of each class in each geounit as there are units, with as many people as estimated.

    Two rules: `units equal invariants`, and `unit populations`: the populations of the units of a class sum to the
    estimate, none is negative, and vacant units hold nobody.

    Attributes:
        codes: What the columns of the files hold.
    """

    needs: ClassVar = ("estimates", "invariants", "record_units")
    rules: ClassVar = (UNITS_EQUAL, POPULATIONS)

    codes: MicrodataCodes

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        if families.level != self.level:
            return
        estimates, cells = families.rows("estimates"), families.cells("estimates")
        inside = (cells.cell >= 0) & (cells.cell < self.codes.schema.size)
        of_cell = np.where(inside, self.codes.classes_of(np.where(inside, cells.cell, 0)), -1)
        invariants = families.rows("invariants")
        values, name = invariants.lists("values"), invariants.texts("name")
        vacant, known = name.are("vacant"), name.are("units") | name.are("vacant")
        of_value = np.where(vacant[values.row], self.codes.vacant, _places(values))
        kept = known[values.row]
        number = int(np.count_nonzero(known & (values.lengths > 0)))
        units = families.rows("record_units")
        kind, odd = units.numbers("kind", -1), units.numbers("odd", 0)
        # Kinds from -1 on, which is that of units with other codes.
        width = 2 + max(self.codes.vacant, *(int(each.max(initial=0)) for each in (of_value, of_cell, kind)))
        sides = {
            "count": (invariants.geounit[values.row][kept] * width + of_value[kept] + 1, values.values[kept]),
            "people": (estimates.geounit[cells.row] * width + of_cell + 1, cells.count),
        }
        place = units.geounit * width + kind + 1
        for note, own in self._by_format(units):
            differs = []
            for column, (expected, count) in sides.items():
                both = np.concatenate([expected, place[own]])
                difference = np.concatenate([count, -units.numbers(column, 0)[own]])
                differs.append(differing_lines(both, difference, width, len(families.geocodes))[0])
            differs[1][units.geounit[own & (odd > 0)]] = True
            for rule, compared, bad in zip(self.rules, (number, len(estimates)), differs, strict=True):
                yield Found(rule, compared, names_of(families.geocodes, bad), note)


def _places(lists: Lists) -> NDArray[np.int64]:
    """Of each element its place in its list."""
    return np.asarray(np.arange(len(lists.values)) - lists.offsets[:-1][lists.row])
