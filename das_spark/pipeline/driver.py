"""A driver at work on a run: room for it found, its folders opened and held, its log begun, its session checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from das_spark.config import JointPlan, names_until, part_of, plan_to_config
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.pipeline.charge import open_ledger
from das_spark.pipeline.context import RunContext, RunOptions, is_insecure
from das_spark.pipeline.preflight import try_stages
from das_spark.pipeline.progress import Progress, log_application, logged
from das_spark.spark.executors import executor_timeout
from das_spark.spark.session import entries_of_one_task, fitted, require_safe_session, session
from das_spark.store import (
    Journal,
    RunLayout,
    clear_staging,
    commits_of,
    created_at,
    hold_run,
    latest_link,
    ledger_folder,
    make_way,
    open_run,
    require_kept,
    set_times,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan, Stage
    from das_spark.privacy import LedgerEntry, RunKey


#: Bytes of an input of records that are some tens of thousands at most.
_TINY_INPUT = 1 << 20


@contextmanager
def driver_attempt(
    plan: RunPlan,
    layout: RunLayout,
    progress: Progress,
    *,
    key: RunKey | None = None,
    measured_by: LedgerEntry | None = None,
    spark: SparkSession | None = None,
    options: RunOptions | None = None,
) -> Iterator[RunContext]:
    """Open the folders of a run and hold them; give the run to whoever works on it."""
    insecure = is_insecure(key, measured_by)
    # A ledger that is named and not there is refused first.
    ledgers = "" if key is None else str(ledger_folder(plan, layout))
    chosen = options or RunOptions()
    config = plan_to_config(plan)
    resumed = open_run(layout, plan.config_hash, config, ledger=ledgers, created=chosen.created)
    with hold_run(layout), logged(layout, plan, progress, resumed=resumed, insecure=insecure):
        # Another configuration may have opened it before this driver held it.
        open_run(layout, plan.config_hash, config, ledger=ledgers, created=chosen.created)
        require_kept(layout)
        commits = commits_of(layout.restricted.path)
        if commits is not None and commits.is_earlier:
            progress.report("an earlier version made tables of this run, without digests: they are taken as they are")
        began, ledger = created_at(layout), None
        if key is not None:
            ledger = open_ledger(
                plan,
                layout,
                progress,
                insecure=insecure,
                nonce=chosen.nonce,
                together=chosen.together,
                until=chosen.until,
                session=partial(_session_of_tables, plan, layout, spark, insecure=insecure),
            )
        files = () if ledger is None else ledger.files
        started = spark or session(f"das_spark {layout.run_id}")
        log_application(progress, started)
        # A wrong property is found here, and not in the first stage that asks for it.
        executor_timeout(started.sparkContext)
        entries_of_one_task(started)
        context = RunContext(
            plan,
            layout,
            started,
            key,
            progress,
            began,
            measured_by=measured_by,
            ledger=ledger,
            options=chosen,
        )
        if key is not None:
            # Before the input is read or charged: confidential counts and keys must not reach a disk in the clear.
            require_safe_session(started, insecure=insecure, synthetic=plan.input.is_simulated)
            journal = Journal.of(layout)
            for geolevel in plan.spine.names:  # `measure` would refuse them too, and the run would be charged by then
                journal.require_known(geolevel)
        latest_link(layout)  # a name that is taken is found before anything is measured
        try:
            with fitted(started, entries=plan.product.schema.size, small=_is_tiny(plan, files)):
                yield context
        finally:
            with suppress(OutputError):  # the error that ends the run is the one to tell; the next driver clears it
                clear_staging(layout)
            set_times(layout.public.path, datetime.fromisoformat(began))


def look_ahead(
    plan: RunPlan,
    layout: RunLayout,
    stages: Iterable[Stage],
    progress: Callable[[str], None] = lambda line: None,
    until: str | None = None,
) -> None:
    """Refuse, before anything is begun, a run whose id is taken, or of which a stage will lack something."""
    claim_id(plan, layout, progress)
    try_stages(plan, layout, stages, until=until)


def claim_id(plan: RunPlan, layout: RunLayout, progress: Callable[[str], None] = lambda line: None) -> None:
    """Refuse the id of another run that was charged; remove another one that was not."""
    if make_way(layout, plan.config_hash, plan_to_config(plan)):
        progress(f"run {layout.run_id}: an earlier one of another configuration, which was never charged, is removed")


def _session_of_tables(plan: RunPlan, layout: RunLayout, spark: SparkSession | None, *, insecure: bool) -> SparkSession:
    """A session that may read tables of its catalog, which is asked for their rows before anything is charged."""
    started = spark or session(f"das_spark {layout.run_id}")
    require_safe_session(started, insecure=insecure)
    return started


def _is_tiny(plan: RunPlan, files: Iterable[Mapping[str, object]]) -> bool:
    """Whether a run reads so little that Spark need not divide it; of what is not known to be little it is not said."""
    if plan.input.is_simulated:
        return plan.input.population.like == "quickstart"
    if plan.input.reader == "tidy_counts" or plan.input.tables:
        return False  # a row may stand for any number of people
    return 0 < sum(int(str(file["bytes"])) for file in files) <= _TINY_INPUT


def require_begun(plan: RunPlan | JointPlan, run_id: str, until: str | None = None) -> None:
    """Refuse to go on with a run of which nothing is found here.

    Without its folder a run of the same id is another run, and measures under another key. That is what a scheduler
    would do whose worker has lost its disk, or was started in another folder.

    Args:
        plan: What to do.
        run_id: Name of the run.
        until: Its last stage to carry out. Of a joint run, those parts must be there that have an earlier stage.

    Raises:
        PrivacyGuardError: One of both roots of the run, or of a part of it, is not there.
        OutputError: The name would lead out of the folder.
    """
    if isinstance(plan, JointPlan):
        records = dict.fromkeys(part_of(name)[0] for name in names_until(plan, until)[:-1])
        runs = {f"{run_id}-{record}": plan.parts[record] for record in records}
    else:
        runs = {run_id: plan}
    for name, part in runs.items():
        layout = RunLayout.of(part.output, name).as_published()
        for side in (layout.restricted, layout.public):
            if not side.marker.is_file():
                raise PrivacyGuardError(
                    f"there is no run {name} to resume: {side.path.resolve()} holds none",
                    hint="roots must lie in a store, or be absolute paths of a disk that every machine mounts; to "
                    "begin a run, leave --resume out",
                )
