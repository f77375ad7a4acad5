"""The person side of the study of occupancy: people of simulated counties, exact in every state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.quintiles import Quintile, quintiles
from das_spark.privacy import RunKey
from das_spark.studies.household_mechanism import person_mechanism
from das_spark.studies.housing import COUNTY, HOUSING_LEVELS, Housing
from das_spark.studies.top_down import Layer, release

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PeopleRelease:
    """Persons, whose number is exact in every state.

    Attributes:
        state_errors: Released minus true people of every state, (states,).
        by_size: Errors of county totals by fifths of true people.
        by_diversity: The same by fifths of the number of occupied cells: who lives there.
    """

    state_errors: Counts
    by_size: tuple[Quintile, ...]
    by_diversity: tuple[Quintile, ...]


def release_people(housing: Housing, key: RunKey) -> PeopleRelease:
    """Measure people with the published person budget, and estimate them down to the county.

    Args:
        housing: The nation.
        key: Of the noise.

    Raises:
        EstimationError: A family could not be estimated.
    """
    layers = _layers(housing)
    _, states, counties = release(layers, person_mechanism(), key)
    truth = layers[COUNTY].truth
    errors = (counties - truth).sum(axis=1)
    return PeopleRelease(
        (states - layers[COUNTY - 1].truth).sum(axis=1),
        quintiles(truth.sum(axis=1), errors),
        quintiles((truth > 0).sum(axis=1), errors),
    )


def _layers(housing: Housing) -> tuple[Layer, ...]:
    """Nation, states and counties; the totals of the first two are exact."""
    parents = [level.parent for level in housing.levels[: COUNTY + 1]]
    truths = [housing.people]
    for depth in range(COUNTY, 0, -1):
        above = np.zeros((len(parents[depth - 1]), truths[0].shape[1]), dtype=np.int64)
        np.add.at(above, parents[depth], truths[0])
        truths.insert(0, above)
    layers = []
    for depth, (parent, truth) in enumerate(zip(parents, truths, strict=True)):
        total = truth.sum(axis=1)
        bounds = (total, total) if depth < COUNTY else (np.zeros_like(total), None)
        layers.append(Layer(HOUSING_LEVELS[depth], parent, truth, *bounds))
    return tuple(layers)
