"""Events are told by codes of one registry, all of them are told somewhere, and the README lists just these."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from das_spark.io.events import ERROR, INFO, WARNING, Event

PACKAGE = Path(__file__).parents[2] / "das_spark"
REGISTRY = PACKAGE / "io" / "events.py"


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


def test_the_search_finds_what_is_told_and_forgives_what_is_compared():
    source = "note(Event.A, x=1)\nself.log.note(Event.B if y else Event.C)\nif line == Event.D: pass\n"
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
    table = documented((PACKAGE / "README.md").read_text(encoding="utf-8"))
    assert table == [(event.value, event.level, event.meaning) for event in Event]
