"""A driver at work on a run: room for it found, its folders opened and held, its log begun, its session checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from das_spark.config import plan_to_config
from das_spark.pipeline.charge import EntryIdentity, open_ledger
from das_spark.pipeline.context import RunContext, is_insecure
from das_spark.pipeline.levels import journal_of
from das_spark.pipeline.progress import Progress, log_application, logged
from das_spark.spark.executors import executor_timeout
from das_spark.spark.session import require_safe_session, session
from das_spark.store import (
    RunLayout,
    created_at,
    hold_run,
    ledger_folder,
    open_run,
    point_latest,
    require_kept,
    set_times,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.origin import Origin
    from das_spark.privacy import RunKey


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What decides how a run is carried out besides its plan.

    Attributes:
        created: When it begins, ISO 8601, where several runs begin together: the time at which a later one begins tells
            how long the earlier ones took over confidential data. None for now.
        together: The other parts of a joint run, which the cap of the ledger must leave room for, each with its place.
        ingested_by: A run of the same configuration but for the total of the budget, whose ingested input is reused;
            by default the input is read.
        nonce: What tells its entry in the ledger from those of other runs of its name; random by default.
        tried: Whether whoever begins the run has tried already what its stages will need (`pipeline.preflight`).
        blind: Whether noise is measured without what it shall hide, so that two inputs have the same noisy answers and
            whatever else differs is a leak; for the audit of structure, and under a test key only.
    """

    created: str | None = None
    together: tuple[tuple[RunPlan, RunLayout], ...] = ()
    ingested_by: RunLayout | None = None
    nonce: str = ""
    blind: bool = False
    tried: bool = False


@contextmanager
def at_work(
    plan: RunPlan,
    layout: RunLayout,
    progress: Progress,
    *,
    key: RunKey | None = None,
    origin: Origin | None = None,
    spark: SparkSession | None = None,
    options: RunOptions | None = None,
) -> Iterator[RunContext]:
    """Open the folders of a run and hold them; give the run to whoever works on it."""
    insecure = is_insecure(key, origin)
    ledgers = (
        "" if key is None else str(ledger_folder(plan, layout))
    )  # one that is named and not there is refused first
    chosen = options or RunOptions()
    config = plan_to_config(plan)
    resumed = open_run(layout, plan.config_hash, config, ledger=ledgers, created=chosen.created)
    with hold_run(layout), logged(layout, plan, progress, resumed=resumed, insecure=insecure):
        # Another configuration may have opened it before this driver held it.
        open_run(layout, plan.config_hash, config, ledger=ledgers, created=chosen.created)
        require_kept(layout)
        began, ledger = created_at(layout), None
        if key is not None:
            identity = EntryIdentity(began, chosen.nonce)
            ledger = open_ledger(
                plan, layout, progress, insecure=insecure, identity_of_entry=identity, together=chosen.together
            )
        started = spark or session(f"das_spark {layout.run_id}")
        log_application(progress, started)
        executor_timeout(started.sparkContext)  # a wrong one is found here, and not in the first stage
        context = RunContext(
            plan,
            layout,
            started,
            key,
            progress,
            began,
            origin=origin,
            ledger=ledger,
            ingested_by=chosen.ingested_by,
            blind=chosen.blind,
        )
        if key is not None:
            # Before the input is read or charged: confidential counts and keys must not reach a disk in the clear.
            require_safe_session(started, insecure=insecure)
            journal = journal_of(context)
            for geolevel in plan.spine.names:  # `measure` would refuse them too, and the run would be charged by then
                journal.require_known(geolevel)
        if layout.folder.is_dir():  # not where both roots lie elsewhere
            point_latest(layout)  # a run that a guard has refused is not the latest
        try:
            yield context
        finally:
            set_times(layout.public.path, datetime.fromisoformat(began))
