"""Another estimator in whole runs: an upward pass before the first estimate, and standard errors beside estimates.

It is a double (tests/core/doubles.py), registered under a name of its own; nothing else of the system knows of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from das_spark.config import stages_of
from das_spark.core import ESTIMATORS
from das_spark.errors import ConfigurationError
from das_spark.pipeline.runner import run_stages

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import doubles

pytestmark = [pytest.mark.slow, pytest.mark.verified]

DOUBLE = "estimation.estimator=double"


@pytest.fixture(params=["all", "inner"])
def upward(request, monkeypatch):
    """Registers the double, for this process and for workers."""
    cloudpickle.register_pickle_by_value(doubles)
    monkeypatch.setitem(ESTIMATORS, "double", doubles.TotalsFromAllLevels(request.param))
    yield request.param
    cloudpickle.unregister_pickle_by_value(doubles)


def test_stages_follow_from_what_the_estimator_declares(dry_workshop, upward):
    names = [stage.name for stage in stages_of(dry_workshop.plan(DOUBLE)) if stage.geolevel]
    first = ["State", "County", "Enumdist"][: 3 if upward == "all" else 2]
    last = [] if upward == "all" else ["measure Enumdist"]
    assert names == [
        *(f"measure {level}" for level in first),
        *(f"upward {level}" for level in reversed(first)),
        "estimate State",
        "estimate County",
        *last,
        "estimate Enumdist",
    ]


def test_an_estimator_that_is_not_there_is_refused_with_the_nearest(dry_workshop):
    with pytest.raises(ConfigurationError, match=r"'topdown' is no estimator; .*top_down"):
        dry_workshop.plan("estimation.estimator=topdown")


def test_runs_by_the_usual_estimator_keep_their_hash(dry_workshop):
    plain, named = dry_workshop.plan(), dry_workshop.plan("estimation.estimator=top_down")
    assert plain.config_hash == named.config_hash


def test_a_run_by_another_estimator_has_another_hash(dry_workshop, upward):
    assert dry_workshop.plan().config_hash != dry_workshop.plan(DOUBLE).config_hash


@pytest.mark.spark
@pytest.mark.whole_run
def test_a_whole_run_publishes_and_verifies_what_the_estimator_gives(workshop, upward, tools):
    summary = run_stages(workshop.plan(DOUBLE), run_id="double", test_key=tools.TEST_KEY, spark=workshop.spark)
    public = summary.layout.public
    assert json.loads(public.verification.read_text())["passed"]
    manifest = json.loads(public.manifest.read_text())
    described = {entry["path"].split("/")[0] for entry in manifest["data_dictionary"]}
    assert {"estimate_arrays", "upward", "upward_sums"} <= described
    assert manifest["config"]["estimation"]["estimator"] == "double"
    errors = {}
    for level in tools.LEVELS:
        rows = tools.rows_of(public.level("estimate_arrays", level))
        geounits = {row["geocode"] for row in tools.rows_of(public.level("geounits", level))}
        assert {(row["geocode"], row["name"]) for row in rows} == {
            (code, name) for code in geounits for name in ("mean", "standard_error")
        }
        errors[level] = {row["geocode"]: row["values"][0] for row in rows if row["name"] == "standard_error"}
        assert all(value > 0 for value in errors[level].values())
        measured = tools.rows_of(public.level("measurements", level))
        assert all(row["rows"] is None for row in measured) == (level != "Enumdist" or upward == "all")
    # A whole can be no less known than each of its parts: what came from below reached the top.
    assert errors["State"]["01"] ** 2 <= sum(
        value**2 for code, value in errors["County"].items() if code.startswith("01")
    )
