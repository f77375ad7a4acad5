"""External measurements: published by others in the Bureau's layout (`das_spark.io.noisy_files`), without our record.

The run file says what they are: product, levels, budget and invariants. What the files hold is compared with it: every
level and query, layouts, variances (of single precision), the exact totals of the levels that it declares.

Handled: geounits whose geocodes nest by prefix and have the lengths of the product's levels (the plain census spine);
one geounit at a root of length 0, whatever its geocode; any partitioning by State and County; constraints `total_con`,
`<class query>_total_lb_con` and `_ub_con` (at every level or at none), and structural zeros of the product.

Not handled, and refused by name: the optimised spine (geocodes with a leading digit for areas of American Indians and
Alaska Natives, levels between County and Block Group, geounits without measurements because they were bypassed, totals
of a state that hold for two geounits together), datasets of other products (DHC), and constraints that the product does
not know. The files hold no units: a run from them deals people to none and writes no file of units for persons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from das_spark.config import MeasurementOrigin, OriginKind, estimation_plan
from das_spark.errors import ConfigurationError
from das_spark.io.noisy_files import CONSTRAINT, DPQUERY, RowFile, check_whole, find_dataset, row_files
from das_spark.pipeline.ingest import refuse_impossible
from das_spark.pipeline.noisy_checks import MOST_SUMMARIES, Findings, Known, judge_layout, measured_queries
from das_spark.pipeline.origin import Origin
from das_spark.privacy import LedgerEntry
from das_spark.spark.bounds import all_bounds
from das_spark.spark.noisy_rows import (
    EXACT,
    as_measurements,
    binning,
    by_level,
    parent_of,
    prefix_geounits,
    read_rows,
    sides,
    summary,
    unknown_geounits,
    with_root,
    zero_sides,
)
from das_spark.spark.published_bounds import published_boxes, published_class_bounds, published_totals
from das_spark.spark.readers import reading
from das_spark.store import discard, disk_errors, record_of, staging_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext


#: Geounits that an error names.
NAMED = 5


@dataclass(slots=True)
class ExternalSource:
    """A dataset of external measurements.

    Attributes:
        dataset: Its folder.
        plan: What the run file says of it, and how the run estimates.
        origin: What is known of the measurements.
        files: Files of rows.
    """

    dataset: Path
    plan: RunPlan
    origin: Origin
    files: tuple[RowFile, ...]
    _known: Known | None = None
    _bounded: bool = False

    def check(self, spark: SparkSession) -> None:
        """Examine the rows: levels, queries, layouts, variances, geocodes, and which totals are exact."""
        with reading(str(self.dataset)):
            self._summarised(spark)
            findings = Findings(str(self.dataset))
            measured, exact = (self._rows(spark, kind).select("level", "geocode") for kind in (DPQUERY, CONSTRAINT))
            self._check_geocodes(measured.distinct(), findings)
            for row in unknown_geounits(exact, measured).orderBy("level", "geocode").limit(NAMED).collect():
                sentence = f"there are constraints of {row['geocode']}, which has no measurements"
                findings.add(f"geolevel {row['level']}: {sentence}")
            findings.refuse()

    def adopt(self, context: RunContext) -> None:
        """Write geounits, invariants, bounds and measurements."""
        plan, spark = self.plan, context.spark
        known = self._summarised(spark)
        if not context.tables.is_finished("geounits"):
            nested = prefix_geounits(self._rows(spark, DPQUERY), plan.spine)
            leaves = nested.where(F.col("level") == plan.spine.leaf.name).select("geocode")
            context.tables.write_all("geounits", nested, leaves=leaves)
        geounits = context.tables.read_all("geounits")
        if not context.tables.is_finished("invariants"):
            context.tables.write_all("invariants", published_totals(self._rows(spark, CONSTRAINT), geounits))
        if not context.tables.is_finished("bounds"):
            self._write_bounds(context, geounits)
        if not context.tables.is_finished("measurements"):
            context.tables.write_all("measurements", as_measurements(self._rows(spark, DPQUERY), geounits, known))

    def _rows(self, spark: SparkSession, kind: str) -> DataFrame:
        schema = self.plan.product.schema
        files = [file for file in self.files if file.kind == kind]
        rows = read_rows(spark, files, [attribute.name for attribute in schema.attributes], schema.size)
        return with_root(rows, self.plan.spine)

    def _summarised(self, spark: SparkSession) -> Known:
        if self._known is None:
            measured = self._rows(spark, DPQUERY)
            distinct = measured.groupBy("level").agg(F.countDistinct("geocode").alias("geounits"))
            counts = {row["level"]: row["geounits"] for row in distinct.collect()}  # one row a level
            findings = Findings(str(self.dataset))
            found = summary(measured).limit(MOST_SUMMARIES).collect()
            self._known = measured_queries(found, self.plan, counts, findings, exact=False)
            exact = summary(self._rows(spark, CONSTRAINT)).limit(MOST_SUMMARIES).collect()
            self._judge_constraints(exact, counts, findings)
            findings.refuse()
        return self._known

    def _judge_constraints(self, rows: Sequence[Any], counts: dict[str, int], findings: Findings) -> None:
        product, names = self.plan.product, self.plan.spine.names
        known = {side.query_name + EXACT: side for side in sides(product.class_query, ())}
        zeros = {side.query_name + EXACT: side for side in zero_sides(product.schema, product.structural_zeros)}
        there: dict[str, set[str]] = {name: set() for name in known}
        for row in rows:
            place = f"geolevel {row['level']}, {row['query_name']}"
            side = known.get(row["query_name"])
            if row["query_name"] in zeros:
                judge_layout(row, binning(product.schema, zeros[row["query_name"]].query), place, findings)
                if row["sign"] != "=" or row["nonzero"] or row["broken"]:
                    findings.add(f"{place}: is a structural zero, and says something else")
            elif side is None:
                findings.add(f"{place}: the product knows no such constraint")
            else:
                there[row["query_name"]].add(row["level"])
                judge_layout(row, binning(product.schema, side.query), place, findings)
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

    def _check_geocodes(self, rows: DataFrame, findings: Findings) -> None:
        spine = self.plan.spine
        length = by_level(spine, lambda depth: F.lit(spine.levels[depth].length or 1))
        wrong = ~F.col("geocode").rlike("^[0-9]+$") | (F.length("geocode") != length)
        for row in rows.where(wrong).orderBy("level", "geocode").limit(NAMED).collect():
            sentence = f"geocode {row['geocode']!r} is not of {spine.level(row['level']).length} digits"
            findings.add(f"geolevel {row['level']}: {sentence}; geocodes of an optimised spine are not handled")
        above = by_level(spine, lambda depth: F.lit(spine.names[depth - 1] if depth else ""))
        parents = rows.where(F.col("level") != spine.names[0]).select(
            above.alias("level"), parent_of(spine).alias("geocode")
        )
        for row in unknown_geounits(parents, rows).orderBy("level", "geocode").limit(NAMED).collect():
            sentence = f"there are geounits in {row['geocode']}, which has no measurements of its own"
            findings.add(f"geolevel {row['level']}: {sentence}")

    def _write_bounds(self, context: RunContext, geounits: DataFrame) -> None:
        plan, declared = self.plan, self.plan.invariants
        totals = context.tables.read_all("invariants")
        added = tuple((each, plan.product.schema.query(each.query)) for each in plan.added)
        frame = all_bounds(totals, geounits, plan.spine, declared, None, None, added)
        staging = staging_of(context.layout, context.layout.public) / "boxes"
        discard(staging)
        try:
            if self._bounded:
                classes = plan.product.schema.query(plan.product.class_query).rows
                rows = self._rows(context.spark, CONSTRAINT)
                boxes = published_boxes(rows, geounits, totals, plan.spine, plan.product.class_query, classes)
                with disk_errors(staging):
                    boxes.write.parquet(str(staging))
                read = context.spark.read.schema(boxes.schema).parquet(str(staging))
                frame = frame.unionByName(published_class_bounds(read, plan.spine, declared.total_at))
            context.tables.write_all("bounds", frame, lambda written: refuse_impossible(context, written))
        finally:
            discard(staging)


def open_external(path: Path, plan: RunPlan) -> ExternalSource:
    """Find out what a folder of external measurements holds, as far as that needs no Spark."""
    if plan.invariants.units:
        raise ConfigurationError(
            f"{path}: measurement files of others hold no units, and the run file declares them",
            hint="set invariants.units = false",
        )
    dataset = find_dataset(path.absolute(), plan.spine.names)
    files = row_files(dataset, plan.spine.names)
    names = [attribute.name for attribute in plan.product.schema.attributes]
    check_whole(files, names, below=dataset)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.path.relative_to(dataset)} {record_of(file.path).sha256}\n".encode())
    entry = LedgerEntry(
        run_id=dataset.name,
        created="",
        product=plan.product.name,
        table=plan.product.record,
        budget=plan.budget,
        insecure=False,
        completed_levels=plan.spine.names,
    )
    origin = MeasurementOrigin(OriginKind.EXTERNAL, dataset.name, "", digest.hexdigest(), entry.run_id)
    return ExternalSource(dataset, estimation_plan(plan, origin, source=str(path)), Origin(origin, entry), files)
