"""Noise of the studies: both laws by their formula, the same value at the same address, parameters refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from das_spark.errors import ConfigurationError
from das_spark.studies.noise import RATIOS, Noise, NoiseRatio, noise_mechanism, ratio_of

HALF = Fraction(1, 2)
DRAWS = (200, 2000)


def p_value(values: np.ndarray, ratio: float) -> float:
    """Chi-square of a sample against the two-sided geometric law, by its formula; 12 and more together."""
    reach = np.arange(-12, 13)
    chances = (1 - ratio) / (1 + ratio) * ratio ** np.abs(reach)
    chances[[0, -1]] /= 1 - ratio
    seen = np.bincount(np.clip(values, -12, 12) + 12, minlength=25)
    return float(stats.chisquare(seen, chances * len(values)).pvalue)


# The seed is fixed, so there are no false alarms; another seed would fail in 2e-6 of all cases.
@pytest.mark.parametrize(("law", "ratio"), [(NoiseRatio.CODED, 0.5), (NoiseRatio.EXACT, math.exp(-0.5))])
def test_draws_follow_the_law_that_is_named_and_not_the_other(law: NoiseRatio, ratio: float) -> None:
    values = Noise("test", 1, law).draw("counts", HALF, *DRAWS).ravel()
    assert p_value(values, ratio) > 1e-6
    other = math.exp(-0.5) if law is NoiseRatio.CODED else 0.5
    assert p_value(values, other) < 1e-100


@pytest.mark.parametrize("law", list(NoiseRatio))
@pytest.mark.parametrize("z", [Fraction(1, 2000), Fraction(1, 40), Fraction(9, 10)])
def test_the_slope_is_that_of_the_ratio(law: NoiseRatio, z: Fraction) -> None:
    assert math.exp(-law.slope(z)) == pytest.approx(
        math.exp(-z) if law is NoiseRatio.EXACT else float(1 - z), rel=1e-14
    )
    # The sampler is given the scale of that slope.
    assert float(1 / noise_mechanism(z, law).scale) == pytest.approx(law.slope(z), rel=1e-15)


def test_a_part_of_an_experiment_is_the_same_part_of_the_whole() -> None:
    noise = Noise("test", 1, NoiseRatio.CODED)
    whole = noise.draw("counts", HALF, 50, 20)
    assert (noise.draw("counts", HALF, 3, 7) == whole[:3, :7]).all()


def test_other_names_seeds_and_studies_give_other_noise() -> None:
    drawn = [
        Noise(study, seed, NoiseRatio.CODED).draw(what, HALF, 40)[:, 0].tolist()
        for study, seed, what in (("a", 1, "x"), ("b", 1, "x"), ("a", 2, "x"), ("a", 1, "y"))
    ]
    assert all(one != other for place, one in enumerate(drawn) for other in drawn[:place])


@pytest.mark.parametrize(
    ("z", "law"), [(Fraction(0), NoiseRatio.EXACT), (Fraction(1), NoiseRatio.CODED), (Fraction(3, 2), NoiseRatio.CODED)]
)
def test_impossible_parameters_are_refused(z: Fraction, law: NoiseRatio) -> None:
    with pytest.raises(ConfigurationError, match="epsilon"):
        noise_mechanism(z, law)


def test_laws_have_names_and_words() -> None:
    assert [ratio_of(name) for name in ("coded", "exact")] == list(RATIOS)
    with pytest.raises(ConfigurationError, match="none called 'laplace'"):
        ratio_of("laplace")
