"""From what measurements say of geounits and unions to tables of intervals: one row each, four columns a statistic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.core.linear import UNION, whole_intervals
from das_spark.features.intervals.tables import interval_columns
from das_spark.geography import BLOCK
from das_spark.io.table_files import GEOCODE
from das_spark.spark.census import census_geocode
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.lists import cut, flat_lists, together
from das_spark.spark.tables import UNION_MOMENTS
from das_spark.store import tables as declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.geography import Spine
    from das_spark.privacy import Framework
    from das_spark.tabulation import Table

#: Rows whose intervals a task holds at once, times columns: bounds its memory.
_DENSE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class IntervalTask:
    """From batches of moments to batches of intervals of one table."""

    first: int  # place of the table's first column among the statistics
    schema: pa.Schema  # of the rows, further columns in front
    level: float  # probability that an interval covers the truth
    framework: Framework  # in which the noise was drawn

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make intervals."""
        yield from map(self._rows, cut(batches, max(1, _DENSE // len(self.schema))))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = self.schema.names
        place = names.index(GEOCODE) + 1
        width = (len(names) - place) // 4
        chosen = slice(self.first, self.first + width)
        estimates, variances = (
            flat_lists(batch.column(name), np.float64)[0].reshape(batch.num_rows, -1)[:, chosen]
            for name in ("estimates", "variances")
        )
        errors = np.sqrt(variances)
        parts = (estimates, errors, *whole_intervals(estimates, errors, self.level, self.framework))
        columns = [batch.column(name) for name in names[:place]]
        columns += [pa.array(np.ascontiguousarray(part[:, number])) for number in range(width) for part in parts]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def intervals(
    moments: DataFrame, table: Table, first: int, level: float, framework: Framework, *more: str
) -> DataFrame:
    """Intervals of one table; `more` names text columns that are kept, in front."""
    schema = pa.schema([*(pa.field(name, pa.string(), False) for name in more), *interval_columns(table)])
    chosen = moments.select(*more, GEOCODE, "estimates", "variances")
    return in_tasks(chosen, IntervalTask(first, schema, level, framework), from_arrow_schema(schema))


def summed_moments(moments: DataFrame) -> DataFrame:
    """The moments of unions: sums over what their families add. `tables.UNION_MOMENTS`."""

    def added(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name, rows in together(batches, GEOCODE):
            found: dict[str, list[object]] = {GEOCODE: [name]}
            for column in ("estimates", "variances"):
                values = flat_lists(rows.column(column), np.float64)[0].reshape(rows.num_rows, -1)
                found[column] = [[fsum(each) for each in values.T]]  # exact, so that no order of the rows matters
            yield pa.RecordBatch.from_pydict(found, schema=declared.UNION_MOMENTS.schema)

    return in_sorted_tasks(moments.repartition(GEOCODE), [GEOCODE], added, UNION_MOMENTS)


def of_unions(members: DataFrame) -> DataFrame:
    """Which leaves lie in which unions (columns geocode and union) as the pass upwards takes it: `tables.UPWARD`."""
    return members.select(
        GEOCODE,
        F.lit("").alias("parent"),
        F.concat(F.lit(UNION), F.col("union")).alias("name"),
        F.array().cast("array<double>").alias("values"),
    )


def at_level(rows: DataFrame, level: str) -> DataFrame:
    """Rows with a column level behind the others."""
    return rows.withColumn("level", F.lit(level))


#: Between the name of a census geolevel and the geocode, in the name of a census geounit that is a union on the spine.
_OF_LEVEL: Final = "/"


def census_unions(leaves: DataFrame, census: Spine, levels: Sequence[str]) -> DataFrame:
    """Which leaves of a spine of areas lie in which geounits of the census, which are unions there: geocode, union."""
    names = [
        F.concat(
            F.lit(f"{level}{_OF_LEVEL}"),
            F.substring(F.right("geocode", F.lit(BLOCK)), 1, census.level(level).length),
        )
        for level in levels
        if level != census.leaf.name
    ]
    return leaves.select(GEOCODE, F.explode(F.array(*names)).alias("union"))


def census_moments(leaves: DataFrame, unions: DataFrame, census: Spine, levels: Sequence[str]) -> DataFrame:
    """Moments of leaves and of `census_unions` under the geocodes of the census, with a column level."""
    level, geocode = (F.split_part(GEOCODE, F.lit(_OF_LEVEL), F.lit(part)) for part in (1, 2))
    named = unions.select(geocode.alias(GEOCODE), "estimates", "variances", level.alias("level"))
    if census.leaf.name not in levels:
        return named
    return at_level(leaves.select(census_geocode(), "estimates", "variances"), census.leaf.name).unionByName(named)


def unions_of_areas(areas: DataFrame, leaves: DataFrame, *, is_census: bool) -> tuple[DataFrame, DataFrame]:
    """Which leaves of a spine lie in which areas (geocode, union), and rows of areas whose geocode is no leaf."""
    named = areas.where("area is not null and area != ''")
    on_spine = leaves.select(F.col(GEOCODE) if is_census else census_geocode(), F.col(GEOCODE).alias("on_spine"))
    joined = named.join(on_spine, GEOCODE)
    unknown = named.join(on_spine, GEOCODE, "left_anti")
    return joined.select(F.col("on_spine").alias(GEOCODE), F.col("area").alias("union")), unknown


def rows_of_intervals(found: DataFrame) -> Iterator[Mapping[str, Any]]:
    """Rows in the order of their names; there is one an area, as many as somebody names in a file."""
    for batch in found.orderBy(GEOCODE).toArrow().to_batches():
        yield from batch.to_pylist()
