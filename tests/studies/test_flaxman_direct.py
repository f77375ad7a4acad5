"""The direct estimate: frequencies by loops, epsilon where it is known, and a mechanism that spends too much."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from das_spark.report import records
from das_spark.studies.flaxman import (
    DirectEstimate,
    FlaxmanMechanism,
    FlaxmanSettings,
    Reading,
    direct_estimate,
    population,
    read_out,
)
from das_spark.studies.noise import Noise, NoiseRatio

REPLICATES = 100_000
EPSILON = Fraction(1, 10)
#: Standard errors; the seed is fixed, another one would fail in 1 of 30,000 cases for each of the 9 points compared.
SIGMAS = 4.0


@pytest.fixture(scope="module")
def estimate() -> DirectEstimate:
    settings = FlaxmanSettings(replicates=REPLICATES, law=NoiseRatio.EXACT)
    return direct_estimate(population(settings), settings, Noise("test", 1, NoiseRatio.EXACT))


def reading(estimate: DirectEstimate, mechanism: FlaxmanMechanism, events: str) -> Reading:
    return next(one for one in estimate.readings if (one.mechanism, one.events) == (mechanism, events))


def test_read_outs_are_those_of_a_loop() -> None:
    draws = np.random.default_rng(1)
    first, second = draws.normal(0, 6, 400), draws.normal(-1, 6, 400)
    equal, density, at_least = read_out(FlaxmanMechanism.GDPC, first, second)
    for place, k in enumerate(range(-10, 11)):
        counts = [sum(np.floor(value + 0.5) == k for value in side) for side in (first, second)]
        assert equal.log_ratio[place] == pytest.approx(np.log(counts[0] / counts[1]))
    for place, k in enumerate(range(-8, 9)):
        shares = [sum(value >= k for value in side) / 400 for side in (first, second)]
        assert at_least.log_ratio[place] == pytest.approx(np.log(shares[0] / shares[1]))
        variance = sum((1 - share) / (share * 400) for share in shares)
        assert at_least.standard_error[place] == pytest.approx(variance**0.5)
    sums = [
        sum(norm.pdf(density.k[7], value, 0.15 * side.std(ddof=1)) for value in side) / side.size
        for side in (first, second)
    ]
    assert density.k[[0, 49]].tolist() == [-10, 10]
    assert density.log_ratio[7] == pytest.approx(np.log(sums[0] / sums[1]))
    assert np.isnan(density.standard_error).all()


def test_the_geometric_mechanism_shows_all_of_epsilon(estimate: DirectEstimate) -> None:
    """P(X >= k) / P(X >= k + 1) = exp(epsilon) for every k >= 0, and less below."""
    found = reading(estimate, FlaxmanMechanism.GDPC, "at least")
    above = found.k >= 0
    assert (np.abs(found.log_ratio - 0.1) < SIGMAS * found.standard_error)[above].all()
    assert (found.standard_error < 0.01).all()
    assert (found.log_ratio[found.k <= -4] < 0.06).all()


def test_the_other_mechanisms_show_less_than_half_of_it_here(estimate: DirectEstimate) -> None:
    for mechanism in (FlaxmanMechanism.RDPC, FlaxmanMechanism.ADPC):
        found = reading(estimate, mechanism, "at least")
        assert (found.log_ratio + SIGMAS * found.standard_error < 0.065).all()
        assert found.log_ratio.mean() > 0.01
    raked = reading(estimate, FlaxmanMechanism.RDPC, "at least").log_ratio
    assert raked.mean() == pytest.approx(0.1 / 4, abs=0.01)


def test_no_mechanism_is_caught_above_epsilon_but_by_chance(estimate: DirectEstimate) -> None:
    # 21 + 17 points of each; the GDPC lies at the bound, where one in forty is above it by chance.
    assert all(one.above(EPSILON) <= 3 for one in estimate.readings if one.events != "density")
    assert reading(estimate, FlaxmanMechanism.RDPC, "at least").above(EPSILON) == 0


def test_a_mechanism_that_spends_twice_as_much_is_caught(estimate: DirectEstimate) -> None:
    assert reading(estimate, FlaxmanMechanism.GDPC, "at least").above(EPSILON / 2) >= 8


def test_few_replicates_leave_points_undefined_and_nothing_infinite() -> None:
    settings = FlaxmanSettings(replicates=3)
    found = direct_estimate(population(settings), settings, Noise("test", 1, NoiseRatio.CODED))
    rows = records(found.table())
    assert any(row["defined"] < row["points"] for row in rows)  # type: ignore[operator]
    assert all(np.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    assert {len(each.k) for each in found.readings} == {21, 50, 17}


def test_one_replicate_has_no_density() -> None:
    settings = FlaxmanSettings(replicates=1)
    found = direct_estimate(population(settings), settings, Noise("test", 1, NoiseRatio.CODED))
    row = next(row for row in records(found.table()) if row["events"] == "density")
    assert (row["defined"], row["largest |ln ratio|"], row["at"]) == (0, None, None)


def test_the_settings_stand_in_the_title() -> None:
    settings = FlaxmanSettings(replicates=2)
    found = direct_estimate(population(settings), settings, Noise("test", 1, NoiseRatio.CODED))
    assert (found.epsilon, found.replicates, found.target) == (EPSILON, 2, 1001)
    assert "2 releases each of D and D', epsilon = 0.1" in found.table().title
