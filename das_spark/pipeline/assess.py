"""Verification (from the public root alone) and the restricted accuracy report of finished runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from das_spark.errors import InputError, OutputError
from das_spark.evaluation import AccuracyReport, accuracy_page
from das_spark.evaluation.report import TOTAL
from das_spark.io.files import finished, write_durably
from das_spark.io.layout import PublicLayout, RunLayout, find_run, open_public
from das_spark.io.manifest import PublicManifest
from das_spark.privacy import LedgerEntry
from das_spark.products import PRODUCTS, Product
from das_spark.spark import tables
from das_spark.spark.evaluate import Areas, evaluate_levels
from das_spark.spark.session import session
from das_spark.spark.verify import (
    Check,
    LevelTables,
    VerificationReport,
    budget_shares,
    ledger_equals_config,
    row_counts,
    verify_levels,
)
from das_spark.spark.verify_microdata import Microdata, microdata_of, verify_microdata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.histogram import Query
    from das_spark.pipeline.context import RunContext


def verify_run(run_folder: Path, spark: SparkSession | None = None) -> VerificationReport:
    """Check what a run has written, from its public root alone, and write the report beside it.

    Args:
        run_folder: The run's folder (or `runs/latest`), or its public folder.
        spark: The session; found or started where None.

    Raises:
        OutputError: It is not the folder of a finished run.
    """
    return verify_public(spark or session(f"das_spark verify {run_folder.name}"), open_public(run_folder))


def verify_public(spark: SparkSession, layout: PublicLayout) -> VerificationReport:
    """The same, of a public root that is open already."""
    manifest = PublicManifest.load(layout.manifest)
    product = PRODUCTS[manifest.product]
    spine = product.spine(manifest.config["geography"]["levels"])
    levels = [_level(spark, layout, name, manifest) for name in spine.names]
    zeros = {zero.name: np.flatnonzero(zero.mask(product.schema)).tolist() for zero in product.structural_zeros}
    queries = _bound_queries(product, manifest.config)
    checks = [_complete(layout, spine), ledger_equals_config(*_shares(manifest))]
    checks += verify_levels(levels, size=product.schema.size, queries=queries, zeros=zeros)
    for flavour in manifest.config["output"]["microdata"]:
        checks += verify_microdata(_microdata(spark, layout, product, flavour, manifest), levels[-1])
    checks += row_counts(manifest.rows, _counted(spark, layout, manifest))
    report = VerificationReport(tuple(checks), manifest.relaxed)
    write_durably(layout.verification, report.to_json())
    return report


def evaluate_run(context: RunContext) -> dict[str, str]:
    """Write the accuracy report of a run under its restricted root.

    Returns:
        The few figures that are printed, by name.
    """
    areas = context.plan.evaluation.areas
    report = _accuracy(context.spark, context.layout, context.plan.product, context.plan.spine, areas)
    write_durably(context.layout.restricted.accuracy_json, report.to_json())
    write_durably(context.layout.restricted.accuracy_html, accuracy_page(report))
    figures = {}
    for entry in report.entries:
        if entry.frequencies.total and (entry.measure == TOTAL or entry.place == context.plan.spine.leaf.name):
            shown = entry.figures
            figures[f"error of {entry.place}, {entry.measure} (restricted)"] = (
                f"median {shown.median_absolute:.4g}, mean {shown.mean_absolute:.4g}, 95th percentile "
                f"{shown.p95_absolute:.4g}, bias {shown.bias:+.3g} people"
            )
    return figures


def evaluate_runs(run_folders: Sequence[Path], areas: Path | None = None) -> tuple[AccuracyReport, ...]:
    """Compare the estimates of finished runs with their confidential histograms. RESTRICTED.

    Args:
        run_folders: Folders of runs that still hold their restricted root.
        areas: CSV of leaf geocode and area, or None.

    Returns:
        One report a run, in order.

    Raises:
        InputError: If the areas cannot be read.
        OutputError: If a folder is no run, or its confidential histograms were removed.
    """
    spark = session("das_spark evaluate")
    reports = []
    for folder in run_folders:
        layout = find_run(folder)
        manifest = PublicManifest.load(layout.public.manifest)
        product = PRODUCTS[manifest.product]
        spine = product.spine(manifest.config["geography"]["levels"])
        reports.append(_accuracy(spark, layout, product, spine, None if areas is None else str(areas)))
    return tuple(reports)


def _accuracy(
    spark: SparkSession, layout: RunLayout, product: Product, spine: Spine, areas: str | None
) -> AccuracyReport:
    levels = []
    for name in spine.names:
        truth = layout.restricted.level("histograms", name)
        if not finished(truth):
            raise OutputError(f"{layout.folder}: the confidential histograms of {name} are not there any more")
        read = spark.read.schema(tables.HISTOGRAMS)
        levels.append((name, read.parquet(str(truth)), read.parquet(str(layout.public.level("estimates", name)))))
    return evaluate_levels(
        levels,
        product.schema.query(product.strata),
        product=product.name,
        run=layout.run_id,
        areas=None if areas is None else _areas(spark, Path(areas), spine),
    )


def _areas(spark: SparkSession, path: Path, spine: Spine) -> Areas:
    """Leaf geocodes and areas of a CSV (its first two columns); 15-digit blocks are widened where leaves have 16."""
    if not path.is_file():
        raise InputError(f"{path}: no such file", hint="evaluation.areas (or --areas) names a CSV of geocode and area")
    frame = spark.read.option("header", "true").csv(str(path))
    code, area = (F.col(f"`{name}`").cast("string") for name in frame.columns[:2])
    short = spine.leaf.length - 1
    # A 16-digit geocode repeats the block group, which is the first digit of the block, before the block.
    wide = F.concat(F.substring(code, 1, short - 4), F.substring(code, short - 3, 1), F.substring(code, short - 3, 4))
    geocode = F.when(F.length(code) == short, wide).otherwise(code)
    return Areas(path.stem, frame.select(geocode.alias("geocode"), area.alias("area")))


def _level(spark: SparkSession, layout: PublicLayout, name: str, manifest: PublicManifest) -> LevelTables:
    def table(of: str) -> DataFrame:
        schema, _ = tables.LEVEL_TABLES[of]
        return spark.read.schema(schema).parquet(str(layout.level(of, name)))

    has = {of: manifest.rows.get(f"{of}/{name}", 0) > 0 for of in ("invariants", "bounds")}
    total = table("invariants").where("name = 'total'").limit(1).count() if has["invariants"] else 0
    leaf = manifest.config["geography"]["levels"][-1] == name
    return LevelTables(
        name=name,
        geounits=table("geounits"),
        estimates=table("estimates"),
        invariants=table("invariants") if total or (leaf and has["invariants"]) else None,
        bounds=table("bounds") if has["bounds"] else None,
        relaxed=tuple(each.split("/", 1)[1] for each in manifest.relaxed if each.startswith(f"{name}/")),
    )


def _complete(layout: PublicLayout, spine: Spine) -> Check:
    """Every public level folder is marked as whole."""
    names = ("geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics")
    missing = tuple(
        f"{table}/{level}" for table in names for level in spine.names if not finished(layout.level(table, level))
    )
    return Check("folders are whole", "", not missing, len(names) * len(spine.names), missing)


def _bound_queries(product: Product, config: Mapping[str, Any]) -> dict[str, Query]:
    queries = {"total": product.schema.query("total"), "class": product.schema.query(product.class_query)}
    return queries | {f"added:{each['name']}": product.schema.query(each["query"]) for each in config["constraints"]}


def _shares(manifest: PublicManifest) -> tuple[dict[str, str], dict[str, str]]:
    """Every share of the ledger entry and of the configuration, by the same names."""
    record = manifest.config["budget"]
    configured = {"framework": record["framework"], "total": record["total"]}
    for level in record["levels"]:
        configured[level["geolevel"]] = level["share"]
        configured |= {f"{level['geolevel']} / {query}": share for query, share in level["queries"].items()}
    return budget_shares(LedgerEntry.from_json(json.dumps(manifest.ledger)).budget), configured


def _microdata(
    spark: SparkSession, layout: PublicLayout, product: Product, flavour: str, manifest: PublicManifest
) -> Microdata:
    units = bool(manifest.config["invariants"]["units"])
    person = [column.name for column in product.microdata.person]
    unit = [column.name for column in product.microdata.unit]
    return microdata_of(
        product,
        _records(spark, layout, "person", flavour, person),
        _records(spark, layout, "unit", flavour, unit) if units else None,
    )


def _records(spark: SparkSession, layout: PublicLayout, kind: str, flavour: str, columns: list[str]) -> DataFrame:
    folder = str(layout.microdata(kind, flavour))
    if flavour == "parquet":
        return spark.read.parquet(folder)
    schema = ", ".join(f"`{name}` string" for name in columns)
    return spark.read.schema(schema).option("sep", "|").option("pathGlobFilter", "part-*").csv(folder)


def _counted(spark: SparkSession, layout: PublicLayout, manifest: PublicManifest) -> dict[str, DataFrame]:
    """What the manifest counted, read back."""
    found = {}
    for name in manifest.rows:
        kind, _, rest = name.partition("/")
        if kind == "microdata":
            record, flavour = rest.split(".")
            found[name] = _records(spark, layout, record, flavour, ["line"])
        else:
            schema, _ = tables.LEVEL_TABLES[kind]
            folder = layout.level(kind, rest)
            found[name] = spark.read.schema(schema).parquet(str(folder))
    return found
