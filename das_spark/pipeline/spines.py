"""Spines: one made from geographic files into a folder, and that of a run, built once of the areas its blocks lie in.

Which blocks exist, where they lie and (as a declared invariant) which have group quarters is public, so the spine is. A
resumed run finds its spine again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from das_spark.config import follows_from_people, spine_of
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.geography import GQ_TYPES, Geolevel, LevelShares, Spine, SpineSettings
from das_spark.io.input_places import is_there
from das_spark.pipeline.input_record import geography_files_of, keep_geography, require_same_geography
from das_spark.places import Place
from das_spark.spark.census import geounit_shares, on_spine, read_spine
from das_spark.spark.problems import reading
from das_spark.spark.readers import (
    geography_reader,
    read_crosswalk,
    read_quarters,
)
from das_spark.spark.spine import blocks_in_areas, build_spine, path_leaves, with_quarters, write_blocks
from das_spark.spark.spine_report import share_paths
from das_spark.store import discard, finished, guarded_staging, require_held
from das_spark.store.spine import SpineRecord, read_record, require_new, write_spine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.spark.spine import BuiltSpine
    from das_spark.store import PublicLayout, Staging


_WITHOUT_QUARTERS = (
    f"no file says which blocks have group quarters of the {GQ_TYPES} major types: none counts as having"
)


@dataclass(frozen=True, slots=True)
class SpineRequest:
    """What a spine is made from."""

    geography: str  # file or folder of the geography
    reader: str  # name of its reader
    settings: SpineSettings  # shape of the spine
    shares: LevelShares  # shares of its levels
    framework: str  # "pure_dp" or "zcdp"
    units: str | None = None  # table of group quarters by block, or None
    crosswalk: str | None = None  # table of primitive geounits by block, or None for the built-in rule
    facts: Mapping[str, str] = field(default_factory=dict)  # what else the record shall say

    def look(self, out: Place) -> None:
        """Look for everything that is named, before Spark is started for nothing."""
        geography_reader(self.reader)
        require_new(out)
        for path in (self.geography, self.units, self.crosswalk):
            if path is not None:
                require_source(path)


def require_source(path: str) -> None:
    """Refuse a file or folder of a geography that is not there.

    Args:
        path: What a spine is to be made from, or compared with.

    Raises:
        InputError: There is nothing of that name.
    """
    if not is_there(path):
        raise InputError(f"{path}: no such file or folder", hint="name a file or folder of public geography")


def make_spine(spark: SparkSession, request: SpineRequest, out: Place) -> SpineRecord:
    """Read a geography, build its spine and write it."""
    require_new(out)
    found = geography_reader(request.reader).read(spark, request.geography)
    blocks, notes = found.blocks, list(found.notes)
    if request.units is not None:
        blocks = with_quarters(blocks, read_quarters(spark, request.units), request.units)
    elif request.settings.is_optimized and request.settings.consider_gq:
        notes.append(_WITHOUT_QUARTERS)
    crosswalk = None if request.crosswalk is None else read_crosswalk(spark, request.crosswalk)
    with reading(request.geography):  # once more, and not before
        built = build_spine(blocks, request.settings, request.shares, request.framework, crosswalk, notes)
    return _write_built(built, request.facts, out)


def _write_built(
    built: BuiltSpine, facts: Mapping[str, str], folder: Place, staging: Staging | None = None
) -> SpineRecord:
    """Write a spine that was built, and release what was kept for it, whether it could be written or not."""
    try:
        record = SpineRecord.of(built.national, built.settings, built.shares, built.framework, built.notes, facts)
        return write_spine(record, folder, partial(write_blocks, built.blocks), staging)
    finally:
        built.release()


def leaves_on_spine(context: RunContext, leaves: DataFrame, enter: Callable[[], object]) -> DataFrame:
    """Return the leaves of a run under their geocodes on its spine, which is built where it is not there yet.

    Args:
        context: The run.
        leaves: Its leaves.
        enter: Enters the run in the ledger: called when all is known for which the areas may be refused, before the
            spine is public.
    """
    if not context.has_shares:
        return leaves
    folder = context.layout.public.spine
    if not finished(folder):
        _build(context, leaves, folder, enter)
    paths = load_spine(context)
    if not context.tables.is_finished("shares"):
        context.tables.write_all("shares", geounit_shares(paths, context.spine.names), leaves=path_leaves(paths))
    return on_spine(leaves, paths)


def load_spine(context: RunContext) -> DataFrame:
    """Give a run the geocodes of the spine that it was built with."""
    stored = read_spine(context.spark, context.layout.public.spine)
    context.built_spine = _spine(stored.record)
    blocks: DataFrame = stored.blocks
    return blocks


def shares_on_paths(context: RunContext) -> tuple[tuple[Fraction, ...], ...]:
    """Shares on every kind of path through the spine of a run; none where a level has one share."""
    if not context.has_shares:
        return ()
    return tuple(path.shares for path in share_paths(load_spine(context), len(context.spine.levels)))


def copy_spine(context: RunContext, source: PublicLayout) -> None:
    """Give a run the spine that another one was built with, unless it has one."""
    folder = context.layout.public.spine
    if context.has_shares and not finished(folder):
        stored = read_spine(context.spark, source.spine)
        require_held(context.layout)
        discard(folder)  # what a driver left that died
        write_spine(stored.record, folder, partial(write_blocks, stored.blocks), _staging(context))


def spine_of_run(public: PublicLayout, plan: RunPlan) -> Spine:
    """The spine of a run, from its public folder."""
    return plan.spine if plan.spine.is_census else _spine(read_record(public.spine))


def _spine(record: SpineRecord) -> Spine:
    return spine_of([Geolevel(level.name, level.length) for level in record.levels], record.kind)


def _build(context: RunContext, leaves: DataFrame, folder: Place, enter: Callable[[], object]) -> None:
    plan, settings = context.plan, context.plan.geography
    if settings.spine.consider_gq and (follows_from_people(plan) or not plan.invariants.units):
        raise PrivacyGuardError(
            "geography.consider_gq: the spine would tell which blocks have group quarters, which follows from people",
            hint="set geography.consider_gq to false",
        )
    shares = LevelShares.of({level.geolevel: level.share for level in plan.budget.levels})
    files = geography_files_of(context)
    areas = geography_reader(str(settings.reader)).read(context.spark, str(settings.path))
    crosswalk = None if settings.crosswalk is None else read_crosswalk(context.spark, settings.crosswalk)
    with reading(str(settings.path)):  # once more, and not before
        blocks = blocks_in_areas(leaves, areas.blocks, str(settings.path))
        built = build_spine(blocks, settings.spine, shares, str(plan.budget.framework), crosswalk, areas.notes)
    require_same_geography(context, files)
    keep_geography(context, files)
    facts = {"run_id": context.layout.run_id, "product": plan.product.name, "reader": str(settings.reader)}
    enter()
    require_held(context.layout)
    discard(folder)  # what a driver left that died
    _write_built(built, facts, folder, _staging(context))


def _staging(context: RunContext) -> Staging:
    return guarded_staging(context.layout, context.layout.public, "spine")
