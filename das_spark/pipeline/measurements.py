"""Publish the noisy measurements of a finished run, as a folder that others can estimate from without anything else.

Everything in it is public already; the folder puts it into the columns of the published files
(`das_spark.io.noisy_files`) and adds what they lack. It appears under its name when it is whole, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from das_spark.config import RunPlan, plan_from_config
from das_spark.errors import ConfigurationError
from das_spark.io.dictionary import measurements_dictionary
from das_spark.io.noisy_files import CONSTRAINT, DPQUERY, EXTRA_TABLES, NoisyLayout, about, row_parts
from das_spark.places import Place, seen_from
from das_spark.spark.noisy_rows import published_rows, write_published
from das_spark.spark.session import session
from das_spark.spark.tables import read_levels, read_table
from das_spark.store import (
    MeasurementsManifest,
    PublicManifest,
    copy_parts,
    discard,
    level_folder,
    new_folder,
    open_public,
    promote,
    record_of,
    require_finished,
    set_times,
    write_durably,
)
from das_spark.store.parquet import below, count_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.histogram import Schema
    from das_spark.store import PublicLayout


#: Tables of the run that are read.
_NEEDED = (*EXTRA_TABLES, "bounds", "measurements")


@dataclass(frozen=True, slots=True)
class MeasurementsSummary:
    """Measurements that were published.

    Attributes:
        folder: Where.
        rows: Rows by folder.
        sha256: Checksum of the record, which holds the checksums of all files: to be told to those who read them.
        notices: What they must know, such as that the run is insecure.
    """

    folder: Place
    rows: Mapping[str, int]
    sha256: str
    notices: tuple[str, ...]


def publish_measurements(run_folder: Place, out: Place, spark: SparkSession | None = None) -> MeasurementsSummary:
    """Write the measurements of a finished run into a folder of their own.

    Args:
        run_folder: The run's folder (or `runs/latest`), or its public folder: nothing else is read.
        out: The folder to make; it must not exist, or be empty.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: The run has not kept every noisy answer (`measurement.rows`).
        OutputError: It is not the folder of a finished run, or the folder cannot be written.
    """
    public = open_public(run_folder)
    manifest = PublicManifest.load(public.manifest)
    plan = plan_from_config(manifest.config, source=str(public.manifest))
    _check_run(run_folder, public, plan)
    with new_folder(out) as made:
        layout = NoisyLayout(made)
        rows = _write_rows(
            spark or session(f"das_spark measurements {run_folder.name}"),
            public,
            plan,
            layout,
        )
        record = _write_record(layout, manifest, plan, rows)
        set_times(made, datetime.fromisoformat(manifest.created))
    return MeasurementsSummary(out, rows, record_of(NoisyLayout(out).record).sha256, record.notices)


def _check_run(run_folder: Place, public: PublicLayout, plan: RunPlan) -> None:
    if plan.product.published is not None:
        raise ConfigurationError(
            f"{run_folder}: the estimates of product {plan.product.name!r} are held to counts of "
            f"{plan.product.published.product}, which a folder of measurements does not hold",
            hint="publish the public folder of the run: das-spark estimate RUN estimates from it",
        )
    if plan.measurement_rows != "all":
        raise ConfigurationError(
            f"{run_folder}: the run has kept only those noisy answers that its estimates need (measurement.rows = "
            '"support")',
            hint='measure with measurement.rows = "all" to publish them; `das-spark estimate RUN` needs no such folder',
        )
    if not plan.spine.is_census:
        raise ConfigurationError(
            f"{run_folder}: the measurements of a run on a spine of areas (geography.spine = "
            f"{plan.spine.kind!r}) cannot be published as a folder of their own yet",
            hint="publish the public folder of the run: das-spark estimate RUN estimates from it",
        )
    require_finished(public, _NEEDED, plan.spine.names)


def _write_rows(spark: SparkSession, public: PublicLayout, plan: RunPlan, layout: NoisyLayout) -> dict[str, int]:
    """Write rows by one Spark job, put each file where it belongs, and copy the tables that have no rows there."""
    names = plan.spine.names
    raw = layout.raw
    measured, bounds, geounits = (
        read_levels(spark, public, table, names) for table in ("measurements", "bounds", "geounits")
    )
    rows = published_rows(measured, bounds, geounits, plan.spine, plan.product, plan.budget, plan.added)
    written = write_published(rows, raw, read_table(spark, "geounits", public.level("geounits", names[-1])), plan.spine)
    counted = {}
    for name in names:
        for kind in (DPQUERY, CONSTRAINT):
            folder, target = f"{kind}/{level_folder(name)}", layout.rows(plan.product.name, name, kind)
            if (raw / folder).is_dir():
                promote(raw / folder, target, below(folder, written), check=False)
                counted[seen_from(layout.path, target)] = count_rows(target)
        for table in EXTRA_TABLES:
            target = layout.table(table, name)
            copy_parts(public.level(table, name), target)
            counted[seen_from(layout.path, target)] = count_rows(target)
    discard(raw)
    return counted


def _write_record(
    layout: NoisyLayout, manifest: PublicManifest, plan: RunPlan, rows: Mapping[str, int]
) -> MeasurementsManifest:
    below = layout.path
    record = MeasurementsManifest(
        run_id=manifest.run_id,
        created=manifest.created,
        product=manifest.product,
        title=plan.product.title,
        schema=schema_record(plan.product.schema),
        config=manifest.config,
        config_hash=manifest.config_hash,
        versions=manifest.versions,
        ledger=manifest.ledger,
        invariants=manifest.invariants,
        notices=manifest.notices,
        rows=rows,
        files=tuple(record_of(below / name, name) for name in row_parts(below)),
        data_dictionary=measurements_dictionary(plan.product),
    )
    write_durably(layout.about, about(_facts(record, plan), record.data_dictionary))
    record.save(layout.record)
    return record


def _facts(record: MeasurementsManifest, plan: RunPlan) -> list[str]:
    earlier = [f"The run had its measurements from run {plan.origin.run_id}."] if plan.origin is not None else []
    return [
        *record.notices,
        f"Run: {record.run_id}, product {record.product} ({record.title}), created {record.created}",
        *earlier,
        f"Privacy loss, spent once: {record.ledger['total']} ({record.ledger['framework']})",
        *record.invariants,
    ]


def schema_record(schema: Schema) -> tuple[dict[str, Any], ...]:
    """The attributes of a schema as JSON values."""
    return tuple(
        {
            "name": attribute.name,
            "levels": list(attribute.levels),
            "recodes": {
                recode.name: {label: list(levels) for label, levels in recode.groups} for recode in attribute.recodes
            },
        }
        for attribute in schema.attributes
    )


def same_schema(schema: Schema, recorded: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a record tells of the very attributes of a schema; recodes may have been added since."""
    own = schema_record(schema)
    if len(own) != len(recorded):
        return False
    return all(
        mine["name"] == other.get("name")
        and mine["levels"] == other.get("levels")
        and all(mine["recodes"].get(name) == groups for name, groups in other.get("recodes", {}).items())
        for mine, other in zip(own, recorded, strict=True)
    )
