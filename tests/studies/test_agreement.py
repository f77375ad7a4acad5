"""Every published figure has a class and a reason; what noise decides is told from what people decide."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import ConfigurationError
from das_spark.evaluation.accuracy import TOTAL
from das_spark.studies.published_1940 import STRATA, bias_at, nearest_share, protected, published, sampled
from das_spark.studies.replication import EXPECTATIONS, Expectation, expected_residuals, rule_of, step_of

QUARTER, ONE, EIGHT = Fraction(1, 4), Fraction(1), Fraction(8)


def test_every_published_figure_has_a_class_and_a_reason() -> None:
    for key in published():
        rule = rule_of(key)
        assert rule.expectation in EXPECTATIONS
        assert len(rule.reason.split()) >= 4, key
        assert step_of(key) > 0


def test_what_should_agree_has_a_tolerance() -> None:
    for key in published():
        rule = rule_of(key)
        if rule.expectation is not Expectation.SHAPE:
            assert rule.tolerance is not None, key
        if rule.expectation is Expectation.EXACT:
            assert (rule.tolerance, rule.steps) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("key", "expectation", "tolerance"),
    [
        (protected(ONE, "State", TOTAL, "largest"), Expectation.EXACT, 0.0),
        (protected(ONE, "Enumdist", TOTAL, "bias"), Expectation.EXACT, 0.0),
        (protected(ONE, "Enumdist", TOTAL, "privacy_loss"), Expectation.AGREES, 0.10),
        (protected(EIGHT, "State", STRATA, "rmse"), Expectation.AGREES, 0.05),
        (protected(ONE, "State", STRATA, "rmse"), Expectation.AGREES, 0.08),
        (protected(ONE, "County", STRATA, "p95_absolute"), Expectation.AGREES, 0.05),
        (protected(QUARTER, "County", STRATA, "p95_absolute"), Expectation.SHAPE, 0.10),
        (protected(EIGHT, "Enumdist", STRATA, "privacy_loss"), Expectation.AGREES, 0.15),
        (protected(ONE, "Enumdist", STRATA, "privacy_loss"), Expectation.SHAPE, 1.0),
        (protected(EIGHT, "County", STRATA, "privacy_loss"), Expectation.SHAPE, 1.0),
        (protected(ONE, "County", TOTAL, "rmse"), Expectation.SHAPE, 0.10),
        (protected(ONE, "County", TOTAL, "largest"), Expectation.SHAPE, None),
        (protected(ONE, "County", STRATA, "median_absolute"), Expectation.SHAPE, 0.30),
        (bias_at(ONE, "Enumdist", 20), Expectation.SIGN, 0.35),
        (bias_at(ONE, "Enumdist", 21), Expectation.SHAPE, None),
        (nearest_share(ONE), Expectation.SHAPE, 0.0),
        (sampled(Fraction(1, 2), "Enumdist", TOTAL, "median_absolute"), Expectation.AGREES, 0.05),
        (sampled(Fraction(1, 2), "Enumdist", STRATA, "median_absolute"), Expectation.SHAPE, 0.30),
    ],
)
def test_classes_of_figures_as_planned(key, expectation, tolerance) -> None:
    assert (rule_of(key).expectation, rule_of(key).tolerance) == (expectation, tolerance)


def test_a_figure_that_nobody_published_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="mean_absolute of County, total"):
        rule_of(protected(ONE, "County", TOTAL, "mean_absolute"))
    with pytest.raises(ConfigurationError, match="bias of County"):
        rule_of(sampled(ONE / 2, "County", TOTAL, "bias"))


def test_steps_are_those_of_what_is_counted() -> None:
    assert step_of(protected(ONE, "County", TOTAL, "median_absolute")) == 1
    assert step_of(sampled(Fraction(3, 4), "County", TOTAL, "median_absolute")) == pytest.approx(1 / 3)
    assert step_of(sampled(Fraction(1, 20), "County", TOTAL, "p95_absolute")) == 1
    assert step_of(bias_at(ONE, "County", 0)) == 0.1


def test_residuals_are_pooled_over_the_four_runs_of_a_release() -> None:
    assert expected_residuals(protected(ONE, "Enumdist", TOTAL, "rmse")) == 539_428
    assert expected_residuals(protected(ONE, "State", STRATA, "rmse")) == 4 * 1_010
    assert expected_residuals(sampled(ONE / 2, "Enumdist", TOTAL, "rmse")) == 134_857
