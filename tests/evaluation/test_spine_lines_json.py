"""Lines of the report on a spine as JSON values: what is not finite is null, and what is read is what was written."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction

import numpy as np

from das_spark.evaluation import SpineLevelLine
from das_spark.evaluation.spine_lines_json import (
    entities_json,
    entities_of_json,
    finite_json,
    level_json,
    level_of_json,
)
from das_spark.geography import EntityComparison


def test_a_level_is_read_again():
    line = SpineLevelLine("Tract", Fraction(687, 4099), 4, 10, 5, 1, 2)
    assert level_of_json(json.loads(json.dumps(level_json(line)))) == line
    assert level_json(line)["mean_fan_out"] == 2.5


def test_numbers_that_are_not_finite_are_null_at_any_depth():
    assert finite_json({"a": float("nan"), "b": {"c": float("inf"), "d": 1}}) == {"a": None, "b": {"c": None, "d": 1}}


def test_deviations_are_written_the_same_after_reading():
    draw = np.random.default_rng(1)
    whole = [draw.integers(1, 99, 50) for _ in range(3)]
    real = [draw.exponential(10, 50), np.append(draw.exponential(1e-3, 49), np.inf)]
    entities = EntityComparison("place", np.array([f"{n:02d}" for n in range(50)]), *whole, *real)
    text = entities_json(entities)
    again = entities_of_json("place", json.loads("{" + text + "}")["place"])
    assert entities_json(again) == text
    for field in fields(EntityComparison):
        if field.name not in ("category", "names"):
            np.testing.assert_allclose(getattr(again, field.name), getattr(entities, field.name))
