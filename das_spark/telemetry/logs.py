"""Records of events for `logging`, the formatter that makes JSON of them, and the handlers that take them.

The log of a run has one JSON object a line and is only ever appended to, by every driver that works on the run. It is
RESTRICTED: times and Spark's figures depend on the input. A line is one write to the file, so that a driver that is
killed loses at most the line that it was writing; the next driver begins on a new line. The log decides nothing: what
is finished, drawn or charged stands in markers, journal and ledger, which are made durable; lines are not, and the last
ones may be lost with the power.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from das_spark.errors import OutputError
from das_spark.places import Place, disk_errors
from das_spark.store import Lines, read_lines
from das_spark.telemetry.events import ERROR, INFO, WARNING, Event

if TYPE_CHECKING:
    pass

#: What every line of a log has: where it comes from, and what it says.
COMMON: Final = ("time", "run_id", "opening", "application", "application_attempt", "event", "level")
_LEVELS: Final = {INFO: logging.INFO, WARNING: logging.WARNING, ERROR: logging.ERROR}


def log_record(event: Event, fields: Mapping[str, object], text: str = "", run_id: str = "") -> logging.LogRecord:
    """An event for the handlers of `logging`: what it carries (None is left out), and the same as text for people."""
    level = _LEVELS[event.level]
    given = {name: value for name, value in fields.items() if value is not None}
    extra = {"event": event, "fields": given, "run_id": run_id}
    return logging.makeLogRecord(
        {"name": LOGGER, "levelno": level, "levelname": logging.getLevelName(level), "msg": text, **extra}
    )


class _JsonFormatter(logging.Formatter):
    """One line of JSON a record."""

    def __init__(self, **common: object) -> None:
        super().__init__()
        self.common = common

    def format(self, record: Any) -> str:  # noqa: ANN401 - a record of `log_record`, with its attributes
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        run = {"run_id": record.run_id} if record.run_id else {}
        what = {"event": record.event.value, "level": record.event.level, **record.fields}
        return json.dumps({"time": time, **run, **self.common, **what}, ensure_ascii=False)


class TextLines(logging.Handler):
    """Gives the text of each record to a function."""

    def __init__(self, report: Callable[[str], None]) -> None:
        """Hand texts to `report`."""
        super().__init__()
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one text."""
        self.report(record.getMessage())


class JsonLines(logging.StreamHandler[TextIO]):
    """Prints each record as JSON; called with a text, it prints that as an event, too."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Print to the stream; to standard output where there is none."""
        super().__init__(stream or sys.stdout)
        self.setFormatter(_JsonFormatter())

    def __call__(self, text: str) -> None:
        """Print a line of progress that is about no stage."""
        self.handle(log_record(Event.COMMAND_SAID, {"text": text.strip()}))

    def handleError(self, record: logging.LogRecord) -> None:
        """Let the command end: nobody reads what it prints."""
        raise  # noqa: PLE0704 - the error that is being handled


#: Name of the logger that callers of the package hear of runs by.
LOGGER: Final = "das_spark"


class ToLogger(logging.Handler):
    """Hands each record to the logger `das_spark`, whose level and handlers are the caller's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one record."""
        logger = logging.getLogger(LOGGER)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)

    def __call__(self, text: str) -> None:
        """Hand over a line of progress that is about no stage."""
        self.handle(log_record(Event.COMMAND_SAID, {"text": text.strip()}, text))


@contextmanager
def said_somewhere() -> Iterator[None]:
    """Let the logger `das_spark` print to standard error for a while, where nobody has set up any logging."""
    logger = logging.getLogger(LOGGER)
    if logger.hasHandlers():
        yield
        return
    handler, before = logging.StreamHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class LiveHandler(logging.Handler):
    """Shows people how a stage goes on: it is given the beginning of each, and its progress several times a second.

    Logs and collectors of logs are not: they hear of a stage every ten seconds, and of its end.
    """

    def __call__(self, text: str) -> None:
        """Show a line of progress that is about no stage."""
        self.handle(log_record(Event.COMMAND_SAID, {"text": text.strip()}, text))


class RunLog(logging.Handler):
    """The log of a run, open for one driver.

    Attributes:
        path: The file.
        run_id: Name of the run.
        opening: How many drivers have opened the run, this one included.
        application: Identity of the Spark application; "" before there is one.
        attempt: Which attempt at the application this is, where the cluster manager counts them.
        last: The last event that was logged.
    """

    def __init__(self, path: Place, run_id: str) -> None:
        """Open a log, or begin it in a folder that exists; what a dead driver left half written stays a line."""
        super().__init__()
        self.path, self.run_id, self.application, self.attempt = path, run_id, "", ""
        self.last: Event | None = None
        self.opening = 1
        self._lines = Lines(path)
        content = _content(path) if path.exists() else b""
        self.opening += max((int(line["opening"]) for line in _contents(content).lines), default=0)
        if content and not content.endswith(b"\n"):
            self._append(b"\n")

    def log(self, event: Event, **fields: object) -> None:
        """Append one line; fields that are None are left out.

        Raises:
            OutputError: The disk is full.
        """
        self.handle(log_record(event, fields, run_id=self.run_id))
        self.last = event

    def emit(self, record: logging.LogRecord) -> None:
        """Append one line."""
        where = {"opening": self.opening, "application": self.application, "application_attempt": self.attempt}
        self._append((_JsonFormatter(**where).format(record) + "\n").encode())

    def _append(self, data: bytes) -> None:
        with disk_errors(self.path):
            self._lines.append(data)


@dataclass(slots=True)
class Reporter:
    """What a run logs with.

    Attributes:
        to: Whoever follows the run: a handler of `logging`, or a function that is given texts. What they see may be
            kept by others than those who may see what is restricted.
        run_id: Name of the run.
        run_log: Its restricted log, where there is one.
        lineage: Is given what is logged, too, for a collector of lineage; None where there is none.
    """

    to: Callable[[str], None] | logging.Handler
    run_id: str
    run_log: RunLog | None = None
    lineage: logging.Handler | None = None

    def log(self, event: Event, **fields: object) -> None:
        """Append an event to the log of the run, if there is one."""
        try:
            if self.run_log is not None:
                self.run_log.log(event, **fields)
        finally:
            if self.lineage is not None:
                self.lineage.handle(log_record(event, fields, run_id=self.run_id))

    @property
    def is_live(self) -> bool:
        """Whether somebody watches how stages go on."""
        return isinstance(self.to, LiveHandler)

    def follow(self, event: Event, fields: Mapping[str, object]) -> None:
        """Give an event to whoever watches, and to no log."""
        if isinstance(self.to, LiveHandler):
            self.to.handle(log_record(event, fields, run_id=self.run_id))

    def report(self, text: str, event: Event = Event.COMMAND_SAID, fields: Mapping[str, object] | None = None) -> None:
        """Give a line to whoever follows the run.

        Args:
            text: What people read.
            event: What it is about.
            fields: The figures in the text, and no others; the text itself where None.
        """
        handler = self.to if isinstance(self.to, logging.Handler) else TextLines(self.to)
        if fields is None:
            handler.handle(log_record(event, {"text": text.strip()}, text))
        else:
            handler.handle(log_record(event, fields, text, self.run_id))


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a log holds.

    Attributes:
        lines: Every line that can be read, oldest first.
        torn: Numbers of the lines that cannot: a driver or a machine died while writing them.
    """

    lines: tuple[Mapping[str, Any], ...] = ()
    torn: tuple[int, ...] = ()


def read_log(path: Place) -> LogContents:
    """Read a log, of a running run too; there may be none.

    Args:
        path: The file.

    Raises:
        OutputError: It exists and cannot be read.
    """
    return _contents(_content(path))


def _content(path: Place) -> bytes:
    try:
        return read_lines(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({type(error).__name__})") from error


def _contents(content: bytes) -> LogContents:
    read = [_parsed(raw) for raw in content.splitlines()]
    torn = tuple(number for number, line in enumerate(read, start=1) if line is None)
    return LogContents(tuple(line for line in read if line is not None), torn)


def _parsed(raw: bytes) -> Mapping[str, Any] | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and set(COMMON) <= set(line) else None
