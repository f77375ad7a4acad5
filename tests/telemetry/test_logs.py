"""The log of a run: appended to and never rewritten, whole lines only, and torn lines are forgiven and counted."""

from __future__ import annotations

import io
import json
import stat

import pytest

from das_spark.errors import OutputError
from das_spark.telemetry import COMMON, Event, JsonLines, Reporter, RunLog, log_record, read_log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_a_line_has_what_every_line_has_and_the_fields_that_have_a_value(path):
    log = RunLog(path, "r1")
    log.application, log.attempt = "app-7", "2"
    log.log(Event.STAGE_STARTED, stage="measure County", families=None)
    (line,) = read_log(path).lines
    assert set(line) == {*COMMON, "stage"}
    assert {name: line[name] for name in COMMON if name != "time"} == {
        "run_id": "r1",
        "opening": 1,
        "application": "app-7",
        "application_attempt": "2",
        "event": "stage.started",
        "level": "info",
    }
    assert len(line["time"].partition(".")[2]) == len("123+00:00")
    assert log.last is Event.STAGE_STARTED


def test_nobody_else_may_read_it(path):
    RunLog(path, "r1").log(Event.RUN_LEFT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_driver_appends_under_the_next_number(path):
    RunLog(path, "r1").log(Event.RUN_OPENED)
    first = path.read_bytes()
    second = RunLog(path, "r1")
    second.log(Event.RUN_RESUMED)
    assert path.read_bytes().startswith(first)
    assert [line["opening"] for line in read_log(path).lines] == [1, 2]


def test_every_event_is_there_as_soon_as_it_is_noted(path):
    log = RunLog(path, "r1")
    for number in range(1, 4):
        log.log(Event.LEVEL_OPENED, geolevel="County", attempt=number)
        assert len(read_log(path).lines) == number


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_what_a_killed_driver_left_half_written_is_counted_and_spoils_no_other_line(path, cut):
    log = RunLog(path, "r1")
    log.log(Event.RUN_OPENED)
    log.log(Event.STAGE_STARTED, stage="ingest")
    path.write_bytes(path.read_bytes()[:-cut])
    torn = (2,) if cut > 1 else ()  # without its line feed alone a line is still whole
    assert read_log(path).torn == torn
    RunLog(path, "r1").log(Event.RUN_RESUMED)
    again = read_log(path)
    assert again.torn == torn
    assert [line["event"] for line in again.lines][-1] == "run.resumed"
    assert again.lines[-1]["opening"] == 2


@pytest.mark.parametrize("strange", [b"[]", b'"text"', b'{"event": "x"}', b"\xff\xfe", b""])
def test_a_line_that_is_no_event_is_torn(path, strange):
    RunLog(path, "r1").log(Event.RUN_OPENED)
    with path.open("ab") as file:
        file.write(strange + b"\n")
    assert read_log(path).torn == (2,)


def test_no_log_is_an_empty_one_and_a_folder_is_an_error(path):
    assert read_log(path).lines == ()
    path.mkdir()
    with pytest.raises(OutputError):
        read_log(path)


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        RunLog(tmp_path / "file" / "log.jsonl", "r1").log(Event.RUN_LEFT)


def printed(*records):
    stream = io.StringIO()
    handler = JsonLines(stream)
    for record in records:
        handler.handle(record)
    return stream.getvalue()


def test_a_line_for_a_collector_is_one_line_and_names_no_run_where_there_is_none():
    line = printed(log_record(Event.COMMAND_FAILED, {"message": "two\nlines", "hint": None}))
    assert line.count("\n") == 1
    record = json.loads(line)
    assert record.pop("time")
    assert record == {"event": "command.failed", "level": "error", "message": "two\nlines"}


def test_a_report_is_a_text_for_people_and_an_event_for_programs():
    texts, stream = [], io.StringIO()
    for to in (texts.append, JsonLines(stream)):
        reporter = Reporter(to, "r1")
        reporter.report("ingest: 100 %, 1.0 s", Event.STAGE_FINISHED, {"stage": "ingest", "seconds": 1.0})
        reporter.report("  a remark")
    assert texts == ["ingest: 100 %, 1.0 s", "  a remark"]
    stage, remark = map(json.loads, stream.getvalue().splitlines())
    assert (stage["run_id"], stage["event"], stage["seconds"]) == ("r1", "stage.finished", 1.0)
    assert (remark["event"], remark["text"]) == ("command.said", "a remark")


def test_what_is_logged_alone_reaches_the_restricted_log_and_nobody_else(path):
    texts = []
    reporter = Reporter(texts.append, "r1")
    reporter.log(Event.RUN_OPENED)  # there is no log yet
    reporter.run_log = RunLog(path, "r1")
    reporter.log(Event.LEVEL_OPENED, geolevel="County", attempt=1)
    assert texts == []
    assert [line["event"] for line in read_log(path).lines] == ["level.opened"]


def test_a_stream_that_nobody_reads_ends_the_command():
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        JsonLines(stream).handle(log_record(Event.COMMAND_SAID, {}))
