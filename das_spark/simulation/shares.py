"""How many states, counties and people a share of 1940 has: districts keep their size, there are fewer of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from das_spark.simulation.expected_1940 import DISTRICTS, Expected, expected
from das_spark.simulation.states_1940 import PERSONS, STATES, State

_DISTRICTS_OF_A_STATE = 4


@dataclass(frozen=True, slots=True)
class StatePlan:
    """A state of a simulated 1940.

    Args:
        state: Its published figures.
        expected: What the whole of it is expected to have.
        persons: People expected in it.
        counties: How many counties it has.
        large: Expected size of its largest counties, as many as are known and kept.
    """

    state: State
    expected: Expected
    persons: float
    counties: int
    large: tuple[float, ...]


def plan(share: Fraction) -> tuple[StatePlan, ...]:
    """Which states there are, and how large they are.

    All states are kept down to a share at which a state would have fewer than four districts on average; then every
    so many, evenly through the list. Counties are thinned evenly by size, and at least one is kept; people are as
    many as the share says.

    Args:
        share: Above 0 and up to 1.

    Returns:
        The states by code.
    """
    districts = float(share) * DISTRICTS
    number = min(len(STATES), max(1, int(districts / _DISTRICTS_OF_A_STATE)))
    chosen = [STATES[place * len(STATES) // number] for place in range(number)]
    everyone = sum(expected()[state.fips].persons for state in chosen)
    return tuple(_state(state, float(share) * PERSONS / everyone) for state in chosen)


def _state(state: State, fraction: float) -> StatePlan:
    whole = expected()[state.fips]
    persons = whole.persons * fraction
    counties = max(1, min(state.counties, round(state.counties * fraction)))
    if counties == state.counties:
        return StatePlan(state, whole, persons, counties, tuple(1000.0 * size * fraction for size in state.large))
    # Every so many of the known large counties, as of all counties; what they lack is shared out among the others.
    large = state.large[:: max(1, round(1 / fraction))][: counties - 1]
    scale = min(1.0, persons * 0.7 / (1000.0 * sum(large))) if large else 1.0
    return StatePlan(state, whole, persons, counties, tuple(1000.0 * size * scale for size in large))
