"""In which keys configurations differ, and whether runs were made so much alike that they can be taken together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

#: What decides the distribution of a run's estimates, as key paths of the resolved configuration. Nothing of [input]:
#: its dataset is a name for the ledger, and runs on the same people may have it or, under a test key, not.
DECISIVE: Final = (
    "run.product",
    "geography.levels",
    "geography.spine",
    "geography.shape",
    "budget",
    "invariants",
    "constraints",
    "estimation",
)
#: Settings below those that decide nothing.
_WITHOUT_EFFECT: Final = frozenset({"budget.strategy", "estimation.partitions_per_core"})


def differing_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings in which two runs differ, of those that decide what estimates look like.

    Args:
        one: A resolved configuration.
        other: Another one.

    Returns:
        Key path -> both values; a value that is not there is None. Empty where the runs can be pooled.
    """
    found = differences(_decisive(one), _decisive(other))
    return {key: pair for key, pair in found.items() if key not in _WITHOUT_EFFECT}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Every key in which two trees of JSON values differ.

    Args:
        one: Such as a resolved configuration.
        other: Another one.

    Returns:
        Key path -> both values; a value that is not there is None.
    """
    # As JSON: what was read from a file has lists where a plan has tuples.
    flat = [dict(_flat(json.loads(json.dumps(each)))) for each in (one, other)]
    found = {key: (flat[0].get(key), flat[1].get(key)) for key in dict.fromkeys([*flat[0], *flat[1]])}
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def _decisive(resolved: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in DECISIVE:
        value: Any = resolved
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        found[path] = value
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Values by key path; lists of tables by the name that stands first in each table."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        key = f"{before}{name}"
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            value = {str(next(iter(each.values()), place)): each for place, each in enumerate(value)}  # noqa: PLW2901
        if isinstance(value, Mapping):
            found += _flat(value, f"{key}.")
        else:
            found.append((key, value))
    return found
