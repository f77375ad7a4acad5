"""How far a command is: a live bar in a terminal, a line a stage anywhere else, events where those are asked for."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from das_spark.cli.log_format import LogFormat
from das_spark.cli.options import console
from das_spark.telemetry import Event, JsonLines, LiveHandler

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def followed(log_format: LogFormat, stages: Sequence[str], *, as_json: bool = False) -> Iterator[Callable[[str], None]]:
    """Where a command sends its progress while it works.

    Args:
        log_format: Text for people, or events.
        stages: Names of all stages in order; empty where they are not known.
        as_json: Whether standard output is kept for one document, so that lines go to standard error.
    """
    if log_format is LogFormat.JSON:
        yield JsonLines()
        return
    screen = console(err=as_json)
    # What is no terminal is a log file; and who wants no colour reads by other means than eyes, or keeps what he sees.
    if not screen.is_terminal or screen.is_dumb_terminal or os.environ.get("NO_COLOR"):
        yield screen.print
        return
    with StageBar(screen, stages) as bar:
        yield bar


class StageBar(LiveHandler):
    """Lines of finished stages, and below them one that moves: stages done, and the families of the one at work."""

    def __init__(self, screen: Console, stages: Sequence[str]) -> None:
        """Show nothing yet."""
        super().__init__()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(),
            TextColumn("{task.fields[extent]}", markup=False),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
        )
        self._stages = max(len(stages), 1)
        self._done = 0
        self._known = bool(stages)
        self._task = self._bar.add_task("starting", total=len(stages) or None, extent="")

    def __enter__(self) -> StageBar:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away; the lines stay."""
        self._bar.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar, or print a line above it."""
        event, fields = record.__dict__["event"], record.__dict__["fields"]
        if event is Event.STAGE_STARTED:
            self._bar.update(self._task, description=str(fields["stage"]), extent=self._extent(fields))
        elif event is Event.STAGE_PROGRESS:
            self._bar.update(self._task, completed=self._done + _part(fields), extent=self._extent(fields))
        elif event is Event.STAGE_FINISHED:
            self._done += 1
            self._bar.update(self._task, completed=self._done, extent=self._extent({}))
            self._bar.console.print(record.getMessage())
        elif text := record.getMessage():
            self._bar.console.print(text, style="yellow" if record.levelno >= logging.WARNING else None)

    def _extent(self, fields: dict[str, Any]) -> str:
        """Stages done of all, and families and tasks of the one at work."""
        parts = [f"{self._done} of {self._stages} stages"] if self._known else []
        families = fields.get("families")
        if families is not None:
            done = int(_part(fields) * families)
            parts.append(f"about {done:,} of {families:,} families" if done else f"{families:,} families")
        return ", ".join(parts)


def _part(fields: dict[str, Any]) -> float:
    """How much of the running stage is done, by its tasks."""
    tasks = fields.get("tasks")
    return fields["tasks_done"] / tasks if tasks else 0.0
