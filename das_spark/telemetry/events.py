"""Every event that a run or a command logs, by a code that stays: what it means, how grave it is, what it carries.

A code is never given another meaning and never used again. An event that is not here cannot be logged; one that nothing
logs is removed. A field may be left out of a line where there is nothing to say; it never has another type.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"

_NOTHING: Final[dict[str, type]] = {}


class Event(StrEnum):
    """What happened.

    Attributes:
        level: `info`, `warning` or `error`.
        meaning: One line for readers.
        fields: Name -> type of what a line carries besides what every line has.
    """

    level: str
    meaning: str
    fields: dict[str, type]

    def __new__(cls, code: str, level: str, meaning: str, fields: dict[str, type]) -> Event:
        """Make a member whose value is its code."""
        made = str.__new__(cls, code)
        made._value_ = code
        made.level, made.meaning, made.fields = level, meaning, fields
        return made

    RUN_OPENED = (
        "run.opened",
        INFO,
        "a driver began the run",
        {"product": str, "geolevels": list, "config_hash": str, "insecure": bool, "software": str},
    )
    RUN_RESUMED = (
        "run.resumed",
        INFO,
        "a driver goes on with the run",
        {"product": str, "geolevels": list, "config_hash": str, "insecure": bool, "software": str},
    )
    SPARK_STARTED = (
        "spark.started",
        INFO,
        "the run has its Spark application",
        {"master": str, "version": str, "cores": int},
    )
    LEDGER_ENTERED = (
        "ledger.entered",
        INFO,
        "the privacy ledger of the input knows the run; nothing is drawn before",
        {"entry": str, "framework": str, "total": str},
    )
    LEDGER_COMPLETED = (
        "ledger.completed",
        INFO,
        "the ledger knows that the measurements of a level are public",
        {"geolevel": str},
    )
    LEDGER_BEGUN = (
        "ledger.begun",
        WARNING,
        "the dataset had no ledger there, and one was begun with the run: what other ledgers count is not known",
        {"file": str},
    )
    LEDGER_MENDED = (
        "ledger.mended",
        WARNING,
        "the last line of a ledger was half written, and was cut off; nothing was drawn under it",
        {"file": str},
    )
    LEDGER_COUNTED = (
        "ledger.counted",
        INFO,
        "runs of a ledger that an earlier version kept without a dataset's name are counted in that of the dataset",
        {"entries": list},
    )
    SPACE_ESTIMATED = (
        "space.estimated",
        INFO,
        "the input is read: how many bytes the rest of the run will write, about, by place",
        {"public": int, "restricted": int, "scratch": int},
    )
    STAGE_STARTED = ("stage.started", INFO, "a stage began", {"stage": str, "families": int})
    STAGE_PROGRESS = (
        "stage.progress",
        INFO,
        "a stage is still running",
        {
            "stage": str,
            "families": int,
            "seconds": float,
            "step": int,
            "tasks_done": int,
            "tasks": int,
            "step_seconds_left": float,
        },
    )
    EXECUTORS_MISSING = (
        "executors.missing",
        WARNING,
        "a stage has work, and the cluster has given it no executor for some time",
        {"stage": str, "seconds": float},
    )
    STAGE_FINISHED = (
        "stage.finished",
        INFO,
        "a stage ended well; with what it cost Spark",
        {"stage": str, "families": int, "seconds": float, "spark": dict},
    )
    STAGE_FAILED = (
        "stage.failed",
        ERROR,
        "a stage ended with an error",
        {"stage": str, "families": int, "seconds": float, "spark": dict, "code": str, "error": str},
    )
    LEVEL_DESTROYED = (
        "level.destroyed",
        WARNING,
        "an unfinished attempt at a level was destroyed and invalidated",
        {"geolevel": str, "attempt": int},
    )
    LEVEL_OPENED = (
        "level.opened",
        INFO,
        "an attempt at a level is in the journal; now it may be drawn",
        {"geolevel": str, "attempt": int},
    )
    LEVEL_DRAWN = (
        "level.drawn",
        INFO,
        "the measurements of a level are drawn, and nobody sees them yet",
        {"geolevel": str, "attempt": int},
    )
    LEVEL_STAGED = (
        "level.staged",
        INFO,
        "what was drawn is in the journal with checksums: it is the level's only measurement from here on",
        {"geolevel": str, "attempt": int},
    )
    LEVEL_PROMOTED = (
        "level.promoted",
        INFO,
        "the measurements of a level are public",
        {"geolevel": str, "attempt": int},
    )
    LEVEL_SKIPPED = (
        "level.skipped",
        INFO,
        "a level was finished before: measured or estimated by an earlier driver",
        {"geolevel": str, "work": str},
    )
    FAMILIES_SLOWEST = (
        "families.slowest",
        INFO,
        "the families of a level whose estimation took longest, with their diagnostics and seconds",
        {"geolevel": str, "families": list},
    )
    FAMILIES_FAILED = (
        "families.failed",
        ERROR,
        "families of a level could not be estimated",
        {"geolevel": str, "families": int, "named": list},
    )
    VERIFICATION_FINISHED = (
        "verification.finished",
        INFO,
        "the results were verified; `passed` says how it came out",
        {"passed": bool, "checks": int, "failed": list},
    )
    GUARD_REFUSED = (
        "guard.refused",
        ERROR,
        "a guard of the privacy guarantee refused to go on",
        {"code": str, "message": str, "hint": str},
    )
    RUN_FINISHED = (
        "run.finished",
        INFO,
        "the run is done and verified",
        {"figures": dict, "paths": dict},
    )
    RUN_LEFT = ("run.left", INFO, "the driver has stopped after the stage it was asked to stop at", {"figures": dict})
    RUN_FAILED = (
        "run.failed",
        ERROR,
        "the run stopped with an error; it can be resumed when the cause is mended",
        {"code": str, "exit_code": int, "error": str, "message": str, "hint": str},
    )
    RUN_INTERRUPTED = (
        "run.interrupted",
        WARNING,
        "a signal interrupted the driver (Ctrl-C is SIGINT); the run can be resumed",
        {"signal": str},
    )
    PAGE_FAILED = ("page.failed", WARNING, "the page of the run could not be written", {"error": str})
    COMMAND_SAID = ("command.said", INFO, "a line of progress that is about no stage", {"text": str})
    COMMAND_WARNED = ("command.warned", WARNING, "what whoever runs the command must know", {"text": str})
    COMMAND_FAILED = (
        "command.failed",
        ERROR,
        "the command ends with an error (on standard error)",
        {"code": str, "exit_code": int, "message": str, "hint": str},
    )
