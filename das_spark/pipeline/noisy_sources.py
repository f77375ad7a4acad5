"""Measurements in the columns of published files: a folder that a run has published, or files of the Bureau's layout.

A folder that `das_spark.pipeline.measurements` has made holds a record of what it is. External files have none
(`das_spark.io.noisy_files` says which are read): the run file says product, levels, budget and invariants, and what the
files hold is compared with it: every level and query, layouts, variances (of single precision), exact totals.

Handled: geounits whose geocodes nest by prefix and have the lengths of the product's levels (the plain census spine);
one geounit at a root of length 0, whatever its geocode; any partitioning by State and County; constraints `total_con`,
`<class query>_total_lb_con` and `_ub_con` (at every level or at none), and structural zeros of the product.

Not handled, and refused by name: the optimized spine (geocodes with a leading digit for areas of American Indians and
Alaska Natives, levels between County and Block Group, geounits without measurements because they were bypassed, totals
of a state that hold for two geounits together), datasets of other products (DHC), and constraints that the product does
not know. The files hold no units: a run from them assigns people to none and writes no file of units for persons.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from das_spark.config import MeasurementOrigin, OriginKind, config_hash, estimation_plan, plan_from_config
from das_spark.errors import ConfigurationError, DasError, InfeasibleError, InputError
from das_spark.io.noisy_files import (
    CONSTRAINT,
    DPQUERY,
    EXTRA_TABLES,
    NoisyLayout,
    RowFile,
    check_records,
    check_whole,
    find_dataset,
    row_files,
)
from das_spark.pipeline.ingest import NAMED, refuse_contradictions
from das_spark.pipeline.measurements import same_schema
from das_spark.pipeline.noisy_checks import MOST_SUMMARIES, Findings, Known, judge_layout, measured_queries
from das_spark.pipeline.sources import Source, copy_level, digest_of, entry_of
from das_spark.places import Place
from das_spark.privacy import LedgerEntry
from das_spark.products import PRODUCTS
from das_spark.spark import bounds, noisy_rows
from das_spark.spark.geounit_rows import Contradiction
from das_spark.spark.ingest import added_against_totals
from das_spark.spark.noisy_rows import EXACT
from das_spark.spark.problems import reading
from das_spark.spark.published_bounds import published_class_bounds, published_totals, tightened_class_bounds
from das_spark.spark.scratch import write_and_read
from das_spark.spark.tables import first_rows, read_folders, union
from das_spark.store import MeasurementsManifest, discard, part_files, record_of, refuse_links, staging_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.spark.run_tables import RowCheck


@dataclass(slots=True)
class _RowsSource(Source):
    """Files of rows."""

    folder: Place  # where they lie, for messages
    files: tuple[RowFile, ...]  # the files
    _known: Known | None = None

    @abstractmethod
    def _summarize(self, spark: SparkSession, findings: Findings) -> Known:
        """The queries that the rows answer, by level and name in the files."""

    def _queries(self, spark: SparkSession) -> Known:
        if self._known is None:
            findings = Findings(str(self.folder))
            with reading(str(self.folder)):
                self._known = self._summarize(spark, findings)
            findings.refuse()
        return self._known

    def _rows(self, spark: SparkSession, kind: str) -> DataFrame:
        schema = self.plan.product.schema
        files = [file for file in self.files if file.kind == kind]
        rows = noisy_rows.read_rows(spark, files, [attribute.name for attribute in schema.attributes], schema.size)
        return noisy_rows.with_root(rows, self.plan.spine)

    def _write_measurements(self, context: RunContext) -> None:
        if not context.tables.is_finished("measurements"):
            rows, geounits = self._rows(context.spark, DPQUERY), context.tables.read_all("geounits")
            measured = noisy_rows.as_measurements(rows, geounits, self._queries(context.spark))
            context.tables.write_all("measurements", measured)


@dataclass(slots=True)
class MeasurementsSource(_RowsSource):
    """A folder of measurements with its record, checksums verified."""

    @property
    def layout(self) -> NoisyLayout:
        """What lies where."""
        return NoisyLayout(self.folder)

    def check(self, spark: SparkSession) -> None:
        """Examine the rows: every level, geounit and query, each laid out as asked, with the variance of the budget."""
        self._queries(spark)
        findings = Findings(str(self.folder))
        naming = [self._rows(spark, kind) for kind in (DPQUERY, CONSTRAINT)]
        naming.append(self._table(spark, "invariants"))
        geounits = self._table(spark, "geounits")
        for row in noisy_rows.some_unknown_to(geounits, naming, self.plan.spine, NAMED):
            findings.add(f"geolevel {row['level']}: there are rows of geounit {row['geocode']}, which does not exist")
        findings.refuse()

    def write_tables(self, context: RunContext) -> None:
        """Write the tables; bounds are computed anew, and must be those that the files hold as constraints."""
        for table in EXTRA_TABLES:
            for name in self.plan.spine.names:
                copy_level(context, table, name, self.layout.table(table, name))
        if not context.tables.is_finished("bounds"):
            write_bounds(context, partial(self._compare, context))
        self._write_measurements(context)

    def _summarize(self, spark: SparkSession, findings: Findings) -> Known:
        counts = noisy_rows.rows_by_level(self._table(spark, "geounits"))
        found = noisy_rows.summaries(self._rows(spark, DPQUERY), MOST_SUMMARIES)
        return measured_queries(found, self.plan, counts, findings, exact=True)

    def _table(self, spark: SparkSession, table: str) -> DataFrame:
        """A table beside the dataset, all levels."""
        places = [self.layout.table(table, name) for name in self.plan.spine.names]
        # Where nothing is declared of a level its folder is empty, and may have got lost on the way.
        return read_folders(spark, table, self.folder / table, [place for place in places if part_files(place)])

    def _compare(self, context: RunContext, bounds: DataFrame) -> None:
        """Whether the constraints of the files are those that follow from the invariants beside them."""
        plan, geounits = self.plan, context.tables.read_all("geounits")
        read = self._rows(context.spark, CONSTRAINT)
        for row in noisy_rows.some_unequal(bounds, read, geounits, plan.product, plan.added):
            raise InputError(
                f"{self.folder}: the constraint {row['query_name']} of geounit {row['geocode']} ({row['level']}) "
                "does not follow from the invariants"
            )


def open_measurements(path: Place, settings: Sequence[str]) -> MeasurementsSource:
    """Verify the checksums of a folder of measurements, and find out what it holds. Needs no Spark."""
    path = path.absolute()
    refuse_links(path)
    layout = NoisyLayout(path)
    record = _load(layout)
    check_records(path, record.files)
    if "product" not in record.config and record.product not in PRODUCTS:
        raise InputError(
            f"{path}: is of product {record.product!r}, which does not exist here", hint=f"known: {', '.join(PRODUCTS)}"
        )
    where = str(layout.record)
    measured = plan_from_config(record.config, source=where)
    product = measured.product
    try:
        same = same_schema(product.schema, record.schema)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{layout.record}: its schema cannot be read ({type(error).__name__})") from error
    if not same:
        raise InputError(f"{path}: its schema is not that of product {record.product} ({product.schema.name})")
    entry, digest = entry_of(record.ledger, where), record_of(layout.record).sha256
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
    return MeasurementsSource(plan, entry, path, files)


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


@dataclass(slots=True)
class ExternalSource(_RowsSource):
    """A dataset of external measurements; `plan` is what the run file says of it."""

    _bounded: bool = False

    def check(self, spark: SparkSession) -> None:
        """Examine the rows: levels, queries, layouts, variances, geocodes, and which totals are exact."""
        spine, findings = self.plan.spine, Findings(str(self.folder))
        with reading(str(self.folder)):
            self._queries(spark)
            measured, exact = (noisy_rows.geounits_of(self._rows(spark, kind)) for kind in (DPQUERY, CONSTRAINT))
            for row in noisy_rows.some_wrong_geocodes(measured, spine, NAMED):
                sentence = f"geocode {row['geocode']!r} is not of {spine.level(row['level']).length} digits"
                findings.add(f"geolevel {row['level']}: {sentence}; geocodes of an optimized spine are not handled")
            for row in noisy_rows.some_unknown_geounits(noisy_rows.parents_of(measured, spine), measured, NAMED):
                sentence = f"there are geounits in {row['geocode']}, which has no measurements of its own"
                findings.add(f"geolevel {row['level']}: {sentence}")
            for row in noisy_rows.some_unknown_geounits(exact, measured, NAMED):
                sentence = f"there are constraints of {row['geocode']}, which has no measurements"
                findings.add(f"geolevel {row['level']}: {sentence}")
            findings.refuse()

    def write_tables(self, context: RunContext) -> None:
        """Write geounits, invariants, bounds and measurements."""
        spark, spine = context.spark, self.plan.spine
        self._queries(spark)
        if not context.tables.is_finished("geounits"):
            nested = noisy_rows.prefix_geounits(self._rows(spark, DPQUERY), spine)
            context.tables.write_all("geounits", nested, leaves=noisy_rows.leaves_of(nested, spine))
        geounits = context.tables.read_all("geounits")
        if not context.tables.is_finished("invariants"):
            context.tables.write_all("invariants", published_totals(self._rows(spark, CONSTRAINT), geounits))
        if not context.tables.is_finished("bounds"):
            self._write_bounds(context, geounits)
        self._write_measurements(context)

    def _summarize(self, spark: SparkSession, findings: Findings) -> Known:
        measured = self._rows(spark, DPQUERY)
        counts = noisy_rows.rows_by_level(noisy_rows.geounits_of(measured))
        found = noisy_rows.summaries(measured, MOST_SUMMARIES)
        known = measured_queries(found, self.plan, counts, findings, exact=False)
        exact = noisy_rows.summaries(self._rows(spark, CONSTRAINT), MOST_SUMMARIES)
        self._judge_constraints(exact, counts, findings)
        return known

    def _judge_constraints(self, rows: Sequence[Any], counts: dict[str, int], findings: Findings) -> None:
        product, names = self.plan.product, self.plan.spine.names
        known = {side.query_name + EXACT: side for side in noisy_rows.sides(product.class_query, ())}
        zeros = {
            side.query_name + EXACT: side for side in noisy_rows.zero_sides(product.schema, product.structural_zeros)
        }
        there: dict[str, set[str]] = {name: set() for name in known}
        for row in rows:
            place = f"geolevel {row['level']}, {row['query_name']}"
            side = known.get(row["query_name"])
            if row["query_name"] in zeros:
                judge_layout(row, noisy_rows.binning(product.schema, zeros[row["query_name"]].query), place, findings)
                if row["sign"] != "=" or row["nonzero"] or row["broken"]:
                    findings.add(f"{place}: is a structural zero, and says something else")
            elif side is None:
                findings.add(f"{place}: the product knows no such constraint")
            else:
                there[row["query_name"]].add(row["level"])
                judge_layout(row, noisy_rows.binning(product.schema, side.query), place, findings)
                if row["sign"] != side.sign:
                    findings.add(f"{place}: its sign is {row['sign']!r}, expected {str(side.sign)!r}")
                if not row["rows"] == row["geounits"] == counts.get(row["level"]) or row["broken"]:
                    findings.add(f"{place}: there must be one row for each geounit that is measured")
        declared = set(self.plan.invariants.total_levels(names))
        if there[f"total{EXACT}"] != declared:
            found = ", ".join(name for name in names if name in there[f"total{EXACT}"]) or "none"
            findings.add(f"exact totals of {found}: declare just these (invariants.total_at)")
        bounded = [levels for name, levels in there.items() if name != f"total{EXACT}"]
        if any(levels != bounded[0] for levels in bounded) or any(0 < len(each) < len(names) for each in bounded):
            findings.add("bounds on classes must be there on both sides, and at every geolevel or at none")
        self._bounded = bool(bounded and bounded[0])

    def _write_bounds(self, context: RunContext, geounits: DataFrame) -> None:
        plan, declared = self.plan, self.plan.invariants
        totals = context.tables.read_all("invariants")
        added = tuple((each, plan.product.schema.query(each.query)) for each in plan.added)
        staging = staging_of(context.layout, context.layout.public) / "class_bounds"
        frames = [bounds.all_bounds(totals, geounits, plan.spine, declared, None, None, added)]
        try:
            if self._bounded:
                query = plan.product.schema.query(plan.product.class_query)
                rows = self._rows(context.spark, CONSTRAINT)
                of_classes = tightened_class_bounds(
                    rows, geounits, totals, plan.spine, plan.product.class_query, query.rows
                )
                frames.append(
                    published_class_bounds(write_and_read(of_classes, staging), plan.spine, declared.total_at)
                )
            context.tables.write_all("bounds", union(frames), partial(_refuse_impossible, context))
        finally:
            discard(staging)


def open_external(path: Place, plan: RunPlan) -> ExternalSource:
    """Find out what a folder of external measurements holds, as far as that needs no Spark."""
    if plan.invariants.units:
        raise ConfigurationError(
            f"{path}: measurement files of others hold no units, and the run file declares them",
            hint="set invariants.units = false",
        )
    if plan.product.published is not None:
        raise ConfigurationError(
            f"{path}: the estimates of product {plan.product.name!r} are held to counts of "
            f"{plan.product.published.product}, which measurement files of others do not hold",
            hint="estimate from the public folder of a run: das-spark estimate RUN",
        )
    refuse_links(path.absolute())
    dataset = find_dataset(path.absolute(), plan.spine.names)
    files = row_files(dataset, plan.spine.names)
    names = [attribute.name for attribute in plan.product.schema.attributes]
    check_whole(files, names, below=dataset)
    entry = LedgerEntry(
        run_id=dataset.name,
        created="",
        product=plan.product.name,
        table=plan.product.noun,
        budget=plan.budget,
        insecure=False,
        completed_levels=plan.spine.names,
    )
    digest = digest_of((file.path for file in files), dataset)
    origin = MeasurementOrigin(OriginKind.EXTERNAL, dataset.name, "", digest, entry.run_id)
    return ExternalSource(estimation_plan(plan, origin, source=str(path)), entry, dataset, files)


def write_bounds(context: RunContext, further: RowCheck) -> None:
    """Write every bound that follows from the invariants of the run and from public constants."""
    plan = context.plan
    invariants, formulas = context.tables.read_all("invariants"), plan.product.unit_bounds
    staging = staging_of(context.layout, context.layout.public) / "class_bounds"
    frame = bounds.all_bounds(
        invariants,
        context.tables.read_all("geounits"),
        context.spine,
        plan.invariants,
        # Several kinds of bounds are made of the class bounds.
        write_and_read(bounds.class_bounds(invariants, context.spine, formulas), staging)
        if plan.invariants.units and formulas
        else None,
        formulas,
        tuple((each, plan.product.schema.query(each.query)) for each in plan.added),
        context.spine.total_key_at(plan.invariants.total_at),
    )

    def check(written: DataFrame) -> None:
        _refuse_impossible(context, written)
        further(written)

    try:
        context.tables.write_all("bounds", frame, check)
    finally:
        discard(staging)


def _refuse_impossible(context: RunContext, written: DataFrame) -> None:
    """Find contradictions while nothing is spent; what only the estimator can find is named by it."""
    grouped = context.spine.total_key_at(context.plan.invariants.total_at) is not None
    rows = first_rows(bounds.indivisible(written, grouped=grouped), NAMED, "geocode")
    contradictions = [Contradiction(row["geocode"]) for row in rows]
    if context.plan.added and not rows:
        queries = {each.name: context.plan.product.schema.query(each.query) for each in context.plan.added}
        whole = [name for name, query in queries.items() if query.is_partition]
        rows = first_rows(added_against_totals(written, whole), NAMED, "geocode", "name")
        contradictions = [Contradiction(row["geocode"], row["name"].removeprefix("added:")) for row in rows]
    try:
        refuse_contradictions(context, contradictions)
    except InfeasibleError:
        for table in ("geounits", "invariants"):  # of a run that cannot be, nothing is published
            discard(context.layout.public.table(table))
        raise
