"""The three mechanisms: against plain computations, and a part of them against the whole."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.studies.flaxman import Database, FlaxmanMechanism, FlaxmanSettings, population, protect, rake
from das_spark.studies.noise import Noise, NoiseRatio

EPSILON = Fraction(1, 10)
SETTINGS = FlaxmanSettings(20_000, 3, 100)
NOISE = Noise("test", 1, NoiseRatio.EXACT)


@pytest.fixture(scope="module")
def database() -> Database:
    return population(SETTINGS)


@pytest.mark.parametrize("mechanism", list(FlaxmanMechanism))
def test_the_first_leaf_alone_has_the_values_of_the_whole(mechanism: FlaxmanMechanism, database: Database) -> None:
    whole = protect(mechanism, database, EPSILON, NOISE, parts=4, replicates=6)
    first = protect(mechanism, database, EPSILON, NOISE, parts=4, replicates=6, first_only=True)
    assert whole.shape == (125, 6)
    assert (first == whole[:1]).all()
    assert len(set(first[0].tolist())) > 1


def test_raking_is_that_of_a_loop(database: Database) -> None:
    share = EPSILON / 4
    name = f"RDPC with epsilon {EPSILON} of D"
    noisy = [database.levels[0] + NOISE.draw(f"{name}, root", share, 1)[:, 0]]
    noisy += [
        counts + NOISE.draw(f"{name}, level {level}", share, len(counts))[:, 0]
        for level, counts in enumerate(database.levels[1:], 1)
    ]
    raked = [float(noisy[0][0])]
    for counts in noisy[1:]:
        families = [counts[start : start + 5].tolist() for start in range(0, len(counts), 5)]
        raked = [
            child * parent / sum(family) for parent, family in zip(raked, families, strict=True) for child in family
        ]
    found = protect(FlaxmanMechanism.RDPC, database, EPSILON, NOISE, parts=4)[:, 0]
    assert found == pytest.approx(np.array(raked), rel=1e-12)
    assert found.sum() == pytest.approx(float(noisy[0][0]))


def test_averages_are_means_of_parts(database: Database) -> None:
    found = protect(FlaxmanMechanism.ADPC, database, EPSILON, NOISE, parts=4) - database.leaves[:, None]
    assert (found * 4 == np.round(found * 4)).all()
    assert (found != np.round(found)).any()
    single = protect(FlaxmanMechanism.ADPC, database, EPSILON, NOISE, parts=1) - database.leaves[:, None]
    assert (single == np.round(single)).all()


# Variance of the two-sided geometric law: 2 q / (1 - q)^2; over 250,000 draws its standard error is 0.5 percent.
@pytest.mark.parametrize(("mechanism", "factor"), [(FlaxmanMechanism.GDPC, 1), (FlaxmanMechanism.ADPC, 4)])
def test_residuals_have_the_variance_of_their_law(mechanism: FlaxmanMechanism, factor: int, database: Database) -> None:
    found = protect(mechanism, database, EPSILON, NOISE, parts=4, replicates=2000) - database.leaves[:, None]
    ratio = np.exp(-float(EPSILON) / factor)
    assert found.var() == pytest.approx(2 * ratio / (1 - ratio) ** 2 / factor, rel=0.03)
    assert found.mean() == pytest.approx(0, abs=0.5)


def test_families_sum_to_their_parents() -> None:
    draws = np.random.default_rng(1)
    parents, children = draws.normal(100, 30, (3, 5)), draws.normal(25, 10, (12, 5))
    assert rake(parents, children).reshape(3, 4, 5).sum(axis=1) == pytest.approx(parents)


def test_a_family_that_sums_to_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be scaled"):
        rake(np.array([[10.0]]), np.array([[3.0], [-3.0]]))


def test_what_the_study_expects() -> None:
    shares = {mechanism: mechanism.expected_share(3) for mechanism in FlaxmanMechanism}
    assert shares == {"GDPC": 1, "ADPC": Fraction(1, 2), "RDPC": Fraction(1, 4)}
