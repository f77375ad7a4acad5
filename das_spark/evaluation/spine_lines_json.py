"""The lines of the report on a spine as JSON values, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.spine_lines import SpineLevelLine
from das_spark.geography import EntityComparison

#: Columns of the entities.
ENTITY_COLUMNS: Final = ("name", "blocks", "distance_before", "distance_after", "deviation_before", "deviation_after")


def level_json(level: SpineLevelLine) -> dict[str, Any]:
    """A level as JSON values.

    Args:
        level: The level.

    Returns:
        Its attributes, and its mean fan-out: null at the blocks.
    """
    mean = level.mean_fan_out if level.children else None
    return {**fractions_json(asdict(level)), "mean_fan_out": mean}


def level_of_json(data: Mapping[str, Any]) -> SpineLevelLine:
    """The same, read again.

    Args:
        data: Result of `level_json`.
    """
    kept = {name: value for name, value in data.items() if name != "mean_fan_out"}
    return SpineLevelLine(**{**kept, "share": Fraction(data["share"])})


def fractions_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, fractions as text.

    Args:
        data: Values by name.
    """
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in data.items()}


def finite_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers by name, null where one is not finite.

    Args:
        data: Values by name; values may be such objects themselves.
    """
    return {
        name: finite_json(value) if isinstance(value, dict) else finite_number(value) for name, value in data.items()
    }


def finite_number(value: object) -> object:
    """The number, or None where it is not finite.

    Args:
        value: A number, or anything else, which is given back.
    """
    return None if isinstance(value, float) and not np.isfinite(value) else value


def entities_json(entities: EntityComparison) -> str:
    """The entities of a category, one a line in the order of `ENTITY_COLUMNS`.

    Args:
        entities: The entities of the category.

    Returns:
        A member of a JSON object: name of the category and its rows. Standard deviations in people stand for variances,
        null where one is not finite.
    """
    deviations = [np.sqrt(column).tolist() for column in (entities.variance_before, entities.variance_after)]
    whole = [column.tolist() for column in (entities.blocks, entities.distance_before, entities.distance_after)]
    numbers = [[finite_number(value) for value in column] for column in deviations]
    rows = zip(entities.names.tolist(), *whole, *numbers, strict=True)
    lines = ",\n ".join(json.dumps(row, allow_nan=False) for row in rows)
    return f"{json.dumps(entities.category)}: [" + (f"\n {lines}\n" if lines else "") + "]"


def entities_of_json(category: str, rows: Sequence[Sequence[Any]]) -> EntityComparison:
    """The same, read again.

    Args:
        category: Name of the category.
        rows: One an entity, in the order of `ENTITY_COLUMNS`; null stands for an infinite deviation.
    """
    names, *columns = zip(*rows, strict=True) if rows else ((),) * len(ENTITY_COLUMNS)
    blocks, near, nearer = (np.array(column, dtype=np.int64) for column in columns[:3])
    before, after = map(_squares, columns[3:])
    return EntityComparison(category, np.array(names, dtype=np.str_), blocks, near, nearer, before, after)


def _squares(column: Sequence[float | None]) -> NDArray[np.float64]:
    # The root of a square is the number itself, so that what is written again is the same.
    return np.array([np.inf if value is None else value for value in column], dtype=np.float64) ** 2
