"""Measurements that exist, from which a run estimates that draws none itself; the public folder of a finished run."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet

from das_spark.config import MeasurementOrigin, OriginKind, estimation_plan, plan_from_config, same_estimation
from das_spark.errors import ConfigurationError, InputError, PrivacyGuardError
from das_spark.pipeline.noisy_checks import Findings
from das_spark.pipeline.published import copy_record
from das_spark.pipeline.spines import copy_spine
from das_spark.places import Place, as_input, disk_errors, seen_from
from das_spark.privacy import LedgerEntry
from das_spark.spark.noisy_rows import some_unknown_geounits, variances
from das_spark.spark.tables import read_levels
from das_spark.store import (
    PublicLayout,
    PublicManifest,
    copy_parts,
    finished,
    open_public,
    part_files,
    record_of,
    replace_folder,
    require_finished,
    require_held,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.store import FileRecord


#: Public tables that come before estimation.
IMPORTED: Final = ("geounits", "invariants", "bounds", "measurements")


def imported_tables(plan: RunPlan) -> tuple[str, ...]:
    """Public tables of a run that come before estimation."""
    return IMPORTED if plan.product.published is None else (*IMPORTED, "published")


@dataclass(slots=True)
class Source(ABC):
    """Measurements that a run can be started from."""

    plan: RunPlan  # of the run that estimates from them
    #: The ledger entry of the run that measured; for external files, what their budget must have been.
    entry: LedgerEntry

    @abstractmethod
    def check(self, spark: SparkSession) -> None:
        """Examine the rows before anything is written.

        Raises:
            InputError: They are not what they must be; all problems together.
        """

    @abstractmethod
    def write_tables(self, context: RunContext) -> None:
        """Write the public tables of a run that come before estimation: those that are not there yet.

        Raises:
            InputError: They are not what they must be.
            InfeasibleError: The invariants leave no possible estimate.
            OutputError: The disk is full.
        """


@dataclass(slots=True)
class RunSource(Source):
    """The public folder of a finished run."""

    public: PublicLayout

    def check(self, spark: SparkSession) -> None:
        """Examine the measurements: whole files, known geounits, and the variances of the budget."""
        levels = self.plan.spine.names
        for path in _parts(self.public, self.plan):
            try:
                parquet.read_metadata(as_input(path))
            except (pa.ArrowInvalid, OSError) as error:
                raise InputError(f"{path}: is not a whole Parquet file", hint="copy the run again") from error
        findings = Findings(str(self.public.path))
        measured = read_levels(spark, self.public, "measurements", levels)
        shares = None if self.plan.spine.is_census else read_levels(spark, self.public, "shares", levels)
        for row in variances(measured, shares):
            _judge(row, self.plan, findings)
        for row in some_unknown_geounits(measured, read_levels(spark, self.public, "geounits", levels), 1):
            findings.add(f"geolevel {row['level']}: geounit {row['geocode']} is measured and does not exist")
        findings.refuse()

    def write_tables(self, context: RunContext) -> None:
        """Copy every table that comes before estimation."""
        copy_spine(context, self.public)
        # Shares first: a run that died meanwhile finds out from the others that it must go on.
        if self.plan.product.published is not None:
            copy_record(context, self.public)
        for table in (*(() if self.plan.spine.is_census else ("shares",)), *imported_tables(self.plan)):
            for name in self.plan.spine.names:
                copy_level(context, table, name, self.public.level(table, name))


def open_run_source(path: Place, settings: Sequence[str]) -> RunSource:
    """Find out what the public folder of a finished run holds."""
    public = open_public(path)
    manifest = PublicManifest.load(public.manifest)
    where = str(public.manifest)
    measured = plan_from_config(manifest.config, source=where)
    levels = measured.spine.names
    require_finished(public, imported_tables(measured), levels)
    entry = entry_of(manifest.ledger, where)
    digest = digest_of(_parts(public, measured), public.path, {file.name: file for file in manifest.files})
    origin = MeasurementOrigin(OriginKind.RUN, manifest.run_id, manifest.created, digest, entry.run_id, measured.origin)
    plan = estimation_plan(measured, origin, settings, source=where)
    if plan.budget != entry.budget:
        raise InputError(f"{where}: configuration and ledger entry do not agree on the budget")
    if plan.measurement_rows != "all" and not same_estimation(plan, measured):
        raise ConfigurationError(
            f'{path}: the run has kept the noisy answers that its own estimates need (measurement.rows = "support"), so'
            " it can be estimated again in the same way only",
            hint='leave out --set estimation.*, or measure with measurement.rows = "all"',
        )
    return RunSource(plan, entry, public)


def entry_of(ledger: Mapping[str, Any], where: str) -> LedgerEntry:
    """The ledger entry that a manifest holds."""
    try:
        return LedgerEntry.of(ledger)
    except PrivacyGuardError as error:
        raise InputError(f"{where}: {error.message}") from error


def digest_of(files: Iterable[Place], folder: Place, listed: Mapping[str, FileRecord] | None = None) -> str:
    """Return a checksum over names below a folder and contents.

    Args:
        files: What is read.
        folder: The folder.
        listed: Records of the files by their paths below the folder, which they are compared with.

    Raises:
        InputError: A file is not as its record says, or has none.
    """
    digest = hashlib.sha256()
    for file in files:
        name = seen_from(folder, file)
        record = record_of(file, name)
        if listed is not None and listed.get(name) != record:
            raise InputError(f"{file}: is not the file that the manifest lists", hint="copy the run again")
        digest.update(f"{name} {record.sha256}\n".encode())
    return digest.hexdigest()


def copy_level(context: RunContext, table: str, geolevel: str, source: Place) -> None:
    """Copy one level of a public table into the run, unless it is there."""
    target = context.tables.folder(table, geolevel)
    if finished(target):
        return
    staging = context.tables.fresh_staging(table, geolevel)
    with disk_errors(staging):
        copy_parts(source, staging)
        require_held(context.layout)
        replace_folder(staging, target, None if part_files(source) else ())


def _parts(public: PublicLayout, plan: RunPlan) -> list[Place]:
    folders = (public.level(table, name) for table in imported_tables(plan) for name in plan.spine.names)
    return [path for folder in folders for path in part_files(folder)]


def _judge(row: Any, plan: RunPlan, findings: Findings) -> None:  # noqa: ANN401 - a Spark row
    place = f"geolevel {row['level']}, {row['query']}"
    if row["query"] not in {item.query for item in plan.budget.level(row["level"]).queries}:
        findings.add(f"{place}: the budget has no such query at this geolevel")
        return
    share = plan.budget.level(row["level"]).share if row["share"] is None else Fraction(row["share"])
    if not share:
        findings.add(f"{place}: geounits are measured that have no share of the budget")
        return
    variance = plan.budget.mechanism_at(row["level"], row["query"], share).variance()
    if not row["least"] == row["greatest"] == variance:
        findings.add(f"{place}: its variance is {row['least']}, and {variance} follows from the budget")
    if row["uneven"] or row["longest"] > plan.queries[row["query"]].rows:
        findings.add(f"{place}: values do not fit the answers of the query")
