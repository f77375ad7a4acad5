"""One figure over several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from das_spark.evaluation.lines_json import number_json, numbers_json


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several runs.

    Attributes:
        place: As in `Entry`.
        measure: As in `Entry`; or a query; or a criterion, with the query of its groups.
        figure: Name of the figure.
        values: Its value in each run.
        mean: Their mean.
        standard_deviation: Their standard deviation, divisor runs - 1; 0 for one run.
        population: Class of population; empty in the spread of an entry.
        bins: Name of the classes of population; empty in the spread of an entry.
    """

    place: str
    measure: str
    figure: str
    values: tuple[float, ...]
    mean: float
    standard_deviation: float
    population: str = ""
    bins: str = ""


def spread_json(spreads: Iterable[Spread]) -> list[dict[str, Any]]:
    """Spreads as JSON values.

    Args:
        spreads: Of one report.

    Returns:
        One object a spread, null for NaN.
    """
    return [
        asdict(one)
        | {"values": list(map(number_json, one.values))}
        | numbers_json({"mean": one.mean, "standard_deviation": one.standard_deviation})
        for one in spreads
    ]
