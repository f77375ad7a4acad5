"""Verification (from the public root alone) and the restricted accuracy report of finished runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyarrow import parquet
from pyspark.sql import functions as F

from das_spark.config.geography import planned_spine
from das_spark.constraints import Invariants
from das_spark.errors import InputError, OutputError
from das_spark.evaluation import (
    AccuracyReport,
    accuracy_page,
    compared_queries,
    demographic_groups,
    pool,
    spread,
)
from das_spark.evaluation.definitions import TOTAL
from das_spark.io.files import discard, finished, part_files, write_durably
from das_spark.io.geography import GEOGRAPHY_READERS
from das_spark.io.layout import PublicLayout, RunLayout, find_run, open_public
from das_spark.io.manifest import PublicManifest
from das_spark.io.microdata_digest import Digest, microdata_parts, write_digest
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.tabulate import PLACE, read_levels, read_published, table_rows
from das_spark.privacy import LedgerEntry
from das_spark.products import PRODUCTS, Product, microdata_codes
from das_spark.spark import tables
from das_spark.spark.census import census_histograms, on_census, published_estimates
from das_spark.spark.checks import Check, VerificationReport, budget_shares, judge, ledger_equals_config, row_counts
from das_spark.spark.evaluate import Subject, evaluate_levels
from das_spark.spark.evaluate_areas import Areas, entity_areas
from das_spark.spark.session import adaptive, session
from das_spark.spark.verify import RunTables, level_rules, present
from das_spark.spark.verify_microdata import MicrodataTables, microdata_rules, part_checks
from das_spark.spark.verify_spine import spine_rules
from das_spark.spark.verify_tables import header_checks, table_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.histogram import Query
    from das_spark.pipeline.context import RunContext

#: Tables that a run may have no rows of at all, where nothing is declared.
_DECLARED = ("invariants", "bounds")


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
    spine = spine_of_run(layout, product, manifest.config)
    complete = _complete(layout, spine, manifest)
    checks = [complete, ledger_equals_config(*_shares(manifest))]
    if complete.passed:  # what is not whole is not read
        checks += _judged(spark, layout, product, spine, manifest)
    report = VerificationReport(tuple(checks), manifest.relaxed)
    write_durably(layout.verification, report.to_json())
    return report


def _judged(
    spark: SparkSession, layout: PublicLayout, product: Product, spine: Spine, manifest: PublicManifest
) -> list[Check]:
    """All rules on tables and files: two Spark jobs, one that reduces the microdata and one that judges."""
    config = manifest.config
    flavours, units = config["output"]["microdata"], bool(config["invariants"]["units"])
    declared = Invariants(config["invariants"]["total_at"], units)
    read = _run_tables(spark, layout, spine, manifest)
    rules = level_rules(
        read,
        size=product.schema.size,
        queries=_bound_queries(product, config),
        zeros={zero.name: np.flatnonzero(zero.mask(product.schema)).tolist() for zero in product.structural_zeros},
        totals=declared.total_levels(spine.names),
        total_key=spine.total_key_at(declared.total_at),
    )
    codes = microdata_codes(product)
    # Of this process alone: a run may be verified twice at once.
    staging = layout.path / ".staging" / f"verification-{os.getpid()}"
    with adaptive(spark):
        dealt = len(product.files(units=units)) > 1
        parts = microdata_parts(layout, flavours, units=dealt, record=product.record)
        digest = write_digest(spark, parts, codes, staging)
        of_units = digest.units if dealt else None
        microdata = MicrodataTables(digest.persons, of_units, digest.parts, digest.faults, tuple(flavours), codes)
        flavours_of_tables = _table_flavours(product, manifest)
        census = product.census(spine)
        published = read_published(spark, layout.tables, product.tables, flavours_of_tables, census.names)
        told = read if census is spine else _told(spark, layout, read, spine, census)
        if census is not spine:
            shares, measured = (read_levels(spark, layout, name, spine.names) for name in ("shares", "measurements"))
            rules += spine_rules(shares, measured, read, told, census)
        rules += table_rules(published, told)
        checks = judge([*rules, *microdata_rules(microdata, told)]) + part_checks(microdata)
        checks += header_checks(published, census.names)
    discard(staging)
    return checks + row_counts(manifest.rows, _counted(layout, manifest, digest))


def _told(spark: SparkSession, layout: PublicLayout, read: RunTables, spine: Spine, census: Spine) -> RunTables:
    """The estimates by geounits of the census as they were published, with the invariants of blocks."""
    estimates = read_levels(spark, layout, published_estimates(spine), census.names)
    declared = read.invariants
    if declared is not None:
        declared = on_census(declared.where(F.col("level") == spine.leaf.name))
    return RunTables(census.names, estimates, estimates, declared)


def evaluate_run(context: RunContext) -> dict[str, str]:
    """Write the accuracy report of a run under its restricted root.

    Returns:
        The few figures that are printed, by name.
    """
    plan, restricted = context.plan, context.layout.restricted
    subject = _subject(plan.product, plan.queries)
    asked = _asked(context.spark, context.census, plan.evaluation.areas, plan.geography.reader, plan.geography.path)
    report = _accuracy(context.spark, context.layout, plan.product, plan.spine, subject, asked)
    write_durably(restricted.accuracy_json, report.to_json())
    write_durably(restricted.accuracy_html, accuracy_page(report))
    figures = {}
    for entry in report.entries:
        if entry.frequencies.total and (entry.measure == TOTAL or entry.place == plan.spine.leaf.name):
            shown = entry.figures
            figures[f"error of {entry.place}, {entry.measure} (restricted)"] = (
                f"median {shown.median_absolute:.4g}, mean {shown.mean_absolute:.4g}, 95th percentile "
                f"{shown.p95_absolute:.4g}, bias {shown.bias:+.3g} {report.counted}"
            )
    met = [
        f"{line.place} {met.within / met.geounits:.1%} of {met.geounits:,}"
        for line in report.headlines("largest group")
        if (met := line.whole).geounits
    ]
    if met:
        figures[f"largest of {report.groups}, share within 5 points (restricted)"] = ", ".join(met)
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
        spine = planned_spine(product, manifest.config)
        measured = [query for level in manifest.config["budget"]["levels"] for query in level["queries"]]
        subject = _subject(product, measured)
        place = manifest.config["geography"]
        named = None if areas is None else str(areas)
        asked = _asked(spark, product.census(spine), named, place.get("reader"), place.get("path"))
        reports.append(_accuracy(spark, layout, product, spine, subject, asked))
    return tuple(reports)


def write_accuracy(reports: Sequence[AccuracyReport], folder: Path) -> None:
    """Write `accuracy.json` and `accuracy.html` of one or several runs together. RESTRICTED.

    Args:
        reports: One a run.
        folder: Made, for its owner alone, where it is not there yet; so are the files.

    Raises:
        InputError: The reports cannot be pooled.
        OutputError: The disk is full.
    """
    whole, spreads = pool(reports), spread(reports) if len(reports) > 1 else ()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (("json", whole.to_json(spreads)), ("html", accuracy_page(whole, spreads))):
        path = folder / f"accuracy.{name}"
        write_durably(path, text)
        path.chmod(0o600)


def _subject(product: Product, measured: Iterable[str]) -> Subject:
    """What is compared: all that the run measures, and what every report on the product holds."""
    groups = demographic_groups(product.schema) or product.schema.query(product.strata)
    return Subject(
        product.schema.query(product.strata),
        compared_queries(product.schema, measured, product.strata),
        groups,
        product.counted,
    )


def _accuracy(
    spark: SparkSession, layout: RunLayout, product: Product, spine: Spine, subject: Subject, areas: Sequence[Areas]
) -> AccuracyReport:
    census = product.census(spine)
    of_spine = [layout.restricted.level("histograms", name) for name in spine.names]
    if gone := [name for name, folder in zip(spine.names, of_spine, strict=True) if not finished(folder)]:
        raise OutputError(f"{layout.folder}: the confidential histograms of {gone[0]} are not there any more")
    read = spark.read.schema(tables.HISTOGRAMS)
    if census is spine:
        truths = {name: read.parquet(str(folder)) for name, folder in zip(spine.names, of_spine, strict=True)}
    else:
        whole = census_histograms(read.parquet(str(of_spine[-1])), census)
        truths = {name: whole.where(F.col("level") == name).drop("level") for name in census.names}
    published = published_estimates(spine)
    levels = [(name, truth, read.parquet(str(layout.public.level(published, name)))) for name, truth in truths.items()]
    return evaluate_levels(
        levels,
        subject,
        product=product.name,
        run=layout.run_id,
        areas=areas,
    )


def _asked(
    spark: SparkSession, census: Spine, areas: str | None, reader: str | None, path: str | None
) -> tuple[Areas, ...]:
    """Areas that a file names, and the off-spine entities of a geography that the run has read."""
    named = () if areas is None else (_areas(spark, Path(areas), census),)
    if reader is None or path is None or not Path(path).exists():  # long after the run the files may be gone
        return named
    return (*named, *entity_areas(GEOGRAPHY_READERS[reader].read(spark, path).blocks))


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


def _run_tables(spark: SparkSession, layout: PublicLayout, spine: Spine, manifest: PublicManifest) -> RunTables:
    """Every table that verification compares, all levels of each by one scan; None where no level has rows."""

    def table(of: str) -> DataFrame | None:
        if of in _DECLARED and not any(manifest.rows.get(f"{of}/{name}", 0) for name in spine.names):
            return None
        return read_levels(spark, layout, of, spine.names)

    relaxed: dict[str, tuple[str, ...]] = {}
    for each in manifest.relaxed:
        level, parent = each.split("/", 1)
        relaxed[level] = (*relaxed.get(level, ()), parent)
    return RunTables(
        spine.names,
        present(table("geounits"), "geounits"),
        present(table("estimates"), "estimates"),
        table("invariants"),
        table("bounds"),
        relaxed,
    )


def _complete(layout: PublicLayout, spine: Spine, manifest: PublicManifest) -> Check:
    """Every public folder is marked as whole."""
    product = PRODUCTS[manifest.product]
    census = product.census(spine)
    of_spine = ["geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics"]
    if census is not spine:
        of_spine.append("shares")
    folders = {f"{table}/{level}": layout.level(table, level) for table in of_spine for level in spine.names}
    if census is not spine:
        folders["spine"] = layout.spine
        published = published_estimates(spine)
        folders |= {f"{published}/{level}": layout.level(published, level) for level in census.names}
    kinds = product.files(units=bool(manifest.config["invariants"]["units"]))
    for flavour in manifest.config["output"]["microdata"]:
        folders |= {f"microdata/{kind}.{flavour}": layout.microdata(kind, flavour) for kind in kinds}
    for flavour in _table_flavours(product, manifest):
        for table in product.tables:
            name = f"{PLACE}/{table.name}.{flavour}"
            folders |= {f"{name}/{level}": layout.tables.level(table.name, flavour, level) for level in census.names}
    missing = tuple(name for name, folder in folders.items() if not finished(folder))
    return Check("folders are whole", "", not missing, len(folders), missing)


def _bound_queries(product: Product, config: Mapping[str, Any]) -> dict[str, Query]:
    queries = {"total": product.schema.query("total")}
    if product.class_query:
        queries["class"] = product.schema.query(product.class_query)
    return queries | {f"added:{each['name']}": product.schema.query(each["query"]) for each in config["constraints"]}


def _shares(manifest: PublicManifest) -> tuple[dict[str, str], dict[str, str]]:
    """Every share of the ledger entry and of the configuration, by the same names."""
    record = manifest.config["budget"]
    configured = {"framework": record["framework"], "total": record["total"]}
    for level in record["levels"]:
        configured[level["geolevel"]] = level["share"]
        configured |= {f"{level['geolevel']} / {query}": share for query, share in level["queries"].items()}
    return budget_shares(LedgerEntry.from_json(json.dumps(manifest.ledger)).budget), configured


def _counted(layout: PublicLayout, manifest: PublicManifest, digest: Digest) -> dict[str, int]:
    """Rows of what the manifest counted: of tables from the footers of their files, of microdata as they were read."""
    found = {}
    for name in manifest.rows:
        table, _, rest = name.partition("/")
        if table in tables.LEVEL_TABLES:
            files = part_files(layout.level(table, rest))
            found[name] = sum(parquet.read_metadata(path).num_rows for path in files)
        elif table == "microdata":
            found[name] = digest.records(*rest.split("."))
    product = PRODUCTS[manifest.product]
    levels = product.census(planned_spine(product, manifest.config)).names
    return found | table_rows(layout.tables, _tables_written(manifest), levels)


def _tables_written(manifest: PublicManifest) -> list[tuple[str, str]]:
    """Name and flavour of every published table that the manifest counts."""
    names = [name.removeprefix(f"{PLACE}/") for name in manifest.rows if name.startswith(f"{PLACE}/")]
    return [(name.split(".")[0], name.split(".")[1]) for name in names]


def _table_flavours(product: Product, manifest: PublicManifest) -> tuple[str, ...]:
    """Flavours of tables that must be there: those of the configuration, and what the manifest counts."""
    configured = manifest.config["output"].get("tables", []) if product.tables else []
    return tuple(dict.fromkeys([*configured, *(flavour for _, flavour in _tables_written(manifest))]))
