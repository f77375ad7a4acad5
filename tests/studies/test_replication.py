"""A perfect copy of the study passes; planted deviations are found, by class; every rendering has every row."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.evaluation.accuracy import TOTAL
from das_spark.report import csv_text, page
from das_spark.studies.published_1940 import STRATA, bias_at, protected, published
from das_spark.studies.replication import (
    Expectation,
    FigureComparison,
    OurFigure,
    Replication,
    Verdict,
    compare,
    comparison_table,
    rule_of,
    step_of,
    verdict_table,
    verdicts,
)

ONE = Fraction(1)
RMSE = protected(ONE, "Enumdist", TOTAL, "rmse")
LOSS = protected(ONE, "Enumdist", TOTAL, "privacy_loss")
AGREEING = [key for key in published() if rule_of(key).expectation is Expectation.AGREES]
SIGNED = [key for key in published() if rule_of(key).expectation is Expectation.SIGN]


def _one(key, value, interval=None, n=0) -> FigureComparison:
    return next(each for each in compare({key: OurFigure(value, interval, n)}) if each.key == key)


def test_a_perfect_copy_passes_and_has_a_row_for_every_published_figure() -> None:
    comparisons = compare({key: OurFigure(value) for key, value in published().items()})
    assert [comparison.key for comparison in comparisons] == list(published())
    found = verdicts(comparisons)
    for expectation in Expectation:
        wanted = Verdict.SHAPE if expectation is Expectation.SHAPE else Verdict.WITHIN
        assert set(found[expectation]) == {wanted}
    assert all(comparison.close is not False for comparison in comparisons)
    assert all(comparison.ratio in (None, 1.0) for comparison in comparisons)


def test_figures_that_are_all_half_as_large_again_are_outside() -> None:
    # What is small enough to be rounded away, or may be twofold by the sampling error of 51 states, is not.
    comparisons = compare(
        {key: OurFigure(None if value is None else value * 1.5) for key, value in published().items()}
    )
    agreeing = [comparison for comparison in comparisons if comparison.rule.expectation is Expectation.AGREES]
    large = [each for each in agreeing if each.rule.tolerance < 0.5 and each.published > 4]
    assert len(large) > 150
    assert {each.verdict for each in large} == {Verdict.OUTSIDE}
    signed = [comparison for comparison in comparisons if comparison.rule.expectation is Expectation.SIGN]
    assert {each.verdict for each in signed} == {Verdict.WITHIN}


def test_an_invariant_that_is_missed_by_one_is_outside() -> None:
    assert _one(protected(ONE, "State", TOTAL, "largest"), 1.0).verdict is Verdict.OUTSIDE
    assert _one(protected(ONE, "State", TOTAL, "privacy_loss"), 0.1).verdict is Verdict.OUTSIDE
    assert _one(protected(ONE, "State", TOTAL, "privacy_loss"), None).verdict is Verdict.WITHIN
    assert _one(protected(ONE, "County", TOTAL, "bias"), 0.01).verdict is Verdict.OUTSIDE


@given(st.sampled_from(AGREEING), st.floats(0.3, 3.0))
def test_a_figure_agrees_up_to_its_tolerance_and_its_steps_and_no_further(key, factor) -> None:
    value = published()[key]
    rule, steps = rule_of(key), rule_of(key).steps * step_of(key)
    largest, smallest = value * (1 + rule.tolerance) + steps, value / (1 + rule.tolerance) - steps
    ours = value * factor
    if min(abs(ours - largest), abs(ours - smallest)) > 1e-6:
        expected = Verdict.WITHIN if smallest < ours < largest else Verdict.OUTSIDE
        assert _one(key, ours).verdict is expected


@given(st.sampled_from(SIGNED), st.floats(0.01, 100))
def test_a_bias_of_the_other_sign_is_outside_however_small(key, size) -> None:
    published_sign = 1 if published()[key] > 0 else -1
    assert _one(key, size * published_sign).verdict is Verdict.WITHIN
    assert _one(key, -size * published_sign).verdict is Verdict.OUTSIDE
    assert _one(key, 0.0).verdict is Verdict.OUTSIDE


def test_an_interval_that_reaches_the_tolerance_leaves_it_undecided() -> None:
    value = published()[RMSE]
    assert _one(RMSE, value * 1.2, (value * 1.05, value * 1.35)).verdict is Verdict.UNDECIDED
    assert _one(RMSE, value * 1.2, (value * 1.15, value * 1.25)).verdict is Verdict.OUTSIDE
    key = bias_at(ONE, "Enumdist", 20)
    assert _one(key, -0.1, (-0.5, 0.3)).verdict is Verdict.UNDECIDED
    assert _one(key, -0.1, (-0.5, -0.01)).verdict is Verdict.OUTSIDE


def test_what_depends_on_data_is_never_a_failure_but_says_whether_it_was_foreseen() -> None:
    key = protected(ONE, "County", STRATA, "median_absolute")
    far, near, unsaid = _one(key, 60.0), _one(key, 5.0), _one(protected(ONE, "County", STRATA, "largest"), 9.0)
    assert {far.verdict, near.verdict, unsaid.verdict} == {Verdict.SHAPE}
    assert (far.close, near.close, unsaid.close) == (False, True, None)
    assert far.ratio == pytest.approx(10)


@pytest.mark.parametrize(("n", "expectation"), [(539_428, "agrees"), (0, "agrees"), (134_857, "depends on data")])
def test_losses_are_compared_at_equal_numbers_only(n, expectation) -> None:
    comparison = _one(LOSS, published()[LOSS], n=n)
    assert comparison.rule.expectation == expectation
    assert ("fewer residuals" in comparison.rule.reason) == (expectation != "agrees")
    assert _one(RMSE, published()[RMSE], n=n).rule.expectation is Expectation.AGREES


def test_what_is_not_measured_is_said_and_what_was_not_published_is_refused() -> None:
    comparisons = compare({RMSE: OurFigure(25.0, n=4)})
    assert sum(comparison.verdict is Verdict.MISSING for comparison in comparisons) == len(published()) - 1
    with pytest.raises(InputError, match=r"rmse of Enumdist, total \(epsilon 3\)"):
        compare({protected(Fraction(3), "Enumdist", TOTAL, "rmse"): OurFigure(1.0)})
    with pytest.raises(InputError, match="low end first"):
        OurFigure(1.0, (2.0, 1.0))


def test_tables_and_json_hold_every_row_with_its_class_and_reason() -> None:
    comparisons = compare({RMSE: OurFigure(26.0, (25.0, 27.0), 539_428)})
    read = list(csv.DictReader(io.StringIO(csv_text(comparison_table(comparisons)))))
    assert len(read) == len(published())
    assert all(row["class"] and row["reason"] and row["verdict"] for row in read)
    row = next(row for row in read if row["ours"])
    assert (row["setting"], row["published"], row["ours"], row["low"], row["n"]) == (
        "1.0",
        "25.65",
        "26.0",
        "25.0",
        "539428",
    )
    content = json.loads(Replication(comparisons, {}).to_json())
    assert [set(figure) == set(read[0]) for figure in content["figures"]] == [True] * len(read)
    assert sum(verdict["within tolerance"] for verdict in content["verdicts"]) == 1
    assert sum(sum(cell for cell in row if isinstance(cell, int)) for row in verdict_table(comparisons).rows) == len(
        published()
    )


def test_the_page_shows_what_was_measured_and_marks_what_is_outside() -> None:
    comparisons = compare({RMSE: OurFigure(260.0), LOSS: OurFigure(0.06, n=539_428)})
    shown = page(Replication(comparisons, {}).report())
    assert shown.count('class="marked"') == 1
    assert "rmse of Enumdist, total (epsilon 1)" in shown
    assert rule_of(RMSE).reason.split(":")[0] in shown
    assert "largest of State" not in shown
    assert not any(word in shown for word in ("<script", "http"))
