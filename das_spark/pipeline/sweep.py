"""Sweeps: a grid of budgets and settings, in one Spark application; what is finished is not run again.

Every run of the grid is a run like any other, with its own folder, journal and ledger entry, and resumes like any
other. Where nothing but the budget differs, the input is ingested by the first run and reused by the rest
(`das_spark.pipeline.reused_input`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.config import difference, require_dataset, stages_of, sweep_config
from das_spark.errors import DasError, OutputError, PrivacyGuardError
from das_spark.evaluation import (
    AccuracyReport,
    GridPoint,
    SampleReport,
    SweepReport,
    present_sweep,
    report_from_json,
    sweep_report,
)
from das_spark.pipeline.accuracy import evaluate_runs
from das_spark.pipeline.charge import is_charged, spending_against_caps
from das_spark.pipeline.context import RunOptions
from das_spark.pipeline.driver import claim_id
from das_spark.pipeline.input_record import contents_of, fingerprint, read_identity
from das_spark.pipeline.preflight import try_stages
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.reused_input import holds_input
from das_spark.pipeline.runner import run_stages
from das_spark.pipeline.samples import sample_run
from das_spark.places import Place, place_of
from das_spark.report import csv_files, page
from das_spark.report.data import data_files
from das_spark.spark.session import require_safe_session, session
from das_spark.store import (
    PublicManifest,
    RunLayout,
    RunState,
    SweepLayout,
    SweepRecord,
    finished,
    is_complete,
    now,
    write_texts,
)
from das_spark.telemetry import LiveHandler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import GridRun, SweepPlan
    from das_spark.report import ReportTable

#: What the noise of a sweep comes from where no test key is given.
_SYSTEM: Final = "system"
_ANOTHER_NAME: Final = "remove it, or name the runs otherwise: --set run.name=NAME"


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """What a finished sweep says of itself.

    Attributes:
        runs: Where its runs lie, in the order of the grid.
        report: The accuracy-privacy curve. RESTRICTED.
        paths: What to look at, by name.
        insecure: Whether the runs were made under test keys.
    """

    runs: tuple[RunLayout, ...]
    report: SweepReport
    paths: Mapping[str, Place]
    insecure: bool


def run_sweep(
    plan: SweepPlan,
    folder: Place,
    *,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
    tables: Sequence[ReportTable] = (),
    data: Place | None = None,
) -> SweepSummary:
    """Carry out a sweep, or go on where it stopped, and write what is made of it.

    Args:
        plan: The grid.
        folder: Of the sweep; made, or that of an earlier call for the same sweep.
        test_key: As in `carry_out`.
        spark: The session; found or started where None.
        progress: Is given a line at a time.
        tables: Further tables of the page, such as published figures beside those of the sweep.
        data: Where every table and figure of the page goes as CSV and Parquet; None for nowhere.

    Raises:
        DasError: See `carry_out`; or what the runs or the folder hold cannot be read.
    """

    def started() -> SparkSession:
        return spark or session(f"das_spark sweep {plan.base.name}")

    layout = SweepLayout(folder)
    runs = carry_out(plan, layout, test_key=test_key, session=started, progress=progress)
    report = evaluate_sweep(plan, runs, layout, started, progress)
    write_results(report, layout, tables, data, insecure=test_key is not None)
    paths = {
        "page (restricted)": layout.page,
        "curve (restricted)": layout.curve,
        "grid and runs": layout.record,
    }
    if report.closest:
        paths["closest samples (restricted)"] = layout.closest_samples
    if data is not None:
        paths["tables and figures (restricted)"] = data
    return SweepSummary(runs, report, paths, test_key is not None)


def carry_out(
    plan: SweepPlan,
    layout: SweepLayout,
    *,
    session: Callable[[], SparkSession],
    test_key: str | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[RunLayout, ...]:
    """Carry out all runs of a grid that are not finished; say first what all of them cost."""
    if test_key is None:
        require_dataset(plan.base.input)
    layouts = tuple(_run_layout(run) for run in plan)
    uncharged = [(run, where) for run, where in zip(plan, layouts, strict=True) if not is_charged(where)]
    for run, where in uncharged:
        claim_id(run.plan, where, progress)
    # The runs of one point have one plan: one of them stands for all.
    for run, where in {run.point: (run, where) for run, where in uncharged}.values():
        try_stages(run.plan, where, stages_of(run.plan))

    def of_tables() -> SparkSession:
        started = session()
        require_safe_session(started, insecure=test_key is not None)
        return started

    created = now()  # before the input is read: how long that takes tells of its size
    identity, files = fingerprint(plan.base.input, of_tables)
    record = _opened(plan, layout, test_key, identity, created)
    for run, where in zip(plan, layouts, strict=True):
        claim_id(run.plan, where, progress)  # of charged runs, too: only now, since another grid is named as such first
    done = tuple(_is_finished(run, where, record) for run, where in zip(plan, layouts, strict=True))
    waiting = [(run.plan, where) for run, where, is_done in zip(plan, layouts, done, strict=True) if not is_done]
    for line in _announcement(plan, sum(done)):
        progress(line)
    for line in spending_against_caps(waiting, contents_of(plan.base.input, identity, files)) if waiting else ():
        progress(line)
    for place, run in enumerate(plan):
        if not done[place]:
            record = _noted(layout, record, run, RunState.BEGUN)
            progress(f"run {place + 1} of {len(layouts)}: {run.run_id}")
            alike = (
                where
                for each, where in zip(plan, layouts[:place], strict=False)
                if each.point.variant == run.point.variant
            )
            source = next((where for where in alike if holds_input(where, run.plan)), None)
            _carry_out_run(run, source, _key_of(test_key, plan, run), record.created, session(), progress)
        record = _noted(layout, record, run, RunState.FINISHED)
    return layouts


def _carry_out_run(
    run: GridRun,
    source: RunLayout | None,
    key: str | None,
    created: str,
    spark: SparkSession,
    progress: Callable[[str], None],
) -> None:
    try:
        run_stages(
            run.plan,
            run_id=run.run_id,
            test_key=key,
            spark=spark,
            progress=progress if isinstance(progress, LiveHandler) else lambda line: progress(f"  {line}"),
            options=RunOptions(created, ingested_by=source, tried=True),
        )
    except DasError as error:
        again = "the same command goes on with this run"
        hint = f"{error.hint}; {again}" if error.hint else again
        raise type(error)(f"the sweep stopped at run {run.run_id}: {error.message}", hint=hint) from error


def _opened(plan: SweepPlan, layout: SweepLayout, test_key: str | None, identity: str, created: str) -> SweepRecord:
    """The record of the sweep: a new one, or that of an earlier call that asked for the same."""
    wanted = SweepRecord(
        product=plan.base.product.name,
        budget=plan.total_key,
        totals=tuple(map(str, plan.totals)),
        runs=plan.runs,
        cost=str(plan.cost),
        key=_SYSTEM if test_key is None else f"test {hashlib.sha256(f'sweep: {test_key}'.encode()).hexdigest()[:16]}",
        input=identity,
        config=sweep_config(plan.base),
        created=created,
        states=dict.fromkeys((run.run_id for run in plan), RunState.WAITING),
        variants={label: list(settings) for label, settings in plan.varied.items()},
    )
    found = layout.open()
    if found is None:
        layout.write(layout.record, wanted.to_json())
        return wanted
    differing = difference(found.grid(), wanted.grid())
    if differing:
        raise OutputError(
            f"{layout.path} holds another sweep; what differs is {differing}",
            hint="choose another --out, or ask for the same again",
        )
    return found


def _noted(layout: SweepLayout, record: SweepRecord, run: GridRun, state: RunState) -> SweepRecord:
    if record.states[run.run_id] == state:
        return record
    changed = record.with_state(run.run_id, state)
    layout.write(layout.record, changed.to_json())
    return changed


def _is_finished(run: GridRun, layout: RunLayout, record: SweepRecord) -> bool:
    """Whether a run is done and verified; one that this sweep has not begun is accepted only under a real key."""
    if not layout.public.marker.is_file():
        return False
    insecure = record.key != _SYSTEM
    if insecure and record.states[run.run_id] == RunState.WAITING:
        raise _taken(layout, "nothing says under which key it was made")
    if not is_complete(layout):
        return False
    manifest = PublicManifest.load(layout.public.manifest)
    if read_identity(layout) != record.input:
        raise _taken(layout, "it was made from another input")
    if manifest.ledger["insecure"] and not insecure:
        message = f"{layout.folder}: this run was made under a test key, and the sweep has a real one"
        raise PrivacyGuardError(message, hint=_ANOTHER_NAME)
    return True


def _taken(layout: RunLayout, why: str) -> OutputError:
    return OutputError(f"{layout.folder}: there is a run of this name already; {why}", hint=_ANOTHER_NAME)


def _announcement(plan: SweepPlan, finished: int) -> Sequence[str]:
    """What the grid costs, before anything of it is spent."""
    key, totals = plan.total_key, ", ".join(map(str, plan.totals))
    number = plan.runs * len(plan.plans)
    lines = [f"sweep {plan.base.name}: {number} runs on one input, {plan.runs} each at {key} {totals}"]
    lines += [f"  under {label}" for label in plan.varied]
    lines.append(f"all of them together cost {key} = {plan.cost}, exactly; each is charged to the ledger of the input")
    if finished:
        lines.append(f"{finished} of {number} are finished and are not run again")
    return lines


def _run_layout(run: GridRun) -> RunLayout:
    output = run.plan.output
    return RunLayout.of(output, run.run_id)


def _key_of(test_key: str | None, plan: SweepPlan, run: GridRun) -> str | None:
    """A test key of its own for every run, so that no two of them share noise."""
    if test_key is None:
        return None
    variant = f"/{run.point.variant}" if run.point.variant else ""
    return f"{test_key}{variant}/{plan.total_key}={run.total}/run={run.number}"


def evaluate_sweep(
    plan: SweepPlan,
    runs: Sequence[RunLayout],
    layout: SweepLayout,
    session: Callable[[], SparkSession],
    progress: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Pool the runs at each point of the grid, and compare them with samples of the same population."""
    reports: dict[GridPoint, list[AccuracyReport]] = {}
    for run, where in zip(plan, runs, strict=True):
        reports.setdefault(run.point, []).append(_accuracy(where, plan.base.evaluation.areas))
    samples = _samples(plan, runs, layout, session, progress) if plan.shares else None
    return sweep_report(reports, samples, plan.total_key, variants=plan.varied)


def write_results(
    report: SweepReport,
    layout: SweepLayout,
    tables_of_page: Sequence[ReportTable] = (),
    data: Place | None = None,
    *,
    insecure: bool = False,
) -> None:
    """Write `curve.restricted.csv`, `closest_samples.restricted.csv` and `sweep.html`, for their owner alone.

    With `data`, also every table and figure of the page, there.
    """
    found = present_sweep(report, tables_of_page, insecure=insecure)
    files = csv_files(found)
    for path in (layout.curve, layout.closest_samples):
        layout.write(path, files[path.name])
    layout.write(layout.page, page(found))
    if data is not None:
        write_texts(data, data_files(found), restricted=True)


def _accuracy(run: RunLayout, areas: str | None) -> AccuracyReport:
    """Accuracy of a run: as the run has found it, or found now where it was not to evaluate."""
    if run.restricted.accuracy_json.is_file():
        return report_from_json(run.restricted.accuracy_json.read_text(encoding="utf-8"))
    (report,) = evaluate_runs([run.folder], place_of(areas))
    return report


def _samples(
    plan: SweepPlan,
    runs: Sequence[RunLayout],
    layout: SweepLayout,
    session: Callable[[], SparkSession],
    progress: Callable[[str], None],
) -> SampleReport:
    """As many samples of each share as there are runs at each budget, so that both have as many residuals."""
    shares, seeds = tuple(sorted(plan.shares)), tuple(range(plan.runs))
    if layout.samples.is_file():
        kept = SampleReport.from_json(layout.samples.read_text(encoding="utf-8"))
        if (kept.shares, kept.seeds) == (shares, seeds):
            return kept
    source = next((run for run in runs if _has_leaves(run, plan)), None)
    if source is None:
        raise OutputError(
            f"{layout.path}: no run of the sweep has its confidential histograms any more, and samples need them",
            hint="leave the comparison out: --samples none",
        )
    spark = session()
    with Progress(progress, f"sweep {plan.base.name}").stage(spark, f"{len(shares) * len(seeds)} samples"):
        drawn = sample_run(source.folder, shares, seeds, spark=spark)
    layout.write(layout.samples, drawn.to_json())
    return drawn


def _has_leaves(run: RunLayout, plan: SweepPlan) -> bool:
    return finished(run.restricted.level("histograms", plan.base.spine.leaf.name))
