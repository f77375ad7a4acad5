"""The small run of this folder is a module, not a test: put it where tests can import it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from verified_run import small_run


@pytest.fixture(scope="session")
def run(spark):
    """Tables of a run in three levels that keep every rule; tests replace what they corrupt."""
    return small_run(spark)
