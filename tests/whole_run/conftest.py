"""The helpers of this folder are modules, not tests: put them where tests can import them; share the slow parts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from local_system import SystemRun, run_system
from small_census import Census, every_branch

#: Keys of the accuracy test; with the families of the census they make 200 families.
KEYS = tuple(f"accuracy {number}" for number in range(20))
#: Enough privacy loss that a census of a few thousand people shows both noise and constraints.
EPSILON = 8


@pytest.fixture(scope="session")
def census() -> Census:
    """The small census that reaches every branch of the estimator."""
    return every_branch()


@pytest.fixture(scope="session")
def system_runs(census: Census) -> tuple[SystemRun, ...]:
    """The system without a JVM, once a key."""
    return tuple(run_system(census, EPSILON, key) for key in KEYS)
