"""The tables of a finished run, in a folder of their own."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from das_spark.config import plan_from_config
from das_spark.errors import ConfigurationError, OutputError
from das_spark.features.tables.work import facts_of_run, write_every_table
from das_spark.io.dictionary import tables_dictionary
from das_spark.pipeline.statement import software_versions
from das_spark.pipeline.table_writing import FORMATS, TABLES, TablesWriting, TabulationSummary, table_rows
from das_spark.places import Place
from das_spark.spark.session import session
from das_spark.store import (
    STAGING,
    PublicManifest,
    Staging,
    TablesLayout,
    TablesManifest,
    files_below,
    finished,
    new_folder,
    open_public,
    record_of,
    set_times,
)
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tabulate_run(run_folder: Place, out: Place | None = None, spark: SparkSession | None = None) -> TabulationSummary:
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
    run = run_folder.resolve()
    folder = run.with_name(f"{run.name}.{TABLES}") if out is None else out
    facts = facts_of_run(manifest.run_id, product.name, manifest.created, manifest.notices)
    started = spark or session(f"das_spark tabulate {run_folder.name}")
    formats = plan.output.tables or FORMATS
    tables = product.every_table_on(spine, units=plan.invariants.units)
    with new_folder(folder) as made:
        writing = TablesWriting(TablesLayout(made), Staging(made / STAGING), census, formats, facts)
        write_every_table(started, public, plan, tables, writing)
        written = [(table, format) for table in tables for format in writing.formats]
        counted = table_rows(writing.target, written, writing.census, writing.wanted)
        rows = {name.removeprefix(f"{TABLES}/"): count for name, count in counted.items()}
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
