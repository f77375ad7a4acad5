"""The tabulate stage: published tables of every geolevel, made of the public estimates and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from das_spark.config import plan_from_config
from das_spark.errors import ConfigurationError, OutputError
from das_spark.io.dictionary import tables_dictionary
from das_spark.io.table_files import CSV, PARQUET, rows_of, write_about, write_csv
from das_spark.pipeline.statement import software_versions
from das_spark.spark.census import on_census
from das_spark.spark.session import session
from das_spark.spark.tables import read_levels
from das_spark.spark.tabulate import arrow_schema, with_vacant, write_tables
from das_spark.store import (
    STAGING,
    PublicLayout,
    PublicManifest,
    Staging,
    TablesLayout,
    TablesManifest,
    discard,
    disk_errors,
    files_below,
    finished,
    guarded_staging,
    inside,
    level_folder,
    make_folder,
    new_folder,
    open_public,
    part_files,
    record_of,
    replace_folder,
    set_times,
)
from das_spark.store.parquet import ParquetTables, TableFolder, below, count_rows
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.store import FileRecord
    from das_spark.tabulation import Table, TableShell


#: What the rows of tables are counted under in the manifest.
PLACE: Final = "tables"
FORMATS: Final = (PARQUET, CSV)


@dataclass(frozen=True, slots=True)
class TabulationSummary:
    """Tables that were written.

    Attributes:
        folder: The folder of all tables.
        rows: Rows of all levels, by `<table>.<format>`.
    """

    folder: Path
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

    def _staged(self, format: str, table: TableShell) -> Path:
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


def publish_tables(context: RunContext) -> None:
    """Write the tables of a run, where its product has any; those that are finished are left as they are."""
    plan, public = context.plan, context.layout.public
    formats = tuple(plan.output.tables)
    facts = facts_of_run(
        context.layout.run_id,
        plan.product.name,
        context.created,
        context.notices,
    )
    for folder in public.tables.abandoned:
        discard(folder)
    staging = guarded_staging(context.layout, public, "tables")
    writing = TablesWriting(public.tables, staging, context.census, formats, facts)
    tables = plan.product.every_table_on(plan.spine, units=plan.invariants.units)
    left = [table for table in tables if not writing.is_finished(table)]
    _write_all(context.spark, public, plan, left, writing)


def tabulate_run(run_folder: Path, out: Path | None = None, spark: SparkSession | None = None) -> TabulationSummary:
    """Write the tables of a finished run into a folder of their own, from its public root; the run does not change.

    The folder has a manifest, which names the manifest of the run by its SHA-256 and every file by its own.

    Args:
        run_folder: The run's folder (or `runs/latest`), or its public folder.
        out: The folder to make; it must not exist, or be empty. By default it lies beside `run_folder`, under its name
            with `.tables` at the end.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: The product of the run has no tables.
        OutputError: It is not the folder of a finished run, or the tables cannot be written.
    """
    public = open_public(run_folder)
    manifest = PublicManifest.load(public.manifest)
    plan = plan_from_config(manifest.config, source=str(public.manifest))
    product = plan.product
    if not product.every_table:
        raise ConfigurationError(f"product {product.name!r} has no tables")
    spine = plan.spine
    census, estimates = product.census(spine), published_estimates(spine)
    if missing := [level for level in census.names if not finished(public.level(estimates, level))]:
        raise OutputError(f"{run_folder}: there are no estimates of {missing[0]}", hint="finish the run first")
    named = run_folder.resolve()
    folder = named.with_name(f"{named.name}.{PLACE}") if out is None else out
    facts = facts_of_run(manifest.run_id, product.name, manifest.created, manifest.notices)
    started = spark or session(f"das_spark tabulate {run_folder.name}")
    formats = plan.output.tables or FORMATS
    tables = product.every_table_on(spine, units=plan.invariants.units)
    with new_folder(folder) as made:
        writing = TablesWriting(TablesLayout(made), Staging(made / STAGING), census, formats, facts)
        _write_all(started, public, plan, tables, writing)
        rows = {name.removeprefix(f"{PLACE}/"): count for name, count in _rows(writing, tables).items()}
        TablesManifest(
            run_id=manifest.run_id,
            created=manifest.created,
            product=product.name,
            manifest=record_of(public.manifest).sha256,
            versions=software_versions(),
            notices=manifest.notices,
            rows=rows,
            data_dictionary=tables_dictionary(tables, ""),
            files=tuple(record_of(made / name, name) for name in files_below(made)),
        ).save(made / public.manifest.name)
        set_times(made, datetime.fromisoformat(manifest.created))
    return TabulationSummary(folder, rows)


def facts_of_run(run_id: str, product: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
    """What the folder of each table says of the run."""
    return (*notices, run_fact(run_id, product, created), "Made of the estimates of the run.")


def run_fact(run_id: str, product: str, created: str) -> str:
    """Which run a folder is of."""
    return f"Run: {run_id}, product {product}, created {created}"


def named_in_formats(plan: RunPlan, names: Collection[str]) -> list[tuple[Table, str]]:
    """Tables of a run that have intervals, each with each format."""
    return [(table, format) for table in named(plan, names) for format in plan.output.interval_formats]


def named(plan: RunPlan, names: Collection[str]) -> tuple[Table, ...]:
    """Tables of a run by their names, in the order of its product; those of medians have no intervals."""
    return tuple(table for table in plan.product.tables_on(plan.spine) if table.name in names)


def _rows(writing: TablesWriting, tables: Sequence[TableShell]) -> dict[str, int]:
    """Rows of all levels of each table and format, as the manifest lists them."""
    written = [(table, format) for table in tables for format in writing.formats]
    return table_rows(writing.target, written, writing.census, writing.wanted)


def table_rows(
    layout: TablesLayout,
    written: Sequence[tuple[TableShell, str]],
    census: Spine,
    wanted: Sequence[str] | None = None,
    *,
    place: str = PLACE,
) -> dict[str, int]:
    """Count what files hold of each table and format, under a name of the place that they are in."""
    return {
        f"{place}/{table.name}.{format}": sum(
            rows_of(layout.level(table.name, format, level), format) for level in table.levels(census, wanted)
        )
        for table, format in written
    }


def _write_all(
    spark: SparkSession, public: PublicLayout, plan: RunPlan, tables: Sequence[TableShell], writing: TablesWriting
) -> None:
    """Write tables: all of them by one Spark job into staged Parquet, CSV from that; then one by one by level.

    Those of occupancy, which count vacant units too, are made by a job of their own.
    """
    target, staging, census = writing.target.path, writing.staging.folder, writing.census
    published, names = published_estimates(plan.spine), {table.name for table in plan.product.occupancy}
    with disk_errors(target):
        make_folder(target)
        discard(staging)  # of an earlier process of that number
        if tables:
            estimates = read_levels(spark, public, published, census.names)
            leaves = count_rows(public.level(published, census.leaf.name))
            written: dict[str, tuple[FileRecord, ...]] = {}
            if of_cells := [table for table in tables if table.name not in names]:
                written |= write_tables(estimates, of_cells, census, writing.writer(*of_cells), leaves)
            if of_units := [table for table in tables if table.name in names]:
                declared = read_levels(spark, public, "invariants", (plan.spine.leaf.name,))
                on_leaves = declared if plan.spine.is_census else on_census(declared)
                every = with_vacant(estimates, on_leaves, census, plan.product.vacant_cell)
                written |= write_tables(every, of_units, census, writing.writer(*of_units), leaves)
            writing.promote(*((table, written[table.name]) for table in tables))
        discard(staging)
