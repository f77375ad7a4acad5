"""Noise by address: exact through refinement, the same however it is asked for, never given twice."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from das_spark.errors import PrivacyGuardError
from das_spark.privacy import (
    CumulativeTable,
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    KeyedStream,
    Mechanism,
    RunKey,
    StreamDomain,
    cumulative_table,
    keyed,
    sample,
    sample_groups,
)
from das_spark.privacy import sampling as sampler

ONE = GeounitAddresses.of(["31"])
DOMAIN = StreamDomain("product", "person", "level", 0, "query")
DISTRIBUTIONS: tuple[Mechanism, ...] = (
    DiscreteGaussian(Fraction(1, 4)),
    DiscreteGaussian(Fraction(40628, 10000)),
    DiscreteLaplace(Fraction(1, 5)),
    DiscreteLaplace(Fraction(1280, 27)),
)


@pytest.fixture
def stream() -> KeyedStream:
    return RunKey.insecure("sampler").derive(DOMAIN)


class Scripted(KeyedStream):
    """A stream whose words are written down; used to force what chance brings once in 2^50 draws."""

    __slots__ = ("script",)

    def __init__(self, script: list[int]) -> None:
        super().__init__(bytes(32), DOMAIN, is_insecure=True)
        self.script = script

    def words(self, geounits: GeounitAddresses, answers: NDArray[Any], draw: int = 0) -> NDArray[np.uint64]:
        return np.full((len(geounits), len(answers)), self.script[draw], dtype=np.uint64)


def quantile(distribution: Any, number: int, bits: int) -> int:
    """The smallest k with number / 2^bits < P(X <= k), by mpmath, for a number far from every boundary."""
    with mpmath.workdps(90):
        uniform = (mpmath.mpf(number) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** bits
        if uniform > mpmath.mpf(1) / 2:
            value = 0
            while 1 - distribution.upper_tail(value + 1, digits=90) < uniform:
                value += 1
            return value
        value = 0
        while distribution.upper_tail(value + 1, digits=90) > uniform:
            value += 1
        return -value


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_refined_short_draws_are_the_quantile_of_all_their_bits(
    mechanism: Mechanism, bits: int, stream: KeyedStream, distribution: Callable[..., Any]
) -> None:
    answers = np.arange(60)
    values = sample(CumulativeTable(mechanism, bits), stream, ONE, answers)[0]
    words = -(-120 // bits)
    oracle = distribution(mechanism)
    drawn = [stream.words(ONE, answers, draw)[0] for draw in range(words)]
    for answer in answers:
        number = 0
        for word in drawn:
            number = number << bits | int(word[answer]) >> (64 - bits)
        assert values[answer] == quantile(oracle, number, words * bits)


@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_short_draws_are_refined_often(mechanism: Mechanism, stream: KeyedStream) -> None:
    words = stream.words(ONE, np.arange(1000))[0]
    assert len(CumulativeTable(mechanism, 8).look_up(words)[1]) > 3
    assert len(cumulative_table(mechanism).look_up(words)[1]) == 0


@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_sixty_four_bits_that_hit_a_boundary_are_refined_by_the_next_word(
    mechanism: Mechanism, distribution: Callable[..., Any]
) -> None:
    table = cumulative_table(mechanism)
    oracle = distribution(mechanism)
    places = np.linspace(0, len(table.boundaries) - 1, 9).astype(int)
    for boundary in table.boundaries[places]:
        for second in (0x0123456789ABCDEF, 0x8000000000000000, 0xFEDCBA9876543210):
            found = sample(table, Scripted([int(boundary), second]), ONE, np.array([0]))
            assert found[0, 0] == quantile(oracle, int(boundary) << 64 | second, 128)


def test_both_tails_go_on_beyond_the_table(distribution: Callable[..., Any]) -> None:
    mechanism = DISTRIBUTIONS[1]
    table = cumulative_table(mechanism)
    lowest = [0, 0, 5]
    highest = [2**64 - 1, 2**64 - 1, 2**64 - 6]
    far = sample(table, Scripted(lowest), ONE, np.array([0]))[0, 0]
    assert far < table.lowest - 5
    assert far == quantile(distribution(mechanism), 5, 192)
    assert sample(table, Scripted(highest), ONE, np.array([0]))[0, 0] == -far


def test_every_form_of_asking_gives_the_same_values(stream: KeyedStream) -> None:
    table = CumulativeTable(DISTRIBUTIONS[1], 8)
    geocodes = ["5", "4" * 33, "11"]
    whole = sample(table, stream, GeounitAddresses.of(geocodes), np.arange(301))
    some = np.array([300, 7, 8, 0])
    for place, geocode in enumerate(geocodes):
        assert np.array_equal(sample(table, stream, GeounitAddresses.of([geocode]), some)[0], whole[place, some])


def test_order_and_partition_change_nothing(stream: KeyedStream) -> None:
    table = cumulative_table(DISTRIBUTIONS[3])
    geounits = GeounitAddresses.of(map(str, range(200)))
    whole = sample(table, stream, geounits, np.arange(24))
    order, columns = (np.random.default_rng(1).permutation(size) for size in (200, 24))
    assert np.array_equal(sample(table, stream, geounits.part(order), columns), whole[order][:, columns])
    parts = [sample(table, stream, geounits.part(part), np.arange(24)) for part in np.array_split(np.arange(200), 7)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_chunks_change_nothing(stream: KeyedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    table = CumulativeTable(DISTRIBUTIONS[0], 8)
    geounits = GeounitAddresses.of(map(str, range(50)))
    whole = sample(table, stream, geounits, np.arange(20))
    monkeypatch.setattr(sampler, "_CHUNK", 64)
    monkeypatch.setattr(keyed, "_CHUNK", 16)
    assert np.array_equal(sample(table, stream, geounits, np.arange(20)), whole)


def test_no_answers_are_no_noise(stream: KeyedStream) -> None:
    table = cumulative_table(DISTRIBUTIONS[0])
    assert sample(table, stream, ONE, np.empty(0, dtype=np.int64)).shape == (1, 0)
    assert sample(table, stream, GeounitAddresses.of([]), np.arange(5)).shape == (0, 5)


@pytest.mark.parametrize("answers", [[0, 1, 0], [3, 3]])
def test_an_answer_asked_for_twice_is_refused(stream: KeyedStream, answers: list[int]) -> None:
    with pytest.raises(PrivacyGuardError, match="twice"):
        sample(cumulative_table(DISTRIBUTIONS[0]), stream, ONE, np.array(answers))


@pytest.mark.parametrize("bits", [8, 64])
def test_groups_with_answers_of_their_own_have_the_values_of_each_group_alone(stream: KeyedStream, bits: int) -> None:
    generator = np.random.default_rng(bits)
    table = CumulativeTable(DISTRIBUTIONS[1], bits)
    sizes = generator.integers(0, 5, 30)
    answers = [np.unique(generator.integers(0, 90, int(generator.integers(0, 25)))) for _ in sizes]
    codes = [f"{place}" * (1 + 40 * (place % 9 == 0)) for place in range(int(sizes.sum()))]  # some of several blocks
    geounits = GeounitAddresses.of(codes)
    widths = np.array([len(answer) for answer in answers])
    found = sample_groups(table, stream, geounits, sizes, np.concatenate(answers), widths)
    ends = np.cumsum(sizes)
    expected = [
        sample(table, stream, geounits.part(np.arange(end - size, end)), own).ravel()
        for end, size, own in zip(ends, sizes, answers, strict=True)
    ]
    assert np.array_equal(found, np.concatenate(expected))
    refined = table.look_up(stream.words_of_groups(geounits, sizes, np.concatenate(answers), widths))[1]
    assert (len(refined) > 10) == (bits == 8)


@pytest.mark.parametrize("answers", [[3, 3], [4, 3]])
def test_an_answer_that_stands_twice_in_a_group_is_refused(stream: KeyedStream, answers: list[int]) -> None:
    table, sizes, widths = cumulative_table(DISTRIBUTIONS[0]), np.array([1, 1]), np.array([2, 2])
    two = GeounitAddresses.of(["1", "2"])
    with pytest.raises(PrivacyGuardError, match="twice"):
        sample_groups(table, stream, two, sizes, np.array([0, 9, *answers]), widths)
    assert len(sample_groups(table, stream, two, sizes, np.array([0, 9, 3, 4]), widths)) == 4
