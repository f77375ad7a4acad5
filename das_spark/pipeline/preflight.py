"""Everything that a later stage will need is tried before anything is charged: files, columns, writers, layouts, disks.

A kind of stage registers in `TRIALS` what it will need, each thing with the setting that asks for it and a function
that tries it; a stage that publishes says so itself. A kind without an entry fails a test; a thing that is not tried
here fails a run when its budget is gone. Trials read what the readers' `look` reads, and public files; all else works
on synthetic counts (`das_spark.pipeline.rehearsal`). No Spark is started, and no folder of the run is made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind, held_counts, steps_of
from das_spark.core import Work
from das_spark.errors import ConfigurationError, DasError, OutputError, PrivacyGuardError, error_text_withheld
from das_spark.io.area_files import look_at_areas
from das_spark.io.parents_file import read_parents
from das_spark.pipeline import rehearsal
from das_spark.pipeline.charge import is_charged
from das_spark.pipeline.features import publications_of
from das_spark.pipeline.published import open_published_run
from das_spark.pipeline.space import require_beginning, roots_of
from das_spark.privacy import require_table
from das_spark.spark.readers import geography_reader, look, look_at_crosswalk
from das_spark.store import finished, ledger_folder, require_writable, try_home

if TYPE_CHECKING:
    from das_spark.config import RunPlan, Stage
    from das_spark.store import RunLayout


#: How the stage of what no stage has alone is called in messages.
_PLACES: Final = "output"


@dataclass(frozen=True, slots=True)
class Ahead:
    """A run that is still to come."""

    plan: RunPlan  # what it will do
    layout: RunLayout  # where it will lie
    scratch: Path  # a folder for what is tried, removed afterwards
    files: bool  # whether the files that the plan names are on this machine


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that a stage will need."""

    setting: str  # key of the run file that asks for it; empty where the error names it
    work: Callable[[], object]  # tries it; raises what is wrong
    fix: str = ""  # what to do where the error does not say
    reads: bool = False  # whether it reads files of the run, of which no text of a library's error may be shown


Trials = Callable[[Ahead], Iterable[Trial]]


def try_stages(plan: RunPlan, layout: RunLayout, stages: Iterable[Stage], *, files: bool = True) -> None:
    """Try what the stages of a run will need; of a run that is charged its disks alone: what is spent is spent."""
    kinds = tuple(dict.fromkeys(stage.kind for stage in stages))
    found: list[DasError] = []
    with _scratch() as scratch:
        ahead = Ahead(plan, layout, scratch, files)
        tried = [(_PLACES, trial) for trial in (_places(ahead, kinds) if files else ())]
        if not is_charged(layout):  # whatever one of its stages lacks must not keep the others from going on
            tried += [(kind, trial) for kind in kinds for trial in trials_of(ahead, kind)]
        for stage, trial in tried:
            error = _tried(trial)
            if error is not None:
                where = ": ".join(filter(None, (stage, trial.setting)))
                found.append(type(error)(f"{where}: {error.message}", hint=error.hint or trial.fix))
    if not found:
        return
    if len(found) == 1:
        raise found[0]
    lines = [f"{each.message} ({each.hint})" if each.hint else each.message for each in found]
    count = f"{len(found)} things that the run will need fail; nothing is charged"
    gravest = next((each for each in found if isinstance(each, PrivacyGuardError)), found[0])
    raise type(gravest)("\n  ".join([f"{count}:", *lines]), hint="correct these, and run the same command again")


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for synthetic files; it is removed."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="das_spark-")
    except OSError as error:
        message = f"there is no folder for temporary files ({type(error).__name__})"
        raise OutputError(message, hint="make room, or set TMPDIR to a folder that can be written") from error
    with folder as name:
        yield Path(name)


def _tried(trial: Trial) -> DasError | None:
    try:
        if trial.reads:
            with error_text_withheld():
                trial.work()
        else:
            trial.work()
    except DasError as error:
        return error
    except Exception as error:  # noqa: BLE001 - synthetic counts are all that it can quote
        return ConfigurationError(f"{type(error).__name__}: {error}")
    return None


def _places(ahead: Ahead, kinds: Iterable[str]) -> Iterator[Trial]:
    """Roots that can be written, with room to begin; the ledger, where the run will be charged."""
    for key, folder in roots_of(ahead.plan, ahead.layout).items():
        yield Trial(key, partial(require_writable, folder), reads=True)
    if ahead.layout.home is not None:
        key = "output.public" if ahead.plan.output.public_address else "output.root"
        yield Trial(key, partial(try_home, ahead.layout.home), reads=True)
    if StageKind.MEASURE in kinds and ahead.plan.ledger.path is not None:  # the usual one is made beside the runs
        yield Trial("ledger.path", lambda: require_writable(ledger_folder(ahead.plan, ahead.layout)), reads=True)
    yield Trial("", partial(require_beginning, ahead.plan, ahead.layout), reads=True)


def _spine(ahead: Ahead) -> Iterator[Trial]:
    """The areas of blocks, and the crosswalk, unless the spine was made of them: they may be withdrawn by then."""
    if finished(ahead.layout.public.spine):
        return
    plan = ahead.plan
    if ahead.files and (parents := plan.geography.parents) is not None:
        work = partial(read_parents, parents, plan.product.geolevels, plan.spine.leaf)
        yield Trial("geography.parents", work, reads=True)
    yield from _geography(ahead)
    crosswalk = ahead.plan.geography.crosswalk
    if ahead.files and crosswalk is not None:
        yield Trial("geography.crosswalk", partial(look_at_crosswalk, crosswalk), reads=True)


def _geography(ahead: Ahead) -> Iterator[Trial]:
    settings = ahead.plan.geography
    if ahead.files and settings.reader is not None and settings.path is not None:
        reader = geography_reader(settings.reader)
        yield Trial("geography.path", partial(reader.look, settings.path), reads=True)


def _ingest(ahead: Ahead) -> Iterator[Trial]:
    """How the input begins, unless it was read: it may be withdrawn by then. Bounds that follow from units."""
    plan = ahead.plan
    if ahead.files and not finished(ahead.layout.restricted.table("leaves")):
        yield Trial("", partial(look, plan.input, plan.product, plan.spine), reads=True)
    yield from _bounds(ahead)


def _bounds(ahead: Ahead) -> Iterator[Trial]:
    """Bounds, structural zeros and added constraints, by which families are posed."""
    plan = ahead.plan
    leaf = plan.spine.leaf.name
    yield Trial("run.product", partial(rehearsal.synthetic_family, plan, leaf), product_fix(plan))


def _published(ahead: Ahead) -> Iterator[Trial]:
    """The run whose counts are held, unless they were taken: it is finished, of that product, by the same geounits."""
    plan = ahead.plan
    named, done = plan.input.published, (finished(ahead.layout.public.level("published", plan.spine.leaf.name)))
    if ahead.files and named is not None and not done:
        yield Trial("", partial(open_published_run, plan, named), reads=True)
    yield Trial("run.product", partial(held_counts, plan.product, units=plan.invariants.units), product_fix(plan))


def _check(ahead: Ahead) -> Iterator[Trial]:
    """Measurements that exist are examined by this stage itself, before a folder is made: nothing is spent in it."""
    return iter(())


def _measure(ahead: Ahead) -> Iterator[Trial]:
    """Noise that can be drawn: its table fits the memory."""
    budget = ahead.plan.budget
    for level in budget.levels:
        for each in level.queries:
            mechanism = budget.mechanism(level.geolevel, each.query)
            yield Trial(f"budget, {each.query} at {level.geolevel}", partial(require_table, mechanism))


def _upward(ahead: Ahead) -> Iterator[Trial]:
    """A synthetic family of every level that the estimator goes through upwards."""
    plan = ahead.plan
    for step in steps_of(plan):
        if step.work is Work.UPWARD:
            work = partial(rehearsal.synthetic_family, plan, step.geolevel)
            yield Trial("estimation.estimator", work, product_fix(plan))


def _estimate(ahead: Ahead) -> Iterator[Trial]:
    """A synthetic family of every level, and one solve by each solver of the chain."""
    plan = ahead.plan
    for level in plan.spine.names:
        yield Trial("estimation", partial(rehearsal.rehearse_estimation, plan, level), product_fix(plan))
    for solver in plan.estimation.solvers:
        fix = "leave it out of estimation.solvers, or install what it needs: das-spark doctor"
        yield Trial(f"estimation.solvers = {solver!r}", partial(rehearsal.rehearse_solver, plan, solver), fix)


def _verify(ahead: Ahead) -> Iterator[Trial]:
    """The manifest, data dictionary and statement that are written before verification, and read by it."""
    work = partial(rehearsal.rehearse_manifest, ahead.plan, ahead.scratch / "manifest")
    yield Trial("run.product", work, product_fix(ahead.plan))


def _evaluate(ahead: Ahead) -> Iterator[Trial]:
    """Files of areas and of geography, and the queries of the report."""
    plan = ahead.plan
    areas = plan.evaluation.areas
    if ahead.files and areas is not None:
        census = plan.product.census(plan.spine)
        fix = "name a CSV of geocode and area, or leave evaluation.areas out"
        yield Trial("evaluation.areas", partial(look_at_areas, Path(areas), census), fix, reads=True)
    path = plan.geography.path
    if plan.spine.is_census and path is not None and Path(path).exists():  # the report does without what is gone
        yield from _geography(ahead)
    yield Trial("run.product", partial(rehearsal.rehearse_evaluation, plan), product_fix(plan))


def product_fix(plan: RunPlan) -> str:
    """What to do where a product cannot be what a stage needs."""
    return f"correct product {plan.product.name!r}"


def trials_of(ahead: Ahead, kind: str) -> Iterable[Trial]:
    """What a kind of stage will need."""
    publishing: dict[str, Trials] = {each.name: each.trials for each in publications_of(ahead.plan)}
    return {**TRIALS, **publishing}[kind](ahead)


#: What each kind of stage will need that publishes nothing of the estimates; a new kind registers here.
TRIALS: Final[Mapping[str, Trials]] = MappingProxyType(
    {
        StageKind.SPINE: _spine,
        StageKind.INGEST: _ingest,
        StageKind.PUBLISHED: _published,
        StageKind.CHECK: _check,
        StageKind.IMPORT: _bounds,
        StageKind.MEASURE: _measure,
        StageKind.UPWARD: _upward,
        StageKind.ESTIMATE: _estimate,
        StageKind.VERIFY: _verify,
        StageKind.EVALUATE: _evaluate,
    }
)
