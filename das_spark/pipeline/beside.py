"""Tables that go with published ones, row by row: how a feature writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from das_spark.io.table_files import GEOCODE
from das_spark.pipeline.table_writing import TablesWriting
from das_spark.spark.arranged import write_levels
from das_spark.spark.tables import read_table
from das_spark.store import TablesLayout, discard, disk_errors, guarded_staging
from das_spark.store.parquet import count_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from das_spark.pipeline.context import RunContext
    from das_spark.tabulation import Table, TableShell


def publish_beside(
    context: RunContext,
    output: str,
    tables: Iterable[tuple[Table, Sequence[str]]],
    formats: tuple[str, ...],
    facts: tuple[str, ...],
    schema: Callable[[TableShell], pa.Schema],
    rows: Callable[[Table, Sequence[str]], DataFrame],
) -> None:
    """Write the files of something that goes with published tables, in the layout of these; what is finished is left.

    Args:
        context: The run.
        output: Folder of all of them below the public root.
        tables: The tables, and the geolevels of each.
        formats: Of the files.
        facts: What the text beside the files of each table says.
        schema: Columns of the files of a table.
        rows: Gives those of a table at some geolevels, with the level, under the geocodes of the census.
    """
    public, census = context.layout.public, context.census
    layout = TablesLayout(public.table(output))
    for folder in layout.abandoned:
        discard(folder)
    staging = guarded_staging(context.layout, public, output)
    folder = public.level(context.published, census.leaf.name)
    leaves, number = read_table(context.spark, context.published, folder), count_rows(folder)
    with disk_errors(layout.path):
        for table, levels in tables:
            writing = TablesWriting(layout, staging, census, formats, facts, tuple(levels), schema)
            if not writing.is_finished(table):
                discard(staging.folder)
                chosen, writer = rows(table, levels), writing.writer(table)
                files = write_levels(chosen, table.name, writer, leaves, census, [GEOCODE], number=number)
                writing.promote((table, files))
                discard(staging.folder)
