"""Whole runs by `blue_down`: verified, resumed within the pass upwards, and estimated again from the public folder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from das_spark.config import levels_together, stages_of
from das_spark.pipeline import estimate_from, open_source, run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

BLUE = "estimation.estimator=blue_down"
EVERY_ROW = "measurement.rows=all"
#: Tables that follow from the input, the key and the plan.
COMPARED = ("measurements", "upward", "upward_sums", "estimates")


def go(workshop: Any, run_id: str, key: str, until: str | None = None) -> Any:
    return run_stages(workshop.plan(BLUE), run_id=run_id, test_key=key, spark=workshop.spark, until=until)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark, tools) -> Any:
    """A run in one go, and its workshop."""
    workshop = tools.Workshop(tmp_path_factory.mktemp("blue"), spark)
    return workshop, go(workshop, "whole", tools.TEST_KEY).layout.public


def require_same_bytes(public: Any, other: Any, tools: Any) -> None:
    for table in COMPARED:
        assert tools.checksums(public.table(table)) == tools.checksums(other.table(table)), table


def test_a_whole_run_passes_every_check_and_publishes_what_went_upwards(whole, tools):
    workshop, public = whole
    report = json.loads(public.verification.read_text())
    assert report["passed"] is True
    assert all(check["passed"] for check in report["checks"])
    manifest = json.loads(public.manifest.read_text())
    described = {entry["path"].split("/")[0] for entry in manifest["data_dictionary"]}
    assert {"upward", "upward_sums"} <= described
    levels = {table: [path.name for path in sorted(public.table(table).iterdir())] for table in COMPARED[1:3]}
    assert levels == {"upward": ["level=County", "level=State"], "upward_sums": ["level=State"]}
    for table, level in (("upward", "State"), ("upward", "County"), ("upward_sums", "State")):
        rows = tools.rows_of(public.level(table, level))
        geounits = {row["geocode"] for row in tools.rows_of(public.level("geounits", level))}
        assert {row["geocode"] for row in rows} == geounits
    sentence = levels_together(workshop.plan(BLUE))
    assert manifest["estimation"] == sentence
    assert sentence in public.privacy_statement.read_text()
    # All rows of the levels that went upwards, and the lowest as lazily as ever.
    kept = {
        level: {row["rows"] is None for row in tools.rows_of(public.level("measurements", level))}
        for level in tools.LEVELS
    }
    assert (kept["State"], kept["County"]) == ({True}, {True})
    assert False in kept["Enumdist"]


def test_a_run_that_stopped_on_its_way_upwards_goes_on_to_the_same_bytes(whole, tools):
    workshop, public = whole
    names = [stage.name for stage in stages_of(workshop.plan(BLUE))]
    assert names[names.index("upward County") + 1] == "upward State"
    for until in ("upward County", "upward State"):
        summary = go(workshop, "stopped", tools.TEST_KEY, until)
        assert summary.figures["next stage"] == names[names.index(until) + 1]
        assert not summary.layout.public.table("estimates").exists()
    stopped = go(workshop, "stopped", tools.TEST_KEY).layout.public
    require_same_bytes(stopped, public, tools)


def test_estimates_are_made_again_from_the_public_folder(whole, tmp_path, tools):
    _, public = whole
    again = estimate_from(open_source(public.path, None, [f"output.root={tmp_path}"]), run_id="again")
    require_same_bytes(again.layout.public, public, tools)


def test_a_run_that_keeps_every_answer_goes_upwards_from_the_lowest_level(whole, tmp_path, tools):
    workshop, other = whole
    plan = workshop.plan(BLUE, EVERY_ROW)
    public = run_stages(plan, run_id="every-row", test_key=tools.TEST_KEY, spark=workshop.spark).layout.public
    assert json.loads(public.verification.read_text())["passed"] is True
    assert sorted(path.name for path in public.table("upward").iterdir()) == [
        f"level={level}" for level in sorted(tools.LEVELS)
    ]
    estimates = [tools.level_rows(each.path, ("estimates",)) for each in (public, other)]
    assert estimates[0] != estimates[1]
    # A run by another estimator that kept every answer has the same measurements, and so the same estimates by this.
    measured = run_stages(workshop.plan(EVERY_ROW), run_id="top-down", test_key=tools.TEST_KEY, spark=workshop.spark)
    again = estimate_from(open_source(measured.layout.folder, None, [f"output.root={tmp_path}", BLUE]), run_id="again")
    for table in COMPARED:
        levels = tools.LEVELS[:-1] if table == "upward_sums" else tools.LEVELS
        made, expected = (tools.level_rows(each.path, (table,), levels) for each in (again.layout.public, public))
        assert made == expected, table
