"""Constraints that a run adds: what is accepted and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from das_spark.constraints import AddedConstraint, Sense
from das_spark.errors import ConfigurationError, QueryError
from das_spark.histogram import Attribute, Schema

SCHEMA = Schema("toy", (Attribute("hhgq", ("a", "b", "c")), Attribute("age", ("young", "old"))))


def constraint(**changes: Any) -> AddedConstraint:
    values = {"name": "barracks", "geolevel": "County", "query": "hhgq", "sense": "<=", "right": (5, 6, 7)}
    return AddedConstraint(**{**values, **changes})


def test_one_right_hand_side_for_each_answer() -> None:
    each = constraint()
    assert each.resolve(SCHEMA).rows == 3
    assert each.right_hand_sides(3).tolist() == [5, 6, 7]
    assert each.sense is Sense.AT_MOST


def test_a_single_right_hand_side_serves_all_answers() -> None:
    each = constraint(right=(9,), query="hhgq * age")
    assert each.right_hand_sides(each.resolve(SCHEMA).rows).tolist() == [9] * 6


def test_an_unknown_query_is_refused() -> None:
    with pytest.raises(QueryError):
        constraint(query="hhgg").resolve(SCHEMA)


def test_a_wrong_number_of_right_hand_sides_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="barracks"):
        constraint(right=(1, 2)).resolve(SCHEMA)
    with pytest.raises(ConfigurationError, match="barracks"):
        constraint(right=(1, 2)).right_hand_sides(3)


@pytest.mark.parametrize(
    "changes",
    [
        {"right": ()},
        {"right": (1, -1, 0)},
        {"right": (1.0, 2, 3)},
        {"right": (True, 2, 3)},
        {"right": (2**63,)},
        {"sense": "<"},
        {"name": ""},
        {"geolevel": " "},
        {"query": ""},
    ],
)
def test_what_is_no_public_whole_number_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        constraint(**changes)
