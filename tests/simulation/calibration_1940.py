"""What a simulated 1940 has of all that is a target (:mod:`targets_1940`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation import Population, generator
from das_spark.simulation.census_1940 import AGES, HHGQ, ORIGINS, RACES
from das_spark.studies.epl_appendix import FIPS

Counts = NDArray[np.int64]
Figures = dict[str, float]

LEVELS = ("states", "counties", "districts")
STRATA = AGES * ORIGINS * RACES

_SAMPLE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """All of a simulated 1940, as arrays.

    Args:
        strata: People of states, counties and districts by age, origin and race: (n, 24) each.
        quarters: People of districts by class, (D, 8).
        units: Units of districts by class, (D, 8).
        state: Code of the state of each district, (D,).
        state_of_county: The same of each county, (C,).
    """

    strata: tuple[Counts, Counts, Counts]
    quarters: Counts
    units: Counts
    state: Counts
    state_of_county: Counts

    @classmethod
    def of(cls, parts: Sequence[Population]) -> Whole:
        """Put the states together.

        Args:
            parts: The populations of the states, one each.

        Returns:
            States and counties by code, districts in the order of the parts.
        """
        geocodes = np.concatenate([part.geocodes for part in parts])
        strata = np.concatenate([_by(part, part.cell % STRATA, STRATA) for part in parts])
        quarters = np.concatenate([_by(part, part.cell // STRATA, HHGQ) for part in parts])
        codes, county = np.unique(geocodes.astype("U6"), return_inverse=True)
        states, state = np.unique(geocodes.astype("U2"), return_inverse=True)
        levels = (_summed(strata, state, len(states)), _summed(strata, county, len(codes)), strata)
        units = np.concatenate([part.units for part in parts])
        return cls(levels, quarters, units, geocodes.astype("U2").astype(np.int64), codes.astype("U2").astype(np.int64))


def _by(part: Population, column: Counts, columns: int) -> Counts:
    size = len(part.geocodes) * columns
    summed = np.bincount(part.geounit * columns + column, part.count, size).astype(np.int64)
    return summed.reshape(-1, columns)


def _summed(strata: Counts, place: Counts, places: int) -> Counts:
    sums = np.zeros((places, strata.shape[1]), dtype=np.int64)
    np.add.at(sums, place, strata)
    return sums


def figures(whole: Whole) -> Figures:
    """Every figure that is a target, by its name.

    Args:
        whole: All of a simulated 1940.

    Returns:
        Name -> value, in percent where the name ends so; always the same for the same population.
    """
    found: Figures = {}
    for level, strata in zip(LEVELS, whole.strata, strict=True):
        totals, occupied = strata.sum(axis=1), strata[strata > 0]
        found[f"{level}"] = len(strata)
        found[f"{level}: occupied strata"] = len(occupied)
        found |= _sizes(f"{level}: total", totals) | _sizes(f"{level}: occupied stratum", occupied)
    for people in range(1, 5):
        occupied = whole.strata[2][whole.strata[2] > 0]
        found[f"districts: occupied strata of {people}, percent"] = 100 * float((occupied == people).mean())
    return found | _sampled(whole) | _indices(whole) | _people(whole) | _washington(whole)


def _sizes(name: str, sizes: Counts) -> Figures:
    quantiles = {"median": np.median(sizes), "95th percentile": np.quantile(sizes, 0.95)}
    return {
        f"{name}, {statistic}": float(value)
        for statistic, value in {"mean": sizes.mean(), "standard deviation": sizes.std(), **quantiles}.items()
    }


def _sampled(whole: Whole) -> Figures:
    """Median and 95th percentile of the absolute errors of a sample of 1 in 20."""
    numbers = generator(1940)
    found: Figures = {}
    for level, strata in zip(LEVELS[1:], whole.strata[1:], strict=True):
        for name, sizes in (("totals", strata.sum(axis=1)), ("occupied strata", strata[strata > 0])):
            errors = np.abs(numbers.binomial(sizes, _SAMPLE) / _SAMPLE - sizes)
            found[f"{level}: {name} from 1 in 20, median error"] = float(np.median(errors))
            found[f"{level}: {name} from 1 in 20, 95th percentile"] = float(np.quantile(errors, 0.95))
    return found


def homogeneity(strata: Counts) -> Counts:
    """24 minus the product of how many ages, origins and races a geounit has, (n,).

    Args:
        strata: People by age, origin and race, (n, 24).
    """
    occupied = strata.reshape(-1, AGES, ORIGINS, RACES) > 0
    present = [occupied.any(axis=axes).sum(axis=1) for axes in ((2, 3), (1, 3), (1, 2))]
    index: Counts = STRATA - present[0] * present[1] * present[2]
    return index


def _indices(whole: Whole) -> Figures:
    found: Figures = {}
    for level, strata, indices in (
        (LEVELS[1], whole.strata[1], (0, 4, 8, 16)),
        (LEVELS[2], whole.strata[2], (0, 20, 22)),
    ):
        index = homogeneity(strata)
        found |= {
            f"{level}: homogeneity index {each}, percent": 100 * float((index == each).mean()) for each in indices
        }
    return found


def _people(whole: Whole) -> Figures:
    by_race = whole.strata[0].reshape(-1, AGES * ORIGINS, RACES).sum(axis=(0, 1))
    hispanics = whole.strata[0].reshape(-1, AGES, ORIGINS, RACES)[:, :, 1].sum()
    races = dict(zip(_RACES, by_race.tolist(), strict=True))
    return {
        "persons": float(by_race.sum()),
        **{f"persons: {race}": float(count) for race, count in races.items()},
        "persons: Hispanic": float(hispanics),
        "units": float(whole.units.sum()),
        "units of institutions": float(whole.units[:, 1:4].sum()),
        "units of other group quarters": float(whole.units[:, 4:].sum()),
        "persons in institutions, percent": 100 * float(whole.quarters[:, 1:4].sum() / by_race.sum()),
        "persons in other group quarters, percent": 100 * float(whole.quarters[:, 4:].sum() / by_race.sum()),
    }


def _washington(whole: Whole) -> Figures:
    mine, strata = whole.state == FIPS, whole.strata[2]
    counties = whole.strata[1][whole.state_of_county == FIPS].sum(axis=1)
    return {
        "Washington: persons": float(strata[mine].sum()),
        "Washington: units": float(whole.units[mine].sum()),
        "Washington: counties": float(len(counties)),
        "Washington: districts": float(mine.sum()),
        "Washington: occupied strata": float((strata[mine] > 0).sum()),
        "Washington: largest county": float(counties.max(initial=0)),
    }


_RACES = ("White", "Black", "American Indian", "Chinese", "Japanese", "other Asian or Pacific Islander")
