"""Measurements that a run published as a folder of their own (`das_spark.pipeline.measurements`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.config import MeasurementOrigin, OriginKind, config_hash, estimation_plan, plan_from_config
from das_spark.errors import DasError, InputError
from das_spark.io.noisy_files import (
    CONSTRAINT,
    DPQUERY,
    EXTRA_TABLES,
    NoisyLayout,
    RowFile,
    check_records,
    check_whole,
    row_files,
)
from das_spark.pipeline.from_run import adopt_level
from das_spark.pipeline.ingest import write_bounds
from das_spark.pipeline.measurements import same_schema
from das_spark.pipeline.noisy_checks import MOST_SUMMARIES, Findings, Known, measured_queries
from das_spark.pipeline.origin import Origin, entry_of
from das_spark.products import PRODUCTS
from das_spark.spark.noisy_rows import (
    EXACT,
    as_constraints,
    as_measurements,
    constraint_rows,
    read_rows,
    sides,
    summary,
    unequal,
    unknown_geounits,
    with_root,
    with_zeros,
    zero_sides,
)
from das_spark.spark.readers import reading
from das_spark.spark.tables import LEVEL_TABLES, with_level
from das_spark.store import MeasurementsManifest, part_files, record_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.privacy import LedgerEntry


#: Geounits that an error names.
NAMED = 5


@dataclass(slots=True)
class MeasurementsSource:
    """A folder of measurements with its record, checksums verified.

    Attributes:
        layout: The folder.
        plan: How the run estimates.
        origin: What is known of the measurements.
        files: Files of rows.
    """

    layout: NoisyLayout
    plan: RunPlan
    origin: Origin
    files: tuple[RowFile, ...]
    _known: Known | None = None

    def check(self, spark: SparkSession) -> None:
        """Examine the rows: every level, geounit and query, each laid out as asked, with the variance of the budget."""
        self._queries(spark)
        findings = Findings(str(self.layout.path))
        geounits = self._table(spark, "geounits")
        spoken = [self._rows(spark, kind).select("level", "geocode") for kind in (DPQUERY, CONSTRAINT)]
        spoken += [self._table(spark, "invariants").select("level", "geocode")]
        for above, below in zip(self.plan.spine.names, self.plan.spine.names[1:], strict=False):
            parents = geounits.where(F.col("level") == below)
            spoken.append(parents.select(F.lit(above).alias("level"), F.col("parent").alias("geocode")))
        whole = reduce(DataFrame.unionByName, spoken)
        for row in unknown_geounits(whole, geounits).orderBy("level", "geocode").limit(NAMED).collect():
            findings.add(f"geolevel {row['level']}: there are rows of geounit {row['geocode']}, which does not exist")
        findings.refuse()

    def adopt(self, context: RunContext) -> None:
        """Write the public tables: bounds are computed anew, and must be those that the files hold as constraints."""
        for table in EXTRA_TABLES:
            for name in self.plan.spine.names:
                adopt_level(context, table, name, self.layout.table(table, name))
        if not context.tables.is_finished("bounds"):
            write_bounds(context, partial(self._compare, context))
        if not context.tables.is_finished("measurements"):
            geounits = context.tables.read_all("geounits")
            rows = self._rows(context.spark, DPQUERY)
            context.tables.write_all("measurements", as_measurements(rows, geounits, self._queries(context.spark)))

    def _queries(self, spark: SparkSession) -> Known:
        if self._known is None:
            geounits = self._table(spark, "geounits").groupBy("level").count().collect()  # one row a level
            counts = {row["level"]: row["count"] for row in geounits}
            with reading(str(self.layout.path)):
                found = summary(self._rows(spark, DPQUERY)).limit(MOST_SUMMARIES).collect()
            findings = Findings(str(self.layout.path))
            self._known = measured_queries(found, self.plan, counts, findings, exact=True)
            findings.refuse()
        return self._known

    def _rows(self, spark: SparkSession, kind: str) -> DataFrame:
        schema = self.plan.product.schema
        files = [file for file in self.files if file.kind == kind]
        names = [attribute.name for attribute in schema.attributes]
        return with_root(read_rows(spark, files, names, schema.size), self.plan.spine)

    def _table(self, spark: SparkSession, table: str) -> DataFrame:
        """A table beside the dataset, all levels, with a column level."""
        schema = with_level(LEVEL_TABLES[table])
        places = [self.layout.table(table, name) for name in self.plan.spine.names]
        # Where nothing is declared of a level its folder is empty, and may have got lost on the way.
        folders = [str(place) for place in places if part_files(place)]
        if not folders:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", str(self.layout.path / table)).parquet(*folders)

    def _compare(self, context: RunContext, bounds: DataFrame) -> None:
        """Whether the constraints of the files are those that follow from the invariants beside them."""
        plan = self.plan
        schema, zeros = plan.product.schema, plan.product.structural_zeros
        given, read = sides(plan.product.class_query, plan.added), self._rows(context.spark, CONSTRAINT)
        # Folders that were published before structural zeros were hold none of them; one that has any must have all.
        names = [zero.name + EXACT for zero in zeros]
        if names and not read.where(F.col("query_name").isin(names)).isEmpty():
            bounds = with_zeros(bounds, context.tables.read_all("geounits"), zeros)
            given = (*given, *zero_sides(schema, zeros))
        computed = constraint_rows(bounds, schema, given)
        for row in unequal(as_constraints(computed, schema), read).orderBy("level", "geocode").limit(1).collect():
            raise InputError(
                f"{self.layout.path}: the constraint {row['query_name']} of geounit {row['geocode']} ({row['level']}) "
                "does not follow from the invariants"
            )


def open_measurements(path: Path, settings: Sequence[str]) -> MeasurementsSource:
    """Verify the checksums of a folder of measurements, and find out what it holds. Needs no Spark."""
    path = path.absolute()
    layout = NoisyLayout(path)
    record = _load(layout)
    check_records(path, record.files)
    product = PRODUCTS.get(record.product)
    if product is None:
        raise InputError(
            f"{path}: is of product {record.product!r}, which does not exist here", hint=f"known: {', '.join(PRODUCTS)}"
        )
    try:
        same = same_schema(product.schema, record.schema)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{layout.record}: its schema cannot be read ({type(error).__name__})") from error
    if not same:
        raise InputError(f"{path}: its schema is not that of product {record.product} ({product.schema.name})")
    where = str(layout.record)
    entry, digest = entry_of(record.ledger, where), record_of(layout.record).sha256
    measured = plan_from_config(record.config, source=where)
    _check_record(where, record, measured, entry)
    origin = MeasurementOrigin(
        OriginKind.MEASUREMENTS, record.run_id, record.created, digest, entry.run_id, measured.origin
    )
    plan = estimation_plan(measured, origin, settings, source=where)
    names = [attribute.name for attribute in product.schema.attributes]
    files = row_files(layout.dataset(record.product), plan.spine.names)
    check_whole(files, names, below=path)
    for name in plan.spine.names:
        if not part_files(layout.table("geounits", name)):
            raise InputError(f"{path}: the geounits of geolevel {name} are missing ({layout.table('geounits', name)})")
    return MeasurementsSource(layout, plan, Origin(origin, entry), files)


def _load(layout: NoisyLayout) -> MeasurementsManifest:
    if not layout.record.is_file():
        raise InputError(
            f"{layout.path}: holds no {layout.record.name}",
            hint="name a folder that `das-spark measurements` has made; files of others need --conf CONF",
        )
    try:
        return MeasurementsManifest.load(layout.record)
    except DasError as error:
        raise InputError(error.message, hint=error.hint) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{layout.record}: cannot be read ({type(error).__name__})") from error


def _check_record(where: str, record: MeasurementsManifest, plan: RunPlan, entry: LedgerEntry) -> None:
    if plan.product.name != record.product or entry.product != record.product:
        raise InputError(f"{where}: product, configuration and ledger entry are of different products")
    if config_hash(record.config) != record.config_hash:
        raise InputError(f"{where}: the configuration has been changed (its hash is another one)")
    if plan.budget != entry.budget:
        raise InputError(f"{where}: configuration and ledger entry do not agree on the budget")
    if set(entry.completed_levels) != set(plan.spine.names):
        raise InputError(f"{where}: the run that measured had not published every geolevel")
    if plan.measurement_rows != "all":
        raise InputError(f'{where}: not every noisy answer was kept (measurement.rows = "{plan.measurement_rows}")')
