"""How tables by geounit are written: one job into staged Parquet, CSV of that, then promoted level by level."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.io.table_files import CSV, GEOCODE, PARQUET, rows_of, write_about, write_csv
from das_spark.places import Place, disk_errors, inside
from das_spark.spark.arranged import write_levels
from das_spark.spark.tables import read_table
from das_spark.spark.tabulate import arrow_schema
from das_spark.store import (
    Staging,
    TablesLayout,
    discard,
    finished,
    guarded_staging,
    level_folder,
    part_files,
    replace_folder,
)
from das_spark.store.parquet import ParquetTables, TableFolder, below, count_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.store import FileRecord
    from das_spark.tabulation import Table, TableShell


#: What the rows of tables are counted under in the manifest.
TABLES: Final = "tables"
FORMATS: Final = (PARQUET, CSV)


@dataclass(frozen=True, slots=True)
class TabulationSummary:
    """Tables that were written.

    Attributes:
        folder: The folder of all tables.
        rows: Rows of all levels, by `<table>.<format>`.
    """

    folder: Place
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TablesWriting:
    """Where tables go, and in which form."""

    target: TablesLayout  # where the tables go
    staging: Staging  # where they are written first
    census: Spine  # the geolevels of the run
    formats: tuple[str, ...]  # of the files
    facts: tuple[str, ...]  # what the folder of each table must say of the run
    chosen: tuple[str, ...] | None = None  # names of the geolevels that are wanted, root first; all where None
    schema: Callable[[TableShell], pa.Schema] = arrow_schema  # columns that the files of a table have

    @classmethod
    def of_run(
        cls,
        context: RunContext,
        output: str,
        formats: tuple[str, ...],
        facts: tuple[str, ...],
        chosen: tuple[str, ...] | None = None,
        schema: Callable[[TableShell], pa.Schema] = arrow_schema,
    ) -> TablesWriting:
        """Begin to write tables of a run into a folder below its public root; what was left half removed is removed."""
        target = TablesLayout(context.layout.public.table(output))
        for folder in target.abandoned:
            discard(folder)
        staging = guarded_staging(context.layout, context.layout.public, output)
        return cls(target, staging, context.census, formats, facts, chosen, schema)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the geolevels that are wanted, root first."""
        return self.census.names if self.chosen is None else self.chosen

    def levels(self, table: TableShell) -> tuple[str, ...]:
        """Those of them that a table is published for."""
        return table.levels(self.census, self.wanted)

    def writer(self, *tables: TableShell) -> ParquetTables:
        """What writes the staged Parquet files of tables, in tasks."""
        return ParquetTables(
            {table.name: TableFolder(self._staged(PARQUET, table).absolute(), self.schema(table)) for table in tables},
            self.census.own_codes,
        )

    def _staged(self, format: str, table: TableShell) -> Place:
        return inside(self.staging.folder, format, table.name)

    def is_finished(self, table: TableShell) -> bool:
        """Whether all levels of a table stand in all formats."""
        places = [(format, level) for format in self.formats for level in self.levels(table)]
        return all(finished(self.target.level(table.name, *place)) for place in places)

    def promote(self, *written: tuple[TableShell, Sequence[FileRecord]]) -> None:
        """Make CSV of the staged Parquet files where that is wanted, and promote table by table, level by level."""
        if CSV in self.formats:
            places = [(table, level) for table, _ in written for level in self.levels(table)]
            # Reading, writing and making text of numbers are Arrow's, which lets go of Python's lock.
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                list(threads.map(self._write_csv, *zip(*places, strict=True)))
        for table, files in written:
            self.staging.guard()
            for format in self.formats:
                write_about(self.target.table(table.name, format), table, self.facts)
                for level in self.levels(table):
                    target = self.target.level(table.name, format, level)
                    records = below(level_folder(level), files) if format == PARQUET else None
                    replace_folder(self._staged(format, table) / level_folder(level), target, records)

    def _write_csv(self, table: TableShell, level: str) -> None:
        parts = part_files(self._staged(PARQUET, table) / level_folder(level))
        write_csv(parts, self._staged(CSV, table) / level_folder(level), self.schema(table).names)


def run_fact(run_id: str, product: str, created: str) -> str:
    """Which run a folder is of."""
    return f"Run: {run_id}, product {product}, created {created}"


def named_in_formats(plan: RunPlan, names: Collection[str]) -> list[tuple[Table, str]]:
    """Tables of a run that have intervals, each with each format."""
    return [(table, format) for table in named(plan, names) for format in plan.output.interval_formats]


def named(plan: RunPlan, names: Collection[str]) -> tuple[Table, ...]:
    """Tables of a run by their names, in the order of its product; those of medians have no intervals."""
    return tuple(table for table in plan.product.tables_on(plan.spine) if table.name in names)


def table_rows(
    layout: TablesLayout,
    written: Sequence[tuple[TableShell, str]],
    census: Spine,
    wanted: Sequence[str] | None = None,
    *,
    place: str = TABLES,
) -> dict[str, int]:
    """Count what files hold of each table and format, under a name of the place that they are in."""
    return {
        f"{place}/{table.name}.{format}": sum(
            rows_of(layout.level(table.name, format, level), format) for level in table.levels(census, wanted)
        )
        for table, format in written
    }


def publish_beside(
    context: RunContext, tables: Iterable[Table], writing: TablesWriting, rows: Callable[[Table], DataFrame]
) -> None:
    """Write the files of something that goes with published tables, in the layout of these; what is finished is left.

    Args:
        context: The run.
        tables: The tables.
        writing: Where they go, as `TablesWriting.of_run` gives it.
        rows: Gives those of a table at its geolevels, with the level, under the geocodes of the census.
    """
    folder = context.layout.public.level(context.published, context.census.leaf.name)
    leaves, number = read_table(context.spark, context.published, folder), count_rows(folder)
    with disk_errors(writing.target.path):
        for table in tables:
            if not writing.is_finished(table):
                discard(writing.staging.folder)
                writer = writing.writer(table)
                files = write_levels(rows(table), table.name, writer, leaves, context.census, [GEOCODE], number=number)
                writing.promote((table, files))
                discard(writing.staging.folder)
