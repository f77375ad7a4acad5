"""Synthetic populations: the one package where numpy's random numbers are allowed.

:data:`LIKES` names them: a small census for a first run, one like 1940, one like 2020 (the nation, or one state), and
a state with the ages of the demonstration of 2010. :func:`population_kind` makes one for any product of persons.
Each is made in independent parts (one, or one a state), the same for the same seed and share. The figures that they
are calibrated to stand in `states_1940` and `states_2020`, how people and places are drawn in `census_1940` and
`census_2020`, and the areas that blocks of 2020 lie in in `entities_2020`.

:class:`People2020` is a state of 2020 person by person, with households: what files of records are written from.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from das_spark.simulation.any_product import population_kind
from das_spark.simulation.census_1940 import CENSUS_1940, state_of_1940
from das_spark.simulation.census_2020 import CENSUS_2020, STATE_2020
from das_spark.simulation.demonstration_2010 import DEMONSTRATION_2010
from das_spark.simulation.entities_2020 import entities
from das_spark.simulation.household_fields import household_fields
from das_spark.simulation.people_2020 import (
    PERSON_ATTRIBUTES,
    People2020,
    Records,
    class_cells,
    class_units,
    person_cells,
)
from das_spark.simulation.population import Population, PopulationKind, contributors, generator, share_of
from das_spark.simulation.quickstart import QUICKSTART
from das_spark.simulation.states_1940 import GEOUNITS_1940

__all__ = [
    "GEOUNITS_1940",
    "LIKES",
    "PERSON_ATTRIBUTES",
    "People2020",
    "Population",
    "PopulationKind",
    "Records",
    "class_cells",
    "class_units",
    "contributors",
    "entities",
    "generator",
    "household_fields",
    "parts_of",
    "person_cells",
    "population_kind",
    "share_of",
    "state_of_1940",
]

LIKES: Mapping[str, PopulationKind] = MappingProxyType(
    {kind.name: kind for kind in (QUICKSTART, CENSUS_1940, CENSUS_2020, STATE_2020, DEMONSTRATION_2010)}
)
"""Every kind of population by its name."""


def parts_of(like: str, share: Fraction) -> tuple[int, ...]:
    """Numbers of the parts of a population.

    Args:
        like: Its name.
        share: Of the whole.
    """
    return LIKES[like].parts(share)
