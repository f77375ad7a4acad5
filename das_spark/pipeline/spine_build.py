"""From geographic files to a spine in a folder: read, build county by county, write."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.geography import BLOCK, GQ_TYPES, Geolevel, LevelShares, Spine, SpineSettings
from das_spark.spark.arranged import file_number, file_starts, write_arranged
from das_spark.spark.census import unknown_blocks
from das_spark.spark.readers import (
    MOST_EXAMPLES,
    Problem,
    geography_reader,
    read_crosswalk,
    read_quarters,
    reading,
    refuse,
)
from das_spark.spark.spine import build_spine
from das_spark.store.parquet import REPORT, ParquetTables, TableFolder
from das_spark.store.spine import SpineRecord, require_new, require_source, write_spine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.spark.spine import BuiltSpine
    from das_spark.store import FileRecord, Staging


_WITHOUT_QUARTERS = (
    f"no file says which blocks have group quarters of the {GQ_TYPES} major types: none counts as having"
)


@dataclass(frozen=True, slots=True)
class SpineRequest:
    """What a spine is made from.

    Attributes:
        geography: File or folder of the geography.
        reader: Name of its reader.
        settings: Shape of the spine.
        shares: Shares of its levels.
        framework: "pure_dp" or "zcdp".
        units: Table of group quarters by block, or None.
        crosswalk: Table of primitive geounits by block, or None for the built-in rule.
        facts: What else the record shall say.
    """

    geography: str
    reader: str
    settings: SpineSettings
    shares: LevelShares
    framework: str
    units: str | None = None
    crosswalk: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def look(self, out: Path) -> None:
        """Look for everything that is named, before Spark is started for nothing.

        Args:
            out: New folder.

        Raises:
            OutputError: The folder holds something.
            ConfigurationError: No reader has that name.
            InputError: A file or folder is not there.
        """
        geography_reader(self.reader)
        require_new(out)
        for path in (self.geography, self.units, self.crosswalk):
            if path is not None:
                require_source(path)


def make_spine(spark: SparkSession, request: SpineRequest, out: Path) -> SpineRecord:
    """Read a geography, build its spine and write it.

    Args:
        spark: The session.
        request: What from.
        out: New folder.

    Returns:
        What was written.

    Raises:
        OutputError: The folder holds something.
        InputError: Files are missing or malformed.
        GeographyError: The spine cannot be built from them.
    """
    require_new(out)
    found = geography_reader(request.reader).read(spark, request.geography)
    blocks, notes = found.blocks, list(found.notes)
    if request.units is not None:
        blocks = _with_quarters(blocks, read_quarters(spark, request.units), request.units)
    elif request.settings.is_optimized and request.settings.consider_gq:
        notes.append(_WITHOUT_QUARTERS)
    crosswalk = None if request.crosswalk is None else read_crosswalk(spark, request.crosswalk)
    built = build_spine(blocks, request.settings, request.shares, request.framework, crosswalk, notes)
    return write_built(built, request.facts, out)


def write_built(
    built: BuiltSpine, facts: Mapping[str, str], folder: Path, staging: Staging | None = None
) -> SpineRecord:
    """Write a spine that was built, and release what was kept for it, whether it could be written or not.

    Args:
        built: Its paths are computed now.
        facts: What else the record shall say.
        folder: Must not exist, or be empty, or hold a spine that was not finished.
        staging: As in `write_spine`.

    Returns:
        What was written.

    Raises:
        OutputError: The folder holds something, or the disk is full.
    """
    try:
        record = SpineRecord.of(built.national, built.settings, built.shares, built.framework, built.notes, facts)
        return write_spine(record, folder, partial(write_blocks, built.blocks), staging)
    finally:
        built.release()


def write_blocks(blocks: DataFrame, folder: Path) -> tuple[FileRecord, ...]:
    """Write the blocks of a spine, by geocode: in files and in an order that which blocks exist decides alone.

    Args:
        blocks: Columns block, path and shares; computed once.
        folder: Where; every worker can write to it.

    Returns:
        The files.
    """
    writer = ParquetTables({"blocks": TableFolder(folder.absolute(), to_arrow_schema(blocks.schema))})
    kept = blocks.persist()  # cut by which blocks there are, then written
    try:
        block = Geolevel("Block", BLOCK)
        starts = file_starts(
            kept.select(F.col("block").alias("geocode")), Spine((Geolevel("Block_Group", BLOCK - 4), block))
        )
        file = F.format_string("part-%05d", file_number(starts[block.name], F.col("block")))
        files = len(starts[block.name]) + 1
        report = write_arranged(kept, "blocks", file=file, files=files, order=["block"], finish=writer, report=REPORT)
        return writer.place(report.toArrow().to_pylist())["blocks"]
    finally:
        kept.unpersist()


def _with_quarters(blocks: DataFrame, quarters: DataFrame, file: str) -> DataFrame:
    """Blocks with their flags; a file of other blocks is one of another geography."""
    with reading(file):
        unknown = unknown_blocks(quarters, blocks)
        some = tuple(row[0] for row in unknown.orderBy("geocode").limit(MOST_EXAMPLES).collect())
        if some:
            problem = Problem(file, "geocode", "blocks of the geography", unknown.count(), geounits=some)
            refuse([problem], hint="units and geography must be of the same blocks")
    return blocks.join(quarters, "geocode", "left")
