"""The system that audits run is the one that Spark runs: the same bytes as the tasks called by this folder's own code.

That those are the bytes of a whole run on Spark is shown beside (`test_spark_equals_local`), on the same census.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from local_system import Rule, run_system
from small_census import made_of

from das_spark.config import load_plan
from das_spark.constraints import AddedConstraint, Sense
from das_spark.pipeline.audit import LocalSystem, SmallPopulation
from das_spark.privacy import RunKey

pytestmark = pytest.mark.whole_run

KEY = "spark equals local"
EPSILON = 3
CONF = Path(__file__).parents[2] / "conf" / "e2e_1940.toml"
LEVELS = {"State": 2, "County": 6, "Enumdist": 10}
RULE = Rule("some Chinese everywhere", "race", (0, 0, 0, 5, 0, 0))


@pytest.fixture(scope="module")
def plan():
    return load_plan(CONF, (), [f"budget.epsilon={EPSILON}"], files=False)


def released(plan, census):
    system = LocalSystem(plan)
    population = SmallPopulation(census.geocodes, census.counts, census.units)
    return system.run(system.ingest(population), RunKey.insecure(KEY))


def rows(table: pa.Table | list[pa.RecordBatch]) -> list[dict]:
    """Measurements in one order."""
    return sorted(
        (row for batch in (table.to_batches() if isinstance(table, pa.Table) else table) for row in batch.to_pylist()),
        key=lambda row: (row["geocode"], row["query"]),
    )


def require_equal(release, run, census):
    for level in census.levels:
        own = [batch for (name, _), batches in release.measurements.items() if name == level for batch in batches]
        assert rows(own) == rows(run.tables[level]), level
        dense = np.zeros_like(run.estimates[level])
        for place, code in enumerate(census.codes(level)):
            cells, counts = release.estimates[level][code]
            dense[place, cells] = counts
        np.testing.assert_array_equal(dense, run.estimates[level])


def test_measurements_and_estimates_are_the_same(plan, census):
    release = released(plan, census)
    assert release.failed == ()
    require_equal(release, run_system(census, EPSILON, KEY), census)


def test_added_constraints_do_the_same(tmp_path, plan):
    made = made_of({"010001": [{0: (60, 200)}, {4: (2, 90)}], "010002": [{0: (40, 120)}, {0: (50, 160)}]}, LEVELS)
    overlay = tmp_path / "levels.toml"
    shares = "\n".join(f'{name} = "1/3"' for name in LEVELS)
    overlay.write_text(f"[geography]\nlevels = {list(LEVELS)}\n[budget.geolevels]\n{shares}\n", encoding="utf-8")
    settings = ["budget.epsilon=100", "measurement.rows=all", "estimation.failsafe=true"]
    rule = AddedConstraint(RULE.name, "Enumdist", RULE.query, Sense.AT_LEAST, RULE.fewest)
    changed = replace(load_plan(CONF, (overlay,), settings, files=False), added=(rule,))
    expected = run_system(made, 100, KEY, lazy=False, rule=RULE, failsafe=True)
    assert {row["status"] for row in expected.diagnostics} >= {"optimal"}
    races = changed.product.schema.query("race").answer_dense(expected.estimates["Enumdist"])
    assert (races >= RULE.fewest).all()
    require_equal(released(changed, made), expected, made)


def test_exact_totals_at_another_level_do_the_same(plan, census):
    changed = replace(plan, invariants=replace(plan.invariants, total_at="County"))
    require_equal(released(changed, census), run_system(census, EPSILON, KEY, total_at="County"), census)


def test_a_family_without_an_estimate_ends_the_run_by_name(plan, census):
    rule = AddedConstraint("impossible", "Enumdist", "race", Sense.AT_LEAST, (10**6,))
    release = released(replace(plan, added=(rule,)), census)
    assert release.failed == ("National/0",)
    assert not release.estimates
