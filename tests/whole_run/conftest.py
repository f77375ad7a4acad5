"""The helpers of this folder are modules, not tests: put them where tests can import them; share the slow parts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from local_system import EPSILON, KEYS, SystemRun, run_system
from small_census import Census, every_branch


@pytest.fixture(scope="session")
def census() -> Census:
    """The small census that reaches every branch of the estimator."""
    return every_branch()


@pytest.fixture(scope="session")
def system_runs(census: Census) -> tuple[SystemRun, ...]:
    """The system without a JVM, once a key."""
    return tuple(run_system(census, EPSILON, key) for key in KEYS)
