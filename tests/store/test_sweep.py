"""The folder of a sweep: private, whole, and of one sweep only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.errors import OutputError
from das_spark.store import RunState, SweepLayout, SweepRecord

RECORD = SweepRecord(
    product="e2e_1940",
    budget="epsilon",
    totals=("1/4", "1"),
    runs=1,
    cost="5/4",
    key="system",
    created="2026-05-01T12:00:00+00:00",
    input="f" * 64,
    config={"geography": {"levels": ["State", "County"]}},
    states={"a": RunState.FINISHED, "b": RunState.WAITING},
)


@pytest.fixture
def layout(tmp_path: Path) -> SweepLayout:
    return SweepLayout(tmp_path / "new" / "sweep")


def test_a_record_is_read_as_it_was_written(layout):
    assert layout.open() is None
    layout.write(layout.record, RECORD.to_json())
    assert layout.open() == RECORD
    assert json.loads(layout.record.read_text())["classification"].startswith("RESTRICTED")


def test_only_the_owner_may_look_into_the_folder(tmp_path):
    layout = SweepLayout(tmp_path)
    tmp_path.chmod(0o755)
    layout.open()
    layout.write(layout.curve, "text")
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert layout.curve.stat().st_mode & 0o777 == 0o600


def test_a_state_changes_no_grid():
    later = RECORD.with_state("b", RunState.BEGUN)
    assert later.states == {"a": "finished", "b": "begun"}
    assert later.grid() == RECORD.grid()
    assert replace(RECORD, runs=2).grid() != RECORD.grid()


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(OutputError, match="not the folder of a sweep"):
        SweepLayout(tmp_path).open()
    file = tmp_path / "letters.txt"
    with pytest.raises(OutputError, match="cannot be written"):
        SweepLayout(file).open()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not readable"),
        ("[]", "not readable"),
        ('{"schema_version": 9}', "version 9, expected 2"),
        (RECORD.to_json().replace('"waiting"', '"asleep"'), "not readable"),
        (RECORD.to_json().replace('"cost"', '"price"'), "not readable"),
    ],
)
def test_a_record_that_is_none_is_refused(layout, text, said):
    layout.open()
    layout.write(layout.record, text)
    with pytest.raises(OutputError, match=said):
        layout.open()
