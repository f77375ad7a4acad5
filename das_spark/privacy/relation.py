"""The neighbour relation: what a record may become, given everything that is published exactly (lemma 6).

Any exact number in which two populations differ tells them apart with certainty. So they are neighbours only if they
agree in the exact numbers of all releases that are considered together. This module computes what that leaves to a
record of each kind. The statement, the ledger, the losses, the audits and the attacks read the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UNIT: Final = "unit"
HOUSEHOLD: Final = "household"


@dataclass(frozen=True, slots=True)
class ExactCounts:
    """What one release publishes exactly.

    Args:
        record: What one record of the release is: "person", "unit", "household", or another noun.
        geolevels: Names of its geolevels, root first.
        total_at: Geolevel at which, and above which, the number of its records is exact; None for none.
        units: Whether the number of units of each class is exact at the lowest geolevel.
        vacant: Whether the number of vacant housing units is exact there, too. The occupied ones, each of which is the
            home of one household, are the difference.
    """

    record: str
    geolevels: tuple[str, ...]
    total_at: str | None = None
    units: bool = False
    vacant: bool = False


@dataclass(frozen=True, slots=True)
class NeighborRelation:
    """The neighbours of one or more releases.

    Args:
        releases: What each of them publishes exactly.
    """

    releases: tuple[ExactCounts, ...] = ()

    def exact_at(self, record: str) -> tuple[str, ...]:
        """Return the lowest geolevels at which the number of records of a kind is exact.

        Between neighbours a record stays in its geounit of each of these geolevels, and no record is added or removed.

        Args:
            record: Kind of the record, as in `ExactCounts`.

        Returns:
            Names of geolevels: usually one; several where no release says which of them is lower; none where the number
            is exact nowhere.
        """
        levels = [
            release.total_at for release in self.releases if release.record == record and release.total_at is not None
        ]
        if record == UNIT:
            levels += [release.geolevels[-1] for release in self.releases if release.units]
        elif record == HOUSEHOLD:
            levels += [release.geolevels[-1] for release in self.releases if release.units and release.vacant]
        return self._lowest(tuple(dict.fromkeys(levels)))

    @property
    def occupied_at(self) -> tuple[str, ...]:
        """The lowest geolevels at which the number of occupied housing units is exact; each is one household's home."""
        return self.exact_at(HOUSEHOLD)

    def _lowest(self, levels: Sequence[str]) -> tuple[str, ...]:
        return tuple(level for level in levels if not any(self._is_above(level, other) for other in levels))

    def _is_above(self, level: str, other: str) -> bool:
        orders = [
            release.geolevels for release in self.releases if level in release.geolevels and other in release.geolevels
        ]
        return any(order.index(level) < order.index(other) for order in orders)


#: The relation of releases that publish nothing exactly: any record may be replaced by any other.
NO_EXACT_COUNTS: Final = NeighborRelation()


def same_geounits(levels: Sequence[str]) -> str:
    """Return a phrase such as " within the same State" for geolevels whose geounits a record does not leave."""
    return "" if not levels else " within the same " + " and the same ".join(levels)


def any_geounit(levels: Sequence[str]) -> str:
    """Return a phrase such as "every State" for geolevels at which a number is exact."""
    return " and ".join(f"every {level}" for level in levels)
