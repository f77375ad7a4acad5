"""Between the tables of a run and rows of published measurement files (`das_spark.io.noisy_files` has their columns).

Constraints are the bounds of a run, one row a side: "=" where it is exact, ">=" and "<=" otherwise, and its structural
zeros, one row each in every geounit. Rows of flows are left out: they follow from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, StringType, StructField, StructType

from das_spark.constraints import Sense
from das_spark.histogram import DETAILED, SEPARATOR
from das_spark.io.noisy_files import CONSTRAINT, DPQUERY, ROWS, RowFile, rows_of_file, written_schema
from das_spark.places import Place
from das_spark.spark.arranged import write_levels
from das_spark.spark.engine import in_tasks
from das_spark.spark.tables import first_rows, union
from das_spark.store.parquet import ParquetTables, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from das_spark.constraints import AddedConstraint, StructuralZero
    from das_spark.geography import Spine
    from das_spark.histogram import Query, Schema
    from das_spark.privacy import Budget
    from das_spark.products import Product
    from das_spark.store import FileRecord


MEASURED: Final = "_dpq"
EXACT: Final = "_con"
_SUMMED: Final = "*"
_FLOW: Final = "flow"
#: Geocode of the geounit at a root of length 0 in published files: the prefix of all others. Tables of a run say "0".
PUBLISHED_ROOT: Final = ""
_OWN_ROOT: Final = "0"
_TEXT: Final = StringType()


@dataclass(frozen=True, slots=True)
class Binning:
    """How the answers of a query are laid out."""

    query: Query  # the query
    #: For each attribute what its column says: "*" where it is summed over, its own name where every level is kept, or
    #: the name of a recode; but "detailed" in all columns of the query of that name.
    bins: tuple[str, ...]
    #: The same, with the attribute's name for "detailed", as `das_spark.spark.noisy_rows.read_rows` gives it.
    kept: tuple[str, ...]
    shape: tuple[int, ...]  # answers along each attribute; 1 where it is summed over

    @property
    def size(self) -> int:
        """Number of answers."""
        return prod(self.shape)


def binning(schema: Schema, text: str) -> Binning:
    """The layout of a query."""
    query = schema.query(text)
    chosen = set(query.name.split(SEPARATOR))
    bins, kept = [], []
    for attribute in schema.attributes:
        names = (DETAILED, attribute.name, *(recode.name for recode in attribute.recodes))
        bins.append(next((name for name in names if name in chosen), _SUMMED))
        kept.append(attribute.name if bins[-1] == DETAILED else bins[-1])
    return Binning(query, tuple(bins), tuple(kept), tuple(int(factor.max()) + 1 for factor in query.factors))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a bound as a constraint."""

    name: str  # the bound, as the table of bounds calls it
    query_name: str  # the constraint, without "_con"
    query: str  # the query that is bounded
    sign: Sense  # "=", "<=" or ">="

    @property
    def is_upper(self) -> bool:
        """Whether the value is the upper bound; where it is exact, both sides are the same."""
        return self.sign is Sense.AT_MOST


def sides(class_query: str, added: Iterable[AddedConstraint]) -> tuple[_Side, ...]:
    """Every constraint that the bounds of a run can hold."""
    found = [_Side("total", "total", "total", Sense.EQUAL)]
    if class_query:
        found.append(_Side("class", f"{class_query}_total_lb", class_query, Sense.AT_LEAST))
        found.append(_Side("class", f"{class_query}_total_ub", class_query, Sense.AT_MOST))
    found += [_Side(f"added:{each.name}", f"added:{each.name}", each.query, each.sense) for each in added]
    return tuple(found)


def zero_sides(schema: Schema, zeros: Iterable[StructuralZero]) -> tuple[_Side, ...]:
    """Structural zeros as constraints."""
    return tuple(_Side(zero.name, zero.name, zero.query(schema), Sense.EQUAL) for zero in zeros)


def measurement_rows(measurements: DataFrame, schema: Schema, budget: Budget) -> DataFrame:
    """Measurements, all answers of each kept, in the published columns. Columns level, then those of the files."""
    names = [attribute.name for attribute in schema.attributes]
    specs = []
    for level in budget.levels:
        for item in level.queries:
            found = binning(schema, item.query)
            spent = str(budget.spent(level.geolevel, item.query))
            specs.append((level.geolevel, item.query, item.query + MEASURED, *found.bins, list(found.shape), spent))
    fields = [*((name, _TEXT) for name in ("level", "query", "query_name", *names)), _shape_field(), ("plb", _TEXT)]
    known = F.broadcast(_constants(measurements.sparkSession, specs, fields))
    return measurements.join(known, ["level", "query"]).select(
        "level",
        "geocode",
        "query_name",
        *names,
        "query_shape",
        F.col("values").alias("value"),
        "variance",
        "plb",
        F.lit(None).cast("string").alias("sign"),
    )


def constraint_rows(bounds: DataFrame, schema: Schema, given: Sequence[_Side]) -> DataFrame:
    """Bounds in the published columns, one row a side. Columns level, then those of the files."""
    names = [attribute.name for attribute in schema.attributes]
    specs = []
    for side in given:
        found = binning(schema, side.query)
        row = (side.name, side.query_name + EXACT, *found.bins, list(found.shape), str(side.sign), side.is_upper)
        specs.append(row)
    fields = [*((name, _TEXT) for name in ("name", "query_name", *names)), _shape_field()]
    fields += [("sign", _TEXT), ("is_upper", BooleanType())]
    known = F.broadcast(_constants(bounds.sparkSession, specs, fields))
    return (
        bounds.where(F.col("name") != _FLOW)
        .join(known, "name")
        .select(
            "level",
            "geocode",
            "query_name",
            *names,
            "query_shape",
            F.when(F.col("is_upper"), F.col("upper")).otherwise(F.col("lower")).alias("value"),
            F.lit(0.0).alias("variance"),
            F.lit(None).cast("string").alias("plb"),
            "sign",
        )
    )


def with_zeros(bounds: DataFrame, geounits: DataFrame, zeros: Sequence[StructuralZero]) -> DataFrame:
    """Bounds and structural zeros, which bound one answer of every geounit by 0 from both sides.

    Columns level, geocode, name, lower, upper.
    """
    names = _constants(geounits.sparkSession, [(zero.name,) for zero in zeros], [("name", _TEXT)])
    nothing = F.array(F.lit(0).cast("long"))
    fixed = geounits.crossJoin(F.broadcast(names)).withColumns({"lower": nothing, "upper": nothing})
    columns = ("level", "geocode", "name", "lower", "upper")
    return bounds.select(*columns).unionByName(fixed.select(*columns))


def published_rows(
    measured: DataFrame,
    bounds: DataFrame,
    geounits: DataFrame,
    spine: Spine,
    product: Product,
    budget: Budget,
    added: Sequence[AddedConstraint],
) -> DataFrame:
    """All rows of a run in the published columns, with columns level and kind in front; all answers are kept."""
    schema, zeros = product.schema, product.structural_zeros
    given = (*sides(product.class_query, added), *zero_sides(schema, zeros))
    columns = written_schema([attribute.name for attribute in schema.attributes])
    frames = {
        DPQUERY: measurement_rows(measured, schema, budget),
        CONSTRAINT: constraint_rows(with_zeros(bounds, geounits, zeros), schema, given),
    }
    one, other = (frame.select("level", F.lit(kind).alias("kind"), *columns) for kind, frame in frames.items())
    return with_root(one.unionByName(other), spine, PUBLISHED_ROOT)


def write_published(rows: DataFrame, folder: Place, leaves: DataFrame, spine: Spine) -> tuple[FileRecord, ...]:
    """Write the result of `published_rows` to folders by kind and level, by one job."""
    columns = StructType([field for field in rows.schema.fields if field.name not in ("level", "kind")])
    writer = ParquetTables({"rows": TableFolder(folder, to_arrow_schema(columns))})
    return write_levels(rows, "rows", writer, leaves, spine, ["geocode", "query_name"], (DPQUERY, CONSTRAINT))


def with_root(rows: DataFrame, spine: Spine, geocode: str = _OWN_ROOT) -> DataFrame:
    """Rows whose root is called otherwise, where it is one geounit by definition: a level of geocodes of length 0."""
    top = spine.levels[0]
    if top.length:
        return rows
    return rows.withColumn("geocode", F.when(F.col("level") == top.name, geocode).otherwise(F.col("geocode")))


def summaries(rows: DataFrame, most: int) -> list[Row]:
    """What rows of a file say, one row a level, kind, query, layout and sign; as many as there are queries.

    Columns: these, rows, geounits, shortest and longest value, least and greatest variance, least and greatest plb
    (text), broken (rows with a missing geocode or value), nonzero (rows with a value that is not 0).
    """
    size = F.size("value")
    broken = F.col("geocode").isNull() | F.col("value").isNull() | F.exists("value", lambda each: each.isNull())
    found = rows.groupBy("level", "kind", "query_name", "bins", "query_shape", "sign").agg(
        F.count(F.lit(1)).alias("rows"),
        F.countDistinct("geocode").alias("geounits"),
        F.min(size).alias("shortest"),
        F.max(size).alias("longest"),
        F.min("variance").alias("least_variance"),
        F.max("variance").alias("greatest_variance"),
        F.min("plb").alias("least_plb"),
        F.max("plb").alias("greatest_plb"),
        F.sum(F.coalesce(broken, F.lit(True)).cast("int")).alias("broken"),
        F.sum(F.exists("value", lambda each: each != 0).cast("int")).alias("nonzero"),
    )
    return found.limit(most).collect()


def variances(measured: DataFrame, shares: DataFrame | None) -> list[Row]:
    """Variances and sizes of the answers of each level, query and share of the budget.

    Columns level, query, share (null where there are none), least and greatest variance, length of the longest answer,
    and in how many rows answers and their numbers do not fit (`uneven`).
    """
    size = F.size("values")
    kept = F.coalesce(F.when(F.size("rows") >= 0, F.size("rows")), size)
    shared = (
        measured.withColumn("share", F.lit(None))
        if shares is None
        else measured.join(shares.select("level", "geocode", "share"), ["level", "geocode"])
    )
    found = shared.groupBy("level", "query", "share").agg(
        F.min("variance").alias("least"),
        F.max("variance").alias("greatest"),
        F.max(size).alias("longest"),
        F.sum((kept != size).cast("int")).alias("uneven"),
    )
    return found.collect()


def geounits_of(rows: DataFrame) -> DataFrame:
    """Level and geocode of the geounits that rows name."""
    return rows.select("level", "geocode").distinct()


def parents_of(geounits: DataFrame, spine: Spine) -> DataFrame:
    """Level and geocode of the parents that geounits have by the prefixes of their geocodes."""
    below = geounits.where(F.col("level") != spine.names[0])
    return below.select(_above(spine).alias("level"), parent_of(spine).alias("geocode"))


def leaves_of(geounits: DataFrame, spine: Spine) -> DataFrame:
    """Geocodes of the lowest level."""
    return geounits.where(F.col("level") == spine.leaf.name).select("geocode")


def rows_by_level(rows: DataFrame) -> dict[str, int]:
    """How many rows each level has."""
    return {row["level"]: row["count"] for row in rows.groupBy("level").count().collect()}


def some_unknown_geounits(rows: DataFrame, geounits: DataFrame, number: int) -> list[Row]:
    """Level and geocode of some geounits that rows name and that do not exist."""
    unknown = geounits_of(rows).join(geounits.select("level", "geocode"), ["level", "geocode"], "left_anti")
    return first_rows(unknown, number, "level", "geocode")


def some_unknown_to(geounits: DataFrame, tables: Sequence[DataFrame], spine: Spine, number: int) -> list[Row]:
    """The same of several tables, and of the parents that the geounits themselves name."""
    frames = [table.select("level", "geocode") for table in tables]
    for above, below in pairwise(spine.names):
        parents = geounits.where(F.col("level") == below)
        frames.append(parents.select(F.lit(above).alias("level"), F.col("parent").alias("geocode")))
    return some_unknown_geounits(union(frames), geounits, number)


def some_wrong_geocodes(geounits: DataFrame, spine: Spine, number: int) -> list[Row]:
    """Level and geocode of some geounits whose geocodes are not of as many digits as those of their level."""
    length = by_level(spine, lambda depth: F.lit(spine.levels[depth].length or 1))
    wrong = ~F.col("geocode").rlike(f"^{spine.characters}+$") | (F.length("geocode") != length)
    return first_rows(geounits.where(wrong), number, "level", "geocode")


def as_measurements(
    rows: DataFrame, geounits: DataFrame, known: Mapping[tuple[str, str], tuple[str, float]]
) -> DataFrame:
    """Measured rows as the table of a run. `tables.MEASUREMENTS` with a column level."""
    specs = [(*key, *value) for key, value in known.items()]
    fields = [*((name, _TEXT) for name in ("level", "query_name", "query")), ("exact", DoubleType())]
    names = F.broadcast(_constants(rows.sparkSession, specs, fields))
    parents = geounits.select("level", "geocode", "parent")
    return (
        rows.join(names, ["level", "query_name"])
        .join(parents, ["level", "geocode"])
        .select(
            "level",
            "geocode",
            "parent",
            "query",
            F.lit(None).cast("array<int>").alias("rows"),
            F.col("value").alias("values"),
            F.col("exact").alias("variance"),
        )
    )


def as_constraints(rows: DataFrame, schema: Schema) -> DataFrame:
    """Written constraints in the columns in which `read_rows` gives them, to be compared."""
    names = [attribute.name for attribute in schema.attributes]
    bins = F.array(*[F.when(F.col(name) == DETAILED, name).otherwise(F.col(name)) for name in names])
    return rows.select("level", "geocode", "query_name", bins.alias("bins"), "query_shape", "value", "sign")


def unequal(one: DataFrame, other: DataFrame) -> DataFrame:
    """Level, geocode and query name of constraints that are not the same in both; one below the other, one shuffle."""
    columns = ["level", "geocode", "query_name", "bins", "query_shape", "value", "sign"]
    signed = [each.select(*columns, F.lit(sign).alias("more")) for each, sign in ((one, 1), (other, -1))]
    counted = union(signed).groupBy(*columns)
    return counted.agg(F.sum("more").alias("more")).where("more <> 0").select("level", "geocode", "query_name")


def some_unequal(
    bounds: DataFrame, read: DataFrame, geounits: DataFrame, product: Product, added: Sequence[AddedConstraint]
) -> list[Row]:
    """A constraint of files that is not what follows from the bounds of a run, or lacks; the first one alone."""
    schema, zeros = product.schema, product.structural_zeros
    given = sides(product.class_query, added)
    # Folders that were published before structural zeros were hold none of them; one that has any must have all.
    names = [zero.name + EXACT for zero in zeros]
    if names and not read.where(F.col("query_name").isin(names)).isEmpty():
        bounds, given = with_zeros(bounds, geounits, zeros), (*given, *zero_sides(schema, zeros))
    computed = as_constraints(constraint_rows(bounds, schema, given), schema)
    return first_rows(unequal(computed, read), 1, "level", "geocode")


def prefix_geounits(rows: DataFrame, spine: Spine) -> DataFrame:
    """The geounits that rows speak of, nested by the prefixes of their geocodes.

    `tables.GEOUNITS` with a column level.
    """
    each = geounits_of(rows).select("level", "geocode", parent_of(spine).alias("parent"))
    children = each.groupBy(_above(spine).alias("level"), F.col("parent").alias("geocode")).agg(
        F.count(F.lit(1)).alias("children")
    )
    joined = each.join(children, ["level", "geocode"], "left")
    return joined.select("level", "geocode", "parent", F.coalesce("children", F.lit(0)).cast("long").alias("children"))


def parent_of(spine: Spine) -> Column:
    """Geocode of the parent, from columns level and geocode; empty at the top."""

    def parent(depth: int) -> Column:
        length = spine.levels[depth - 1].length if depth else 0
        return F.substring("geocode", 1, length) if length else F.lit("0" if depth else "")

    return by_level(spine, parent)


def _above(spine: Spine) -> Column:
    """Name of the level above, from column level; empty at the top."""
    return by_level(spine, lambda depth: F.lit(spine.names[depth - 1] if depth else ""))


def by_level(spine: Spine, value: Callable[[int], Column]) -> Column:
    """What depends on the level of a row."""
    chosen = F.when(F.col("level") == spine.names[0], value(0))
    for depth, name in enumerate(spine.names[1:], start=1):
        chosen = chosen.when(F.col("level") == name, value(depth))
    return chosen


def _shape_field() -> tuple[str, ArrayType]:
    return ("query_shape", ArrayType(IntegerType(), containsNull=False))


def _constants(spark: SparkSession, rows: Sequence[tuple[Any, ...]], fields: Sequence[tuple[str, Any]]) -> DataFrame:
    """A small table of what is the same for all geounits."""
    return spark.createDataFrame(rows, StructType([StructField(name, kind, nullable=False) for name, kind in fields]))


def read_rows(spark: SparkSession, files: Sequence[RowFile], attributes: Sequence[str], size: int) -> DataFrame:
    """Read the rows of many files, each by one task, whatever the widths of their numbers.

    A lazy frame of columns `ROWS`.
    """
    schema = from_arrow_schema(ROWS)
    if not files:
        return spark.createDataFrame([], schema)
    listed = [(file.level, file.kind, str(file.path.resolve())) for file in files]
    frame = spark.createDataFrame(listed, "level string, kind string, path string").repartition(len(listed))
    columns = tuple(attributes)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from rows_of_file(row, columns, size)

    return in_tasks(frame, read, schema)
