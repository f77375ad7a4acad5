"""Two runs together against formulas, simulated errors and faults that are planted."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import faulty_systems
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from das_spark.attack import AttackSettings, TotalErrors, difference, infer, present_differencing
from das_spark.attack.differencing import TOGETHER
from das_spark.errors import ConfigurationError
from das_spark.privacy import PUBLISHED_DELTA, compose_exactly
from das_spark.report import Report, page

NAMES = ("a", "b")
SETTINGS = AttackSettings(draws=20_000, test_key="of a test")


def test_two_gaussian_runs_are_one_of_both_budgets(plan_of):
    """Normal losses add up: mu of both is sqrt(2 (rho_A + rho_B)), and its advantage 2 Phi(mu / 2) - 1."""
    plans = [plan_of(rho="1/2"), plan_of(rho="1/3")]
    found = difference(plans, NAMES, SETTINGS)
    assert [curve.name for curve in found.curves] == [*NAMES, TOGETHER]
    for curve, rho in zip(found.curves, (1 / 2, 1 / 3, 5 / 6), strict=True):
        exact = 2 * norm.cdf(math.sqrt(2 * rho) / 2) - 1
        assert curve.claimed_advantage == pytest.approx(exact, rel=1e-4)
        assert abs(curve.advantage - exact) < 4.5 / math.sqrt(2 * SETTINGS.draws) + 0.01
        assert curve.touches
    assert not found.convicts


def test_a_run_alone_is_as_in_inference(plan_of):
    plan, other = plan_of("2"), plan_of("1")
    found = difference([plan, other], NAMES, SETTINGS)
    alone = infer(plan, SETTINGS).curves[0]
    assert found.curves[0].claimed_advantage == alone.claimed_advantage
    assert abs(found.curves[0].advantage - alone.advantage) < 0.02


def test_epsilons_are_those_of_the_ledger(plan_of):
    plans = [plan_of("2"), plan_of("1")]
    found = difference(plans, NAMES, SETTINGS)
    expected = [
        compose_exactly([plan.budget for plan in some]).epsilon(PUBLISHED_DELTA).high
        for some in (plans[:1], plans[1:], plans)
    ]
    assert found.epsilons == tuple(expected)


def test_one_faulty_run_convicts_itself_and_both_together(plan_of):
    plans = [plan_of("4"), plan_of("4")]
    loud = faulty_systems.half_the_noise(plans[1]).measurement_plan
    found = difference(plans, NAMES, replace(SETTINGS, draws=100_000), measuring=(None, loud))
    assert [curve.convicts for curve in found.curves] == [False, True, True]
    assert "beats the claim of b, both together" in found.verdict


def test_a_run_is_not_differenced_with_itself(plan_of):
    with pytest.raises(ConfigurationError, match="not the same"):
        difference([plan_of(), plan_of()], ("a", "a"), SETTINGS)


def test_several_records_under_gaussian_noise_are_refused(plan_of):
    plan = plan_of(rho="1/2")
    several = replace(plan, budget=replace(plan.budget, at_most=2))
    with pytest.raises(ConfigurationError, match="no exact composition"):
        difference([plan, several], NAMES, SETTINGS)


errors = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=30)


@given(errors)
def test_combined_errors_are_those_of_weighted_estimates(pairs):
    one, two = np.array(pairs, dtype=np.float64).T
    of = TotalErrors("Block", len(one), (one**2).sum(), (two**2).sum(), (one * two).sum())
    first, second, combined = of.root_mean_squares()
    if first and second:
        weight = (1 / first**2) / (1 / first**2 + 1 / second**2)
        expected = math.sqrt(np.mean((weight * one + (1 - weight) * two) ** 2))
        assert combined == pytest.approx(expected, abs=1e-9)
    else:
        assert combined == 0
    assert combined <= max(first, second) + 1e-9


def test_independent_errors_are_combined_to_what_the_formula_says():
    numbers = np.random.default_rng(1)
    one, two = numbers.normal(0, 3, 50_000), numbers.normal(0, 6, 50_000)
    of = TotalErrors("Block", len(one), (one**2).sum(), (two**2).sum(), (one * two).sum())
    assert of.root_mean_squares()[2] == pytest.approx(1 / math.sqrt(1 / 9 + 1 / 36), rel=0.02)


def test_findings_are_plain_and_presentable(plan_of):
    totals = (TotalErrors("County", 1, 0.0, 4.0, 0.0), TotalErrors("Block", 10, 40.0, 90.0, 5.0))
    plans = [plan_of(), plan_of("1")]
    found = difference(plans, NAMES, replace(SETTINGS, draws=2_000), totals=totals)
    assert json.loads(json.dumps(asdict(found), allow_nan=False))
    text = page(Report("Differencing", present_differencing(found)))
    assert "composed" in text
    assert "both combined" in text
