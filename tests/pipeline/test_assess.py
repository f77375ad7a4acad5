"""Verification of a public root: what is not whole is not read. Evaluation of finished runs, and what it writes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError, OutputError
from das_spark.evaluation import report_from_json
from das_spark.io.layout import PublicLayout, RunLayout, open_run
from das_spark.io.manifest import PublicManifest
from das_spark.pipeline.assess import _subject, evaluate_runs, verify_public, write_accuracy
from das_spark.privacy import LedgerEntry
from das_spark.products import PRODUCTS

PRODUCT = PRODUCTS["e2e_1940"]
LEVELS = ["National", "State", "County", "Enumdist"]


def manifest() -> PublicManifest:
    budget = next(iter(PRODUCT.strategies.values())).budget
    levels = [
        {
            "geolevel": level.geolevel,
            "share": str(level.share),
            "queries": {each.query: str(each.share) for each in level.queries},
        }
        for level in budget.levels
    ]
    entry = LedgerEntry(
        "run", datetime(1940, 4, 1, tzinfo=UTC).isoformat(), PRODUCT.name, "persons", budget, insecure=True
    )
    return PublicManifest(
        "run",
        entry.created,
        product=PRODUCT.name,
        config={
            "geography": {"levels": LEVELS},
            "invariants": {"total_at": "State", "units": True},
            "output": {"microdata": ["text"]},
            "budget": {"framework": str(budget.framework), "total": str(budget.total), "levels": levels},
        },
        ledger=json.loads(entry.to_json()),
    )


def test_a_root_with_a_folder_that_is_not_whole_fails_without_being_read_and_says_which(tmp_path):
    layout = PublicLayout(tmp_path)
    manifest().save(layout.manifest)
    tables = ("geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics")
    folders = [layout.level(table, level) for table in tables for level in LEVELS]
    folders += [layout.microdata(kind, "text") for kind in ("person", "unit")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()
    (layout.level("estimates", "County") / "_SUCCESS").unlink()
    (layout.microdata("unit", "text") / "_SUCCESS").unlink()
    report = verify_public(None, layout)  # no session: nothing may be asked of it
    assert [(check.name, check.passed) for check in report.checks] == [
        ("folders are whole", False),
        ("ledger equals configuration", True),
    ]
    assert report.checks[0].failing == ("estimates/County", "microdata/unit.text")
    assert report.checks[0].checked == len(folders)
    assert not json.loads(layout.verification.read_text(encoding="utf-8"))["passed"]


def histograms(folder: Path, dense: np.ndarray, length: int) -> None:
    """A level of a table, as one part file and its marker."""
    folder.mkdir(parents=True)
    cells = [np.flatnonzero(row) for row in dense]
    columns = {
        "geocode": pa.array([f"{number:0{length}d}" for number in range(len(dense))]),
        "parent": pa.array(["0"] * len(dense)),
        "cells": pa.array(cells, pa.list_(pa.int32())),
        "counts": pa.array([row[place] for row, place in zip(dense, cells, strict=True)], pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def finished_run(root: Path, name: str, seed: int) -> tuple[RunLayout, np.ndarray, np.ndarray]:
    """A run of four levels that all have the same six geounits, for the arithmetic only."""
    layout = RunLayout.at(root, name)
    open_run(layout, "0" * 64)
    manifest().save(layout.public.manifest)
    rng = np.random.default_rng(0)
    truth = rng.poisson(2, (6, PRODUCT.schema.size)) * rng.integers(0, 2, (6, PRODUCT.schema.size))
    truth[0] = 0
    estimate = np.maximum(truth + np.random.default_rng(seed).integers(-2, 3, truth.shape), 0)
    for level in LEVELS:
        histograms(layout.restricted.level("histograms", level), truth, 4)
        histograms(layout.public.level("estimates", level), estimate, 4)
    return layout, truth, estimate


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_every_product_has_something_to_compare_and_groups_to_look_at_first(product):
    measured = [
        each.query
        for strategy in product.strategies.values()
        for level in strategy.budget.levels
        for each in level.queries
    ]
    subject = _subject(product, measured)
    for level in product.default_levels:
        queries = subject.comparison(level).queries
        assert queries[0].name == "total"
        assert len(set(queries)) == len(queries)
        assert {*map(product.schema.query, measured), subject.strata, subject.groups} <= set(queries)
        assert subject.groups.rows > 1
    assert subject.counted == product.counted


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_runs_are_evaluated_by_all_that_they_measure_and_written_for_their_owner_alone(tmp_path):
    runs = [finished_run(tmp_path / "runs", name, seed) for seed, name in enumerate(("a", "b"), start=1)]
    reports = evaluate_runs([layout.folder for layout, _, _ in runs])
    measured = {query for level in manifest().config["budget"]["levels"] for query in level["queries"]}
    for report, (_, truth, estimate) in zip(reports, runs, strict=True):
        names = {line.query for line in report.errors}
        wanted = {"total", "detailed", "hispanic * race", PRODUCT.strata, *map(PRODUCT.schema.query, measured)}
        assert {getattr(query, "name", query) for query in wanted} <= names
        assert {attribute.name for attribute in PRODUCT.schema.attributes} <= names
        detailed = report.errors_of("Enumdist", "detailed").whole
        assert detailed.frequencies.absolute_sum == np.abs(estimate - truth).sum()
        assert detailed.counted == truth.sum()
        assert report.groups == "hispanic * race"
        assert report.criterion("Enumdist", "largest group", "hispanic * race", "fifties").whole.undefined == 1
    out = tmp_path / "new" / "accuracy"
    write_accuracy(reports, out)
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()} == {
        "accuracy.json": 0o600,
        "accuracy.html": 0o600,
    }
    text = (out / "accuracy.json").read_text()
    assert report_from_json(text).runs == ("a", "b")
    assert json.loads(text)["spread"]
    assert "RESTRICTED" in (out / "accuracy.html").read_text()
    with pytest.raises(InputError, match="no accuracy report"):
        write_accuracy([], out)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_run_without_its_confidential_histograms_is_not_evaluated(tmp_path):
    layout, _, _ = finished_run(tmp_path / "runs", "a", 1)
    (layout.restricted.level("histograms", "County") / "_SUCCESS").unlink()
    with pytest.raises(OutputError, match="histograms of County"):
        evaluate_runs([layout.folder])
