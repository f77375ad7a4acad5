"""Two forms of what a command reports: lines for people, and events as JSON for collectors of logs.

Standard output may be kept by others than those who may see what is restricted: an event there holds the figures that
the line for people holds, and no others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from das_spark.telemetry import Event


class LogFormat(StrEnum):
    """How progress and errors are printed."""

    TEXT = "text"
    JSON = "json"


_OPTION = "--log-format"
Format = Annotated[
    LogFormat, typer.Option(_OPTION, help="json prints progress, results and errors as events, one JSON object a line.")
]


def wanted(arguments: Sequence[str]) -> LogFormat:
    """The format that a command line asks for, also where the rest of it cannot be understood."""
    values = [value for name, value in pairwise(arguments) if name == _OPTION]
    values += [text.partition("=")[2] for text in arguments if text.startswith(f"{_OPTION}=")]
    return LogFormat.JSON if LogFormat.JSON in values else LogFormat.TEXT


def print_event(event: Event, run_id: str = "", *, err: bool = False, **fields: object) -> None:
    """Print an event as JSON, on standard output or standard error; fields that are None are left out."""
    from das_spark.telemetry import JsonLines, log_record  # noqa: PLC0415

    JsonLines(sys.stderr if err else sys.stdout).handle(log_record(event, fields, run_id=run_id))
