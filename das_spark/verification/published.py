"""Rules on estimates that are held to what another product has published: every answer of every geounit is the same.

Both sides are answers of histograms as they were read back, added up with opposite signs: no code is shared with
estimation, which is given the same counts as bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from das_spark.verification.families import FamilyRule, Found, Key, differing_lines, names_of
from das_spark.verification.geounits import keys, odd_parents
from das_spark.verification.histograms import are_possible

if TYPE_CHECKING:
    from das_spark.histogram import Query
    from das_spark.verification.families import Families

PUBLISHED_KEPT: Final = "published counts kept"
PUBLISHED_WHOLE: Final = "published counts whole"
PUBLISHED_SUMS: Final = "published counts sum up"


@dataclass(frozen=True, slots=True)
class PublishedWhole(FamilyRule):
    """Something was published of every geounit, once, under its own parent: possible counts of cells that exist."""

    needs: ClassVar = ("geounits", "published")

    levels: Sequence[str]
    size: int  # cells of the other product

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(PUBLISHED_WHOLE, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows, size = families.rows("published"), len(families.geocodes)
        good = are_possible(rows, self.size) & ~odd_parents(families, rows.columns["parent"], rows.family)
        found, spine = np.bincount(rows.geounit, minlength=size), families.geounits
        bad = ((found > 0) | (spine > 0)) & ((found != 1) | (spine != 1))  # other rows are of the parent
        bad |= np.bincount(rows.geounit[~good], minlength=size) > 0
        yield Found(PUBLISHED_WHOLE, len(families.rows("geounits")), names_of(families.geocodes, bad))


@dataclass(frozen=True, slots=True)
class PublishedKept(FamilyRule):
    """Every estimate has exactly the published answers, those that are zero included.

    Attributes:
        levels: All.
        query: Whose answers of the estimates are held.
        of: The query of the other product with the same answers.
    """

    needs: ClassVar = ("geounits", "estimates", "published")

    levels: Sequence[str]
    query: Query
    of: Query

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(PUBLISHED_KEPT, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        answers, places, differences = self.query.rows, [], []
        for table, query, sign in (("estimates", self.query, 1), ("published", self.of, -1)):
            cells = families.cells(table)
            inside = (cells.cell >= 0) & (cells.cell < query.size)  # other rules tell of those that are not
            answer = query.row_of(cells.cell[inside])
            counted = answer >= 0
            geounit = families.rows(table).geounit[cells.row[inside]][counted]
            places.append(geounit * answers + answer[counted])
            differences.append(sign * cells.count[inside][counted])
        differs, compared = differing_lines(
            np.concatenate(places), np.concatenate(differences), answers, len(families.geocodes)
        )
        # Every geounit is looked at, those without anybody too.
        looked = compared + len(families.rows("geounits"))
        yield Found(PUBLISHED_KEPT, looked, names_of(families.geocodes, differs))


@dataclass(frozen=True, slots=True)
class PublishedSums(FamilyRule):
    """What was published of the children of every geounit sums to what was published of it, cell by cell.

    Attributes:
        levels: Those of children.
        size: Cells of the other product.
    """

    needs: ClassVar = ("published", "above_geounits", "above_published")

    levels: Sequence[str]
    size: int

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level below the top."""
        return keys(PUBLISHED_SUMS, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        if families.level not in self.levels:
            return
        places, differences = [], []
        for table, sign in (("above_published", 1), ("published", -1)):
            cells = families.cells(table)
            inside = (cells.cell >= 0) & (cells.cell < self.size)
            places.append(families.rows(table).family[cells.row[inside]] * self.size + cells.cell[inside])
            differences.append(sign * cells.count[inside])
        differs, compared = differing_lines(
            np.concatenate(places), np.concatenate(differences), self.size, len(families.names)
        )
        looked = compared + len(families.rows("above_geounits"))
        yield Found(PUBLISHED_SUMS, looked, names_of(families.names, differs))
