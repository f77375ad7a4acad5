"""A spine over a whole nation: built county by county in parallel, joined from summaries of constant size.

Two passes over the blocks, which are brought together by county once. The first builds every county and gives its
summary; the driver joins those. The second builds the county again, which takes microseconds a block, and writes out
the path of every block with final geocodes and shares. Nothing of the size of the blocks is ever on the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F

from das_spark.errors import GeographyError, without_values
from das_spark.geography import (
    ENTITY_COLUMNS,
    CountySpine,
    CountySummary,
    FanOut,
    LevelShares,
    NationalSpine,
    SpineSettings,
    bypass_rule,
    check_levels,
    county_paths,
    county_spines,
    join_counties,
)
from das_spark.spark.spine_rows import (
    PATHS,
    block_table,
    by_county,
    counties,
    of_counties,
    path_rows,
    text_column,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PRIMITIVE: Final = "primitive"
#: Rows of a record batch of paths: a row holds a dozen short texts.
_ROWS_OF_A_BATCH: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class BuiltSpine:
    """A spine, with the path of every block still to be computed.

    Attributes:
        national: What all counties have in common.
        settings: Shape of the spine.
        shares: Shares of the levels before anything was bypassed.
        framework: "pure_dp" or "zcdp".
        blocks: `PATHS`, lazy; one row a block.
        notes: Sentences about the geography that it was made from.
        held: Blocks by county, kept on the executors' disks for the second pass.
    """

    national: NationalSpine
    settings: SpineSettings
    shares: LevelShares
    framework: str
    blocks: DataFrame
    notes: tuple[str, ...]
    held: DataFrame

    def release(self) -> None:
        """Give the disk back; `blocks` can still be computed, from the files again."""
        self.held.unpersist()


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker needs to build a county."""

    settings: SpineSettings
    shares: LevelShares
    framework: str

    def spines(self, rows: pa.Table) -> tuple[CountySpine, ...]:
        """The spines of the county that the rows are."""
        table = block_table(rows)
        primitive = text_column(rows, _PRIMITIVE) if _PRIMITIVE in rows.column_names else None
        return county_spines(table, self.settings, self.shares, self.framework, primitive)

    def summaries(self, rows: pa.Table) -> list[str]:
        """Their summaries as JSON, which `_summary` reads."""
        return [json.dumps(asdict(spine.summary())) for spine in self.spines(rows)]


def build_spine(
    blocks: DataFrame,
    settings: SpineSettings,
    shares: LevelShares,
    framework: str,
    primitive: DataFrame | None = None,
    notes: Sequence[str] = (),
) -> BuiltSpine:
    """Build a spine: all counties, joined; the paths of the blocks are computed when `blocks` of the result is used.

    Args:
        blocks: Columns geocode (16 digits), those of `ENTITY_COLUMNS`, and, if wanted, gq (array of 7 booleans, or null
            for none): whether the block has a facility of each major type of group quarters.
        settings: Shape of the spine.
        shares: Shares of its levels.
        framework: "pure_dp" or "zcdp", which decides on bypassing.
        primitive: For spines of kind "dhc" the crosswalk: columns geocode (16 digits) and primitive, every block once;
            None takes the built-in rule.
        notes: Sentences about the geography, kept with the spine.

    Raises:
        GeographyError: A column is missing, levels, shares and framework do not fit the kind of spine, a county cannot
            be built (the first one is named), or the crosswalk does not give every block one primitive geounit.
    """
    check_levels(settings, shares)
    bypass_rule(framework)
    task = _Task(settings, shares, framework)
    held = by_county(_with_primitive(_selected(blocks), settings, primitive)).persist(StorageLevel.DISK_ONLY)
    try:
        national = join_counties([_summary(text) for text in of_counties(held, task.summaries)], shares, settings)
    except BaseException:
        held.unpersist()
        raise
    paths = held.mapInArrow(without_values(partial(_path_batches, task, national)), PATHS)
    return BuiltSpine(national, settings, shares, framework, paths, tuple(notes), held)


def _selected(blocks: DataFrame) -> DataFrame:
    missing = [name for name in ("geocode", *ENTITY_COLUMNS) if name not in blocks.columns]
    if missing:
        raise GeographyError(
            f"the blocks have no column {', '.join(map(repr, missing))}", hint=f"they have {', '.join(blocks.columns)}"
        )
    gq = F.col("gq") if "gq" in blocks.columns else F.lit(None)
    return blocks.select("geocode", *ENTITY_COLUMNS, gq.cast("array<boolean>").alias("gq"))


def _with_primitive(blocks: DataFrame, settings: SpineSettings, primitive: DataFrame | None) -> DataFrame:
    """Blocks with the primitive geounit of the crosswalk, which must give each of them exactly one."""
    if primitive is None:
        return blocks
    if settings.kind != "dhc":
        raise GeographyError(f"a spine of kind {settings.kind!r} has no primitive geounits, so it takes no crosswalk")
    least, most = F.min(_PRIMITIVE).alias("least"), F.max(_PRIMITIVE).alias("most")
    known = primitive.groupBy("geocode").agg(least, most)
    joined = blocks.join(known, "geocode", "left")
    split, lost = F.col("least") != F.col("most"), F.col("least").isNull()
    counts = joined.agg(
        *(F.count(F.when(wrong, 1)) for wrong in (split, lost)),
        *(F.min(F.when(wrong, F.col("geocode"))) for wrong in (split, lost)),
    ).collect()[0]
    if counts[0]:
        raise GeographyError(
            f"the crosswalk splits {counts[0]:,} blocks between primitive geounits, {counts[2]!r} among them",
            hint="each block belongs to one primitive geounit",
        )
    if counts[1]:
        raise GeographyError(
            f"the crosswalk has no primitive geounit for {counts[1]:,} blocks, {counts[3]!r} among them",
            hint="it must name every block of the geography",
        )
    return joined.select(*blocks.columns, F.col("least").alias(_PRIMITIVE))


def _path_batches(task: _Task, national: NationalSpine, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, rows in counties(batches):
        for spine in task.spines(rows):
            whole = path_rows(county_paths(spine, national))
            for start in range(0, whole.num_rows, _ROWS_OF_A_BATCH):
                yield whole.slice(start, _ROWS_OF_A_BATCH)


def _summary(text: str) -> CountySummary:
    fields: dict[str, Any] = json.loads(text)
    fields["fan_outs"] = tuple(FanOut(**each) for each in fields["fan_outs"])
    for name, value in fields.items():
        fields[name] = tuple(value) if isinstance(value, list) else value
    return CountySummary(**fields)
