"""Draws by cell against persons drawn one by one, and against the law itself."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation.sample_draws import Draw

HALF = Fraction(1, 2)
PEOPLE = np.array([3, 0, 4, 2, 1])
#: Two geounits: the first three cells, and the others.
PARTS = (slice(0, 3), slice(3, 5))
SAMPLES = 5_000
#: Of each statistical test here, in one run. Seeds are fixed: a failure that is not a fault can only come with a
#: change of the code or of numpy.
FALSE_ALARM = 1e-6


def in_two_steps(draw):
    """What each geounit gives first, then its cells."""
    persons = draw.taken(np.array([PEOPLE[part].sum() for part in PARTS]), draw.persons(int(PEOPLE.sum())))
    pairs = zip(PARTS, persons.tolist(), ("07", "11"), strict=True)
    return np.concatenate([draw.taken(PEOPLE[part], number, name) for part, number, name in pairs])


def one_by_one(generator):
    """The definition: the first half of all persons in a random order."""
    persons = np.repeat(np.arange(len(PEOPLE)), PEOPLE)
    return np.bincount(generator.permutation(persons)[: len(persons) // 2], minlength=len(PEOPLE))


def p_value(samples):
    """Chi-square of how often each sample was drawn against the multivariate hypergeometric law, all of it."""
    possible = [each for each in product(*(range(number + 1) for number in PEOPLE)) if sum(each) == PEOPLE.sum() // 2]
    expected = stats.multivariate_hypergeom.pmf(possible, PEOPLE, PEOPLE.sum() // 2) * len(samples)
    places = {each: place for place, each in enumerate(possible)}
    observed = np.bincount([places[tuple(each)] for each in samples.tolist()], minlength=len(possible))
    rare = expected < 20  # pooled, so that the chi-square law holds far out
    assert len(possible) == 22
    return stats.chisquare(
        np.append(observed[~rare], observed[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    ).pvalue


@pytest.mark.statistical
def test_two_steps_have_the_joint_law_of_persons_drawn_one_by_one():
    samples = np.stack([in_two_steps(Draw(HALF, seed)) for seed in range(SAMPLES)])
    assert p_value(samples) > FALSE_ALARM
    generator = np.random.default_rng(1)
    assert p_value(np.stack([one_by_one(generator) for _ in range(SAMPLES)])) > FALSE_ALARM  # the oracle agrees


@pytest.mark.statistical
def test_the_test_of_the_law_finds_geounits_that_always_give_their_expected_number():
    def stratified(draw):  # the right mean in every cell, and no sample of the whole population
        return np.concatenate(
            [draw.taken(PEOPLE[part], number, "7") for part, number in zip(PARTS, (4, 1), strict=True)]
        )

    assert p_value(np.stack([stratified(Draw(HALF, seed)) for seed in range(SAMPLES)])) < FALSE_ALARM


@pytest.mark.statistical
def test_seeds_shares_and_geounits_are_independent_and_the_same_draw_is_not():
    people = np.full(4000, 50)

    def deviations(draw, geocode):
        return draw.taken(people, draw.persons(int(people.sum())), geocode) - 50 * float(draw.share)

    first = deviations(Draw(HALF, 1), "12")
    others = {
        "seed": deviations(Draw(HALF, 2), "12"),
        "large seed": deviations(Draw(HALF, 1 + (1 << 32)), "12"),
        "share": deviations(Draw(Fraction(1, 4), 1), "12"),
        "geounit": deviations(Draw(HALF, 1), "13"),
        "longer geocode": deviations(Draw(HALF, 1), "012"),
        "whole": deviations(Draw(HALF, 1), ""),
    }
    for name, other in others.items():
        assert stats.pearsonr(first, other).pvalue > FALSE_ALARM / len(others), name
    again = deviations(Draw(HALF, 1), "12")
    assert (again == first).all()
    assert stats.pearsonr(first, again).pvalue < FALSE_ALARM


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    st.fractions(Fraction(1, 1000), 1, max_denominator=1000),
    st.integers(0, 2**63 - 1),
)
def test_no_cell_gives_more_than_it_has_and_all_give_what_is_asked(people, share, seed):
    draw, counts = Draw(share, seed), np.array(people)
    persons = draw.persons(int(counts.sum()))
    found = draw.taken(counts, persons, "042")
    assert found.sum() == persons
    assert ((found >= 0) & (found <= counts)).all()
    assert abs(persons - share * int(counts.sum())) <= HALF


def test_halves_of_persons_are_rounded_to_even():
    assert [Draw(HALF, 0).persons(number) for number in (3, 5, 7)] == [2, 2, 4]


def test_everybody_is_drawn_by_a_share_of_one():
    assert (Draw(Fraction(1), 3).taken(PEOPLE, 10, "1") == PEOPLE).all()


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(21, 20), Fraction(0.05)])
def test_shares_out_of_range_and_former_floats_are_refused(share):
    with pytest.raises(InputError, match="share"):
        Draw(share, 0)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(InputError, match="seed"):
        Draw(HALF, seed)


def test_too_large_a_population_is_refused_without_its_number():
    with pytest.raises(InputError, match="fewer than 1,000,000,000 people"):
        Draw(HALF, 0).taken(np.array([10**9 - 1, 1]), 5)
