"""Go through the stages of a run: what is finished is skipped, what is half done done again, nothing drawn twice."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import PrivacyGuardError, VerificationError
from das_spark.io.files import discard, require_space, write_durably
from das_spark.io.layout import RunLayout, hold_run, open_run, point_latest
from das_spark.pipeline import ledgers
from das_spark.pipeline.assess import evaluate_run, verify_public
from das_spark.pipeline.context import RunContext
from das_spark.pipeline.estimate import estimate
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.measure import measure
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.publish import (
    public_manifest,
    publish_census,
    publish_microdata,
    publish_statement,
    restricted_manifest,
)
from das_spark.pipeline.tabulate import publish_tables
from das_spark.privacy import Ledger, LedgerEntry, RunKey
from das_spark.spark.session import require_safe_session, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config.plan import RunPlan
    from das_spark.io.manifest import PublicManifest

#: Room that a run asks for before it begins; what it really needs is known after ingestion.
LEAST_SPACE = 50_000_000


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a finished run says of itself.

    Attributes:
        run_id: Name of the run.
        layout: Where it lies.
        figures: The few numbers that matter, by name.
        paths: What to look at, by name.
        insecure: Whether it was made under a test key.
    """

    run_id: str
    layout: RunLayout
    figures: Mapping[str, str]
    paths: Mapping[str, Path]
    insecure: bool


def run_stages(
    plan: RunPlan,
    *,
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
    joint_ledgers: Sequence[Path] = (),
) -> RunSummary:
    """Carry out a run, or resume it where it stopped.

    Args:
        plan: What to do.
        run_id: Name of the run folder; by default the plan's name and the time.
        test_key: INSECURE: a text from which all noise follows; every output is marked.
        spark: The session; found or started where None.
        progress: Is given a line at a time.
        joint_ledgers: Further ledgers to enter the run in, besides those of its own input.

    Raises:
        DasError: See `das_spark.errors`; the run can be resumed after the cause is mended.
    """
    with _at_work(plan, run_id or usual_run_id(plan.name), test_key, spark, progress) as context:
        context.joint_ledgers = tuple(joint_ledgers)
        return _carry_out(context)


def prepare(
    plan: RunPlan,
    *,
    run_id: str,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[Path, ...]:
    """Begin a run and read its input; nothing is charged or drawn.

    Args:
        plan: What to do.
        run_id: Name of the run folder.
        test_key: As in `run_stages`.
        spark: The session; found or started where None.
        progress: Is given a line at a time.

    Returns:
        The ledgers of its input.

    Raises:
        DasError: The input is wrong, or the place cannot be written.
    """
    with _at_work(plan, run_id, test_key, spark, progress) as context:
        return ledgers.ledger_files(plan, context.layout, _ingest(context))


def usual_run_id(name: str) -> str:
    """The id of a run that was given none: its plan's name and the time."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


@contextmanager
def _at_work(
    plan: RunPlan,
    name: str,
    test_key: str | None,
    spark: SparkSession | None,
    progress: Callable[[str], None],
) -> Iterator[RunContext]:
    """Open the folders of a run and hold them."""
    layout = RunLayout.at(plan.output.root, name, plan.output.public, plan.output.restricted)
    require_space(layout.folder, LEAST_SPACE)
    open_run(layout, plan.config_hash)
    key = RunKey.from_system() if test_key is None else RunKey.insecure(test_key)
    with hold_run(layout):
        if layout.folder.is_dir():  # not where both roots lie elsewhere
            point_latest(layout)
        started = spark or session(f"das_spark {name}")
        # Before the input is read or charged: confidential counts and keys must not reach a disk in the clear.
        require_safe_session(started, insecure=key.is_insecure)
        yield RunContext(plan, layout, started, key, Progress(progress, name))


def _ingest(context: RunContext) -> str:
    """Read the input, unless that is done already.

    Returns:
        Identity of the input.
    """
    identity, files = ledgers.fingerprint(context.plan.input)
    context.restricted_facts["input_files"] = {str(each["file"]): each for each in files}
    with context.progress.stage(context.spark, "ingest"):
        ingest(context, identity)
    return identity


def _carry_out(context: RunContext) -> RunSummary:
    plan, progress = context.plan, context.progress
    identity = _ingest(context)
    entry, ledger = _enter_ledger(context, identity)
    for name in plan.spine.names:
        with progress.stage(context.spark, f"measure {name}", families(context, name)):
            measure(context, name)
        entry, ledger = _complete(context, entry, identity, name)
        with progress.stage(context.spark, f"estimate {name}", families(context, name)):
            estimate(context, name)
    return conclude(context, entry, ledger, entry.created)


def conclude(context: RunContext, entry: LedgerEntry, ledger: Ledger | None, created: str) -> RunSummary:
    """Make all that is made of estimates: microdata, tables, statement, manifests, verification, accuracy.

    Args:
        context: The run, all levels estimated.
        entry: What the measurements cost.
        ledger: All runs on the input; None where the run knows nothing of the input.
        created: When the run began, ISO 8601.

    Raises:
        OutputError: Something cannot be written.
        VerificationError: What was written breaks a rule.
    """
    plan, progress = context.plan, context.progress
    if context.has_shares:
        with progress.stage(context.spark, "census geounits"):
            publish_census(context)
    with progress.stage(context.spark, "microdata"):
        publish_microdata(context, created)
    if plan.table_formats:
        with progress.stage(context.spark, "tabulate"):
            publish_tables(context, created)
    publish_statement(context, entry, ledger)
    manifest = public_manifest(context, entry, created)
    manifest.save(context.layout.public.manifest)
    with progress.stage(context.spark, "verify"):
        report = verify_public(context.spark, context.layout.public)
    if plan.evaluation.enabled:
        with progress.stage(context.spark, "evaluate"):
            context.restricted_facts["accuracy"] = evaluate_run(context)
    restricted_manifest(context, created).save(context.layout.restricted.manifest)
    if not report.passed:
        raise VerificationError(report.summary(), hint=f"see {context.layout.public.verification}")
    for side in (context.layout.public, context.layout.restricted):
        discard(side.path / ".staging")  # empty by now
    return _summary(context, manifest, report.summary())


def _enter_ledger(context: RunContext, identity: str) -> tuple[LedgerEntry, Ledger]:
    """Charge the input with this run before anything is drawn; a resumed run finds its own entry again.

    Raises:
        PrivacyGuardError: If the run was begun under another kind of key.
    """
    plan = context.plan
    own = _own_entry(context)
    if own.is_file():
        entry = LedgerEntry.from_json(own.read_text(encoding="utf-8"))
        if entry.insecure != context.is_insecure:
            kind = "a test key" if entry.insecure else "a real key"
            raise PrivacyGuardError(
                f"run {context.layout.run_id} was begun under {kind} and cannot go on under the other kind",
                hint="resume it as it was begun, or start a new run",
            )
    else:
        entry = LedgerEntry(
            # Two runs of one name in two folders are two runs.
            run_id=f"{context.layout.run_id}#{secrets.token_hex(4)}",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            product=plan.product.name,
            table=plan.product.record,
            budget=plan.budget,
            insecure=context.is_insecure,
        )
        write_durably(own, entry.to_json())
    return entry, ledgers.enter(_ledgers(context, identity), entry)


def _complete(context: RunContext, entry: LedgerEntry, identity: str, geolevel: str) -> tuple[LedgerEntry, Ledger]:
    """Enter in the ledger that the measurements of a level are public."""
    entry = entry.with_completed(geolevel)
    # The run's own entry goes first: it is never behind the ledger, which refuses to lose a level.
    write_durably(_own_entry(context), entry.to_json())
    return entry, ledgers.enter(_ledgers(context, identity), entry)


def _ledgers(context: RunContext, identity: str) -> tuple[Path, ...]:
    own = ledgers.ledger_files(context.plan, context.layout, identity)
    return tuple(dict.fromkeys((*own, *context.joint_ledgers)))


def _own_entry(context: RunContext) -> Path:
    return context.layout.restricted.path / "ledger_entry.json"


def families(context: RunContext, geolevel: str) -> int:
    """How many families the estimation of a level solves."""
    counts = context.geounit_counts()
    depth = context.plan.spine.index(geolevel)
    return counts[context.plan.spine.names[max(depth - 1, 0)]]


def _summary(context: RunContext, manifest: PublicManifest, verified: str) -> RunSummary:
    plan, layout = context.plan, context.layout
    figures = {
        "privacy loss": f"{'epsilon' if plan.budget.framework.value == 'pure_dp' else 'rho'} = {plan.budget.total}"
        f"{', spent before: this run spent nothing' if context.origin is not None else ''}",
        "geounits": ", ".join(f"{name} {count:,}" for name, count in _in_order(context).items()),
        "microdata": ", ".join(
            f"{rows:,} {name.removeprefix('microdata/')}"
            for name, rows in manifest.rows.items()
            if name.startswith("microdata/")
        ),
        "worst certified gap": f"{max(each['gap'] for each in manifest.worst_residuals.values()):.1e}",
        "verification": verified,
    }
    accuracy = context.restricted_facts.get("accuracy")
    if isinstance(accuracy, dict):
        figures |= {name: str(value) for name, value in accuracy.items()}
    paths = {
        "microdata": layout.public.path / "microdata",
        "privacy statement": layout.public.privacy_statement,
        "privacy ledger": layout.public.privacy_ledger,
        "verification report": layout.public.verification,
        "manifest": layout.public.manifest,
    }
    if plan.table_formats:
        paths |= {"tables": layout.public.tables.path}
    if plan.evaluation.enabled:
        paths |= {"accuracy (restricted)": layout.restricted.accuracy_html}
    return RunSummary(layout.run_id, layout, figures, paths, context.is_insecure)


def _in_order(context: RunContext) -> dict[str, int]:
    counts = context.geounit_counts()
    return {name: counts[name] for name in context.plan.spine.names}
