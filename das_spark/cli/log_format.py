"""Two ways to say what a command does: lines for people, and events as JSON for collectors of logs.

Standard output may be kept by others than those who may see what is restricted: an event there holds the figures that
the line for people holds, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from das_spark.io.events import Event
from das_spark.io.run_log import ProgressLine, line_of


class LogFormat(StrEnum):
    """How progress and errors are printed."""

    TEXT = "text"
    JSON = "json"


OPTION = "--log-format"
Format = Annotated[
    LogFormat, typer.Option(OPTION, help="json prints progress, results and errors as events, one JSON object a line.")
]


def wanted(arguments: Sequence[str]) -> LogFormat:
    """The format that a command line asks for, also where the rest of it cannot be understood.

    Args:
        arguments: Of the command line.
    """
    said = [value for name, value in pairwise(arguments) if name == OPTION]
    said += [text.partition("=")[2] for text in arguments if text.startswith(f"{OPTION}=")]
    return LogFormat.JSON if LogFormat.JSON in said else LogFormat.TEXT


def print_line(line: str) -> None:
    """Print a line of progress as its event.

    Args:
        line: A line that knows its event, or a text.
    """
    if isinstance(line, ProgressLine):
        _print(line.event, line.run_id, line.fields)
    else:
        _print(Event.COMMAND_SAID, "", {"text": line.strip()})


def print_result(run_id: str, figures: Mapping[str, str], paths: Mapping[str, Path], *, finished: bool) -> None:
    """Print what a run says of itself at the end of a command.

    Args:
        run_id: Its name.
        figures: The few numbers that matter, by name; none that is restricted.
        paths: What to look at, by name.
        finished: Whether the run is done and verified, and not only done as far as it was asked to.
    """
    places = {name: str(path) for name, path in paths.items()}
    fields = {"figures": dict(figures), "paths": places} if finished else {"figures": dict(figures)}
    _print(Event.RUN_FINISHED if finished else Event.RUN_LEFT, run_id, fields)


def print_warning(text: str) -> None:
    """Print what whoever runs the command must know, on standard error.

    Args:
        text: In words.
    """
    _print(Event.COMMAND_WARNED, "", {"text": text}, err=True)


def print_error(message: str, exit_code: int, code: str | None = None, hint: str | None = None) -> None:
    """Print the error that ends a command, on standard error.

    Args:
        message: What was found.
        exit_code: Of the command.
        code: Of the error; None where it is none of ours.
        hint: What to do about it.
    """
    fields = {"code": code, "exit_code": exit_code, "message": message, "hint": hint or None}
    _print(Event.COMMAND_FAILED, "", fields, err=True)


def say(log_format: LogFormat, text: Callable[[str], None]) -> Callable[[str], None]:
    """Where lines of progress go.

    Args:
        log_format: How they are printed.
        text: What prints them for people.
    """
    return print_line if log_format is LogFormat.JSON else text


def _print(event: Event, run_id: str, fields: Mapping[str, object], *, err: bool = False) -> None:
    typer.echo(line_of(event, run_id, fields), err=err)
