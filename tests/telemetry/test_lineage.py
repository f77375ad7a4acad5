"""What a collector of OpenLineage is sent, read back from the client's own transport to a file."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from das_spark.telemetry import Event, LineageOf, Reporter, RunLog, lineage_events

OF = LineageOf("tiny", "census-2020", ("file", "/runs/r/public"))
OPENED = {"product": "p", "geolevels": ["State"], "config_hash": "c" * 64, "insecure": False, "software": "1"}


@pytest.fixture
def sent(tmp_path, monkeypatch) -> Path:
    """The file to which the environment sends events."""
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events.jsonl"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return tmp_path / "events.jsonl"


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def driver(tmp_path: Path, said: list[str], of: LineageOf = OF) -> Reporter:
    """A driver that has just opened its log."""
    return Reporter(said.append, "r", RunLog(tmp_path / "log.jsonl", "r"), lineage_events(of, said.append))


@pytest.mark.parametrize(
    ("end", "fields", "state"),
    [
        (Event.RUN_FINISHED, {}, "COMPLETE"),
        (Event.RUN_LEFT, {}, "COMPLETE"),
        (Event.RUN_FAILED, {"code": "DAS300", "error": "InputError", "message": "in 0100100001"}, "FAIL"),
        (Event.RUN_FAILED, {"error": "ValueError", "exit_code": 1}, "FAIL"),
        (Event.RUN_INTERRUPTED, {}, "ABORT"),
    ],
)
@pytest.mark.parametrize("begin", [Event.RUN_OPENED, Event.RUN_RESUMED])
def test_a_driver_begins_and_ends_and_nothing_between_is_sent(tmp_path, sent, begin, end, fields, state):
    said: list[str] = []
    progress = driver(tmp_path, said)
    progress.log(begin, **OPENED)
    progress.log(Event.STAGE_FINISHED, stage="ingest", families=3, seconds=77.0)
    progress.log(Event.SPACE_ESTIMATED, public=1, restricted=2, scratch=3)
    progress.log(end, **fields)
    progress.log(Event.PAGE_FAILED, error="OSError")
    progress.log(Event.RUN_FAILED, error="OSError", exit_code=1)  # what comes after the end is not sent
    first, last = read(sent)
    assert (first["eventType"], last["eventType"]) == ("START", state)
    assert first["run"]["runId"] == last["run"]["runId"]
    assert uuid.UUID(first["run"]["runId"])
    assert (first["job"]["namespace"], first["job"]["name"]) == ("das_spark", "tiny")
    for each in (first, last):
        assert [(one["namespace"], one["name"]) for one in each["inputs"]] == [("das_spark", "census-2020")]
        own = [tag for tag in each["run"]["facets"]["tags"]["tags"] if tag["source"] == "das_spark"]
        tags = {tag["key"]: tag["value"] for tag in own}
        expected = {"run_id": "r", "product": "p", "config_hash": "c" * 64, "insecure": "False", "software": "1"}
        assert tags == expected
    made = [(one["namespace"], one["name"]) for one in last["outputs"]]
    assert made == ([("file", "/runs/r/public")] if end is Event.RUN_FINISHED else [])
    assert first["outputs"] == []
    if state == "FAIL":
        assert last["run"]["facets"]["errorMessage"]["message"] == fields.get("code", fields["error"])
    text = sent.read_text()
    assert not any(word in text for word in ("0100100001", "ingest", "77.0", "families", "State"))
    assert not said


def test_each_driver_is_a_run_of_its_own(tmp_path, sent):
    for begin in (Event.RUN_OPENED, Event.RUN_RESUMED):
        driver(tmp_path, []).log(begin, **OPENED)
    first, second = read(sent)
    assert first["run"]["runId"] != second["run"]["runId"]


def test_people_without_a_name_are_no_input(tmp_path, sent):
    driver(tmp_path, [], OF._replace(dataset="")).log(Event.RUN_OPENED, **OPENED)
    assert read(sent)[0]["inputs"] == []


def test_without_a_collector_there_is_no_handler_and_the_client_is_not_needed(monkeypatch):
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    assert lineage_events(OF, pytest.fail) is None


def test_a_client_that_is_missing_is_told_and_no_more(sent, monkeypatch):
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    said: list[str] = []
    assert lineage_events(OF, said.append) is None
    assert said == ["lineage: nothing is sent: the client is missing; pip install 'das-spark[lineage]'"]


def test_a_collector_that_is_down_fails_no_run_and_is_told_once(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENLINEAGE__TRANSPORT__TYPE", raising=False)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")  # the port of a service that throws everything away
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY__TOTAL", "0")
    said: list[str] = []
    progress = driver(tmp_path, said)
    progress.log(Event.RUN_OPENED, **OPENED)
    progress.log(Event.RUN_FINISHED)
    assert len(said) == 1
    assert said[0].startswith("lineage: the collector does not take what is sent (")
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def test_a_transport_that_there_is_none_of_fails_no_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "carrier pigeons")
    said: list[str] = []
    progress = driver(tmp_path, said)
    progress.log(Event.RUN_OPENED, **OPENED)
    assert len(said) == 1
