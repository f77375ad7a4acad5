"""Plans that are audited: small ones, from run files that name no input that exists."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from das_spark.config import RunPlan, load_plan

# `faulty_systems` is a module, not a test: put it where the tests of this folder can import it.
sys.path.insert(0, str(Path(__file__).parent))

RUN_FILE = """
config_version = 1
[run]
name = "audited"
product = "e2e_1940"
[input]
reader = "tidy_counts"
path = "nowhere"
[geography]
levels = ["County", "Enumdist"]
[budget]
framework = "{framework}"
{total}
[budget.geolevels]
County = "1/2"
Enumdist = "1/2"
[budget.queries]
detailed = "1/2"
hhgq = "1/2"
[invariants]
total_at = "County"
"""
TOTALS = {"pure_dp": 'epsilon = "2"', "zcdp": 'rho = "1/2"'}


@pytest.fixture(scope="session")
def small_plan(tmp_path_factory) -> Callable[..., RunPlan]:
    """A county and its districts, two queries with equal shares; the framework and further settings are given."""
    folder = tmp_path_factory.mktemp("audited")

    def plan(framework: str = "pure_dp", *settings: str) -> RunPlan:
        path = folder / f"{framework}.toml"
        path.write_text(RUN_FILE.format(framework=framework, total=TOTALS[framework]), encoding="utf-8")
        return load_plan(path, (), settings, files=False)

    return plan
