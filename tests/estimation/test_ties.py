"""Ties of rounding: one public hash breaks them, in every way to round, and no geounit wins for its place in a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import (
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    OuterPass,
    estimate_families,
)
from das_spark.estimation import rounding as rounding_module
from das_spark.estimation.presolve import presolve
from das_spark.estimation.rounding import round_family, round_in_passes
from das_spark.estimation.support import restrict
from das_spark.estimation.ties import QUANTUM, hash_geocodes, split, split_without_ties
from das_spark.histogram import Attribute, Histogram, Schema

SCHEMA = Schema("s", (Attribute("k", ("a", "b", "c")), Attribute("age", ("m", "f")), Attribute("r", ("x", "y", "z"))))
DETAILED, TOTAL, KIND = SCHEMA.query("detailed"), SCHEMA.query("total"), SCHEMA.query("k")
MASK = 2**64 - 1


def place_of(geocode: str, cell: int, whole: int) -> int:
    """The hash of a fraction in Python's own integers: FNV-1a of the geocode, SplitMix64 of cell and whole part."""
    found = 0xCBF29CE484222325
    for character in geocode:
        found = (found ^ ord(character)) * 0x100000001B3 & MASK
    for number in (cell, whole):
        found = found + (number + 1) * 0x9E3779B97F4A7C15 & MASK
        found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & MASK
        found = (found ^ found >> 27) * 0x94D049BB133111EB & MASK
        found ^= found >> 31
    return found >> 48


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("0123456789abcXY-é", max_size=20), st.integers(0, 2**20), st.floats(0, 1e6)),
        min_size=1,
        max_size=9,
    )
)
def test_fractions_are_moved_by_a_hash_that_is_the_same_whatever_stands_beside(made):
    geocodes, cells, values = (list(each) for each in zip(*made, strict=True))
    base, fraction = split_without_ties(np.array(values), hash_geocodes(geocodes), np.array(cells, dtype=np.int32))
    plain, rest = split(np.array(values))
    np.testing.assert_array_equal(base, plain)
    assert (np.abs(plain + rest - values) <= QUANTUM / 2).all()
    for place, (geocode, cell, _) in enumerate(made):
        moved = 0.0 if not rest[place] else (place_of(geocode, cell, int(base[place])) + 0.5) / 2**16 - 0.5
        assert fraction[place] == rest[place] + moved * QUANTUM
        assert (fraction[place] > 0) == (rest[place] > 0)
        assert fraction[place] < 1


def test_sums_of_a_million_fractions_are_exact():
    generator = np.random.default_rng(0)
    _, fraction = split_without_ties(generator.random(10**6), hash_geocodes(["1"]), np.arange(10**6))
    assert fraction.sum() == float(sum((fraction * 2**33).astype(np.int64).tolist())) / 2**33


def alike(count):
    """Families of two children alike, of which cells alone are measured, and what the first has before rounding.

    Every other cell of that ends in a half.
    """
    generator, problems, real = np.random.default_rng(1), [], []
    for _ in range(count):
        truth = generator.poisson(40, (2, SCHEMA.size))
        noisy = truth + np.rint(generator.normal(size=truth.shape) * 3).astype(np.int64)
        answers = FamilyMeasurement(DETAILED, np.arange(SCHEMA.size), noisy, np.full(2, 9.0))
        parent = Histogram.from_dense(truth.sum(axis=0))
        problems.append(FamilyProblem("9", parent, ("90", "91"), SCHEMA.size, (answers,)))
        real.append((truth.sum(axis=0) + noisy[0] - noisy[1]).sum() / 2.0)
    return problems, np.array(real)


def assert_unbiased(errors):
    """Assert that errors have no mean: a false alarm in 10 million."""
    assert abs(errors.mean()) < 5.3 * errors.std() / len(errors) ** 0.5
    assert errors.std() > 0


QUERIES = {each.name: each for each in (DETAILED, TOTAL, KIND)}
PLANS = {
    "largest remainders": FamilyPlan("x"),
    "small families at once": FamilyPlan("x", passes=(OuterPass((("detailed",),), (("detailed",),)),), queries=QUERIES),
    "totals first": FamilyPlan(
        "x", passes=(OuterPass((("detailed",),), (("total",), ("k", "detailed"))),), queries=QUERIES
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", list(PLANS))
def test_the_first_of_two_children_gets_no_more_than_its_share(name):
    problems, real = alike(60)
    results = estimate_families(problems, PLANS[name])
    assert_unbiased(np.array([result.counts[0].sum() for result in results]) - real)


@pytest.mark.statistical
@pytest.mark.parametrize("rounding", ["nearest", "released"])
@pytest.mark.parametrize("large", [0, 10**9], ids=["flows", "linear program"])
def test_halves_go_to_either_child_in_every_rounding(monkeypatch, rounding, large):
    monkeypatch.setattr(rounding_module, "LARGE", large)
    generator, errors = np.random.default_rng(2), []
    for _ in range(60):
        people = generator.integers(1, 9, SCHEMA.size)
        problem = FamilyProblem("9", Histogram.from_dense(people), ("90", "91"), SCHEMA.size, ())
        x = np.array([people / 2.0, people / 2.0])
        found = round_in_passes(presolve(restrict(problem, FamilyPlan("x"))), x, [[KIND, DETAILED]], rounding)
        errors.append(float(found.counts[0].sum() - x[0].sum()))
    assert_unbiased(np.array(errors))


@pytest.mark.statistical
def test_halves_of_a_root_go_up_as_often_as_down():
    generator, errors = np.random.default_rng(3), []
    problem = FamilyProblem("", None, ("0",), SCHEMA.size, ())
    presolved = presolve(restrict(problem, FamilyPlan("x")))
    for _ in range(200):
        x = generator.integers(0, 99, (1, SCHEMA.size)) + 0.5
        errors.append(float(round_family(presolved, x).counts.sum() - x.sum()))
    assert_unbiased(np.array(errors))
