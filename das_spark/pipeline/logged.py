"""Keep the log of a run from its opening to its end, whatever that end is, and leave the page of the run behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from das_spark import __version__
from das_spark.errors import DasError, OutputError, PrivacyGuardError
from das_spark.io.events import Event
from das_spark.io.run_log import RunLog
from das_spark.pipeline.run_record import write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.progress import Progress
    from das_spark.store import RunLayout


@contextmanager
def logged(layout: RunLayout, plan: RunPlan, progress: Progress, *, resumed: bool, insecure: bool) -> Iterator[None]:
    """Open the log of a run that is held, and note how the driver ends. A killed driver notes nothing more.

    Args:
        layout: Where the run lies.
        plan: What it does.
        progress: Gets the log.
        resumed: Whether the run existed before.
        insecure: Whether it is made under a test key.

    Raises:
        OutputError: The log cannot be written.
    """
    progress.log = RunLog.open(layout.restricted.log, layout.run_id)
    progress.note(
        Event.RUN_RESUMED if resumed else Event.RUN_OPENED,
        product=plan.product.name,
        geolevels=list(plan.spine.names),
        config_hash=plan.config_hash,
        insecure=insecure,
        software=__version__,
    )
    try:
        yield
    except KeyboardInterrupt:
        progress.note(Event.RUN_INTERRUPTED)
        raise
    except Exception as error:
        with suppress(OutputError):  # of the first error somebody must hear, also where the disk is full
            _note_failure(progress, error)
            _leave_page(layout, progress)
        raise
    if progress.log.last is not Event.RUN_FINISHED:
        progress.note(Event.RUN_LEFT)
    _leave_page(layout, progress)


def note_application(progress: Progress, spark: SparkSession) -> None:
    """Let all further lines of the log name the Spark application.

    Args:
        progress: Of the run.
        spark: Its session.
    """
    context = spark.sparkContext
    if progress.log is not None:
        progress.log.application = str(context.applicationId)
        with suppress(Exception):  # YARN alone counts attempts; elsewhere there is none
            progress.log.attempt = str(context._jsc.sc().applicationAttemptId().get())
    progress.note(
        Event.SPARK_STARTED,
        master=str(context.master),
        version=str(spark.version),
        cores=int(context.defaultParallelism),
    )


def _note_failure(progress: Progress, error: Exception) -> None:
    """Messages of our own errors hold nothing confidential; of others, of Spark's say, that is not known."""
    if isinstance(error, PrivacyGuardError):
        progress.note(Event.GUARD_REFUSED, code=error.code, message=error.message, hint=error.hint or None)
    if isinstance(error, DasError):
        told: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint or None}
    else:
        told = {}
    exit_code = error.exit_code if isinstance(error, DasError) else 1
    progress.note(Event.RUN_FAILED, error=type(error).__name__, exit_code=exit_code, **told)


def _leave_page(layout: RunLayout, progress: Progress) -> None:
    try:
        write_page(layout)
    except Exception as error:  # noqa: BLE001 - a run is not worth less because its page could not be drawn
        progress.note(Event.PAGE_FAILED, error=type(error).__name__)
