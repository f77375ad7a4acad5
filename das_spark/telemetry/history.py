"""What the lines of a log say together: stages and their cost, drivers and how they ended, warnings and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from das_spark.evaluation import DriverAttempt, FamilyRow, LogEntry, StageMetrics, StageRow
from das_spark.telemetry.events import INFO, Event
from das_spark.telemetry.logs import COMMON

_Line = Mapping[str, Any]

#: How a driver ended, by its last event; none of them: it was killed, or is still at work.
FINISHED: Final = "finished"
LEFT: Final = "left, as it was asked to"
_ENDS: Final = {
    Event.RUN_FINISHED: FINISHED,
    Event.RUN_LEFT: LEFT,
    Event.RUN_INTERRUPTED: "interrupted",
}
KILLED: Final = "ended without a last word: killed, or its machine stopped"


@dataclass(slots=True)
class _Tally:
    """Stages so far, and the one that is open."""

    lines: dict[str, StageRow] = field(default_factory=dict)
    name: str = ""
    seconds: float = 0.0

    def begin(self, name: str) -> None:
        line = self.lines.get(name, StageRow(name))
        self.lines[name] = replace(line, entered=line.entered + 1)
        self.name, self.seconds = name, 0.0

    def end(self, seconds: float, spark: _Line | None, *, failed: bool = False) -> None:
        line = self.lines[self.name]
        found = None if spark is None else StageMetrics.from_json(spark)
        metrics = found if line.metrics is None or found is None else line.metrics.plus(found)
        self.lines[self.name] = replace(
            line,
            seconds=round(line.seconds + seconds, 3),
            failed=line.failed + failed,
            metrics=metrics or line.metrics,
        )
        self.name = ""

    def cut(self) -> None:
        """The driver of an open stage is gone."""
        if self.name:
            line = self.lines[self.name]
            self.lines[self.name] = replace(
                line, seconds=round(line.seconds + self.seconds, 3), cut_short=line.cut_short + 1
            )
            self.name = ""


def logged_stages(lines: Sequence[_Line], *, live: bool = False) -> tuple[StageRow, ...]:
    """Every stage that a driver began, in the order of their first beginning.

    Args:
        lines: Of the log, oldest first.
        live: Whether the last driver is still at work, so that the stage it is in was not cut short.
    """
    tally, opening = _Tally(), 0
    for line in lines:
        event = line["event"]
        if line["opening"] != opening:
            tally.cut()
            opening = line["opening"]
        if event == Event.STAGE_STARTED:
            tally.cut()
            tally.begin(line["stage"])
        elif event == Event.STAGE_PROGRESS and tally.name:
            tally.seconds = line["seconds"]
        elif event in (Event.STAGE_FINISHED, Event.STAGE_FAILED) and tally.name:
            tally.end(line["seconds"], line.get("spark"), failed=event == Event.STAGE_FAILED)
    if not live:
        tally.cut()
    return tuple(tally.lines.values())


def slowest_families(lines: Sequence[_Line]) -> dict[str, tuple[FamilyRow, ...]]:
    """Geolevel -> the families whose estimation took longest, slowest first, as its last estimation logged them.

    Args:
        lines: Of the log, oldest first.
    """
    return {
        line["geolevel"]: tuple(FamilyRow(geolevel=line["geolevel"], **each) for each in line["families"])
        for line in lines
        if line["event"] == Event.FAMILIES_SLOWEST
    }


def driver_attempts(lines: Sequence[_Line], *, live: bool = False) -> tuple[DriverAttempt, ...]:
    """Every driver that opened the run.

    Args:
        lines: Of the log, oldest first.
        live: Whether the last one is still at work.
    """
    by_number: dict[int, list[_Line]] = {}
    for line in lines:
        by_number.setdefault(line["opening"], []).append(line)
    found = []
    for place, (number, own) in enumerate(by_number.items(), start=1):
        last = place == len(by_number)
        named = [_application(line) for line in own if line["application"]]
        end = "at work" if live and last else _end(own)
        found.append(DriverAttempt(number, own[0]["time"], own[-1]["time"], named[0] if named else "", end))
    return tuple(found)


def warnings_of(lines: Sequence[_Line]) -> tuple[LogEntry, ...]:
    """Every warning and error.

    Args:
        lines: Of the log, oldest first.
    """
    return tuple(LogEntry(line["time"], line["event"], _text(line)) for line in lines if line["level"] != INFO)


def has_ended(lines: Sequence[_Line]) -> bool:
    """Whether the last driver logged its end.

    Args:
        lines: Of the log, oldest first.
    """
    return bool(lines) and _end(lines) != KILLED


def _end(lines: Sequence[_Line]) -> str:
    """How the driver of these lines ended; what it logged of its page comes after that."""
    line = next((each for each in reversed(lines) if each["event"] != Event.PAGE_FAILED), lines[-1])
    if line["event"] == Event.RUN_FAILED:
        return f"failed: {line.get('code') or line['error']}"
    return _ENDS.get(line["event"], KILLED)


def _application(line: _Line) -> str:
    attempt = line["application_attempt"]
    return f"{line['application']}, attempt {attempt}" if attempt else str(line["application"])


def _text(line: _Line) -> str:
    fields = {name: value for name, value in line.items() if name not in COMMON and name != "spark"}
    return "; ".join(f"{name}: {value}" for name, value in fields.items())
