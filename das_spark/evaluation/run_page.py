"""A run, finished or not, as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.run_figures import level_times, stage_times
from das_spark.evaluation.run_record import ESTIMATE, MEASURE, RunRecord
from das_spark.evaluation.template import rendered

#: Slowest families that the page lists.
MOST_FAMILIES: Final = 20

RESTRICTED: Final = "RESTRICTED: times, Spark's figures and the ledger of the input tell of confidential data."
PUBLIC: Final = "Made from the public root alone: no times, no log, no ledger of the input."

_STAGES: Final = "Wall time by stage, all drivers together."
_LEVELS: Final = "Wall time by geolevel: measuring (with reading and promoting) and estimating."

#: Terms of the page.
WORDS: Final[Mapping[str, str]] = {
    "stage": "what a driver does between two lines of progress; its Spark jobs carry its name as their job group",
    "driver": "one process that opened the run; a run that is resumed has several",
    "entered": "how often a driver began the stage; a finished one that is entered again ends at once",
    "cut short": "the driver ended in the stage without a word; its time counts up to its last line in the log",
    "task time": "of all tasks together, with their Python workers; CPU and garbage collection are the JVM's alone",
    "family seconds": "time of a family's estimation in its task, Spark left out; measured, so another run has others",
    "work": "unknowns of a family's problem times iterations of its solver: an order by effort for those who may not "
    "see times",
    "gap": "certified duality gap of a family's solution, as a share of max(1, the centred objective)",
    "residual": "largest amount by which a solution breaks a constraint before it is rounded, in people or units",
    "charged": "what the ledger of the input counts of a run, from its beginning",
    "released": "what its finished levels have spent",
}


def run_page(record: RunRecord) -> str:
    """Render the page.

    Args:
        record: What is known of the run.

    Returns:
        HTML.
    """
    return rendered(
        "run.html",
        record=record,
        banner=RESTRICTED if record.restricted else PUBLIC,
        stage_figures=_stage_figures(record),
        level_figures=_level_figures(record),
        metered=[stage for stage in record.stages if stage.metrics is not None],
        lost=sum(stage.metrics.lost_stages for stage in record.stages if stage.metrics is not None),
        slowest=(slowest := record.slowest(MOST_FAMILIES)),
        timed=any(family.seconds is not None for family in slowest),
        duration=duration,
        size=size,
        words=WORDS,
    )


def duration(seconds: float) -> str:
    """A time as people say it.

    Args:
        seconds: How long.
    """
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def size(count: float) -> str:
    """A number of bytes as people say it.

    Args:
        count: How many.
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - a thousand of a unit is one of the next
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _stage_figures(record: RunRecord) -> list[Captioned]:
    shown = [(stage.name, stage.seconds) for stage in record.stages]
    return [Captioned(stage_times(shown), _STAGES)] if shown else []


def _level_figures(record: RunRecord) -> list[Captioned]:
    times: dict[str, dict[str, float]] = {}
    for stage in record.stages:
        if stage.geolevel:
            times.setdefault(stage.geolevel, {})[stage.work] = stage.seconds
    rows = [(name, each.get(MEASURE, 0.0), each.get(ESTIMATE, 0.0)) for name, each in times.items()]
    return [Captioned(level_times(rows), _LEVELS)] if rows else []
