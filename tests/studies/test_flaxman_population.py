"""The simulated hierarchy: as many children as the formula says, sums that agree, one person who moves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import ConfigurationError
from das_spark.studies.flaxman import FlaxmanSettings, moved, population


def test_the_study_has_9261_areas() -> None:
    settings = FlaxmanSettings()
    database = population(settings)
    assert settings.children == 21
    assert tuple(map(len, database.levels)) == (1, 21, 441, 9261)
    assert database.levels[0].tolist() == [1_000_000]
    assert database.leaves.mean() == pytest.approx(107.98, abs=0.01)
    # Poisson to a good approximation: the variance of a multinomial count with 9,261 equal chances is its mean.
    assert database.leaves.var() == pytest.approx(107.97, rel=0.06)


@given(st.integers(1, 6), st.integers(1, 500), st.integers(2, 40))
def test_children_are_the_largest_number_that_fits(levels: int, mean_size: int, children: int) -> None:
    # At and just below a perfect power, where a root in floating point goes wrong.
    whole = mean_size * children**levels
    assert FlaxmanSettings(whole, levels, mean_size).children == children
    if children > 2:
        assert FlaxmanSettings(whole - 1, levels, mean_size).children == children - 1


def test_every_level_is_the_sum_of_its_children() -> None:
    database = population(FlaxmanSettings(20_000, 3, 100))
    for parents, children in zip(database.levels[:-1], database.levels[1:], strict=True):
        assert (children.reshape(len(parents), -1).sum(axis=1) == parents).all()


def test_one_person_moves_and_nobody_else() -> None:
    settings = FlaxmanSettings()
    database = population(settings)
    neighbour, target = moved(database, settings)
    assert target == 1001
    changes = [
        (after - before).nonzero()[0].tolist() for before, after in zip(database.levels, neighbour.levels, strict=True)
    ]
    # Leaf 1001 lies in area 47 of the second level, and in area 2 of the first.
    assert changes == [[], [0, 2], [0, 47], [0, 1001]]
    assert neighbour.leaves[0] == database.leaves[0] - 1
    assert neighbour.name != database.name


def test_where_there_are_fewer_areas_the_person_moves_to_the_last() -> None:
    settings = FlaxmanSettings(2_000, 2, 100)
    assert moved(population(settings), settings)[1] == settings.children**2 - 1


def test_the_seed_decides() -> None:
    first, again, other = (population(FlaxmanSettings(20_000, 2, 100, seed=seed)).leaves for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_nobody_can_move_from_an_empty_area() -> None:
    settings = FlaxmanSettings(4, 2, 1)
    seeds = (FlaxmanSettings(4, 2, 1, seed=seed) for seed in range(50))
    empty = next(found for found in map(population, seeds) if found.leaves[0] == 0)
    with pytest.raises(ConfigurationError, match="nobody lives in the first area"):
        moved(empty, settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"persons": 0}, "persons: expected 1 or more"),
        ({"levels": 0}, "levels: expected 1 or more"),
        ({"mean_size": -1}, "mean_size: expected 1 or more"),
        ({"parts": 0}, "parts: expected 1 or more"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"replicates": -5}, "replicates: expected 0 or more"),
        ({"epsilons": ()}, "epsilon: expected numbers above 0"),
        ({"epsilons": (Fraction(0),)}, "epsilon: expected numbers above 0"),
        ({"persons": 799}, "take 800 people or more"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FlaxmanSettings(**changes)  # type: ignore[arg-type]


def test_the_hint_is_enough() -> None:
    assert FlaxmanSettings(800).children == 2


def test_counts_are_whole() -> None:
    assert all(np.issubdtype(level.dtype, np.integer) for level in population(FlaxmanSettings(2_000, 2)).levels)
