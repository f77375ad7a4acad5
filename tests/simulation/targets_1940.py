"""Published figures of the full-count file of 1940, and how close the simulated 1940 is to them with any seed.

Source: Petti and Flaxman, Gates Open Research 2020, and what the repository of that study prints of the confidential
counts; and what follows from it:

- Occupied strata are people by the mean of a stratum. Their shares of one to four people are read off a figure of
  residuals: where noise is large, such strata vanish.
- Errors of the simple random samples there say how large geounits and strata are in between: for n people and a share
  f, an error is about normal with variance n (1 - f) / f.
- The shares of geounits with a homogeneity index are not published, but biases by index must cancel out for every
  epsilon, which leaves intervals.
- Persons in group quarters are those of Washington, Georgia and Massachusetts together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from das_spark.simulation.states_1940 import COUNTIES, DISTRICTS, HISPANICS, NATIONAL, PERSONS, STATES, UNITS
from das_spark.studies import epl_appendix as washington


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that the simulated 1940 should have.

    Args:
        name: What it is.
        published: In the file; None where only limits are known.
        low: Least that is close enough.
        high: Most that is.
    """

    name: str
    published: float | None
    low: float
    high: float

    def holds(self, achieved: float) -> bool:
        """Whether a figure is close enough.

        Args:
            achieved: What the simulated 1940 has, in the unit of the limits.
        """
        return self.low <= achieved <= self.high


_BLACK, _INDIAN, _CHINESE, _JAPANESE, _OTHER = NATIONAL

# Name, published figure, and by how many percent of it the simulated 1940 may differ.
_PUBLISHED: Final[tuple[tuple[str, float, float], ...]] = (
    ("states", len(STATES), 0),
    ("states: total, mean", 2_596_172, 0.1),
    ("states: total, standard deviation", 2_645_777, 0.1),
    ("states: total, median", 1_903_133, 0.5),
    ("states: total, 95th percentile", 7_419_040, 0.5),
    ("states: occupied strata", 1_010, 4),
    ("states: occupied stratum, mean", 131_094, 4),
    ("states: occupied stratum, standard deviation", 577_137, 4),
    ("states: occupied stratum, median", 229, 25),
    ("states: occupied stratum, 95th percentile", 714_208, 6),
    ("counties", COUNTIES, 0),
    ("counties: total, mean", 42_601, 0.1),
    ("counties: total, standard deviation", 143_832, 1),
    ("counties: total, median", 18_679, 5),
    ("counties: total, 95th percentile", 122_710, 4),
    ("counties: occupied strata", 26_021, 3),
    ("counties: occupied stratum, mean", 5_088, 3),
    ("counties: occupied stratum, standard deviation", 37_148, 3),
    ("counties: occupied stratum, median", 47, 15),
    ("counties: occupied stratum, 95th percentile", 17_480, 4),
    ("counties: totals from 1 in 20, median error", 388, 8),
    ("counties: totals from 1 in 20, 95th percentile", 1_642, 12),
    ("counties: occupied strata from 1 in 20, median error", 19, 12),
    ("counties: occupied strata from 1 in 20, 95th percentile", 569, 6),
    ("districts", DISTRICTS, 0.02),
    ("districts: total, mean", 981.8, 0.1),
    ("districts: total, standard deviation", 762.7, 4),
    ("districts: total, median", 865, 3),
    ("districts: total, 95th percentile", 2_342, 3),
    ("districts: occupied strata", 539_107, 2.5),
    ("districts: occupied stratum, mean", 245.6, 2.5),
    ("districts: occupied stratum, standard deviation", 376.6, 4),
    ("districts: occupied stratum, median", 88, 5),
    ("districts: occupied stratum, 95th percentile", 967, 3),
    ("districts: occupied strata of 1, percent", 8, 25),
    ("districts: occupied strata of 2, percent", 7, 15),
    ("districts: occupied strata of 3, percent", 3.75, 15),
    ("districts: occupied strata of 4, percent", 2.5, 20),
    ("districts: totals from 1 in 20, median error", 74, 3),
    ("districts: totals from 1 in 20, 95th percentile", 282, 3),
    ("districts: occupied strata from 1 in 20, median error", 18, 8),
    ("districts: occupied strata from 1 in 20, 95th percentile", 153, 3),
    ("persons", PERSONS, 0.05),
    ("persons: White", 118_803_172, 0.3),
    ("persons: Black", _BLACK, 1),
    ("persons: American Indian", _INDIAN, 3),
    ("persons: Chinese", _CHINESE, 4),
    ("persons: Japanese", _JAPANESE, 3),
    ("persons: other Asian or Pacific Islander", _OTHER, 3),
    ("persons: Hispanic", HISPANICS, 2),
    ("units", UNITS, 1),
    ("units of institutions", 763_242, 10),
    ("units of other group quarters", 530_445, 20),
    ("persons in institutions, percent", 0.82, 15),
    ("persons in other group quarters, percent", 0.96, 15),
    ("Washington: persons", washington.PERSONS, 0.5),
    ("Washington: units", 611_156, 4),
    ("Washington: counties", washington.COUNTIES, 0),
    ("Washington: districts", washington.DISTRICTS, 0),
    ("Washington: occupied strata", washington.OCCUPIED, 7),
    ("Washington: largest county", 506_344, 2),
)

# Name, and the least and most percent that the published biases allow.
_FEASIBLE: Final[tuple[tuple[str, float, float], ...]] = (
    ("counties: homogeneity index 0, percent", 2.0, 12.0),
    ("counties: homogeneity index 4, percent", 4.8, 11.0),
    ("counties: homogeneity index 8, percent", 6.0, 19.0),
    ("counties: homogeneity index 16, percent", 20.0, 51.0),
    ("districts: homogeneity index 0, percent", 0.0, 10.0),
    ("districts: homogeneity index 20, percent", 0.0, 94.0),
    ("districts: homogeneity index 22, percent", 0.0, 67.0),
)


def _near(name: str, published: float, percent: float) -> Target:
    return Target(name, published, published * (1 - percent / 100), published * (1 + percent / 100))


TARGETS: Final = (
    *(_near(*row) for row in _PUBLISHED),
    *(Target(name, None, low, high) for name, low, high in _FEASIBLE),
)
"""All targets."""
