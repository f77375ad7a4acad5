"""Plans and runs that tests of other folders make are modules of theirs: put them where tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "config"))
sys.path.insert(0, str(Path(__file__).parent.parent / "spark"))

from verified_run import small_run


@pytest.fixture(scope="session")
def run(spark):
    """Tables of a run in three levels that keep every rule; tests replace what they corrupt."""
    return small_run(spark)
