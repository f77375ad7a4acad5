"""Inference against formulas, sums over all values of the noise, and faults that are planted."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from fractions import Fraction

import faulty_systems
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from das_spark.attack import AttackSettings, infer, present_inference
from das_spark.attack.drawing import Answers, DrawnTarget, MeasuredRun, count_errors
from das_spark.attack.inference import ATTRIBUTE, PLACE, RECORD, _targets
from das_spark.attack.roc import Counted, judge_curves
from das_spark.errors import ConfigurationError
from das_spark.privacy import DiscreteLaplace, ExactComposition, compose_exactly
from das_spark.report import Report, page

#: Standard deviations of a count by which it may differ from its expectation, among some hundred counts of a fixed key.
FAR = 4.5


def drawn(**settings) -> AttackSettings:
    return AttackSettings(**{"draws": 20_000, "test_key": "of a test"} | settings)


def near(counts, probabilities, draws) -> bool:
    """Whether counts are as probable as they are said to be."""
    deviation = np.sqrt(draws * probabilities * (1 - probabilities))
    return bool((np.abs(counts - draws * probabilities) <= FAR * deviation + 1.5).all())


def test_gaussian_composition_follows_the_formula(plan_of):
    """Sums of many discrete Gaussians are normal to the digits that draws can show: type II = Phi(Phi^-1(1-a) - mu)."""
    plan = plan_of(rho="1/2")
    found = infer(plan, drawn())
    curve = found.curves[found.rows[0].curve]
    mu = math.sqrt(2 * float(plan.budget.total))
    # Thresholds t are evenly spaced and symmetric: of the log-likelihood ratio, normal with mean and variance mu^2.
    end = mu * mu / 2 + 4.75 * mu
    thresholds = np.linspace(-end, end, len(curve.type_one))
    draws = curve.draws
    assert near(np.array(curve.type_one) * draws, norm.cdf((thresholds - mu * mu / 2) / mu), draws)
    assert near(np.array(curve.type_two) * draws, norm.sf((thresholds + mu * mu / 2) / mu), draws)
    assert curve.claimed_advantage == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-4)
    assert curve.claimed_auc == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=2e-3)
    assert not found.convicts
    assert curve.touches


def test_one_query_follows_the_sum_over_all_values(plan_of):
    """Both answers of one query with Laplace noise: every pair of values, its probability and its loss."""
    plan = plan_of("8")
    level = plan.budget.levels[-1]
    answers = Answers(0, level.geolevel, level.queries[-1].query)
    mechanism = plan.budget.mechanism(answers.geolevel, answers.query)
    claim = ExactComposition(((mechanism, 2),))
    target = DrawnTarget("one", frozenset([answers]), same_geounit=False, claim=claim)
    (counted,) = count_errors([MeasuredRun.of(plan)], [target], drawn(), "test")
    scale, most = float(mechanism.scale), 40 * math.ceil(float(mechanism.scale))
    value = np.arange(-most, most + 1)
    one = np.exp(-np.abs(value) / scale) / np.exp(-np.abs(value) / scale).sum()
    probability = np.outer(one, one)
    losses = {}
    for name, (old, new) in {"old": (1, 0), "new": (0, 1)}.items():  # what is counted in the old and in the new row
        first, second = value[:, None] + old, value[None, :] + new
        losses[name] = ((np.abs(first) - np.abs(first - 1)) + (np.abs(second - 1) - np.abs(second))) / scale
    end = 2 / scale
    thresholds = np.linspace(-end, end, len(counted.taken)) + 1e-9  # ties of sums of doubles are decided as in the code
    inside = np.abs(np.linspace(-1, 1, len(thresholds))) < 1 - 1e-6
    inside[len(thresholds) // 2] = False  # at 0 doubles decide on either side of the largest atom
    taken = np.array([probability[losses["old"] <= threshold].sum() for threshold in thresholds])
    missed = np.array([probability[losses["new"] > threshold].sum() for threshold in thresholds])
    assert near(counted.taken[inside], taken[inside], counted.draws)
    assert near(counted.missed[inside], missed[inside], counted.draws)


def test_targets_are_those_of_the_losses(plan_of):
    plan = plan_of()
    found = infer(plan, drawn(draws=1_000))
    rows = [(row.kind, row.attribute, row.geolevel) for row in found.rows]
    attributes = [attribute.name for attribute in plan.product.schema.attributes]
    levels = [level.geolevel for level in plan.budget.levels]
    assert rows[0] == (RECORD, "", "")
    assert {row[1] for row in rows if row[0] == ATTRIBUTE} == set(attributes)
    assert {row[2] for row in rows if row[0] == ATTRIBUTE} == {"", *levels}
    assert [row[2] for row in rows if row[0] == PLACE] == levels[:-1]
    # A query that asks of an attribute: what is claimed for it is the composition of these alone.
    asked = {name for name, query in plan.queries.items() if query.involves(attributes.index("hhgq"))}
    claimed = compose_exactly([plan.budget], None, asked).delta(0.0).high
    (row,) = [row for row in found.rows if row.attribute == "hhgq" and not row.geolevel]
    assert found.curves[row.curve].claimed_advantage == claimed


#: All but noise that several queries share: that makes the ratio of one draw no more telling. `own_noise` sees it.
SEEN = [fault for fault in faulty_systems.OF_NOISE if fault is not faulty_systems.NoiseReused]


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEN)
@pytest.mark.parametrize("framework", ["pure_dp", "zcdp"])
def test_planted_faults_are_seen(plan_of, fault, framework):
    plan = plan_of("4") if framework == "pure_dp" else plan_of(rho="2")
    found = infer(plan, drawn(draws=100_000), measuring=fault(plan).measurement_plan)
    assert found.convicts
    assert "beats the claim" in found.verdict


def test_more_noise_than_claimed_is_above_the_curve(plan_of):
    plan = plan_of("4")
    louder = faulty_systems.LocalSystem(faulty_systems.with_total(plan, Fraction(1, 2)))
    found = infer(plan, drawn(draws=100_000), measuring=louder.measurement_plan)
    assert not found.convicts
    assert not found.curves[0].touches


@pytest.mark.slow
def test_sound_noise_is_convicted_no_more_often_than_stated(plan_of):
    """200 repetitions at a confidence of 80 %, by the same claims; 63 convictions would have a probability of 1e-4."""
    run, repetitions, alpha = MeasuredRun.of(plan_of("4")), 200, 0.2
    targets = [target for _, target in _targets(run)][:6]
    convicted = 0
    for number in range(repetitions):
        counted = count_errors([run], targets, drawn(draws=400, test_key=f"{number}"), "test")
        convicted += any(curve.convicts for curve in judge_curves(counted, alpha))
    assert convicted <= binom.ppf(1 - 1e-4, repetitions, alpha)


@pytest.mark.slow
def test_fresh_keys_differ_and_test_keys_repeat(plan_of):
    plan = plan_of()
    first, second = (infer(plan, drawn(draws=2_000)) for _ in range(2))
    assert first == second
    fresh = [infer(plan, drawn(draws=2_000, test_key=None)) for _ in range(2)]
    assert fresh[0].curves != fresh[1].curves


def test_several_records_of_a_contributor(plan_of):
    """Laplace noise is claimed and drawn for all of them; of Gaussian noise nothing exact is known."""
    laplace, gaussian = (
        replace(plan, budget=replace(plan.budget, at_most=3)) for plan in (plan_of("4"), plan_of(rho="1/2"))
    )
    found = infer(laplace, drawn())
    assert not found.convicts
    assert found.curves[0].touches
    with pytest.raises(ConfigurationError, match="no exact composition"):
        infer(gaussian, drawn())


@given(
    st.lists(st.integers(0, 500), min_size=3, max_size=9),
    st.lists(st.integers(0, 500), min_size=3, max_size=9),
    st.integers(1, 40),
)
def test_fewer_errors_contradict_more(one, two, less):
    """The law of (T-2): whoever errs less often than somebody else is no nearer to the claim."""
    size = min(len(one), len(two))
    taken, missed = np.sort(one[:size]), np.sort(two[:size])[::-1]
    claim = ExactComposition(((DiscreteLaplace(Fraction(2)), 2),))
    more = Counted("more", 500, taken, missed, claim)
    fewer = Counted("fewer", 500, np.maximum(taken - less, 0), missed, claim)
    worse, better = judge_curves([more, fewer], 0.05)
    assert better.excess >= worse.excess - 1e-12
    assert better.auc >= worse.auc - 1e-12


def test_findings_are_plain_and_presentable(plan_of):
    found = infer(plan_of(), drawn(draws=2_000))
    assert json.loads(json.dumps(asdict(found), allow_nan=False))
    report = Report("Inference", present_inference(found))
    assert "the claim is refuted" in page(report)
    (table,) = [table for table in report.tables("csv") if table.name == "inference"]
    assert len(table.rows) == len(found.rows)
