"""What intervals need, tried before anything is charged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.core.linear import Statistics, downward, upward, whole_intervals
from das_spark.errors import ConfigurationError
from das_spark.pipeline.rehearsal import synthetic_family, synthetic_level_plan
from das_spark.pipeline.table_writing import named

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.features.intervals.settings import IntervalSettings


def rehearse_intervals(plan: RunPlan, settings: IntervalSettings) -> None:
    """Carry a synthetic family of the top up and down, and make intervals of its geounits."""
    top = plan.spine.names[0]
    family, level = synthetic_family(plan, top, box=True), synthetic_level_plan(plan, top, box=True).family
    carried = replace(family, parent=None, upward=upward(family, level).children)
    moments = downward(carried, level, Statistics.of(named(plan, settings.named_tables))).geounits
    errors, framework = np.sqrt(moments.variances), plan.budget.framework
    low, high = whole_intervals(moments.estimates, errors, float(settings.level), framework)
    if (low > high).any() or not np.isfinite(moments.variances).all():
        raise ConfigurationError("intervals of a synthetic family are not what they should be")
