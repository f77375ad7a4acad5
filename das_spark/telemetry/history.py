"""What the lines of a log say together: stages and their cost, drivers and how they ended, warnings and errors.

Lines are those of `read_log`, oldest first; `live` says that the last driver still works on the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from das_spark.evaluation import DriverAttempt, FamilyRow, LogEntry, StageMetrics, StageRow
from das_spark.telemetry.events import INFO, Event
from das_spark.telemetry.logs import COMMON

_Line = Mapping[str, Any]

#: How a driver ended, by its last event; none of them: it was killed, or is still running.
FINISHED: Final = "finished"
LEFT: Final = "left, as it was asked to"
_ENDS: Final = {
    Event.RUN_FINISHED: FINISHED,
    Event.RUN_LEFT: LEFT,
    Event.RUN_INTERRUPTED: "interrupted",
}
KILLED: Final = "ended without a last word: killed, or its machine stopped"


@dataclass(slots=True)
class _StageRows:
    """Stages so far, and the one that is open."""

    lines: dict[str, StageRow] = field(default_factory=dict)
    name: str = ""
    seconds: float = 0.0

    def begin(self, name: str) -> None:
        row = self.lines.get(name, StageRow(name))
        self.lines[name] = replace(row, entered=row.entered + 1)
        self.name, self.seconds = name, 0.0

    def end(self, seconds: float, spark: _Line | None, *, failed: bool = False) -> None:
        metrics = self.lines[self.name].metrics
        if spark is not None:
            found = StageMetrics.from_json(spark)
            metrics = found if metrics is None else metrics.plus(found)
        self._close(seconds, failed=self.lines[self.name].failed + failed, metrics=metrics)

    def cut(self) -> None:
        """The driver of an open stage is gone."""
        if self.name:
            self._close(self.seconds, cut_short=self.lines[self.name].cut_short + 1)

    def _close(self, seconds: float, **changes: Any) -> None:  # noqa: ANN401 - fields of a row
        row = self.lines[self.name]
        self.lines[self.name] = replace(row, seconds=round(row.seconds + seconds, 3), **changes)
        self.name = ""


def logged_stages(lines: Sequence[_Line], *, live: bool = False) -> tuple[StageRow, ...]:
    """Every stage that a driver began, in the order of their first beginning; a live one was not cut short."""
    rows, opening = _StageRows(), 0
    for line in lines:
        event = line["event"]
        if line["opening"] != opening:
            rows.cut()
            opening = line["opening"]
        if event == Event.STAGE_STARTED:
            rows.cut()
            rows.begin(line["stage"])
        elif event == Event.STAGE_PROGRESS and rows.name:
            rows.seconds = line["seconds"]
        elif event in (Event.STAGE_FINISHED, Event.STAGE_FAILED) and rows.name:
            rows.end(line["seconds"], line.get("spark"), failed=event == Event.STAGE_FAILED)
    if not live:
        rows.cut()
    return tuple(rows.lines.values())


def slowest_families(lines: Sequence[_Line]) -> dict[str, tuple[FamilyRow, ...]]:
    """Geolevel -> the families whose estimation took longest, slowest first, as its last estimation logged them."""
    return {
        line["geolevel"]: tuple(FamilyRow(geolevel=line["geolevel"], **family) for family in line["families"])
        for line in lines
        if line["event"] == Event.FAMILIES_SLOWEST
    }


def driver_attempts(lines: Sequence[_Line], *, live: bool = False) -> tuple[DriverAttempt, ...]:
    """Every driver that opened the run."""
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
    """Every warning and error."""
    return tuple(LogEntry(line["time"], line["event"], _text(line)) for line in lines if line["level"] != INFO)


def has_ended(lines: Sequence[_Line]) -> bool:
    """Whether the last driver logged its end."""
    return bool(lines) and _end(lines) != KILLED


def _end(lines: Sequence[_Line]) -> str:
    """How the driver of these lines ended; what it logged of its page comes after that."""
    line = next((line for line in reversed(lines) if line["event"] != Event.PAGE_FAILED), lines[-1])
    if line["event"] == Event.RUN_FAILED:
        return f"failed: {line.get('code') or line['error']}"
    return _ENDS.get(line["event"], KILLED)


def _application(line: _Line) -> str:
    attempt = line["application_attempt"]
    return f"{line['application']}, attempt {attempt}" if attempt else str(line["application"])


def _text(line: _Line) -> str:
    fields = {name: value for name, value in line.items() if name not in COMMON and name != "spark"}
    return "; ".join(f"{name}: {value}" for name, value in fields.items())
