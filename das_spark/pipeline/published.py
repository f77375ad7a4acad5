"""Counts that another product has published: found, examined, and summed up along the spine of the run.

Every estimate of the run is held to them. They are public estimates of the other run, protected by what that run has
spent; nothing confidential is read for them. Where a run file names that run, all is examined before anything is
charged. Where an earlier part of a joint run publishes them, all parts are charged by then, and the counts are taken
when that part is done, before the first measurement of the part that is held to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.config import PUBLISHED_ELSEWHERE, held_counts, plan_from_config
from das_spark.core import HeldCounts
from das_spark.errors import ConfigurationError, DasError, InfeasibleError, InputError, OutputError, PrivacyGuardError
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.statement import releases_held_to
from das_spark.places import Place, seen_from
from das_spark.privacy import Ledger, LedgerEntry
from das_spark.spark.published import (
    contradictions,
    in_parts,
    published_histograms,
    same_leaves,
    unknown_leaves,
    unpublished,
)
from das_spark.spark.scratch import write_and_read
from das_spark.spark.tables import first_rows, read_table
from das_spark.store import (
    PublicLayout,
    PublicManifest,
    discard,
    finished,
    make_folder,
    open_public,
    part_files,
    record_of,
    require_held,
    staging_of,
    strict_json,
    write_durably,
)
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.products import PublishedCounts

KEY: Final = "input.published"
#: How many geounits an error names.
NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A finished run whose published counts a run is held to."""

    public: PublicLayout
    manifest: PublicManifest
    plan: RunPlan  # its own

    def record(self, releases: Iterable[LedgerEntry]) -> dict[str, Any]:
        """Return what the run that is held to it says of it in public: no path.

        Args:
            releases: Result of `releases_of`.
        """
        return {
            "run_id": self.manifest.run_id,
            "product": self.manifest.product,
            "created": self.manifest.created,
            "manifest": self.manifest.sha256,
            "releases": [entry.public_record() for entry in releases],
        }

    @property
    def is_insecure(self) -> bool:
        """Whether its noise comes from a test key."""
        return LedgerEntry.of(self.manifest.ledger).insecure

    def leaves(self) -> tuple[str, Place]:
        """The table of its estimates by geounits of the census, and the folder of the lowest level."""
        spine = spine_of_run(self.public, self.plan)
        table = published_estimates(spine)
        return table, self.public.level(table, self.plan.product.census(spine).leaf.name)


def open_published_run(plan: RunPlan, folder: str | Place) -> PublishedRun:
    """Find the run whose published counts a run is held to, and examine all that can be examined without Spark.

    Args:
        plan: The run that is held to them.
        folder: The other run's folder, or its public folder.

    Raises:
        ConfigurationError: It is no folder of a run, its run is not finished and verified, or it has published another
            product or by other geounits.
    """
    expected = _published(plan)
    where = f"{KEY}: {folder}"
    fix = f"name the folder of a finished run of {expected.product}, or its public folder"
    try:
        public = open_public(folder)
        manifest = PublicManifest.load(public.manifest)
        theirs = plan_from_config(manifest.config, source=str(public.manifest))
    except (OutputError, OSError) as error:
        raise ConfigurationError(f"{where}: is not the folder of a finished run: {error}", hint=fix) from error
    if not _is_verified(public):
        raise ConfigurationError(
            f"{where}: run {manifest.run_id} is not finished and verified ({public.verification.name})",
            hint=f"finish that run, or bring its whole public folder here; else {fix}",
        )
    if theirs.product.name != expected.product:
        raise ConfigurationError(
            f"{where}: run {manifest.run_id} has published {theirs.product.name}, and product {plan.product.name!r} is "
            f"held to counts of {expected.product}",
            hint=fix,
        )
    if expected.attributes and theirs.product.schema.attributes != expected.attributes:
        raise ConfigurationError(
            f"{where}: {expected.product} of run {manifest.run_id} has other attributes than those that product "
            f"{plan.product.name!r} is held to",
            hint="name the product file of that run in [published]",
        )
    mine, other = (each.product.census(each.spine).leaf for each in (plan, theirs))
    if (mine.name, mine.length) != (other.name, other.length):
        raise ConfigurationError(
            f"{where}: the lowest geolevel of run {manifest.run_id} is {other.name}, and that of this run {mine.name}",
            hint="both runs must have the same lowest geolevel (geography.levels)",
        )
    found = PublishedRun(public, manifest, theirs)
    try:
        table, leaves = found.leaves()
    except DasError as error:
        raise ConfigurationError(f"{where}: {error.message}", hint=fix) from error
    if not finished(leaves):
        raise ConfigurationError(f"{where}: {table} of {other.name} are not there", hint=fix)
    return found


def releases_of(run: PublishedRun, ledger: Ledger, plan: RunPlan) -> tuple[LedgerEntry, ...]:
    """Return the entries of the releases from which published counts follow, that of the run itself first.

    Whatever is held to these counts is post-processing of these releases, too. So they must be counted where the run is
    counted that is held to them: in the same ledger.

    Args:
        run: The run that published the counts.
        ledger: Of the dataset of the run that is held to them.
        plan: The run that is held to them.

    Raises:
        PrivacyGuardError: A release is not in the ledger, and this is not acknowledged; or the folder is not what the
            ledger says that the run published.
        ConfigurationError: All are in the ledger, and something else is acknowledged; or the run does not say what it
            is held to itself.
    """
    where, fix = (
        f"{KEY}: {run.public.path}: run {run.manifest.run_id}",
        f'privacy.acknowledge = ["{PUBLISHED_ELSEWHERE}"]',
    )
    if run.manifest.published and "releases" not in run.manifest.published:
        raise ConfigurationError(
            f"{where} is held to counts of run {run.manifest.published['run_id']}. An earlier version made it, which"
            " did not record what that release cost",
            hint="make that run again with this version",
        )
    stated = (LedgerEntry.of(run.manifest.ledger), *releases_held_to(run.manifest))
    entered = [ledger.find(entry.run_id) for entry in stated]
    missing = [entry.run_id for entry, known in zip(stated, entered, strict=True) if known is None]
    acknowledged = PUBLISHED_ELSEWHERE in plan.acknowledged
    if missing and not acknowledged:
        raise PrivacyGuardError(
            f"{where}: the ledger of dataset {plan.input.dataset or '(without a name)'} does not have release"
            f" {missing[0]}. What this run publishes follows from both, so both must be counted together",
            hint="use the dataset name and the ledger of that run (input.dataset, ledger.path); if others made that"
            f" release, acknowledge in [privacy] that its cost is counted nowhere: {fix}",
        )
    if acknowledged and not missing:
        raise ConfigurationError(f"{where} is in the ledger of this dataset", hint=f"take {fix} out of [privacy]")
    if entered[0] is not None and not _is_entered(run, stated[0], entered[0]):
        raise PrivacyGuardError(
            f"{where}: its manifest is not the one that the ledger of this dataset has for it",
            hint="restore that folder as the run wrote it; das-spark verify says what was changed",
        )
    return tuple(entry if known is None else known for entry, known in zip(stated, entered, strict=True))


def _is_entered(run: PublishedRun, stated: LedgerEntry, entered: LedgerEntry) -> bool:
    """Return whether a manifest is that of a ledger entry; earlier versions entered no digest of it."""
    if entered.manifest:
        return entered.manifest == run.manifest.sha256
    return (entered.budget, entered.product, entered.invariants) == (stated.budget, stated.product, stated.invariants)


def take_published(context: RunContext) -> None:
    """Write what another product has published of every geounit, unless that is done."""
    place = context.layout.public.published_source
    known = _recorded(place)
    if context.tables.is_finished("published") and known is not None:
        context.published_run = known
        return
    run = _source(context)
    if run.is_insecure and not context.is_insecure:
        raise PrivacyGuardError(
            f"{KEY}: the noise of run {run.manifest.run_id} comes from a test key, so that nothing protects its counts",
            hint="a run under a key of its own can only be held to counts of a run under such a key",
        )
    record = run.record(releases_of(run, context.required_ledger().book.read(), context.plan))
    if known is not None and known != record:
        raise InputError(
            f"{KEY}: {run.public.path} is not the run that this one began with ({known.get('run_id')}, manifest "
            f"{known.get('manifest', '')[:12]})",
            hint="name the same run, unchanged, or begin a run of another name",
        )
    require_held(context.layout)
    make_folder(place.parent)
    write_durably(place, json.dumps(record, indent=1) + "\n")
    _write(context, run)
    context.published_run = record


def load_published(context: RunContext) -> None:
    """Let a run say which run it is held to, where its tables were taken over from an earlier one."""
    if context.plan.product.published is not None:
        known = _recorded(context.layout.public.published_source)
        if known is None:
            raise OutputError(f"{context.layout.public.published_source}: is not there", hint="restore the file")
        context.published_run = known


def copy_record(context: RunContext, source: PublicLayout) -> None:
    """Give a run the record of the run that its measurements' run is held to, unless it has one."""
    place = context.layout.public.published_source
    if not place.is_file():
        require_held(context.layout)
        make_folder(place.parent)
        try:
            write_durably(place, source.published_source.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise OutputError(f"{source.published_source}: is not there", hint="restore the file") from error


def _write(context: RunContext, run: PublishedRun) -> None:
    """Sum the estimates of the leaves up along the spine, after both runs are found to have the same leaves."""
    table, folder = run.leaves()
    _require_listed(run, folder)
    leaf = context.spine.leaf.name
    staging = staging_of(context.layout, context.layout.public) / "published_leaves"
    try:
        leaves = write_and_read(
            same_leaves(context.tables.read("geounits", leaf), read_table(context.spark, table, folder), context.spine),
            staging,
        )
        _refuse_other_leaves(run, leaves, context.plan)

        parts = _held(context.plan).parts
        counts = leaves if parts is None else in_parts(leaves, context.tables.read("invariants", leaf), parts)

        def check(written: DataFrame) -> None:
            _refuse_contradictions(context, run, written)

        context.tables.write_all("published", published_histograms(counts, context.spine), check)
    finally:
        discard(staging)


def _require_listed(run: PublishedRun, folder: Place) -> None:
    """Compare the files of published counts with the manifest, which is that of the ledger."""
    prefix = f"{seen_from(run.public.path, folder)}/"
    listed = {file for file in run.manifest.files if file.name.startswith(f"{prefix}part-")}
    if {record_of(path, f"{prefix}{path.name}") for path in part_files(folder)} != listed:
        raise InputError(
            f"{KEY}: {folder}: the files are not those that the manifest of run {run.manifest.run_id} lists",
            hint="restore that folder as the run wrote it; das-spark verify says what was changed",
        )


def _refuse_other_leaves(run: PublishedRun, leaves: DataFrame, plan: RunPlan) -> None:
    where, leaf = f"{KEY}: {run.public.path}", plan.product.census(plan.spine).leaf.name
    missing = [row["geocode"] for row in first_rows(unpublished(leaves), NAMED, "geocode")]
    if missing:
        raise InputError(
            f"{where}: run {run.manifest.run_id} has no estimate of {leaf} such as {', '.join(missing)}, which this "
            "run has",
            hint="both runs must be on the same geounits: name a run on the same input",
        )
    strange = [row["geocode"] for row in first_rows(unknown_leaves(leaves), NAMED, "geocode")]
    if strange:
        raise InputError(
            f"{where}: run {run.manifest.run_id} counts {run.plan.product.counted} in {leaf} such as "
            f"{', '.join(strange)}, which this run does not know",
            hint="both runs must be on the same geounits: name a run on the same input",
        )


def _refuse_contradictions(context: RunContext, run: PublishedRun, written: DataFrame) -> None:
    """Find geounits whose bounds leave no estimate with the published counts."""
    plan = context.plan
    held = _held(plan)
    found = contradictions(
        written, context.tables.read_all("bounds"), held, answers_of_bounds(plan, held), possible_answers(plan, held)
    )
    rows = first_rows(found, NAMED, "level", "geocode", "name")
    if rows:
        named = ", ".join(f"{row['geocode']} ({row['level']}: {row['name']})" for row in rows)
        raise InfeasibleError(
            f"{KEY}: {run.public.path}: the counts that run {run.manifest.run_id} has published contradict what this "
            f"run declares exact or impossible, in geounits such as {named}",
            hint="declare the same invariants of the same input in both runs ([invariants], [[constraints]])",
        )


def answers_of_bounds(plan: RunPlan, held: HeldCounts) -> dict[str, NDArray[np.int64]]:
    """Name of a bound -> its answer in which each published answer counts: of bounds on sums of published answers."""
    found = {name: held.query.answers_in(query) for name, query in plan.bound_queries.items()}
    return {name: answers for name, answers in found.items() if answers is not None}


def possible_answers(plan: RunPlan, held: HeldCounts) -> NDArray[np.bool_]:
    """Whether somebody can be in any cell that an answer counts, shape ``(answers,)``."""
    rows = held.query.row_of(np.flatnonzero(~plan.product.zero_cells()))
    possible = np.zeros(held.query.rows, dtype=np.bool_)
    possible[rows[rows >= 0]] = True
    return possible


def _source(context: RunContext) -> PublishedRun:
    """The run that a run file names, or the earlier part of the joint run."""
    named = context.plan.input.published
    return open_published_run(context.plan, part_that_publishes(context) if named is None else named)


def part_that_publishes(context: RunContext) -> Place:
    """The public folder of the earlier part of the joint run whose counts are held; it may not be done yet.

    Raises:
        ConfigurationError: The run is carried out by itself.
    """
    plan = context.plan
    for part, layout in context.options.together:
        if part.product.record == plan.published_part:
            return layout.public.path
    raise ConfigurationError(
        f"{KEY}: is missing, and the run is no part of a joint run with part {plan.published_part!r}",
        hint="carry out the joint run, of which this is a part",
    )


def _published(plan: RunPlan) -> PublishedCounts:
    if plan.product.published is None:
        raise ConfigurationError(f"product {plan.product.name!r} is held to counts of no other product")
    return plan.product.published


def _held(plan: RunPlan) -> HeldCounts:
    held = held_counts(plan.product, units=plan.invariants.units)
    if held is None:
        raise ConfigurationError(f"product {plan.product.name!r} is held to counts of no other product")
    return held


def _recorded(place: Place) -> Mapping[str, Any] | None:
    """What a run has noted of the run that it is held to; None where it has not begun to."""
    try:
        found: Mapping[str, Any] = strict_json(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OutputError(f"{place}: cannot be read", hint="restore the file") from error
    return found


def _is_verified(public: PublicLayout) -> bool:
    try:
        return bool(strict_json(public.verification.read_text(encoding="utf-8"))["passed"])
    except (OSError, ValueError, KeyError):
        return False
