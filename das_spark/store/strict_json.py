"""Read JSON that every reader takes for the same thing."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def strict_json(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse one JSON document, and refuse what two readers may understand in two ways.

    Args:
        text: The whole document; bytes are UTF-8.

    Raises:
        ValueError: It is no JSON, data follow it, a key appears twice in an object, or a number is not finite.
    """
    decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        return json.loads(decoded, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} appears twice")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return number
