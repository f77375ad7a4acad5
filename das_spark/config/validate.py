"""Validation of the tables of a run file that survives the first mistake, so that all can be reported together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from textwrap import shorten
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from das_spark.config.model import CONFIG_VERSION, RunFile
from das_spark.config.problems import Problems, near, nearest

#: Kinds of failures of pydantic -> what the key must be.
_MUST_BE: Final = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "float_type": "a number",
    "string_type": "a text",
    "tuple_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
}
#: Signs of a wrong value that a message shows.
_SAID: Final = 60
#: `section.key` is a key; anything deeper is an entry of a table or list.
_ENTRY_DEPTH = 2


def validated(data: dict[str, Any], problems: Problems) -> RunFile | None:
    """Validate; where that fails, note why and try again without the keys that are wrong.

    Args:
        data: The tables of a run file; keys that are wrong are taken out of it.
        problems: Where to note what is wrong.

    Returns:
        The run file, or None where too much is missing.
    """
    try:
        return RunFile.model_validate(data)
    except ValidationError as error:
        failures = error.errors(include_url=False)
    silent = set()
    inside = {tuple(failure["loc"])[:-1] for failure in failures}
    for failure in failures:
        place = tuple(failure["loc"])
        if failure["type"] == "too_short" and place in inside:
            continue  # nothing is left of the list, since what stands in it is wrong
        key = ".".join(str(part) for part in place)
        if failure["type"] == "extra_forbidden":
            problems.add(key, f"unknown key; {nearest(str(place[-1]), _known_keys(place[:-1]))}")
        else:
            problems.add(key, sentence_of(failure))
            # A table whose entry is wrong is not complete without it.
            silent.add(".".join(str(part) for part in (place[:-1] if len(place) > _ENTRY_DEPTH else place)))
        _remove(data, place)
    problems.muted |= silent
    try:
        return RunFile.model_validate(data)
    except ValidationError:
        return None


def sentence_of(failure: Mapping[str, Any]) -> str:
    """What is wrong with a key, in words of a run file instead of Python's.

    Args:
        failure: An entry of `ValidationError.errors`.
    """
    kind, value = str(failure["type"]), failure.get("input")
    if tuple(failure["loc"]) == ("config_version",):
        if kind == "missing":
            return f"is missing; write config_version = {CONFIG_VERSION}"
        return f"must be {CONFIG_VERSION}, the version that this das_spark reads, found {value!r}"
    found = shorten(repr(value), _SAID, placeholder="...")
    context = failure.get("ctx", {})
    if kind in _MUST_BE:
        return f"must be {_MUST_BE[kind]}, found {found}{_written(kind, value)}"
    if kind == "too_short":
        least, number = context["min_length"], context["actual_length"]
        return f"names {number}, and {least} are needed" if number else "is empty; name one, or leave the key out"
    if kind == "literal_error":
        return f"{found} is not one of {context['expected']}{_near(value, context['expected'])}"
    plain = {
        "missing": "is missing",
        "extra_forbidden": "unknown key",
        "value_error": str(context.get("error")),
        "string_pattern_mismatch": f"{found} may have letters, digits, '.', '_' and '-' only, the first no sign",
    }
    text = str(failure["msg"]).replace("Input should", "must", 1)
    return plain.get(kind, f"{text[0].lower()}{text[1:]}, found {found}")


def _written(kind: str, value: object) -> str:
    """How a single value is written where a list or a text is expected."""
    if isinstance(value, bool | int | str) and kind in ("tuple_type", "string_type"):
        spelled = json.dumps(value)
        return f"; write [{spelled}]" if kind == "tuple_type" else f'; write it in quotes: "{spelled}"'
    return ""


def _near(value: object, expected: str) -> str:
    """A half sentence about the nearest of some words, where one is near."""
    found = near(str(value), re.findall(r"'([^']*)'", expected))
    return f"; {found}" if found else ""


def _known_keys(place: Iterable[str | int]) -> list[str]:
    """Keys of the section at a path."""
    model: type[BaseModel] = RunFile
    for part in place:
        if isinstance(part, str):
            model = _section_type(model, part)
    return list(model.model_fields)


def _section_type(model: type[BaseModel], key: str) -> type[BaseModel]:
    annotation = model.model_fields[key].annotation
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    raise TypeError(f"{key} is not a section")


def _remove(data: dict[str, Any], place: Sequence[str | int]) -> None:
    """Take out what is at a path, if it is there; of a list, the whole list."""
    names = [str(part) for part in takewhile(lambda part: isinstance(part, str), place)]
    for name in names[:-1]:
        if not isinstance(data.get(name), dict):
            return
        data = data[name]
    data.pop(names[-1], None)
