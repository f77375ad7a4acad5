"""What replicates publish: columns, and folders below the public root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from das_spark.io.table_files import GEOCODE
from das_spark.places import Place
from das_spark.store import TablesLayout
from das_spark.store.tables import TableDeclaration, column

if TYPE_CHECKING:
    from das_spark.store import PublicLayout
    from das_spark.tabulation import TableShell

#: What rows of intervals of published counts are counted under in the manifest, and their folder.
INTERVALS: Final = "replicate_intervals"
#: Columns by which the rows of both tables ascend.
OFFSETS_ORDER: Final = ("level", "column", "class")
ERRORS_ORDER: Final = (*OFFSETS_ORDER, "difference")

_PEOPLE: Final = "people"
_CLASSED: Final = (
    column("level", pa.string(), "geolevel of the census"),
    column("column", pa.string(), "name of a column of a published table"),
    column(
        "class", pa.int64(), "class of the count and of the total of its geounit (das_spark.evaluation.error_classes)"
    ),
)
ERRORS: Final = TableDeclaration(
    "replicate_errors",
    "an error of a replicate of the run, in the counts of a class",
    pa.schema(
        [
            *_CLASSED,
            column("difference", pa.int64(), "count of the run less that of the replicate", _PEOPLE),
            column("cases", pa.int64(), "geounits with that difference", "geounits"),
        ]
    ),
    path="replicate_errors/replicate=<number>",
)
OFFSETS: Final = TableDeclaration(
    "replicate_offsets",
    "joined classes of counts, named by the first of them, and how far the truth may be from such counts",
    pa.schema(
        [
            *_CLASSED,
            column("cases", pa.int64(), "counts of replicates in these classes", "geounits"),
            column("rmse", pa.float64(), "root mean square of the differences", _PEOPLE),
            column("low", pa.int64(), "least that the truth is above the count, 0 or negative", _PEOPLE),
            column("high", pa.int64(), "most that the truth is above the count", _PEOPLE),
        ]
    ),
    path="replicate_offsets",
)


def interval_columns(table: TableShell) -> pa.Schema:
    """Return the columns of a table of intervals of published counts, as its Parquet files have them."""
    fields = [pa.field(GEOCODE, pa.string(), False)]
    for name in table.names:
        fields += [
            pa.field(name, pa.int64(), False),
            pa.field(f"{name}_rmse", pa.float64(), False),
            pa.field(f"{name}_low", pa.int64(), False),
            pa.field(f"{name}_high", pa.int64(), False),
        ]
    return pa.schema(fields)


def part_of(number: int) -> str:
    """Name the folder of one replicate in that of all errors; replicates are numbered from 1."""
    return f"replicate={number}"


def errors_folder(public: PublicLayout, number: int) -> Place:
    """Return the folder of the errors of one replicate, from 1."""
    return public.inside(ERRORS.name, part_of(number))


def offsets_folder(public: PublicLayout) -> Place:
    """Return the folder of how far the truth may be from published counts."""
    return public.table(OFFSETS.name)


def intervals_layout(public: PublicLayout) -> TablesLayout:
    """Return the layout of published counts with their intervals."""
    return TablesLayout(public.table(INTERVALS))
