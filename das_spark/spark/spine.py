"""A spine over a whole nation: built county by county in parallel, joined from summaries of constant size.

Two passes over the blocks, which are brought together by county once. The first builds every county and gives its
summary; the driver joins those. The second builds the county again, which takes microseconds a block, and writes out
the path of every block with final geocodes and shares. Nothing of the size of the blocks is ever on the driver. Between
Spark and the core stand rows of blocks in Arrow: cut into counties, turned into tables; paths turned back into rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from das_spark.errors import GeographyError, InputError
from das_spark.geography import (
    BLOCK,
    ENTITY_COLUMNS,
    GQ_TYPES,
    BlockTable,
    CountyPaths,
    CountySpine,
    CountySummary,
    FanOut,
    Geolevel,
    LevelShares,
    NationalSpine,
    Spine,
    SpineSettings,
    bypass_rule,
    check_levels,
    county_paths,
    county_spines,
    join_counties,
)
from das_spark.io.input_fields import MOST_EXAMPLES
from das_spark.places import Place
from das_spark.spark.arranged import file_number, file_starts, write_arranged
from das_spark.spark.census import unknown_blocks
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import cut, text_column, together
from das_spark.spark.problems import Problem, reading, refuse
from das_spark.store.parquet import ParquetTables, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.store import FileRecord


#: Column of the first five digits of the geocode, by which blocks are brought together.
COUNTY: Final = "county"
_COUNTY_DIGITS: Final = 5
_FOUND: Final = f"{COUNTY} string, error string, hint string, text string"

#: One row a block: its 16 digits; geocodes and exact shares ("n/d") of the geounits that contain it, root first.
PATHS: Final = StructType(
    [
        StructField("block", StringType(), nullable=False),
        StructField("path", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("shares", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)


#: How the blocks of a county come to whoever works on them.
_IN_COUNTIES: Final = (COUNTY, "geocode")


def by_county(blocks: DataFrame) -> DataFrame:
    """Rows brought together by county in one shuffle.

    The same rows, with the county in front.
    """
    county = F.substring("geocode", 1, _COUNTY_DIGITS).alias(COUNTY)
    return blocks.select(county, "*").repartition(F.col(COUNTY))


def of_counties(held: DataFrame, task: Callable[[pa.Table], Sequence[str]]) -> list[str]:
    """What a task finds in every county, as texts on the driver; what fails comes as a row, and is said once."""
    rows = in_sorted_tasks(held, _IN_COUNTIES, partial(_found, task), _FOUND).collect()
    rows.sort(key=lambda row: str(row[COUNTY]))
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        more = f" (and {len(failed) - 1:,} counties more)" if len(failed) > 1 else ""
        first = failed[0]
        raise GeographyError(f"county {first[COUNTY]}: {first['error']}{more}", hint=first["hint"])
    return [row["text"] for row in rows]


def _found(task: Callable[[pa.Table], Sequence[str]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for county, rows in together(batches, COUNTY):
        found: list[tuple[str, str | None, str | None, str | None]]
        try:
            found = [(county, None, None, text) for text in task(rows)]
        except GeographyError as error:
            found = [(county, error.message, error.hint, None)]
        columns = [pa.array(column, pa.string()) for column in zip(*found, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, [COUNTY, "error", "hint", "text"])


def block_table(rows: pa.Table) -> BlockTable:
    """The blocks of a county as the core takes them."""
    columns = {name: text_column(rows, name) for name in ENTITY_COLUMNS}
    return BlockTable(geocode16=text_column(rows, "geocode"), gq=_flags(rows.column("gq")), **columns)


def _flags(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Flags of group quarters (blocks, 7); none where a list is null."""
    whole = column.combine_chunks()
    flags = np.zeros((len(whole), GQ_TYPES), dtype=np.bool_)
    given = whole.is_valid().to_numpy(zero_copy_only=False)
    lengths = whole.value_lengths().to_numpy(zero_copy_only=False)[given]
    values = whole.flatten()
    if (lengths != GQ_TYPES).any() or values.null_count:
        raise GeographyError(
            f"column 'gq' of the blocks must hold {GQ_TYPES} booleans, or null for a block without any"
        )
    flags[given] = values.to_numpy(zero_copy_only=False).reshape(-1, GQ_TYPES)
    return flags


def path_rows(paths: CountyPaths) -> pa.RecordBatch:
    """The paths of a county as rows of `PATHS`."""
    codes = _lists([level.codes for level in paths.levels], paths.positions)
    shares: list[NDArray[Any]] = []
    places: list[NDArray[np.int64]] = []
    for level, position in zip(paths.levels, paths.positions, strict=True):
        # Few shares differ: each is made into text once.
        values, place = np.unique(level.numerators, return_inverse=True)
        shares.append(np.array([_fraction(int(value), paths.denominator) for value in values]))
        places.append(place[position])
    return pa.RecordBatch.from_arrays(
        [pa.array(paths.blocks.tolist(), pa.string()), codes, _lists(shares, places)],
        schema=pa.schema(
            [
                pa.field("block", pa.string(), nullable=False),
                pa.field("path", codes.type, nullable=False),
                pa.field("shares", codes.type, nullable=False),
            ]
        ),
    )


def _lists(texts: Sequence[NDArray[Any]], positions: Sequence[NDArray[np.int64]]) -> pa.Array:
    """For each block the list, over the levels, of the text at its position of the level."""
    starts = np.concatenate([[0], np.cumsum([level.size for level in texts])[:-1]])
    known = pa.array([text for level in texts for text in level.tolist()], pa.string())
    index = np.stack([position + start for position, start in zip(positions, starts, strict=True)], axis=1)
    count, depth = index.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * depth)
    items = pa.field("element", pa.string(), nullable=False)
    return pa.ListArray.from_arrays(offsets, known.take(pa.array(index.ravel())), type=pa.list_(items))


def _fraction(numerator: int, denominator: int) -> str:
    common = gcd(numerator, denominator)
    return f"{numerator // common}/{denominator // common}"


_PRIMITIVE: Final = "primitive"
#: How many blocks an error names.
NAMED: Final = 5
#: Rows of a record batch of paths: a row holds a dozen short texts.
_ROWS_OF_A_BATCH: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class BuiltSpine:
    """A spine, with the path of every block still to be computed."""

    national: NationalSpine  # what all counties have in common
    settings: SpineSettings  # shape of the spine
    shares: LevelShares  # shares of the levels before anything was bypassed
    framework: str  # "pure_dp" or "zcdp"
    blocks: DataFrame  # `PATHS`, lazy; one row a block
    notes: tuple[str, ...]  # sentences about the geography that it was made from
    held: DataFrame  # blocks by county, kept on the executors' disks for the second pass

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

    Blocks have the columns geocode (16 digits), those of `ENTITY_COLUMNS` and, if wanted, gq (7 booleans, or null for
    none); the crosswalk `primitive`, for spines of kind "dhc", geocode and primitive, every block once.
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
    paths = in_sorted_tasks(held, _IN_COUNTIES, partial(_path_batches, task, national), PATHS)
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
    for _, rows in together(batches, COUNTY):
        for spine in task.spines(rows):
            yield from cut([path_rows(county_paths(spine, national))], _ROWS_OF_A_BATCH)


def _summary(text: str) -> CountySummary:
    fields: dict[str, Any] = json.loads(text)
    fields["fan_outs"] = tuple(FanOut(**out) for out in fields["fan_outs"])
    for name, value in fields.items():
        fields[name] = tuple(value) if isinstance(value, list) else value
    return CountySummary(**fields)


def path_leaves(paths: DataFrame) -> DataFrame:
    """Geocodes of the lowest geounits of a spine: the last ones of `PATHS`."""
    return paths.select(F.element_at("path", -1).alias("geocode"))


def write_blocks(blocks: DataFrame, folder: Place) -> tuple[FileRecord, ...]:
    """Write the blocks of a spine, by geocode: in files and in an order that which blocks exist decides alone."""
    writer = ParquetTables({"blocks": TableFolder(folder.absolute(), to_arrow_schema(blocks.schema))})
    kept = blocks.persist()  # cut by which blocks there are, then written
    try:
        block = Geolevel("Block", BLOCK)
        starts = file_starts(
            kept.select(F.col("block").alias("geocode")), Spine((Geolevel("Block_Group", BLOCK - 4), block))
        )
        file = F.format_string("part-%05d", file_number(starts[block.name], F.col("block")))
        files = len(starts[block.name]) + 1
        return write_arranged(kept, "blocks", writer, file=file, files=files, order=["block"])
    finally:
        kept.unpersist()


def blocks_in_areas(leaves: DataFrame, areas: DataFrame, path: str) -> DataFrame:
    """The blocks of a run with the areas that they lie in, and which types of group quarters they have."""
    unknown = unknown_blocks(leaves, areas)
    named = [row["geocode"] for row in unknown.limit(NAMED).collect()]
    if named:
        raise InputError(
            f"{path}: says nothing of {unknown.count():,} blocks of the input, such as {', '.join(named)}",
            hint="geography.path is about another geography than the input",
        )
    # Null where no units are known.
    facilities = F.transform(F.slice("units", 2, GQ_TYPES), lambda count: count > 0)
    flags = F.when(F.col("units").isNotNull() & (F.size("units") > GQ_TYPES), facilities)
    return leaves.select("geocode", flags.alias("gq")).join(areas, "geocode")


def with_quarters(blocks: DataFrame, quarters: DataFrame, file: str) -> DataFrame:
    """Blocks with their flags; a file of other blocks is one of another geography."""
    with reading(file):
        unknown = unknown_blocks(quarters, blocks)
        some = tuple(row[0] for row in unknown.orderBy("geocode").limit(MOST_EXAMPLES).collect())
        if some:
            problem = Problem(file, "geocode", "blocks of the geography", unknown.count(), geounits=some)
            refuse([problem], hint="units and geography must be of the same blocks", public=True)
    return blocks.join(quarters, "geocode", "left")
