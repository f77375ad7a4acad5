"""How much room intervals and their passes need, estimated when the input is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.estimation import UnionPart
from das_spark.features.intervals.passes import downward_levels, measured_levels
from das_spark.pipeline.features import FeatureRoom
from das_spark.pipeline.space import (
    GEOUNIT,
    NUMBER,
    algebra_of,
    carried_bytes,
    geounit_bytes,
    interval_bytes,
    of_census,
)
from das_spark.pipeline.table_writing import named, named_in_formats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from das_spark.config import RunPlan
    from das_spark.features.intervals.settings import IntervalSettings
    from das_spark.pipeline.space import KnownSizes


def room_of_intervals(plan: RunPlan, settings: IntervalSettings, known: KnownSizes) -> FeatureRoom:
    """Estimate the published intervals, and the tables of the passes by level."""
    wanted = of_census(plan, known, settings.named_geolevels)
    published = sum(wanted.values()) * interval_bytes(named_in_formats(plan, settings.named_tables))
    passes = _passes(plan, settings, known, wanted)
    return FeatureRoom(published, staged=sum(passes.values()), carried=passes)


def _passes(plan: RunPlan, settings: IntervalSettings, known: KnownSizes, wanted: Mapping[str, int]) -> dict[str, int]:
    """Bytes of the tables that the passes make, by level.

    A union, which on a spine of areas every census geounit above the leaves is, travels through all levels to the top.
    """
    levels, unions = measured_levels(plan, plan.spine.names), 0
    if not plan.spine.is_census:
        unions = sum(wanted.values()) - wanted.get(plan.spine.leaf.name, 0)
    algebra, statistics = algebra_of(plan), sum(len(table.names) for table in named(plan, settings.named_tables))
    moments, part = 2 * statistics * NUMBER + GEOUNIT, UnionPart.numbers(algebra) * NUMBER + GEOUNIT
    sizes = carried_bytes(plan, known, levels)
    for name in levels[:-1]:
        sizes[name] += 2 * unions * part
    down = downward_levels(levels, settings.named_geolevels, unions=not plan.spine.is_census)
    for name in down:
        sizes[name] += known.geounits[name] * (moments + (0 if name == down[-1] else geounit_bytes(algebra)))
        sizes[name] += unions * moments
    return sizes
