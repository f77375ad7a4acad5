"""Verification (from the public root alone) and the restricted accuracy report of finished runs."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from das_spark.config import plan_from_config
from das_spark.errors import OutputError
from das_spark.io.table_files import PARQUET
from das_spark.pipeline.features import orders_of, outputs_of, publications_of
from das_spark.pipeline.publish import counted_tables
from das_spark.pipeline.sources import imported_tables
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.statement import declared_invariants, ledger_text, statement_of
from das_spark.pipeline.table_writing import FORMATS
from das_spark.pipeline.verified_files import KnownManifests, copy_checks, file_checks, is_readable, unchanged_check
from das_spark.pipeline.verified_joint import joint_report
from das_spark.pipeline.verified_texts import text_check
from das_spark.places import Place, place_of, system_of
from das_spark.privacy import LedgerEntry
from das_spark.spark.census import read_spine
from das_spark.spark.checks import (
    Check,
    Rule,
    VerificationReport,
    budget_shares,
    judge,
    ledger_equals_config,
    row_counts,
)
from das_spark.spark.session import adaptive, fitted, session
from das_spark.spark.spine_report import share_paths
from das_spark.spark.verify import begin_judging
from das_spark.spark.verify_run import (
    Verified,
    array_rules,
    bound_columns,
    declared_columns,
    estimated_columns,
    histogram_rules,
    published_rules,
    schema_check,
    spine_rules,
)
from das_spark.spark.verify_tables import census_rules, compared_tables, header_checks, table_rules
from das_spark.store import (
    JointLayout,
    PublicLayout,
    PublicManifest,
    Staging,
    discard,
    finished,
    open_public,
    record_of,
    verification_staging,
    write_durably,
)
from das_spark.store.parquet import count_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.evaluation import SharePath
    from das_spark.geography import Spine
    from das_spark.spark.verify import FileRows, Source, SpineTables, StoredTable
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.store import FileRecord
    from das_spark.verification import FamilyRule


#: Bytes of public files of some tens of thousands of people.
_SMALL_RUN = 1 << 22


def verify_run(
    run_folder: Place, spark: SparkSession | None = None, work: str | None = None, *, manifest_sha256: str = ""
) -> VerificationReport:
    """Check what a run has written, from its public root alone; nothing in its folder is changed.

    Of a joint run all parts are checked, and what it says of them together.

    Every rule is judged anew; the report that the run has left there is compared with what is found now.

    Args:
        run_folder: The run's folder (or `runs/latest`), or its public folder. The folder of a run with its restricted
            root leads to its ledger, which says which manifest the run has written. The parts of a joint run lie
            beside it.
        spark: The session; found or started where None.
        work: Of a run in a store: where rows are written meanwhile, a place that all workers reach; by default a
            folder of temporary files of this machine.
        manifest_sha256: SHA-256 that the manifest must have, as its publisher says it; by default the ledger decides.

    Raises:
        OutputError: It is not the folder of a finished run, or it has links in it; or a manifest is named of a joint
            run.
    """
    with ExitStack() as folders:
        joint: JointLayout | None = JointLayout.find(run_folder)
        if joint is None:
            known = KnownManifests.of(run_folder, manifest_sha256)
            public = open_public(run_folder)
            return _verified(public, run_folder.name, known, spark, _staging_of(public, work, folders))
        parts = joint.parts()
        if manifest_sha256:
            names = " or ".join(str(part) for part in parts.values())
            raise OutputError(
                f"{run_folder}: a joint run, and each of its parts has a manifest of its own",
                hint=f"name one of them with its SHA-256: {names}",
            )
        # All parts are there before Spark is started for nothing.
        publics = {record: open_public(place) for record, place in parts.items()}
        chosen = spark or session(f"das_spark verify {joint.run_id}")
        reports = {
            record: _verified(
                publics[record],
                place.name,
                KnownManifests.of(place),
                chosen,
                _staging_of(publics[record], work, folders),
            )
            for record, place in parts.items()
        }
        return joint_report(joint, publics, reports, chosen)


def _staging_of(public: PublicLayout, work: str | None, folders: ExitStack) -> Staging:
    """Where rows are written while a run is verified: beside them on a disk, and never in a store that is public."""
    if isinstance(public.path, Path):
        return verification_staging(public)
    if work is not None:
        return Staging(place_of(work) / f"verification-{secrets.token_hex(8)}")
    return Staging(Path(folders.enter_context(TemporaryDirectory(prefix="das_spark-"))) / "rows")


def _verified(
    public: PublicLayout, name: str, known: KnownManifests, spark: SparkSession | None, staging: Staging
) -> VerificationReport:
    manifest = PublicManifest.load(public.manifest)  # before Spark is started for nothing
    try:
        report = examine(spark or session(f"das_spark verify {name}"), public, staging)
        more = copy_checks(public, manifest, report, known, staging.folder)
    finally:
        discard(staging.folder)
        system_of(staging.folder).remove_empty(str(staging.folder.parent))
    return replace(report, checks=(*report.checks, *more))


def verify_public(spark: SparkSession, layout: PublicLayout, staging: Staging | None = None) -> VerificationReport:
    """Check what a run has written, of a public root that is open already, and write the report into it."""
    staging = staging or verification_staging(layout)
    report = examine(spark, layout, staging)
    staging.guard()
    write_durably(layout.verification, report.to_json())
    return report


def examine(spark: SparkSession, layout: PublicLayout, staging: Staging) -> VerificationReport:
    """Judge every rule on what a run has written.

    Args:
        spark: The session.
        layout: The public root.
        staging: Where rows may be written meanwhile.
    """
    manifest = PublicManifest.load(layout.manifest)
    plan = _with_tables(plan_from_config(manifest.config, source=str(layout.manifest)), manifest)
    spine = spine_of_run(layout, plan)
    complete = _complete(layout, spine, plan)
    budgets = (budget_shares(budget) for budget in (LedgerEntry.of(manifest.ledger).budget, plan.budget))
    checks = [ledger_equals_config(*budgets)]
    read: tuple[FileRecord, ...] = ()
    if complete.passed:  # what is not whole is not read
        run = Verified(spark, layout, manifest, plan, spine, staging.folder)
        small = sum(file.size for file in manifest.files) <= _SMALL_RUN
        of_files = file_checks(layout, manifest, plan.product.census(spine), orders_of(plan))
        checks += of_files
        if is_readable(of_files):
            with fitted(spark, entries=plan.product.schema.size, small=small):
                checks += text_checks(run)
                judged, read = _judged(run)
                checks += judged
    every = (complete, unchanged_check(layout, manifest, read), *checks)
    sha256 = record_of(layout.manifest).sha256
    return VerificationReport(every, manifest.relaxed, manifest.run_id, sha256, manifest.uncertified)


def _with_tables(plan: RunPlan, manifest: PublicManifest) -> RunPlan:
    """Return the plan, with tables where an earlier version has added them to the run after it ended."""
    if plan.output.tables or not manifest.tables:
        return plan
    return replace(plan, output=replace(plan.output, tables=FORMATS))


def text_checks(run: Verified) -> list[Check]:
    """Judge texts and columns of a run whose files can be read; on a spine of the census they need no session."""
    return [_texts_follow(run), text_check(run), schema_check(run, _columns(run))]


def _columns(run: Verified) -> dict[Place, pa.Schema]:
    """Columns of the Parquet files of what is published of estimates, by folder."""
    return {
        folder: output.schema
        for output in outputs_of(run.plan)
        if output.format == PARQUET and output.schema is not None
        for folder in output.folders(run.layout).values()
    }


def _judged(run: Verified) -> tuple[list[Check], tuple[FileRecord, ...]]:
    """All rules on tables and files: one pass judges the families of all levels, one job the rules in SQL.

    Before these one reduces the microdata, whose files are given as they were read, by their paths below the public
    root.
    """
    layout, spine, manifest, plan = run.layout, run.spine, run.manifest, run.plan
    read = run.frames()
    by_census = run.published(read)
    census = plan.product.census(spine)
    with adaptive(run.spark), ThreadPoolExecutor(1) as threads:
        publications = publications_of(plan)
        compared = [table for publication in publications for table in publication.compared(run)]
        # Where no geounit has another geocode in published tables, these lie along the spine, too.
        along = compared if by_census is read else []
        stored = run.tables()
        judged = [publication.rules(run, read, by_census) for publication in publications]
        families, more = _rules_of_families(run, stored, along)
        families = (*families, *(list(each.families) for each in judged))
        more += chain.from_iterable(each.rows for each in judged)
        passed = begin_judging(threads, list(chain.from_iterable(families)), stored, spine, more)
        of_census: list[Rule] = []
        if not spine.is_census:
            of_census = census_rules(compared, run)
        elif by_census is not read:
            of_census = table_rules(compared, by_census)
        arrays = array_rules(run, read)
        found = iter(passed.result())
        histograms, published, of_spine, declaring, estimated, tables, *of_stages = (
            list(islice(found, len(family))) for family in families
        )
        of_features = [rule for own, each in zip(of_stages, judged, strict=True) for rule in (*own, *each.rules)]
        ordered = [histograms, published, of_spine, declaring, estimated, arrays, tables, of_census, of_features]
        checks = judge(list(chain.from_iterable(ordered)))
        checks += [check for each in judged for check in each.checks]
        checks += header_checks([*compared, *(table for each in judged for table in each.headed)], census.names)
    discard(run.scratch)
    rows = {f"{table}/{level}": count_rows(layout.level(table, level)) for table, level in counted_tables(plan)}
    for publication, found_of in zip(publications, judged, strict=True):
        rows |= dict(found_of.counted) or publication.rows(layout)
    files = tuple(file for each in judged for file in each.files)
    return checks + row_counts(manifest.rows, rows), files


def _rules_of_families(
    run: Verified, read: SpineTables[StoredTable], along: Sequence[PublishedTable]
) -> tuple[tuple[list[FamilyRule], ...], list[Source | FileRows]]:
    """Rules on families in the order of a report, and what they look at besides the tables of the run.

    Estimates; what they are held to; a spine of areas; geounits, invariants and bounds; measurements and diagnostics;
    published tables.
    """
    bounds, of_bounds = bound_columns(run, read)
    of_spine, paths = spine_rules(run)
    of_tables, rows = compared_tables(along, run.spine.names, run.spine)
    declaring = [*declared_columns(run), *bounds]
    of_estimates = (histogram_rules(run, read), published_rules(run))
    families = (*of_estimates, of_spine, declaring, estimated_columns(run, read), of_tables)
    return families, [*of_bounds, *paths, *rows]


def _complete(layout: PublicLayout, spine: Spine, plan: RunPlan) -> Check:
    """Every public folder is marked as whole."""
    of_spine = [*imported_tables(plan), "estimates", "diagnostics"]
    if not spine.is_census:
        of_spine.append("shares")
    folders = {f"{table}/{level}": layout.level(table, level) for table in of_spine for level in spine.names}
    if not spine.is_census:
        folders["spine"] = layout.spine
    for output in outputs_of(plan):
        folders |= output.folders(layout)
    missing = tuple(name for name, folder in folders.items() if not finished(folder))
    return Check("folders are whole", "", not missing, len(folders), missing)


def _texts_follow(run: Verified) -> Check:
    """Statement and ledger say what follows from the manifest: configuration, entry of the ledger, invariants."""
    layout, manifest, plan = run.layout, run.manifest, run.plan
    paths: tuple[SharePath, ...] = ()
    if not run.spine.is_census:
        paths = share_paths(read_spine(run.spark, layout.spine).blocks, len(plan.spine.levels))
    expected = {
        layout.privacy_statement: statement_of(manifest, plan, paths),
        layout.privacy_ledger: ledger_text(manifest),
    }
    failing = [path.name for path, text in expected.items() if not path.is_file() or path.read_bytes() != text.encode()]
    if manifest.invariants != declared_invariants(plan):
        failing.append("invariants of the manifest")
    return Check.of(("statement and ledger follow from the manifest", "", ""), len(expected) + 1, failing)
