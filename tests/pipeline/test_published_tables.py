"""A run on a table of counts as an office publishes it, from the run file alone."""

from __future__ import annotations

import json

import pytest

from das_spark import open_run
from das_spark.config import load_plan, plan_from_config, plan_to_config
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

PRODUCT = """
name = "published"
geolevels = [{name = "Country", length = 0}, {name = "Town", length = 2}]
total_at = "Town"
attributes = [{name = "age", levels = ["Young", "Old"]}]
[[strategies]]
name = "main"
framework = "pure_dp"
total = "1"
geolevels = {Country = "1/2", Town = "1/2"}
queries = {detailed = "1"}
"""
RUN = """
config_version = 1
[run]
product = "product.toml"
[input]
reader = "published_tables"
persons = "counts.csv"
dataset = "published"
columns = {geocode = "code"}
delimiter = ";"
[[input.cells]]
column = "under 18"
levels = {age = "Young"}
[[input.cells]]
column = "all"
minus = ["under 18"]
levels = {age = "Old"}
[invariants]
units = false
[budget]
strategy = "main"
"""


def test_a_table_of_an_office_is_an_input_by_its_run_file_alone(tmp_path, spark, tools):
    rows = [f"{code:02d};{30 * code};{10 * code}" for code in range(1, 7)]
    (tmp_path / "counts.csv").write_text("\n".join(["code;all;under 18", *rows]) + "\n")
    (tmp_path / "product.toml").write_text(PRODUCT)
    (tmp_path / "run.toml").write_text(RUN)
    paths = [f"input.persons={tmp_path / 'counts.csv'}", f"output.root={tmp_path / 'runs'}"]
    plan = load_plan(tmp_path / "run.toml", settings=paths)
    config = json.loads(json.dumps(plan_to_config(plan)))
    assert plan_from_config(config, source="manifest").input.cells == plan.input.cells
    run_stages(plan, run_id="counts", test_key=tools.TEST_KEY, spark=spark)
    found = open_run(tmp_path / "runs" / "counts").estimates("Town").pandas()
    assert found.groupby("geocode")["count"].sum().to_dict() == {f"{code:02d}": 30 * code for code in range(1, 7)}
    assert set(found["age"]) == {"Young", "Old"}
