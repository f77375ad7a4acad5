"""Events are told by codes of one registry, all of them are told somewhere, and the README lists just these."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from das_spark.telemetry import Event
from das_spark.telemetry.events import ERROR, INFO, WARNING

PACKAGE = Path(__file__).parents[2] / "das_spark"
REGISTRY = PACKAGE / "telemetry" / "events.py"


#: What collectors of logs rely on: a code keeps its level and its fields for ever. This list only grows.
PROMISED = {
    "run.opened": ("info", "product geolevels config_hash insecure software"),
    "run.resumed": ("info", "product geolevels config_hash insecure software"),
    "spark.started": ("info", "master version cores"),
    "ledger.entered": ("info", "entry framework total"),
    "ledger.completed": ("info", "geolevel"),
    "ledger.begun": ("warning", "file"),
    "ledger.mended": ("warning", "file"),
    "ledger.counted": ("info", "entries"),
    "space.estimated": ("info", "public restricted scratch"),
    "stage.started": ("info", "stage families"),
    "stage.progress": ("info", "stage families seconds step tasks_done tasks step_seconds_left"),
    "executors.missing": ("warning", "stage seconds"),
    "stage.finished": ("info", "stage families seconds spark"),
    "stage.failed": ("error", "stage families seconds spark code error"),
    "level.destroyed": ("warning", "geolevel attempt"),
    "level.opened": ("info", "geolevel attempt"),
    "level.drawn": ("info", "geolevel attempt"),
    "level.staged": ("info", "geolevel attempt"),
    "level.promoted": ("info", "geolevel attempt"),
    "level.skipped": ("info", "geolevel work"),
    "families.slowest": ("info", "geolevel families"),
    "families.failed": ("error", "geolevel families named"),
    "verification.finished": ("info", "passed checks failed"),
    "guard.refused": ("error", "code message hint"),
    "run.finished": ("info", "figures paths"),
    "run.left": ("info", "figures"),
    "run.failed": ("error", "code exit_code error message hint"),
    "run.interrupted": ("warning", ""),
    "page.failed": ("warning", "error"),
    "command.said": ("info", "text"),
    "command.warned": ("warning", "text"),
    "command.failed": ("error", "code exit_code message hint"),
}


def members_used(source: str) -> set[str]:
    """Names X of every `Event.X` that is an argument of a call: what is told, not what is only compared with."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            for argument in node.args:
                for part in ast.walk(argument):
                    if (
                        isinstance(part, ast.Attribute)
                        and isinstance(part.value, ast.Name)
                        and part.value.id == "Event"
                    ):
                        found.add(part.attr)
    return found


def told_by_the_package() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path != REGISTRY)
    return set().union(*map(members_used, sources))


def documented(text: str) -> list[tuple[str, str, str]]:
    """Code, level and meaning of every row of the table of events."""
    return re.findall(r"^\| `([a-z]+\.[a-z]+)` \| (\w+) \| (.+?) \|$", text, flags=re.MULTILINE)


def test_every_event_is_told_and_nothing_else_is():
    assert told_by_the_package() == set(Event.__members__)


def test_what_is_promised_to_collectors_stays():
    known = {event.value: event for event in Event}
    assert set(PROMISED) == set(known), "a code was taken away, or a new one is not in the list yet"
    for code, (level, fields) in PROMISED.items():
        assert known[code].level == level, code
        assert set(fields.split()) <= set(known[code].fields), code


def test_the_search_finds_what_is_told_and_forgives_what_is_compared():
    source = "log(Event.A, x=1)\nself.run_log.log(Event.B if y else Event.C)\nif line == Event.D: pass\n"
    assert members_used(source) == {"A", "B", "C"}


@pytest.mark.parametrize("event", Event, ids=str)
def test_an_event_has_a_code_a_level_and_one_line_of_meaning(event):
    assert re.fullmatch(r"[a-z]+\.[a-z]+", event.value)
    assert event.level in (INFO, WARNING, ERROR)
    assert event.meaning
    assert "\n" not in event.meaning
    assert not event.meaning.endswith(".")
    assert all(kind in (str, int, float, bool, list, dict) for kind in event.fields.values())


def test_the_readme_lists_the_events_and_no_others():
    table = documented((PACKAGE / "store" / "README.md").read_text(encoding="utf-8"))
    assert table == [(event.value, event.level, event.meaning) for event in Event]
