"""Plans that are attacked, by the run file of the quickstart; and the faults that are planted in audits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from das_spark.config import RunPlan, load_plan

# The small schemas of this folder, and the faulty systems of the tests of audits, are modules that tests import.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "audit")]

QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.toml"


@pytest.fixture(scope="session")
def plan_of(tmp_path_factory) -> Callable[..., RunPlan]:
    """The quickstart's plan, with another total and settings."""
    folder, text = tmp_path_factory.mktemp("attacked"), QUICKSTART.read_text(encoding="utf-8")

    def plan(epsilon: str = "2", *settings: str, rho: str = "") -> RunPlan:
        total = f'framework = "zcdp"\nrho = "{rho}"' if rho else f'epsilon = "{epsilon}"'
        path = folder / "attacked.toml"
        path.write_text(text.replace('epsilon = "2"', total), encoding="utf-8")
        return load_plan(path, (), settings, files=False)

    return plan
