"""The study of occupancy at the size of tests, once for all of them."""

from __future__ import annotations

import pytest

from das_spark.experiments.occupancy import OccupancySettings
from das_spark.experiments.occupancy_result import OccupancyResult, occupancy_experiment


@pytest.fixture(scope="session")
def occupancy_result() -> OccupancyResult:
    """Two states of 62 counties, of which the smallest are followed to the block."""
    return occupancy_experiment(OccupancySettings(seed=11, states=2, counties=62, follow_up_to=1_500))
