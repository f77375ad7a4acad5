"""Verdicts: how often the innocent are convicted, and that the guilty are, by both standards."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from das_spark.audit.claim import Claim, lower_limit, upper_limit
from das_spark.audit.events import Statistic, choose
from das_spark.audit.judgement import Part, judge
from das_spark.audit.noise import DeclaredNoise
from das_spark.errors import ConfigurationError, InputError
from das_spark.privacy import DiscreteLaplace, Framework

EPSILON = Fraction(1)
#: One answer with the noise of epsilon: sensitivity 1 here, so that the claim can be reached.
MECHANISM = DiscreteLaplace(1 / EPSILON)
NOISE = DeclaredNoise.of({MECHANISM: 1})
CLAIM = Claim(Framework.PURE_DP, EPSILON, Fraction(0))
LEVEL = 0.9
AUDITS = 200


def laplace(generator: np.random.Generator, runs: int, scale: float) -> np.ndarray:
    """Discrete Laplace noise as a difference of two geometric draws: nothing of the package."""
    success = -math.expm1(-1 / scale)
    return (generator.geometric(success, runs) - generator.geometric(success, runs)).astype(np.float64)


def part(generator: np.random.Generator, runs: int, scale: float, bystanders: int = 3) -> Part:
    answer = Statistic("answer", "answer", laplace(generator, runs, scale) + 1, laplace(generator, runs, scale))
    others = [
        Statistic(f"bystander {k}", "answer", laplace(generator, runs, scale), laplace(generator, runs, scale))
        for k in range(bystanders)
    ]
    return Part("measurement", "made up", (answer, *others), NOISE)


def convicts(judgement) -> tuple[bool, bool]:
    """By the claim, by the declared noise."""
    return (
        any(finding.bound > CLAIM.total for finding in judgement.findings),
        any(finding.low > finding.allowed for finding in judgement.findings),
    )


@pytest.mark.parametrize("runs", [60, 2000])
def test_the_innocent_are_convicted_with_probability_one_minus_level_at_most(runs):
    """The answer's best events reach the claim exactly: nobody innocent is nearer to guilt."""
    generator = np.random.default_rng(runs)
    verdicts = [convicts(judge([part(generator, runs, 1.0)], CLAIM, LEVEL)) for _ in range(AUDITS)]
    for wrong in (sum(claim for claim, _ in verdicts), sum(noise for _, noise in verdicts)):
        # An honest false-alarm rate of 1 - LEVEL is exceeded here once in a million.
        assert stats.binom.sf(wrong - 1, AUDITS, 1 - LEVEL) > 1e-6
        assert wrong <= AUDITS * (1 - LEVEL)


@pytest.mark.slow
def test_choosing_and_judging_by_the_same_runs_would_convict_the_innocent():
    """A negative control: ten statistics that say nothing, two halves, and one half that does both."""
    generator = np.random.default_rng(3)
    claim = Claim(Framework.PURE_DP, Fraction(1, 100), Fraction(0))
    careful = careless = 0
    for _ in range(AUDITS):
        nothing = [Statistic(str(k), "answer", *generator.normal(0, 1, (2, 60))) for k in range(10)]
        found = judge([Part("measurement", "made up", tuple(nothing), NOISE)], claim, LEVEL).findings
        careful += any(each.bound > claim.total for each in found)
        (event,) = choose(nothing, claim.bound, 1 - LEVEL, 1)
        seen = event.counts(next(each for each in nothing if each.name == event.statistic))
        limits = lower_limit(seen[0], 60, (1 - LEVEL) / 2), upper_limit(seen[1], 60, (1 - LEVEL) / 2)
        careless += float(claim.bound(*limits)) > claim.total
    assert careful <= AUDITS * (1 - LEVEL)
    assert careless > 2 * AUDITS * (1 - LEVEL)


def test_half_the_noise_is_convicted_by_both_standards_every_time():
    generator = np.random.default_rng(8)
    verdicts = [convicts(judge([part(generator, 4000, 0.5)], CLAIM, LEVEL)) for _ in range(40)]
    assert all(claim and noise for claim, noise in verdicts)


def test_somewhat_less_noise_is_within_what_is_claimed_for_more_answers_but_not_within_the_declared_noise():
    """The second standard is sharper: a total that is twice as large hides the fault from the first."""
    generator = np.random.default_rng(9)
    claim = Claim(Framework.PURE_DP, 2 * EPSILON, Fraction(0))
    judgement = judge([part(generator, 4000, 0.7)], claim, LEVEL)
    assert not any(finding.bound > claim.total for finding in judgement.findings)
    assert any(finding.low > finding.allowed for finding in judgement.findings)


def test_events_share_the_probability_of_being_wrong():
    generator = np.random.default_rng(10)
    parts = [part(generator, 100, 1.0) for _ in range(3)]
    judgement = judge(parts, CLAIM, LEVEL, most=2)
    assert len(judgement.findings) <= 3 * 2 * 2
    assert judgement.alpha == pytest.approx((1 - LEVEL) / len(judgement.findings))
    for finding in judgement.findings:
        interval = stats.binomtest(finding.seen[0], 50).proportion_ci(1 - judgement.alpha, method="exact")
        assert finding.low == pytest.approx(interval.low, abs=1e-12)
        assert finding.runs == 50


def test_concentrated_privacy_is_judged_by_rho_and_told_as_epsilon():
    generator = np.random.default_rng(12)
    claim = Claim(Framework.ZCDP, Fraction(1, 8), Fraction(1, 100))
    shift = 3 * math.sqrt(2 / 8)  # Nine times the claimed rho.
    made = Statistic("x", "answer", generator.normal(shift, 1, 4000), generator.normal(0, 1, 4000))
    judgement = judge([Part("measurement", "made up", (made,), NOISE)], claim, LEVEL)
    best = max(judgement.findings, key=lambda finding: finding.bound)
    assert 1 / 8 < best.bound < 9 / 8
    assert best.epsilon == pytest.approx(math.log((best.low - 0.01) / best.high))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, 1 - 1e-16])
def test_a_level_that_is_no_probability_is_refused(level):
    with pytest.raises(ConfigurationError, match="level"):
        judge([part(np.random.default_rng(0), 10, 1.0)], CLAIM, level)


@pytest.mark.parametrize("framework", Framework)
def test_an_exact_leak_convicts_from_some_number_of_runs_on(framework):
    claim = Claim(framework, EPSILON, Fraction(0) if framework is Framework.PURE_DP else Fraction(1, 100))
    found = []
    for runs in range(4, 200, 2):
        leak = Statistic("x", "estimate", np.ones(runs), np.zeros(runs))
        exact = Part("pipeline", "made up", (leak,), NOISE)
        judgement = judge([exact], claim, LEVEL)
        (finding,) = judgement.findings
        bound, refutes, beyond = exact.of_exact_leak(claim, judgement.alpha)
        assert (bound, beyond) == (finding.bound, finding.low > finding.allowed)
        assert refutes == (finding.bound > claim.total or finding.epsilon > claim.epsilon)
        found.append((refutes, beyond))
    for kind in zip(*found, strict=True):
        assert not kind[0]
        assert kind[-1]
        assert list(kind) == sorted(kind)


def test_too_few_runs_are_refused():
    with pytest.raises(InputError, match="cannot choose and judge"):
        Part("measurement", "made up", (Statistic("x", "answer", np.zeros(3), np.zeros(3)),), NOISE)
