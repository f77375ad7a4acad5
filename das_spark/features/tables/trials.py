"""What published tables need, tried before anything is charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import ConfigurationError
from das_spark.io.table_files import CSV, GEOCODE, csv_header, rows_of
from das_spark.pipeline.rehearsal import SyntheticGeounits, synthetic_counts
from das_spark.pipeline.statement import notices_of
from das_spark.pipeline.table_writing import TablesWriting
from das_spark.places import Place
from das_spark.spark.tabulate import TabulateTask
from das_spark.store import Staging, TablesLayout, level_folder
from das_spark.tabulation import MedianTable, Tabulation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config import RunPlan
    from das_spark.tabulation import TableShell


def tabulated_geounits(plan: RunPlan) -> SyntheticGeounits:
    """The geounits that all tables of a rehearsal are made of."""
    return SyntheticGeounits.of(
        plan.product, plan.product.census(plan.spine).leaf.length, synthetic_counts(plan.product)
    )


def rehearse_table(plan: RunPlan, table: TableShell, folder: Place, geounits: Callable[[], SyntheticGeounits]) -> None:
    """Make a published table of synthetic geounits, in every format of the run, and look at what is in it."""
    census, made = plan.product.census(plan.spine), geounits()
    lowest = table.levels(census)[-1]
    layout = TablesLayout(folder / "tables")
    staging = Staging((folder / "staging").absolute())
    facts = notices_of(plan, insecure=False)
    writing = TablesWriting(layout, staging, census, tuple(plan.output.tables), facts, (lowest,))
    task, writer = TabulateTask(Tabulation.of([table]), (GEOCODE,)), writing.writer(table)
    file = f"{level_folder(lowest)}/part-00000"
    batches = list(task(iter([made.batch(units=False)])))
    reports = writer((table.name, file, batch) for batch in batches)
    files = writer.place([row for report in reports for row in report.to_pylist()])[table.name]
    writing.promote((table, files))
    first = [value for batch in batches for value in batch.column(table.total.name).to_pylist()]
    right = _is_first_column(table, first, made.counts)
    for format in plan.output.tables:
        level = layout.level(table.name, format, lowest)
        right &= rows_of(level, format) == len(made.geocodes)
        right &= format != CSV or csv_header(level) == (GEOCODE, *table.names)
    if not right:
        raise ConfigurationError(f"table {table.name} of synthetic geounits does not hold what it should")


def _is_first_column(table: TableShell, values: Sequence[float | None], counts: NDArray[np.int64]) -> bool:
    """Whether values are the totals of a table, or lie in the years of its first medians."""
    times = table.total.times(table.schema)
    if not isinstance(table, MedianTable):
        return list(values) == list((counts @ times).tolist())
    years = np.unravel_index(np.arange(table.schema.size), table.schema.shape)[table.schema.axis(table.attribute)]
    queues = [np.sort(np.repeat(years, row * times)) for row in counts]
    middle = [float(queue[(len(queue) - 1) // 2]) if len(queue) else None for queue in queues]
    return len(values) == len(middle) and all(
        value is None if year is None else value is not None and year <= value <= year + 1
        for value, year in zip(values, middle, strict=True)
    )
