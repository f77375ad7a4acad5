"""The spine of a run: built of the areas that its blocks lie in, once; a resumed run finds it again.

Which blocks exist, where they lie and (as a declared invariant) which have group quarters is public, so the spine is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.config import spine_of
from das_spark.errors import InputError
from das_spark.geography import Geolevel, LevelShares, Spine
from das_spark.pipeline.spine_build import write_blocks, write_built
from das_spark.spark.census import geounit_shares, on_spine, read_spine, unknown_blocks
from das_spark.spark.readers import geography_reader, read_crosswalk
from das_spark.spark.spine import build_spine
from das_spark.store import discard, finished, guarded_staging, require_held
from das_spark.store.spine import SpineRecord, read_record, write_spine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.store import PublicLayout, Staging
#: How many blocks an error names.
NAMED = 5
_QUARTERS = 7


def placed(context: RunContext, leaves: DataFrame) -> DataFrame:
    """The leaves of a run under their geocodes on its spine, which is built where it is not there yet.

    Args:
        context: The run.
        leaves: `tables.LEAVES` under the geocodes of the census.

    Raises:
        GeographyError: No spine can be made of the areas.
        InputError: Areas are given for other blocks than the input has, or cannot be read.
        OutputError: The disk is full.
    """
    if not context.has_shares:
        return leaves
    folder = context.layout.public.spine
    if not finished(folder):
        _build(context, leaves, folder)
    paths = adopt_spine(context)
    if not context.tables.is_finished("shares"):
        leaves = paths.select(F.element_at("path", -1).alias("geocode"))
        context.tables.write_all("shares", geounit_shares(paths, context.spine.names), leaves=leaves)
    return on_spine(leaves, paths)


def adopt_spine(context: RunContext) -> DataFrame:
    """Give a run the geocodes of the spine that it was built with.

    Args:
        context: The run; its geolevels have the lengths of this spine from now on.

    Returns:
        Columns block, path and shares.

    Raises:
        InputError: The spine is not whole, or of other levels.
    """
    stored = read_spine(context.spark, context.layout.public.spine)
    context.built_spine = _spine(stored.record)
    blocks: DataFrame = stored.blocks
    return blocks


def copy_spine(context: RunContext, source: PublicLayout) -> None:
    """Give a run the spine that another one was built with, unless it has one.

    Args:
        context: The run.
        source: Public root of the run that has the spine.

    Raises:
        InputError: The spine is not whole.
        OutputError: The disk is full, or another driver has taken over the run.
    """
    folder = context.layout.public.spine
    if context.has_shares and not finished(folder):
        stored = read_spine(context.spark, source.spine)
        require_held(context.layout)
        discard(folder)  # what a driver left that died
        write_spine(stored.record, folder, partial(write_blocks, stored.blocks), _staging(context))


def spine_of_run(public: PublicLayout, plan: RunPlan) -> Spine:
    """The spine of a run, from its public folder.

    Args:
        public: The folder.
        plan: What the run did.

    Raises:
        InputError: The spine was made of areas, and is not there.
    """
    return plan.spine if plan.spine.is_census else _spine(read_record(public.spine))


def _spine(record: SpineRecord) -> Spine:
    return spine_of([Geolevel(level.name, level.length) for level in record.levels], record.kind)


def _build(context: RunContext, leaves: DataFrame, folder: Path) -> None:
    plan, settings = context.plan, context.plan.geography
    shares = LevelShares.of({level.geolevel: level.share for level in plan.budget.levels})
    areas = geography_reader(str(settings.reader)).read(context.spark, str(settings.path))
    unknown = unknown_blocks(leaves, areas.blocks)
    named = [row["geocode"] for row in unknown.limit(NAMED).collect()]
    if named:
        raise InputError(
            f"{settings.path}: says nothing of {unknown.count():,} blocks of the input, such as {', '.join(named)}",
            hint="geography.path is about another geography than the input",
        )
    blocks = leaves.select("geocode", _quarters().alias("gq")).join(areas.blocks, "geocode")
    crosswalk = None if settings.crosswalk is None else read_crosswalk(context.spark, settings.crosswalk)
    built = build_spine(blocks, settings.spine, shares, str(plan.budget.framework), crosswalk, areas.notes)
    facts = {"run_id": context.layout.run_id, "product": plan.product.name, "reader": str(settings.reader)}
    require_held(context.layout)
    discard(folder)  # what a driver left that died
    write_built(built, facts, folder, _staging(context))


def _staging(context: RunContext) -> Staging:
    return guarded_staging(context.layout, context.layout.public, "spine")


def _quarters() -> Column:
    """Which types of group quarters a block has facilities of; null where no units are known."""
    facilities = F.transform(F.slice("units", 2, _QUARTERS), lambda count: count > 0)
    return F.when(F.col("units").isNotNull() & (F.size("units") > _QUARTERS), facilities)
