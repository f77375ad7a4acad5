"""Look-up tables: the fast way agrees with the certain way, boundary by boundary."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import BudgetError
from das_spark.privacy import CumulativeTable, DiscreteGaussian, DiscreteLaplace, Mechanism, cumulative_table
from das_spark.privacy.sampling import decide, require_table

DISTRIBUTIONS: tuple[Mechanism, ...] = (
    DiscreteGaussian(Fraction(1, 20)),
    DiscreteGaussian(Fraction(1)),
    DiscreteGaussian(Fraction(8000)),
    DiscreteLaplace(Fraction(1, 5)),
    DiscreteLaplace(Fraction(1280, 27)),
)


def agree(table: CumulativeTable, draws: np.ndarray) -> None:
    """Every draw is decided as `decide` says, or left open as it says."""
    words = draws.astype(np.uint64) << np.uint64(64 - table.bits)
    values, undecided = table.look_up(words)
    expected = [decide(table.mechanism, int(draw), table.bits) for draw in draws]
    assert [place for place, value in enumerate(expected) if value is None] == undecided.tolist()
    assert all(value is None or value == found for value, found in zip(expected, values.tolist(), strict=True))


@pytest.mark.parametrize("bits", [1, 2, 8, 12])
@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_every_draw_of_a_small_table_is_decided_rightly(mechanism: Mechanism, bits: int) -> None:
    agree(CumulativeTable(mechanism, bits), np.arange(1 << bits, dtype=np.uint64))


@pytest.mark.parametrize("bits", [24, 64])
@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_draws_next_to_a_boundary_are_decided_rightly(mechanism: Mechanism, bits: int) -> None:
    table = CumulativeTable(mechanism, bits)
    last = (1 << bits) - 1
    chosen = table.boundaries[:: max(1, len(table.boundaries) // 300)]
    near = {int(value) + step for value in chosen for step in (-1, 0, 1)} | {0, 1, last - 1, last}
    agree(table, np.array(sorted(value for value in near if 0 <= value <= last), dtype=np.uint64))


def test_a_leading_pattern_without_a_boundary_needs_no_search() -> None:
    table = CumulativeTable(DiscreteGaussian(Fraction(1)))
    words = np.array([1 << 63, (1 << 63) + 1], dtype=np.uint64)
    assert table.look_up(words)[0].tolist() == [0, 0]


def test_the_boundaries_reach_from_end_to_end() -> None:
    for mechanism in DISTRIBUTIONS:
        table = cumulative_table(mechanism)
        assert int(table.boundaries[0]) == 0
        assert int(table.boundaries[-1]) == (1 << 64) - 1
        assert table.lowest == -len(table.boundaries) // 2
        assert bool(np.all(table.boundaries[1:] >= table.boundaries[:-1]))


def test_a_table_travels_with_its_boundaries() -> None:
    table = cumulative_table(DiscreteLaplace(Fraction(320)))
    data = pickle.dumps(table)
    copy = pickle.loads(data)
    words = np.arange(0, 1 << 64, 1 << 50, dtype=np.uint64)
    assert np.array_equal(copy.look_up(words)[0], table.look_up(words)[0])
    assert copy.mechanism == table.mechanism
    assert len(data) < 300_000


def test_a_table_cannot_be_changed() -> None:
    table = cumulative_table(DiscreteLaplace(Fraction(1)))
    with pytest.raises(ValueError, match="read-only"):
        table.boundaries[0] = 5


def test_tables_are_built_once() -> None:
    assert cumulative_table(DiscreteLaplace(Fraction(3))) is cumulative_table(DiscreteLaplace(Fraction(3)))


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(Fraction(10**5)),
        DiscreteLaplace(Fraction(2**128)),
        DiscreteGaussian(Fraction(10**11)),
        DiscreteGaussian(Fraction(2**128)),
    ],
)
def test_a_distribution_too_wide_for_a_table_is_refused_at_once(mechanism: Mechanism) -> None:
    for made in (CumulativeTable, require_table):
        with pytest.raises(BudgetError, match="too wide: its table would have"):
            made(mechanism)


@pytest.mark.parametrize("bits", [0, 65])
def test_an_impossible_number_of_bits_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits"):
        CumulativeTable(DiscreteLaplace(Fraction(1)), bits)
