"""Validation of the tables of a run file that survives the first mistake, so that all can be reported together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ValidationError

from das_spark.config.model import RunFile
from das_spark.config.problems import Problems, nearest

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
    for failure in failures:
        place = tuple(failure["loc"])
        key = ".".join(str(part) for part in place)
        if failure["type"] == "extra_forbidden":
            problems.add(key, f"unknown key; {nearest(str(place[-1]), _known_keys(place[:-1]))}")
        else:
            problems.add(key, _sentence(failure))
            # A table whose entry is wrong is not complete without it.
            silent.add(".".join(str(part) for part in (place[:-1] if len(place) > _ENTRY_DEPTH else place)))
        _remove(data, place)
    problems.muted |= silent
    try:
        return RunFile.model_validate(data)
    except ValidationError:
        return None


def _sentence(failure: Mapping[str, Any]) -> str:
    kind: str = failure["type"]
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(failure["ctx"]["error"])
    if kind == "literal_error":
        return f"{failure['input']!r} is not one of {failure['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        return f"{failure['input']!r} may have letters, digits, '.', '_' and '-' only"
    text = str(failure["msg"])
    return f"{text[0].lower()}{text[1:]}, found {failure['input']!r}"


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
