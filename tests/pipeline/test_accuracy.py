"""Evaluation of finished runs: by all that they measure, beside a truth of their own or another, and side by side."""

import csv
import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from made_runs import LEVELS, PRODUCT, finished_run, manifest

from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.evaluation import report_from_json, study_of
from das_spark.evaluation.comparison import PAIRED
from das_spark.evaluation.tallies import EMPTY_STRATA, MARGINAL_PRODUCT
from das_spark.pipeline import accuracy
from das_spark.pipeline.accuracy import evaluate_runs, study_runs
from das_spark.pipeline.compare import compare_runs
from das_spark.pipeline.evaluation_files import write_accuracy, write_comparison
from das_spark.pipeline.samples import require_one_population, sample_run
from das_spark.products import PRODUCTS
from das_spark.spark.evaluate import Subject
from das_spark.spark.finished_runs import alike_runs


def errors_of(report, place, query):
    """All errors of a query in a geolevel."""
    return next(line.all_classes for line in report.errors if (line.place, line.query) == (place, query))


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_every_product_has_something_to_compare_and_groups_to_look_at_first(product):
    measured = [
        query.query
        for strategy in product.strategies.values()
        for level in strategy.budget.levels
        for query in level.queries
    ]
    subject = Subject.of(product, measured)
    for level in product.default_levels:
        queries = subject.comparison(level).queries
        assert queries[0].name == "total"
        assert len(set(queries)) == len(queries)
        assert {*map(product.schema.query, measured), subject.strata, subject.groups} <= set(queries)
        assert subject.groups.rows > 1
    assert subject.counted == product.counted


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.slow
def test_runs_are_evaluated_by_all_that_they_measure_and_written_for_their_owner_alone(tmp_path):
    runs = [finished_run(tmp_path / "runs", name, seed) for seed, name in enumerate(("a", "b"), start=1)]
    reports = evaluate_runs([layout.folder for layout, _, _ in runs])
    measured = {query for level in manifest().config["budget"]["levels"] for query in level["queries"]}
    for report, (_, truth, estimate) in zip(reports, runs, strict=True):
        names = {line.query for line in report.errors}
        wanted = {"total", "detailed", "hispanic * race", PRODUCT.strata, *map(PRODUCT.schema.query, measured)}
        assert {getattr(query, "name", query) for query in wanted} <= names
        assert {attribute.name for attribute in PRODUCT.schema.attributes} <= names
        detailed = errors_of(report, "Enumdist", "detailed")
        assert detailed.frequencies.absolute_sum == np.abs(estimate - truth).sum()
        assert detailed.counted == truth.sum()
        assert report.groups == "hispanic * race"
        for definition in (EMPTY_STRATA, MARGINAL_PRODUCT):
            (line,) = (each for each in report.homogeneity if (each.place, each.definition) == ("Enumdist", definition))
            parts = dict(line.parts)
            assert sum(part.total for part in parts.values()) == len(truth)
            assert parts[24].total == 1  # nobody lives in the first geounit
        (line,) = (headline for headline in report.headlines("largest group") if headline.place == "Enumdist")
        assert (line.query, line.all_classes.undefined) == ("hispanic * race", 1)
    folders = [layout.folder for layout, _, _ in runs]
    require_one_population(alike_runs(folders))
    others, _, _ = finished_run(tmp_path / "runs", "c", 3, people=3)
    with pytest.raises(InputError, match=r"a and .*c have different confidential histograms: samples") as refused:
        study_runs([*folders, others.folder], shares=(Fraction(1, 2),))
    assert "same input" in refused.value.hint
    require_one_population(alike_runs([*folders, others.folder]), truth=folders[0])
    samples = sample_run(runs[0][0].folder, (Fraction(1, 2),), (0, 1))
    out = tmp_path / "new" / "accuracy"
    names = write_accuracy(reports, study_of(reports, samples, replicates=40), out)
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()} == {name: 0o600 for name in names}
    tables = {f"{name}.restricted.csv" for name in ("statistics", "homogeneity", "closest_samples")}
    assert set(names) == tables | {"accuracy.json", "accuracy.html", "samples.json"}
    for name in names:
        if name.endswith(".csv"):  # by its name and by a column, so that any program reads it as it is
            assert name.endswith(".restricted.csv")
            assert set(pd.read_csv(out / name)["classification"]) == {"RESTRICTED"}
    text = (out / "accuracy.json").read_text()
    assert report_from_json(text).runs == ("a", "b")
    assert json.loads(text)["spread"]
    assert {"statistics", "closest_samples"} <= json.loads(text).keys()
    page = (out / "accuracy.html").read_text()
    assert "RESTRICTED" in page
    assert "as good as the release" in page
    assert len(list(csv.reader((out / "closest_samples.restricted.csv").open()))) == 1 + 2 * len(LEVELS)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_run_without_its_confidential_histograms_is_not_evaluated(tmp_path):
    layout, _, _ = finished_run(tmp_path / "runs", "a", 1)
    (layout.restricted.level("histograms", "County") / "_SUCCESS").unlink()
    with pytest.raises(OutputError, match="histograms of County"):
        evaluate_runs([layout.folder])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_no_session_that_shuffles_in_the_clear_reads_the_truth(tmp_path, monkeypatch):
    layout, _, _ = finished_run(tmp_path / "runs", "a", 1)
    plain = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", getConf=lambda: {}))
    monkeypatch.setattr(accuracy, "session", lambda *_, **__: plain)
    with pytest.raises(PrivacyGuardError, match=r"spark\.io\.encryption\.enabled"):
        evaluate_runs([layout.folder])


@pytest.mark.slow
def test_a_run_is_compared_with_the_truth_of_another_one_if_it_is_of_the_same_geounits(tmp_path):
    holder, truth, _ = finished_run(tmp_path, "holder", 1)
    bare, _, estimate = finished_run(tmp_path, "bare", 2, people=5)
    for level in LEVELS:
        (bare.restricted.level("histograms", level) / "_SUCCESS").unlink()
    (report,) = evaluate_runs([bare.folder], truth=holder.folder)
    assert errors_of(report, "County", "detailed").frequencies.absolute_sum == np.abs(estimate - truth).sum()
    part = bare.public.level("estimates", "Enumdist") / "part-0.parquet"
    other = holder.public.level("estimates", "Enumdist") / "part-0.parquet"
    text = pq.read_table(other).slice(1)
    pq.write_table(text, part)
    with pytest.raises(InputError, match=r"other geography: 1 geounits of Enumdist .* such as 0000"):
        evaluate_runs([bare.folder], truth=holder.folder)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.slow
def test_runs_of_different_budgets_are_not_pooled_but_compared(tmp_path):
    names = ("a", "b", "c", "d")
    runs = {
        name: finished_run(tmp_path, name, seed, total=total, width=width)
        for name, seed, total, width in zip(names, range(4), ("4", "2", "4", "2"), (1, 4, 1, 4), strict=True)
    }
    folders = [layout.folder for layout, _, _ in runs.values()]
    with pytest.raises(InputError, match=r"cannot be pooled: budget.total is 4 and 2") as refused:
        evaluate_runs(folders)
    assert "--compare" in refused.value.hint
    found = compare_runs(folders)
    assert (found.first, found.second) == (("a", "c"), ("b", "d"))
    assert found.differing == {"budget.total": ("4", "2")}
    line = next(
        line for line in found.lines if (line.place, line.measure, line.statistic) == ("County", "total", PAIRED)
    )
    residuals = {name: np.abs((estimate - truth).sum(axis=1)) for name, (_, truth, estimate) in runs.items()}
    means = [(residuals[one] - residuals[other]).mean() for one, other in (("a", "b"), ("c", "d"))]
    assert line.difference == pytest.approx(np.mean(means))
    assert line.interval.over == "runs"
    assert found.method == "welch"
    together = compare_runs(folders, paired=True)
    assert together.method == "paired_runs"
    same = next(
        line for line in together.lines if (line.place, line.measure, line.statistic) == ("County", "total", PAIRED)
    )
    assert same.difference == pytest.approx(line.difference)
    names = write_comparison(found, tmp_path / "out")
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {
        name: 0o600 for name in names
    }
    with pytest.raises(InputError, match="needs two or more"):
        compare_runs(folders[:2], over="runs")
    with pytest.raises(InputError, match="2 runs beside 1"):
        compare_runs(folders[:3])
    elsewhere, _, _ = finished_run(tmp_path, "e", 9, total="2", people=3)
    with pytest.raises(InputError, match="different confidential histograms"):
        compare_runs([folders[0], elsewhere.folder])


def test_a_comparison_needs_two_configurations_and_no_more(tmp_path):
    folders = [finished_run(tmp_path, str(at), at, total=total)[0].folder for at, total in enumerate("4412")]
    with pytest.raises(InputError, match="nothing to compare"):
        compare_runs(folders[:1])
    with pytest.raises(InputError, match="more than two configurations"):
        compare_runs(folders)
    third = finished_run(tmp_path, "third", 7, total="4")[0].folder
    with pytest.raises(InputError, match="all 3 runs were made in the same way"):
        compare_runs([*folders[:2], third])
