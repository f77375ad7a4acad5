"""The page of a sweep needs nothing from elsewhere, says that it is restricted, and shows the curve."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from made_study import made_run as study_run
from made_sweep import BUDGETS, made_run, made_runs, made_samples

from das_spark.evaluation.closest import percent
from das_spark.evaluation.sweep_page import PageTable, sweep_page
from das_spark.evaluation.sweep_report import sweep_report


@pytest.fixture(scope="module")
def report():
    return sweep_report(made_runs(), made_samples(), "epsilon")


@pytest.fixture(scope="module")
def page(report):
    return sweep_page(report)


def test_the_page_is_self_contained_and_marked_restricted(page):
    assert re.findall(r"<(?:script|link|iframe|img)\b", page) == []
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert re.findall(r"url\((?!#)", page) == []
    assert "RESTRICTED" in page
    assert "INSECURE" not in page


def test_runs_under_test_keys_are_marked(report):
    assert "INSECURE" in sweep_page(report, insecure=True)


def test_there_is_a_figure_with_its_caption_for_all_that_has_a_loss(page):
    # Figure 2 of the totals and of the strata of counties, figure 1 of these strata.
    assert page.count("<svg") == page.count("<figcaption>") == 3
    assert "simple random samples of the" in page
    assert "(1,800 residuals a point)" in page, "900 strata in each of two runs"
    assert "Without a point in the figure: 3 (the empirical privacy loss is undefined: all residuals are equal)" in page


def test_figures_1_and_3_show_all_budgets_side_by_side():
    runs = {Fraction(1, 2): [study_run(1), study_run(2)], Fraction(4): [study_run(3)]}
    page = sweep_page(sweep_report(runs, None, "epsilon"))
    assert page.count("Number of residuals by index: epsilon 1/2: 0 (2), 4 (98); epsilon 4: 0 (1), 4 (49)") == 2
    assert "County, marginal product: Residuals of totals" in page
    first = [line for line in page.splitlines() if "Left: number of strata of County" in line]
    assert len(first) == 1
    assert all(f"{label}: n = {n}" in first[0] for label, n in (("epsilon 1/2", 800), ("epsilon 4", 400)))


def test_every_budget_and_its_closest_samples_are_in_the_page(report, page):
    for total in BUDGETS:
        assert page.count(f"<tr><td>{total}</td>") == 2 + 3 + 1, "closest samples, three panels, and the runs"
    assert f"<td>{percent(report.closest_to(Fraction(4), 'County', 'total').by_median_absolute)}</td>" in page
    assert "cost epsilon = 11 together" in page


def test_names_are_escaped(page):
    assert "run &lt;1/2&gt; 1" in page
    assert "run <1/2>" not in page


def test_further_tables_stand_in_the_page_with_their_caption(report):
    table = PageTable("Published & ours", "From a table", ("figure", "ours"), (("MAE", "4 < 5"),))
    page = sweep_page(report, [table])
    assert "<h2>Published &amp; ours</h2>" in page
    assert "<td>MAE</td><td>4 &lt; 5</td>" in page


def test_one_run_without_samples_makes_a_page():
    page = sweep_page(sweep_report({Fraction(1, 2): [made_run(Fraction(1, 2), 1)]}, None, "rho"))
    assert "cost rho = 1/2 together" in page
    assert "Closest simple random samples" not in page
    assert "Simple random samples (" not in page
