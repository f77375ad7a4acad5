"""What reports say of a run's budget: the exact figure beside the published conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import load_plan
from das_spark.pipeline.accuracy import facts_of_run

CONF = Path(__file__).parents[2] / "conf"
MADE = "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pl94_2020_person", "(epsilon 17.144 by Canonne, Kamath, Steinke, 16.4652 at most by exact composition, at"),
        ("hospital_stays_like", "by Canonne, Kamath, Steinke at delta 1e-10)"),
        ("e2e_1940", "epsilon = 1/4 (delta = 0)"),
    ],
)
def test_the_budget_is_said_with_its_exact_epsilon_where_that_is_known(name, said):
    plan = load_plan(CONF / f"{name}.toml", files=False)
    facts = facts_of_run(plan, "r-1", MADE, "1.0", insecure=False)
    assert said in facts["budget"]
    assert facts_of_run(plan, "r-1", MADE, "1.0", insecure=True)["budget"] == facts["budget"] + ", under a test key"
