"""Everything that a later stage will need is tried before anything is charged: files, columns, writers, layouts, disks.

Every kind of stage says what it will need, each thing with the setting that asks for it and a function that tries it
(`das_spark.pipeline.stage`). A thing that is not tried here fails a run when its budget is gone. Trials read what the
readers' `look` reads, and public files; all else works on synthetic counts (`das_spark.pipeline.rehearsal`). No Spark
is started, and no folder of the run is made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from das_spark.config import NOT_ENCRYPTED_AT_REST, REMOVED_IS_KEPT, StageKind
from das_spark.errors import ConfigurationError, DasError, OutputError, PrivacyGuardError, error_text_withheld
from das_spark.pipeline.charge import is_charged
from das_spark.pipeline.input_record import is_measured
from das_spark.pipeline.space import require_beginning, roots_of
from das_spark.pipeline.stages import stages_by_kind
from das_spark.pipeline.trials import Ahead, Trial
from das_spark.store import (
    ledger_folder,
    require_destroying,
    require_encrypted,
    require_exclusive,
    require_writable,
)

if TYPE_CHECKING:
    from das_spark.config import RunPlan, Stage
    from das_spark.store import RunLayout


#: How the stage of what no stage has alone is called in messages.
_PLACES: Final = "output"


def try_stages(
    plan: RunPlan, layout: RunLayout, stages: Iterable[Stage], *, files: bool = True, until: str | None = None
) -> None:
    """Try what the stages of a run will need; of a run that is charged its places alone: what is spent is spent.

    A driver that measures nothing up to its last stage, `until`, tries no store: it may lack the right to.
    """
    kinds = tuple(dict.fromkeys(stage.kind for stage in stages))
    found: list[DasError] = []
    with _scratch() as scratch:
        ahead = Ahead(plan, layout, scratch, files)
        draws = not is_measured(plan, layout, until)
        tried = [(_PLACES, trial) for trial in (_places(ahead, kinds, draws=draws) if files else ())]
        if not is_charged(layout):  # whatever one of its stages lacks must not keep the others from going on
            known = stages_by_kind(plan)
            tried += [(kind, trial) for kind in kinds for trial in known[kind].trials(ahead)]
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


def _try_ledger(ahead: Ahead) -> None:
    folder = ledger_folder(ahead.plan, ahead.layout)
    require_writable(folder)
    require_exclusive(folder)


def _places(ahead: Ahead, kinds: Iterable[str], *, draws: bool) -> Iterator[Trial]:
    """Roots that can be written, with room to begin; where something is drawn, stores that do what they must."""
    asked = {REMOVED_IS_KEPT: require_destroying} | ({NOT_ENCRYPTED_AT_REST: require_encrypted} if draws else {})
    required = [ask for name, ask in asked.items() if name not in ahead.plan.acknowledged]
    for key, folder in roots_of(ahead.plan, ahead.layout).items():
        yield Trial(key, partial(require_writable, folder), reads=True)
        if draws:
            yield Trial(key, partial(require_exclusive, folder), reads=True)
        if key != "output.public":  # what is confidential lies in the others
            for ask in required:
                yield Trial(key, partial(ask, folder), reads=True)
    named = ahead.plan.ledger.path is not None  # the usual one is made beside the runs
    if named and draws and StageKind.MEASURE in kinds:
        yield Trial("ledger.path", partial(_try_ledger, ahead), reads=True)
    yield Trial("", partial(require_beginning, ahead.plan, ahead.layout), reads=True)
