"""What is expected of each state in the full-count file of 1940: its published figures, scaled to those of the file.

The file counts a few more people than the census published, more of the small races, and broke large dwellings into
one-person units. Its national figures are known, and those of some states (:data:`IN_FILE`, from the published
evaluation of its protected release); what is left is shared out over the other states by their published figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.states_1940 import HISPANICS, NATIONAL, PERSONS, STATES

Floats = NDArray[np.float64]

UNITS = 38_492_963
"""Household records of the file: households, and units of group quarters."""

DISTRICTS = 134_857
"""Enumeration districts of the file."""


@dataclass(frozen=True, slots=True)
class FileFigures:
    """What was published of a state in the full-count file; None where nothing was.

    Args:
        persons: People.
        units: Household records.
        districts: Enumeration districts.
        races: Black, American Indian, Chinese, Japanese, other Asian or Pacific Islander.
        hispanics: Hispanics, by the rule of the file.
    """

    persons: int | None = None
    units: int | None = None
    districts: int | None = None
    races: tuple[int, int, int, int, int] | None = None
    hispanics: int | None = None


IN_FILE: Mapping[int, FileFigures] = MappingProxyType(
    {
        2: FileFigures(units=24_277),
        6: FileFigures(units=2_473_589),
        10: FileFigures(units=78_974),
        # Of Georgia and Massachusetts, races were printed as protected with epsilon 8: within a few persons.
        13: FileFigures(persons=3_128_132, races=(1_077_644, 158, 421, 19, 53), hispanics=7_029),
        17: FileFigures(units=2_432_588),
        25: FileFigures(persons=4_325_506, races=(51_917, 847, 3_100, 112, 331), hispanics=17_000),
        32: FileFigures(units=38_878),
        36: FileFigures(units=4_153_082),
        39: FileFigures(units=2_057_163),
        42: FileFigures(units=2_732_080),
        50: FileFigures(units=102_075),
        53: FileFigures(persons=1_741_616, units=611_156, districts=2_663, races=(7_447, 11_130, 2_364, 14_479, 2_320)),
        56: FileFigures(units=80_146),
    }
)
"""Published figures of states in the file, by code."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """A state as the file is expected to have it.

    Args:
        persons: People.
        rates: Share of each group (Black, American Indian, Chinese, Japanese, other Asian or Pacific Islander,
            Hispanic), (6,).
        persons_of_unit: Mean number of persons of a unit.
        persons_of_district: Mean number of persons of an enumeration district.
    """

    persons: float
    rates: Floats
    persons_of_unit: float
    persons_of_district: float


@cache
def expected() -> Mapping[int, Expected]:
    """Every state by its code; they sum to the national figures of the file."""
    known = [IN_FILE.get(state.fips, FileFigures()) for state in STATES]
    published = np.array([state.persons for state in STATES], dtype=np.float64)
    persons = _share_out(PERSONS, published, [each.persons for each in known])
    races = np.array([state.races for state in STATES], dtype=np.float64)
    known_races = [each.races or (None,) * len(NATIONAL) for each in known]
    groups = [
        _share_out(total, by, of_states)
        for total, by, of_states in zip(NATIONAL, races.T, zip(*known_races, strict=True), strict=True)
    ]
    hispanic = np.array([state.hispanic / 100 for state in STATES])
    groups.append(_share_out(HISPANICS, hispanic * persons, [each.hispanics for each in known]))
    rates = np.column_stack(groups) / persons[:, None]
    of_unit = persons / _share_out(UNITS, persons, [each.units for each in known])
    of_district = persons / _share_out(DISTRICTS, persons, [each.districts for each in known])
    rows = zip(STATES, persons.tolist(), rates, of_unit.tolist(), of_district.tolist(), strict=True)
    return MappingProxyType({state.fips: Expected(*figures) for state, *figures in rows})


def _share_out(total: int, weights: Floats, known: Sequence[int | None]) -> Floats:
    """Figures of states that sum to a total: those that are known, and the rest by weight, (n,)."""
    figures = np.array([np.nan if figure is None else figure for figure in known], dtype=np.float64)
    open_ = np.isnan(figures)
    left = total - figures[~open_].sum()
    shared: Floats = np.where(open_, left * weights / weights[open_].sum(), figures)
    return shared
