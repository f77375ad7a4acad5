"""What replicates need, tried before anything is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import ConfigurationError
from das_spark.evaluation import error_classes
from das_spark.features.replicates.offsets import count_intervals, error_offsets
from das_spark.pipeline.rehearsal import synthetic_counts
from das_spark.tabulation import incidence, tabulate

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.features.replicates.settings import ReplicateSettings


def rehearse_replicates(plan: RunPlan, settings: ReplicateSettings) -> None:
    """Make intervals of the counts of synthetic geounits from errors that a replicate could have."""
    made = synthetic_counts(plan.product)
    occupied = np.nonzero(made)
    offsets_of = np.searchsorted(occupied[0], np.arange(len(made) + 1))
    for table in (table for table in plan.product.tables if table.name in settings.named_tables):
        counts = tabulate(incidence([table]), occupied[1], offsets_of, made[occupied])
        classes, ones = error_classes(counts, counts[:, 0]), np.ones(len(counts), dtype=np.int64)
        offsets = [error_offsets(each, ones, ones, float(settings.level)) for each in classes.T]
        _, low, high = count_intervals(counts, offsets)
        if (low > counts).any() or (high < counts).any():
            raise ConfigurationError(f"intervals of the counts of table {table.name} do not hold them")
