"""Progress in a terminal is a bar above which lines stay; everywhere else it is lines, or events."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
from rich.console import Console

from das_spark.cli import progress as module
from das_spark.cli.log_format import LogFormat
from das_spark.cli.progress import StageBar, followed
from das_spark.telemetry import Event, LiveHandler, Reporter, log_record

STAGES = ("ingest", "measure County", "estimate County", "verify")


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system="standard", highlight=False)


def shown(screen: Console) -> str:
    """What was ever on the screen, without the signs that move the cursor and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.file.getvalue())  # type: ignore[attr-defined]


def carried_out(bar: StageBar) -> None:
    """Tell the bar of a run, with a look at it after each event."""
    reporter = Reporter(bar, "first")
    reporter.follow(Event.STAGE_STARTED, {"stage": "ingest", "families": None})
    bar._bar.refresh()
    reporter.report("ingest: 1.0 s", Event.STAGE_FINISHED, {"stage": "ingest", "seconds": 1.0})
    reporter.follow(Event.STAGE_STARTED, {"stage": "estimate County", "families": 3_000})
    bar._bar.refresh()
    step = {"stage": "estimate County", "families": 3_000, "seconds": 2.0, "tasks_done": 30, "tasks": 40}
    reporter.follow(Event.STAGE_PROGRESS, step)
    bar._bar.refresh()
    reporter.report("estimate County: no executor for 60 s", Event.EXECUTORS_MISSING, {"stage": "x", "seconds": 60.0})
    bar("run 1 of 2: first")


def test_a_terminal_shows_stages_done_and_the_families_of_the_one_at_work():
    screen = terminal()
    with StageBar(screen, STAGES) as bar:
        carried_out(bar)
    text = shown(screen)
    assert "0 of 4 stages" in text
    assert "1 of 4 stages, 3,000 families" in text
    assert "1 of 4 stages, about 2,250 of 3,000 families" in text
    assert "no executor for 60 s" in text


def test_lines_of_finished_stages_stay_and_the_bar_goes():
    screen = terminal()
    with StageBar(screen, STAGES) as bar:
        carried_out(bar)
    lines = [line.strip() for line in re.split(r"[\r\n]+", shown(screen))]
    assert "ingest: 1.0 s" in lines
    assert "run 1 of 2: first" in lines
    assert screen.file.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "the last line is cleared"  # type: ignore[attr-defined]


def test_without_known_stages_the_bar_counts_none():
    screen = terminal()
    with StageBar(screen, ()) as bar:
        carried_out(bar)
    assert " stages" not in shown(screen)
    assert "about 2,250 of 3,000 families" in shown(screen)


def test_a_bar_is_told_of_what_no_log_hears():
    heard: list[str] = []

    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    Reporter(Log(), "first").follow(Event.STAGE_STARTED, {"stage": "ingest"})
    Reporter(heard.append, "first").follow(Event.STAGE_STARTED, {"stage": "ingest"})
    assert heard == []
    assert issubclass(StageBar, LiveHandler)


@pytest.mark.parametrize(
    ("variables", "bar"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_no_colour_and_dumb_terminals_get_lines(monkeypatch, variables, bar):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    with followed(LogFormat.TEXT, STAGES) as progress:
        assert isinstance(progress, StageBar) is bar


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_no_terminal_gets_plain_lines_beside_the_document(capsys, as_json):
    with followed(LogFormat.TEXT, STAGES, as_json=as_json) as progress:
        Reporter(progress, "first").report("ingest: 1.0 s", Event.STAGE_FINISHED, {"stage": "ingest", "seconds": 1.0})
    captured = capsys.readouterr()
    assert (captured.err if as_json else captured.out) == "ingest: 1.0 s\n"
    assert (captured.out if as_json else captured.err) == ""


def test_events_are_what_they_were(capsys):
    with followed(LogFormat.JSON, STAGES) as progress:
        reporter = Reporter(progress, "first")
        reporter.follow(Event.STAGE_STARTED, {"stage": "ingest", "families": None})
        reporter.report("ingest: 1.0 s", Event.STAGE_FINISHED, {"stage": "ingest", "seconds": 1.0})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["event"] == "stage.finished"
    assert log_record(Event.STAGE_FINISHED, {}).levelno == logging.INFO
