"""The curve of a sweep: pooled per budget, in people for samples of any share, and closest by the rules."""

from __future__ import annotations

import csv
import re
from fractions import Fraction

import numpy as np
import pytest
from made_study import made_run as study_run
from made_sweep import BUDGETS, PLACES, SHARES, made_run, made_runs, made_samples
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation import GridPoint, SampleReport, frequencies_of, present_sweep, report_from_json, sweep_report
from das_spark.evaluation.samples import SampleEntry
from das_spark.report import ReportTable, csv_files, page, percent

STRATA = ("County", "race * hispanic")


@pytest.fixture(scope="module")
def report():
    return sweep_report(made_runs(), made_samples(), "epsilon")


def expanded(frequencies):
    return np.repeat(frequencies.values, frequencies.counts)


def test_every_budget_has_the_residuals_of_all_of_its_runs(report):
    for place, measure, _, n in PLACES:
        points = report.curve("release", place, measure)
        assert [point.size for point in points] == sorted(BUDGETS)
        for point in points:
            each = [expanded(made_run(point.size, number).entry(place, measure).frequencies) for number in (1, 2)]
            residuals = np.concatenate(each)
            assert point.figures.n == 2 * n
            assert point.figures.median_absolute == np.median(np.abs(residuals))
            assert point.figures.p95_absolute == pytest.approx(np.quantile(np.abs(residuals), 0.95))
            assert point.figures.rmse == pytest.approx(np.sqrt(np.mean(residuals**2.0)))
            medians = [np.median(np.abs(run)) for run in each]
            if medians[0] == medians[1]:
                assert point.over_runs is None, "4 in both of two runs is no interval of 95 % from 4 to 4"
                continue
            low, high = stats.t.interval(0.95, 1, np.mean(medians), stats.sem(medians))
            assert (point.over_runs.low, point.over_runs.high) == (pytest.approx(low), pytest.approx(high))


def test_residuals_of_samples_are_people_whatever_the_share(report):
    for place, measure, _, _ in PLACES:
        for point in report.curve("sample", place, measure):
            entries = [entry for entry in made_samples().entries if (entry.place, entry.measure) == (place, measure)]
            people = np.concatenate([expanded(entry.frequencies) for entry in entries if entry.share == point.size])
            people = people / point.size.numerator
            assert point.figures.median_absolute == pytest.approx(np.median(np.abs(people)))
            assert point.over_runs is None


def test_the_privacy_loss_of_a_sample_is_read_in_steps_of_a_person():
    share = Fraction(3, 10)  # residuals are kept in thirds of people
    thirds = np.random.default_rng(3).normal(0, 60, 2000).round().astype(np.int64)
    entry = SampleEntry(share, 0, *STRATA, frequencies_of(thirds))
    (point,) = sweep_report(made_runs(), SampleReport((share,), (0,), (entry,)), "epsilon").curve("sample", *STRATA)
    people = thirds / 3
    bound = max(map(abs, np.quantile(people, (0.05, 0.95))))
    centres = np.arange(-bound, bound, 1)[:-1] + 0.5
    density = stats.gaussian_kde(people, 0.1)(centres)
    assert point.loss.value == pytest.approx(np.abs(np.diff(np.log(density))).max(), rel=1e-6)


def test_more_budget_is_less_error_and_comes_closer_to_a_larger_sample(report):
    errors = [point.figures.median_absolute for point in report.curve("release", *STRATA)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[-1]
    shares = [report.closest_to(total, *STRATA).by_median_absolute for total in sorted(BUDGETS)]
    assert shares == sorted(shares)


def test_what_is_exact_is_not_compared_and_its_loss_is_undefined(report):
    for total in BUDGETS:
        assert report.closest_to(total, "State", "total") is None
    assert all(point.loss.value is None for point in report.curve("release", "State", "total"))
    assert all("equal" in point.loss.why_undefined for point in report.curve("release", "State", "total"))


def test_one_run_has_no_interval_and_without_samples_nothing_is_close():
    alone = sweep_report({Fraction(1): [made_run(Fraction(1), 1)]}, None, "rho")
    assert alone.closest == ()
    assert all(point.over_runs is None for point in alone.points)
    assert alone.cost == 1
    with pytest.raises(InputError, match="without runs"):
        sweep_report({}, None, "rho")


def test_the_cost_is_that_of_all_runs(report):
    assert report.cost == 2 * sum(BUDGETS)
    assert report.notes == ("7 geounits lie nowhere",)


def curve_of(report):
    return csv_files(present_sweep(report))["curve.restricted.csv"]


def rows_of(text):
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["classification"] for row in rows} == {"RESTRICTED"}
    return rows


def test_the_tables_hold_every_point_in_full(report):
    rows = rows_of(curve_of(report))
    assert len(rows) == len(report.points) == len(PLACES) * (len(BUDGETS) + len(SHARES))
    for row, point in zip(rows, report.points, strict=True):
        assert (row["kind"], Fraction(row["size"]), row["place"]) == (point.kind, point.size, point.place)
        assert float(row["rmse"]) == point.figures.rmse
        assert row["privacy_loss"] == ("" if point.loss.value is None else repr(point.loss.value))
        assert bool(row["run_median_low"]) == (point.over_runs is not None)
        assert point.kind == "release" or point.over_runs is None
    closest = rows_of(csv_files(present_sweep(report))["closest_samples.restricted.csv"])
    assert len(closest) == 2 * len(BUDGETS)
    found = report.closest_to(Fraction(1, 2), *STRATA)
    (row,) = [each for each in closest if (each["epsilon"], each["place"], each["measure"]) == ("1/2", *STRATA)]
    assert row["by_median_absolute"] == str(found.by_median_absolute)


def test_reports_that_were_written_and_read_give_the_same_curve(report):
    read = {total: [report_from_json(run.to_json()) for run in runs] for total, runs in made_runs().items()}
    samples = SampleReport.from_json(made_samples().to_json())
    assert curve_of(sweep_report(read, samples, "epsilon")) == curve_of(report)


def shown(report):
    return page(present_sweep(report))


@pytest.fixture(scope="module")
def whole_page(report):
    return shown(report)


def test_the_page_is_marked_restricted(whole_page):
    assert "RESTRICTED" in whole_page
    assert "INSECURE" not in whole_page


def test_runs_under_test_keys_are_marked(report):
    assert "INSECURE" in page(present_sweep(report, insecure=True))


def test_there_is_a_figure_with_its_caption_for_all_that_has_a_loss(whole_page):
    # What a budget buys; figure 2 of the totals and of the strata of counties, figure 1 of these strata.
    assert whole_page.count('class="broad"><svg') == whole_page.count("<figcaption>") == 4
    assert "simple random samples of the" in whole_page
    assert "(1,800 residuals a point)" in whole_page, "900 strata in each of two runs"
    assert (
        "Without a point in the figure: 3 (the empirical privacy loss is undefined: all residuals are equal)"
        in whole_page
    )


def test_figures_1_and_3_show_all_budgets_side_by_side():
    runs = {Fraction(1, 2): [study_run(1), study_run(2)], Fraction(4): [study_run(3)]}
    text = shown(sweep_report(runs, None, "epsilon"))
    assert text.count("Number of residuals by index: epsilon 1/2: 0 (2), 4 (98); epsilon 4: 0 (1), 4 (49)") == 2
    assert "Bias by homogeneity index: County, marginal product</p>" in text
    first = re.findall(r"<figcaption>Left: number of strata of County.*", text)
    assert len(first) == 1
    assert all(f"{label}: n = {n}" in first[0] for label, n in (("epsilon 1/2", 800), ("epsilon 4", 400)))


def test_every_budget_and_its_closest_samples_are_in_the_page(report, whole_page):
    for total in BUDGETS:
        assert len(re.findall(rf"<tr>\s*<th scope=.row.>{total}</th>", whole_page)) == 2 + 3 + 1
    assert f"<td>{percent(report.closest_to(Fraction(4), 'County', 'total').by_median_absolute)}</td>" in whole_page
    assert "cost epsilon = 11 together" in whole_page


def test_names_are_escaped(whole_page):
    assert "run &lt;1/2&gt; 1" in whole_page
    assert "run <1/2>" not in whole_page


def test_further_tables_stand_in_the_page_with_their_caption(report):
    table = ReportTable.of("ours", "Published & ours", ("figure", "ours"), [("MAE", "4 < 5")], note="From a table")
    text = page(present_sweep(report, [table]))
    assert ">Published &amp; ours</h2>" in text
    assert "4 &lt; 5</td>" in text


def test_one_run_without_samples_makes_a_page():
    text = shown(sweep_report({Fraction(1, 2): [made_run(Fraction(1, 2), 1)]}, None, "rho"))
    assert "cost rho = 1/2 together" in text
    assert "Closest simple random samples" not in text
    assert "Simple random samples (" not in text


VARIANTS = {"estimator top_down": ("estimation.estimator=top_down",), "estimator blue_down": ("b=2",)}


@pytest.fixture(scope="module")
def varied():
    """The second variant has the residuals that the first one has with twice the budget."""
    runs = {
        GridPoint(total, variant): [made_run(total * factor, number) for number in (1, 2)]
        for variant, factor in zip(VARIANTS, (1, 2), strict=True)
        for total in (Fraction(4), Fraction(1, 2))
    }
    return sweep_report(runs, made_samples(), "epsilon", variants=VARIANTS)


def test_settings_that_vary_are_pooled_apart_and_named_everywhere(varied):
    budgets = (Fraction(1, 2), Fraction(4))
    assert list(varied.runs) == [GridPoint(total, variant) for variant in VARIANTS for total in budgets]
    errors = {(point.variant, point.size): point.figures.median_absolute for point in varied.curve("release", *STRATA)}
    alone = sweep_report({Fraction(1): [made_run(Fraction(1), number) for number in (1, 2)]}, None, "epsilon")
    assert errors["estimator blue_down", Fraction(1, 2)] == alone.curve("release", *STRATA)[0].figures.median_absolute
    rows = rows_of(curve_of(varied))
    released = [(row["variant"], row["size"]) for row in rows if row["kind"] == "release"]
    assert set(released) == {(variant, str(total)) for variant in VARIANTS for total in budgets}
    assert {row["variant"] for row in rows if row["kind"] == "sample"} == {""}
    closest = rows_of(csv_files(present_sweep(varied))["closest_samples.restricted.csv"])
    for row in closest:
        found = varied.closest_to(Fraction(row["epsilon"]), row["place"], row["measure"], row["variant"])
        assert row["by_median_absolute"] == str(found.by_median_absolute)
    assert len(closest) == 2 * 2 * 2
    assert varied.cost == 2 * 2 * sum(budgets)


def test_the_page_of_settings_says_what_varied(varied):
    text = shown(varied)
    assert "(2 budgets, 2 settings)" in text
    assert "estimation.estimator=top_down" in text, "the settings stand in full beside the runs"
    for variant in VARIANTS:
        assert f"{variant}, epsilon 1/2: n =" in text, "curves of residuals are named by what varied"
        assert text.count(f"<td>{variant}</td>") + text.count(f">{variant}</th>") >= 2


def test_the_first_sentence_says_which_settings_err_least_at_one_budget(varied):
    text = present_sweep(varied).verdict
    assert text.startswith("Mean errors at epsilon 4: ")
    points = {each.variant: each.figures.mean_absolute for each in varied.curve("release", *STRATA) if each.size == 4}
    least, most = sorted(points, key=points.__getitem__)
    assert text.index(f"with {least}") < text.index(f"with {most}")
    assert f"{points[least]:.3g} people with {least} to {points[most]:.3g} people with {most}." in text
    apart = {GridPoint(Fraction(at), variant): [made_run(Fraction(1), at)] for at, variant in enumerate(VARIANTS, 1)}
    alone = sweep_report(apart, None, "rho", variants=VARIANTS)
    assert not present_sweep(alone).verdict, "no budget is that of two settings"


def test_one_budget_is_left_out_of_labels_of_settings():
    runs = {GridPoint(Fraction(1), variant): [made_run(Fraction(1), 1)] for variant in VARIANTS}
    report = sweep_report(runs, None, "rho", variants=VARIANTS)
    assert [report.label(point) for point in report.runs] == list(VARIANTS)
    assert [report.label(GridPoint(Fraction(1)))] == ["rho 1"]
