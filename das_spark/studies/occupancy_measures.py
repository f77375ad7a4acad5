"""How many geounits have no vacant housing unit left in the release, although they had some in truth.

A household is an occupied housing unit; what is not occupied is vacant. A geounit is *full* where it has as many
households as housing units. Geounits without housing units count nowhere.

Source: Van Riper, Kugler and Ruggles (2020), section 3: 310 of 3,221 counties were full in the 2010 Demonstration Data
Product, none in Summary File 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from das_spark.errors import InputError
from das_spark.evaluation.metrics import frequencies_of
from das_spark.evaluation.quintiles import FIFTHS, Quintile, quintile_thresholds, quintiles
from das_spark.evaluation.uncertainty import Interval

_LEVEL: Final = 0.95

DEFINITIONS: Final[Mapping[str, str]] = {
    "household": "an occupied housing unit",
    "full": "a geounit with as many households as housing units, and one housing unit at least",
    "filled": "full in the release, but not in truth",
    "share filled": "filled geounits, of those that had a vacant unit in truth; its interval is that of Wilson at "
    "95 %, as if geounits were independent (those of one parent are not: they share its error)",
    "overfull": "more households than housing units in the release: impossible where the bound is imposed",
    "difference": "released minus true number of households of a geounit",
    "quintile": "fifth of the geounits of a geolevel by true number of households, 1 the smallest; thresholds are "
    "quantiles with linear interpolation, and a count on a threshold belongs below",
    "whisker": "the last difference within 1.5 lengths of the box, which holds the middle half",
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of the geounits of a geolevel; every number is a sum over them, so that those of parts add up.

    Attributes:
        geounits: With one housing unit at least.
        full_in_truth: How many are full in truth.
        full_in_release: How many are full in the release.
        filled: How many are full in the release, but not in truth.
        overfull: How many have more households than housing units in the release.
        units: Housing units.
        true_households: Households in truth.
        released_households: Households in the release.
    """

    geounits: int
    full_in_truth: int
    full_in_release: int
    filled: int
    overfull: int
    units: int
    true_households: int
    released_households: int

    def __add__(self, other: Occupancy) -> Occupancy:
        """Of both parts together."""
        return Occupancy(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    @property
    def had_vacancies(self) -> int:
        """Geounits with a vacant unit in truth."""
        return self.geounits - self.full_in_truth

    @property
    def share_filled(self) -> float | None:
        """Filled ones of those that had vacancies; None where none had."""
        return self.filled / self.had_vacancies if self.had_vacancies else None

    @property
    def interval(self) -> Interval | None:
        """Of the share, by `wilson_interval` at 95 %; None where no geounit had vacancies."""
        return wilson_interval(self.filled, self.had_vacancies, _LEVEL) if self.had_vacancies else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        numbers = dict(zip(self.__slots__, astuple(self), strict=True))
        interval = None if self.interval is None else [self.interval.low, self.interval.high]
        return {**numbers, "had_vacancies": self.had_vacancies, "share_filled": self.share_filled, "interval": interval}


@dataclass(frozen=True, slots=True, eq=False)
class LevelOccupancy:
    """One geolevel of a release.

    Attributes:
        geolevel: Its name.
        quintiles: Differences of the number of households by fifths of the geounits with a housing unit.
        parts: How many geounits of each of these fifths are full.
    """

    geolevel: str
    quintiles: tuple[Quintile, ...]
    parts: tuple[Occupancy, ...]

    @property
    def occupancy(self) -> Occupancy:
        """Of the whole geolevel."""
        first, *others = self.parts
        return sum(others, start=first)


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyReport:
    """A release beside the truth, geolevel by geolevel.

    Attributes:
        name: What was released: a run, or an arm of an experiment.
        title: The same in words.
        levels: Highest geolevel first.
    """

    name: str
    title: str
    levels: tuple[LevelOccupancy, ...]

    def level(self, geolevel: str) -> LevelOccupancy:
        """One geolevel.

        Args:
            geolevel: Name of the geolevel.

        Raises:
            InputError: The report has none of that name.
        """
        for each in self.levels:
            if each.geolevel == geolevel:
                return each
        raise InputError(f"{self.name}: no geolevel {geolevel!r}; there are {[each.geolevel for each in self.levels]}")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        levels = [
            {
                "geolevel": each.geolevel,
                "occupancy": each.occupancy.to_json(),
                "quintiles": [
                    one.to_json() | {"had_vacancies": part.had_vacancies, "filled": part.filled}
                    for one, part in zip(each.quintiles, each.parts, strict=True)
                ],
            }
            for each in self.levels
        ]
        return {"name": self.name, "title": self.title, "levels": levels}


def level_occupancy(
    geolevel: str, units: NDArray[np.int64], truth: NDArray[np.int64], released: NDArray[np.int64]
) -> LevelOccupancy:
    """Compare the geounits of a geolevel.

    Args:
        geolevel: Its name.
        units: Housing units, shape (n,).
        truth: True households, shape (n,).
        released: Released households, shape (n,).

    Raises:
        InputError: No geounit has a housing unit.
    """
    exist = units > 0
    if not exist.any():
        raise InputError(f"{geolevel}: no geounit has a housing unit")
    units, truth, released = units[exist], truth[exist], released[exist]
    fifth = quintile_thresholds(frequencies_of(truth)).place(truth)
    inside = [fifth == place for place in range(FIFTHS)]
    parts = tuple(occupancy(units[each], truth[each], released[each]) for each in inside)
    return LevelOccupancy(geolevel, quintiles(truth, released - truth), parts)


def occupancy(units: NDArray[np.int64], truth: NDArray[np.int64], released: NDArray[np.int64]) -> Occupancy:
    """Count full geounits; there may be none.

    Args:
        units: Housing units, shape (n,); geounits without any are left out.
        truth: True households, shape (n,).
        released: Released households, shape (n,).
    """
    exist = units > 0
    full, full_now = exist & (truth == units), exist & (released == units)
    over = exist & (released > units)
    households = (each[exist] for each in (truth, released))
    counts = (exist, full, full_now, full_now & ~full, over, units, *households)
    return Occupancy(*(int(each.sum()) for each in counts))


def wilson_interval(hits: int, number: int, level: float) -> Interval:
    """Interval of a share over geounits (Wilson 1927), which holds at small numbers, and at a share of 0 or 1.

    Args:
        hits: How many.
        number: Of how many, at least 1.
        level: Of confidence, between 0 and 1.
    """
    z = float(ndtri((1 + level) / 2))
    middle = (hits + z * z / 2) / (number + z * z)
    half = z / (number + z * z) * (hits * (number - hits) / number + z * z / 4) ** 0.5
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if hits == 0 else middle - half
    return Interval(low, 1.0 if hits == number else middle + half, level, "geounits")
