"""The published shares of the redistricting production of 2020, as they stand beside the tests of the accountant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def published() -> dict[str, Any]:
    """Run -> rho, and share and query shares of each level, as exact texts."""
    return json.loads((Path(__file__).parents[1] / "privacy" / "data" / "pl94_2020_strategies.json").read_text())
