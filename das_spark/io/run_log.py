"""The log of a run: one JSON object a line, only ever appended to, by every driver that works on the run.

RESTRICTED: times and Spark's figures tell of the input. A line is one write to the file, so that a driver that is
killed loses at most the line that it was writing; the next driver begins on a new line. The log decides nothing: what
is finished, drawn or charged stands in markers, journal and ledger, which are made durable; lines are not, and the last
ones may be lost with the power.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from das_spark.errors import OutputError
from das_spark.io.events import Event
from das_spark.store import disk_errors

#: What every line of a log has: where it comes from, and what it says.
COMMON = ("time", "run_id", "opening", "application", "application_attempt", "event", "level")


def line_of(event: Event, run_id: str, fields: Mapping[str, object], **where: object) -> str:
    """One event as JSON without a line feed; fields that are None are left out.

    Args:
        event: What happened.
        run_id: Name of the run; "" where there is none, and then the line has none.
        fields: What the event carries.
        where: Further common fields.
    """
    told = {name: value for name, value in fields.items() if value is not None}
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    named = {"run_id": run_id} if run_id else {}
    record = {"time": now, **named, **where, "event": event.value, "level": event.level, **told}
    return json.dumps(record, ensure_ascii=False)


class ProgressLine(str):
    """A line of progress that knows which event it tells of, for those who print events instead of text."""

    __slots__ = ("event", "fields", "run_id")

    event: Event
    run_id: str
    fields: Mapping[str, object]

    def __new__(cls, text: str, event: Event, run_id: str, fields: Mapping[str, object]) -> Self:
        """Make a text with its event.

        Args:
            text: What people read.
            event: What it tells of.
            run_id: Of which run.
            fields: The figures in the text, and no others.
        """
        made = super().__new__(cls, text)
        made.event, made.run_id, made.fields = event, run_id, fields
        return made


@dataclass(slots=True)
class RunLog:
    """The log of a run, open for one driver.

    Attributes:
        path: The file.
        run_id: Name of the run.
        opening: How many drivers have opened the run, this one included.
        application: Identity of the Spark application; "" before there is one.
        attempt: Which attempt at the application this is, where the cluster manager counts them.
        last: The last event that was noted.
    """

    path: Path
    run_id: str
    opening: int
    application: str = ""
    attempt: str = ""
    last: Event | None = None

    @classmethod
    def open(cls, path: Path, run_id: str) -> RunLog:
        """Open a log, or begin it; what a dead driver left half written stays a line of its own.

        Args:
            path: The file; its folder exists.
            run_id: Name of the run.

        Raises:
            OutputError: It cannot be written.
        """
        opening = 1
        if path.is_file():
            opening += max((int(line["opening"]) for line in read_log(path).lines), default=0)
            with path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                begun = file.tell() > 0
                if begun:
                    file.seek(-1, os.SEEK_END)
                torn = begun and file.read(1) != b"\n"
            if torn:
                _append(path, b"\n")
        return cls(path, run_id, opening)

    def note(self, event: Event, **fields: object) -> None:
        """Append one line.

        Args:
            event: What happened.
            fields: What it carries; None is left out.

        Raises:
            OutputError: The disk is full.
        """
        where = {"opening": self.opening, "application": self.application, "application_attempt": self.attempt}
        _append(self.path, (line_of(event, self.run_id, fields, **where) + "\n").encode())
        self.last = event


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a log holds.

    Attributes:
        lines: Every line that can be read, oldest first.
        torn: Numbers of the lines that cannot: a driver or a machine died while writing them.
    """

    lines: tuple[Mapping[str, Any], ...] = ()
    torn: tuple[int, ...] = field(default=())


def read_log(path: Path) -> LogContents:
    """Read a log, of a run at work too; there may be none.

    Args:
        path: The file.

    Raises:
        OutputError: It exists and cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return LogContents()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({type(error).__name__})") from error
    lines, torn = [], []
    for number, raw in enumerate(content.splitlines(), start=1):
        line = _parsed(raw)
        if line is None:
            torn.append(number)
        else:
            lines.append(line)
    return LogContents(tuple(lines), tuple(torn))


def _parsed(raw: bytes) -> Mapping[str, Any] | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and set(COMMON) <= set(line) else None


def _append(path: Path, data: bytes) -> None:
    with disk_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
