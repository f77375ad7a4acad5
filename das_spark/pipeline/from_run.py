"""Measurements of an earlier run, from its public folder alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet

from das_spark.config import MeasurementOrigin, OriginKind, estimation_plan, plan_from_config, same_estimation
from das_spark.errors import ConfigurationError, InputError, OutputError
from das_spark.pipeline.noisy_checks import Findings
from das_spark.pipeline.origin import Origin, entry_of
from das_spark.pipeline.spines import copy_spine
from das_spark.spark.noisy_rows import unknown_geounits, variances
from das_spark.spark.tabulate import read_levels
from das_spark.store import (
    PublicLayout,
    PublicManifest,
    copy_parts,
    discard,
    disk_errors,
    finished,
    level_folder,
    open_public,
    part_files,
    record_of,
    replace_folder,
    require_held,
    staging_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext


#: Public tables that come before estimation.
ADOPTED: Final = ("geounits", "invariants", "bounds", "measurements")


@dataclass(frozen=True, slots=True)
class RunSource:
    """The public folder of a finished run.

    Attributes:
        public: The folder.
        plan: How the new run estimates.
        origin: What is known of the measurements.
    """

    public: PublicLayout
    plan: RunPlan
    origin: Origin

    def check(self, spark: SparkSession) -> None:
        """Examine the measurements: whole files, known geounits, and the variances of the budget."""
        for path in _parts(self.public, self.plan.spine.names):
            try:
                parquet.read_metadata(path)
            except (pa.ArrowInvalid, OSError) as error:
                raise InputError(f"{path}: is not a whole Parquet file", hint="copy the run again") from error
        findings = Findings(str(self.public.path))
        measured = read_levels(spark, self.public, "measurements", self.plan.spine.names)
        shares = read_levels(spark, self.public, "shares", self.plan.spine.names) if self.has_shares else None
        for row in variances(measured, shares).collect():  # one row a level, query and share
            _judge(row, self.plan, findings)
        geounits = read_levels(spark, self.public, "geounits", self.plan.spine.names)
        for row in unknown_geounits(measured, geounits).limit(1).collect():
            findings.add(f"geolevel {row['level']}: geounit {row['geocode']} is measured and does not exist")
        findings.refuse()

    @property
    def has_shares(self) -> bool:
        """Whether geounits have shares of the budget of their own."""
        return not self.plan.spine.is_census

    def adopt(self, context: RunContext) -> None:
        """Copy every table that comes before estimation."""
        copy_spine(context, self.public)
        # Shares first: a run that died meanwhile finds out from the others that it must go on.
        for table in (*(("shares",) if self.has_shares else ()), *ADOPTED):
            for name in self.plan.spine.names:
                adopt_level(context, table, name, self.public.level(table, name))


def open_run_source(path: Path, settings: Sequence[str]) -> RunSource:
    """Find out what the public folder of a finished run holds."""
    public = open_public(path)
    manifest = PublicManifest.load(public.manifest)
    where = str(public.manifest)
    measured = plan_from_config(manifest.config, source=where)
    levels = measured.spine.names
    for table in ADOPTED:
        for name in levels:
            if not finished(public.level(table, name)):
                raise OutputError(f"{path}: {table} of {name} are not there", hint="finish the run first")
    entry = entry_of(manifest.ledger, where)
    digest = hashlib.sha256()
    for part in _parts(public, levels):
        digest.update(f"{part.relative_to(public.path)} {record_of(part).sha256}\n".encode())
    origin = MeasurementOrigin(
        OriginKind.RUN, manifest.run_id, manifest.created, digest.hexdigest(), entry.run_id, measured.origin
    )
    plan = estimation_plan(measured, origin, settings, source=where)
    if plan.budget != entry.budget:
        raise InputError(f"{where}: configuration and ledger entry do not agree on the budget")
    if plan.measurement_rows != "all" and not same_estimation(plan, measured):
        raise ConfigurationError(
            f'{path}: the run has kept the noisy answers that its own estimates need (measurement.rows = "support"), so'
            " it can be estimated again in the same way only",
            hint='leave out --set estimation.*, or measure with measurement.rows = "all"',
        )
    return RunSource(public, plan, Origin(origin, entry))


def adopt_level(context: RunContext, table: str, geolevel: str, source: Path) -> None:
    """Copy one level of a public table into the run, unless it is there."""
    target = context.tables.folder(table, geolevel)
    if finished(target):
        return
    staging = staging_of(context.layout, context.layout.public) / table / level_folder(geolevel)
    discard(staging)
    with disk_errors(staging):
        copy_parts(source, staging)
        require_held(context.layout)
        replace_folder(staging, target)


def _parts(public: PublicLayout, levels: Sequence[str]) -> list[Path]:
    return [path for table in ADOPTED for name in levels for path in part_files(public.level(table, name))]


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
