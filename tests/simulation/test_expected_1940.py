"""What is expected of the states sums to the nation, and is what is known where something is known."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.simulation.states_1940 import DISTRICTS, HISPANICS, IN_FILE, NATIONAL, PERSONS, STATES, UNITS, expected


def test_states_sum_to_the_figures_of_the_file() -> None:
    states = list(expected().values())
    assert len(states) == len(STATES)
    assert sum(state.persons for state in states) == pytest.approx(PERSONS)
    assert sum(state.persons / state.persons_of_unit for state in states) == pytest.approx(UNITS)
    assert sum(state.persons / state.persons_of_district for state in states) == pytest.approx(DISTRICTS)
    groups = sum(state.persons * state.rates for state in states)
    assert groups == pytest.approx(np.array([*NATIONAL, HISPANICS]))


@pytest.mark.parametrize("fips", IN_FILE)
def test_a_state_has_what_is_known_of_it(fips: int) -> None:
    state, known = expected()[fips], IN_FILE[fips]
    figures = [
        (known.persons, state.persons),
        (known.units, state.persons / state.persons_of_unit),
        (known.districts, state.persons / state.persons_of_district),
        (known.hispanics, state.persons * state.rates[5]),
        *zip(known.races or (), state.persons * state.rates[:5], strict=False),
    ]
    compared = [(wanted, found) for wanted, found in figures if wanted is not None]
    assert compared
    assert all(found == pytest.approx(wanted) for wanted, found in compared)


def test_states_of_which_nothing_is_known_keep_their_published_proportions() -> None:
    others = [state for state in STATES if state.fips not in IN_FILE]
    ratios = [expected()[state.fips].persons / state.persons for state in others]
    assert ratios == pytest.approx([ratios[0]] * len(others))
    assert ratios[0] == pytest.approx(1.0018, abs=0.0005)
