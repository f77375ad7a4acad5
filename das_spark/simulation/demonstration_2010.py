"""A synthetic state with single years of age, sex and citizenship: what the demonstration of 2010 counts persons by.

Places, people, group quarters and units are those of the synthetic state of 2020 (:mod:`das_spark.simulation.
census_2020`) of the same seed and share, with the rest drawn person by person from a few plain distributions. These are
not calibrated to any census, and nobody has relatives: ages of a household's members, of races and of places are
alike but for the share of minors. Two tracts each share the first four digits of their codes, and so a group of tracts.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.census_2020 import STATE_2020
from das_spark.simulation.population import Counts, Population, PopulationKind, generator

Floats = NDArray[np.float64]

_ADULT, _TOP = 18, 115
_SEXES, _AGES, _CITIZENS = 2, _TOP + 1, 2
_SHAPE: Final = (*STATE_2020.shape[:1], _SEXES, _AGES, *STATE_2020.shape[2:], _CITIZENS)

_WOMEN: Final = np.array([0.508, 0.09, 0.15, 0.66, 0.42, 0.53, 0.16, 0.4])
"""Share of women by class of units."""

_CITIZENS_OF_ORIGINS: Final = np.array([0.96, 0.78])
"""Share of citizens among people who are not Hispanic, and who are."""


_FEWER_FROM, _SPAN = 50, 22.0
"""Households have as many of one age as of another up to the first; how fast there are fewer of greater ages."""


def _of_households() -> Floats:
    older = np.maximum(np.arange(_AGES) - _FEWER_FROM, 0)
    weights: Floats = np.exp(-((older / _SPAN) ** 2))
    return weights


def _about(mean: float, spread: float, least: int = 0, most: int = _TOP) -> Floats:
    """Weights of ages about a mean, none outside of two ends."""
    weights: Floats = np.exp(-(((np.arange(_AGES) - mean) / spread) ** 2) / 2)
    weights[:least] = weights[most + 1 :] = 0.0
    return weights


_WEIGHTS: Final = np.stack(
    [
        _of_households(),
        _about(32, 12, least=15),
        _about(16, 2, most=25),
        _about(83, 9, least=20),
        _about(45, 20),
        _about(20, 1.6, least=16, most=65),
        _about(23, 5, least=17, most=65),
        _about(40, 15),
    ]
)
"""Of each class of units the weights of ages: none where the demonstration rules an age out."""


def _make(part: int, seed: int, share: Fraction) -> Population:
    """Give everybody of the state of 2020 the attributes that it lacks; deterministic."""
    plain, numbers = STATE_2020.make(part, seed, share), generator(seed, part, 2010)
    person = np.repeat(np.arange(len(plain.cell)), plain.count)
    level, adult, hispanic, race = np.unravel_index(plain.cell[person], STATE_2020.shape)
    women = (numbers.random(len(person)) < _WOMEN[level]).astype(np.int64)
    age = _drawn_ages(level, adult, numbers)
    citizen = (numbers.random(len(person)) < _CITIZENS_OF_ORIGINS[hispanic]).astype(np.int64)
    cells = np.ravel_multi_index((level, women, age, hispanic, race, citizen), _SHAPE)
    size = int(np.prod(_SHAPE))
    found, count = np.unique(plain.geounit[person] * size + cells, return_counts=True)
    codes = np.array([_with_shared_tract_digits(code) for code in plain.geocodes.tolist()])
    return replace(plain, geocodes=codes, geounit=found // size, cell=found % size, count=count.astype(np.int64))


def _drawn_ages(level: Counts, adult: Counts, numbers: np.random.Generator) -> Counts:
    """An age of every person, by class of units, on the right side of 18."""
    age = np.zeros(len(level), dtype=np.int64)
    of_adults = np.arange(_AGES) >= _ADULT
    for each, weights in enumerate(_WEIGHTS):
        for grown in (0, 1):
            mine = np.flatnonzero((level == each) & (adult == grown))
            cumulative = np.cumsum(weights * (of_adults == grown))
            age[mine] = np.searchsorted(cumulative, numbers.random(len(mine)) * cumulative[-1], side="right")
    return age


def _with_shared_tract_digits(code: str) -> str:
    """The geocode of a block whose tract is the first or second of a pair: 0001.01, 0001.02, 0002.01, and so on."""
    stem, second = divmod(int(code[5:9]) - 1, 2)
    return f"{code[:5]}{stem + 1:04d}{second + 1:02d}{code[11:]}"


DEMONSTRATION_2010 = PopulationKind(
    "2010-state",
    (
        ("hhgq", _SHAPE[0]),
        ("sex", _SEXES),
        ("age", _AGES),
        ("hispanic", _SHAPE[3]),
        ("cenrace", _SHAPE[4]),
        ("citizen", _CITIZENS),
    ),
    STATE_2020.geocode_length,
    STATE_2020.parts,
    _make,
)
"""One synthetic state of up to ten million people, as the demonstration of 2010 counts persons."""
