"""From sampled cells to how often each residual occurs, geolevel by geolevel.

The residual of a count n of which a sample of share p/q holds k is k q/p - n people. It is held as the integer
k q - n p, p times as large, so that residuals of parts add up to those of the whole and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.metrics import Frequencies, frequencies_of, pooled
from das_spark.evaluation.sample_draws import Draw
from das_spark.geography import ROOT_GEOCODE
from das_spark.histogram import NO_GROUP, Query

#: Residuals that wait to be counted, at most: bounds the memory of a task.
_WAITING: Final = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedCells:
    """Pairs of geounit and stratum that somebody is in.

    Attributes:
        geocodes: (g,) geounits, ascending; in some there may be nobody.
        strata: Number of strata; people in none of them have a stratum of that number.
        stratum: (n,) of each cell, ascending.
        geounit: (n,) place among the geocodes, ascending in a stratum.
    """

    geocodes: NDArray[np.str_]
    strata: int
    stratum: NDArray[np.int64]
    geounit: NDArray[np.int64]

    def at_level(self, length: int, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum up to a level.

        Args:
            length: Digits of the geocodes of the level; 0 for one root.
            values: (draws, n) of the cells.

        Returns:
            Sums of the geounits that have people, (draws, those), and of their strata that have, (draws, those).
        """
        codes = self.geocodes.astype(f"<U{length}") if length else np.full(len(self.geocodes), ROOT_GEOCODE)
        place = np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])])[self.geounit]
        order = np.argsort(place, kind="stable")
        totals = np.add.reduceat(values[:, order], _starts(place[order]), axis=1)
        inside = int(np.searchsorted(self.stratum, self.strata))
        # Geocodes that ascend have prefixes that ascend: cells of one geounit and stratum stand together.
        starts = _starts(self.stratum[:inside] * len(self.geocodes) + place[:inside])
        return totals, np.add.reduceat(values[:, :inside], starts, axis=1)

    def by_stratum(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum over the geounits.

        Args:
            values: (draws, n) of the cells.

        Returns:
            The strata that somebody is in, (s,), and their sums, (draws, s).
        """
        starts = _starts(self.stratum)
        return self.stratum[starts], np.add.reduceat(values, starts, axis=1)


def gather(
    geocodes: NDArray[np.str_],
    geounit: NDArray[np.int64],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    strata: Query,
) -> tuple[StratifiedCells, NDArray[np.int64]]:
    """Bring histograms together by geounit and stratum.

    Args:
        geocodes: (g,) geounits, ascending.
        geounit: (m,) place of each count among the geocodes.
        cells: (m,) cell of the schema of each count.
        counts: (m,) people.
        strata: The query of the strata.

    Returns:
        The cells that somebody is in, and the people of each, (n,).
    """
    some = counts > 0
    row = strata.row_of(cells[some])
    stratum = np.where(row == NO_GROUP, strata.rows, row)
    keys, place = np.unique(stratum * len(geocodes) + geounit[some], return_inverse=True)
    people = np.zeros(len(keys), dtype=np.int64)
    np.add.at(people, place, counts[some])
    return StratifiedCells(geocodes, strata.rows, *np.divmod(keys, max(1, len(geocodes)))), people


def residuals(
    people: NDArray[np.int64], persons: NDArray[np.int64], draws: Sequence[Draw], geocode: str
) -> NDArray[np.int64]:
    """Draw samples from the cells of one geounit.

    Args:
        people: (n,) of each cell.
        persons: (draws,) how many persons the geounit gives to each sample.
        draws: The samples.
        geocode: Of the geounit.

    Returns:
        Residuals of the cells, p times as large as in people, (draws, n).
    """
    pairs = zip(draws, persons.tolist(), strict=True)
    taken = np.stack([draw.taken(people, number, geocode) for draw, number in pairs])
    numerators, denominators = np.array([draw.share.as_integer_ratio() for draw in draws], dtype=np.int64).T
    found: NDArray[np.int64] = taken * denominators[:, np.newaxis] - people * numerators[:, np.newaxis]
    return found


class TallyKey(NamedTuple):
    """What is counted.

    Attributes:
        draw: Which of the samples.
        level: Place in the spine, 0 at the top.
        stratified: Strata, not totals.
    """

    draw: int
    level: int
    stratified: bool


class ResidualTally:
    """Counts residuals as they come in, in bounded memory."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._waiting: dict[TallyKey, list[NDArray[np.int64]]] = {}
        self._found: dict[TallyKey, Frequencies] = {}
        self._number = 0

    def add(
        self, cells: StratifiedCells, values: NDArray[np.int64], lengths: Mapping[int, int], first: int = 0
    ) -> None:
        """Count the residuals of some levels.

        Args:
            cells: All that somebody is in of the geounits that they lie in.
            values: (draws, n) their residuals.
            lengths: Place of a level -> digits of its geocodes.
            first: Number of the first of the draws.
        """
        for level, length in lengths.items():
            for stratified, rows in zip((False, True), cells.at_level(length, values), strict=True):
                self._number += rows.size
                for draw, row in enumerate(rows, first):
                    self._waiting.setdefault(TallyKey(draw, level, stratified), []).append(row)
        if self._number > _WAITING:
            self._count()

    def frequencies(self) -> dict[TallyKey, Frequencies]:
        """How often each residual occurred until now."""
        self._count()
        return dict(self._found)

    def _count(self) -> None:
        for key, rows in self._waiting.items():
            known = [self._found[key]] if key in self._found else []
            self._found[key] = pooled([*known, frequencies_of(np.concatenate(rows))])
        self._waiting, self._number = {}, 0


class ResidualSums:
    """Adds residuals up by geounit of a level and stratum.

    Args:
        draws: Number of samples.
        strata: Number of strata.
    """

    def __init__(self, draws: int, strata: int) -> None:
        """Nothing yet."""
        self._shape = (strata + 1, draws)  # and those who are in no stratum
        self._sums: dict[str, NDArray[np.int64]] = {}
        self._occupied: dict[str, NDArray[np.bool_]] = {}

    def add(self, geocode: str, strata: NDArray[np.int64], values: NDArray[np.int64], first: int = 0) -> None:
        """Add the residuals of a part of a geounit.

        Args:
            geocode: The geounit.
            strata: (s,) each once.
            values: (draws, s).
            first: Number of the first of the draws.
        """
        sums = self._sums.setdefault(geocode, np.zeros(self._shape, dtype=np.int64))
        sums[strata, first : first + len(values)] += values.T
        self._occupied.setdefault(geocode, np.zeros(self._shape[0], dtype=np.bool_))[strata] = True

    def found(self) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        """Of every geounit the strata that somebody is in, (s,), and their sums, (s, draws)."""
        return [
            (geocode, np.flatnonzero(occupied), self._sums[geocode][occupied])
            for geocode, occupied in self._occupied.items()
        ]


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where another key begins, in keys that ascend."""
    return np.flatnonzero(np.diff(keys, prepend=-1))
