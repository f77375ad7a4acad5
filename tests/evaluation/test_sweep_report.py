"""The curve of a sweep: pooled per budget, in people for samples of any share, and closest by the rules."""

from __future__ import annotations

import csv
from fractions import Fraction

import numpy as np
import pytest
from made_sweep import BUDGETS, PLACES, SHARES, made_run, made_runs, made_samples
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation import frequencies_of, report_from_json
from das_spark.evaluation.closest import closest_csv
from das_spark.evaluation.sampling import SampleEntry, SampleReport
from das_spark.evaluation.sweep_report import curve_csv, sweep_report

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
            low, high = stats.t.interval(0.95, 1, np.mean(medians), stats.sem(medians) or 1e-300)
            assert (point.over_runs.low, point.over_runs.high) == (pytest.approx(low), pytest.approx(high))


def test_residuals_of_samples_are_people_whatever_the_share(report):
    for place, measure, _, _ in PLACES:
        for point in report.curve("sample", place, measure):
            entries = [each for each in made_samples().entries if (each.place, each.measure) == (place, measure)]
            people = np.concatenate([expanded(each.frequencies) for each in entries if each.share == point.size])
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


def rows_of(text):
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["classification"] for row in rows} == {"RESTRICTED"}
    return rows


def test_the_tables_hold_every_point_in_full(report):
    rows = rows_of(curve_csv(report))
    assert len(rows) == len(report.points) == len(PLACES) * (len(BUDGETS) + len(SHARES))
    for row, point in zip(rows, report.points, strict=True):
        assert (row["kind"], Fraction(row["size"]), row["place"]) == (point.kind, point.size, point.place)
        assert float(row["rmse"]) == point.figures.rmse
        assert row["privacy_loss"] == ("" if point.loss.value is None else repr(point.loss.value))
        assert bool(row["run_median_low"]) == (point.kind == "release")
    closest = rows_of(closest_csv(report.closest, report.budget))
    assert len(closest) == 2 * len(BUDGETS)
    found = report.closest_to(Fraction(1, 2), *STRATA)
    (row,) = [each for each in closest if (each["epsilon"], each["place"], each["measure"]) == ("1/2", *STRATA)]
    assert row["by_median_absolute"] == str(found.by_median_absolute)


def test_reports_that_were_written_and_read_give_the_same_curve(report):
    read = {total: [report_from_json(run.to_json()) for run in runs] for total, runs in made_runs().items()}
    samples = SampleReport.from_json(made_samples().to_json())
    assert curve_csv(sweep_report(read, samples, "epsilon")) == curve_csv(report)
