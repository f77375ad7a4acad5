"""The reader that makes its own input."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from das_spark.config import InputSettings, SimulateSettings
from das_spark.errors import ConfigurationError
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(("key", "value"), [("like", "1950"), ("seed", -1), ("share", 0.5)])
def test_impossible_settings_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=key):
        SimulateSettings(**{key: value})


@pytest.mark.parametrize(
    ("simulate", "product", "key"),
    [
        ({"like": "1940"}, "e2e_2018", "e2e_2018"),
        ({"like": "quickstart"}, "e2e_1940", "e2e_1940"),
        ({"like": "1940"}, "dallas_2010", "dallas_2010"),
        ({"like": "2020"}, "e2e_1940", "e2e_1940"),
        ({"like": "1940"}, "pl94_2020_unit", "pl94_2020_unit"),
    ],
)
def test_a_population_of_another_product_is_refused(
    spark: SparkSession, of_product: Callable, simulate: dict[str, Any], product: str, key: str
) -> None:
    settings = InputSettings(reader="simulated", simulate=SimulateSettings(**simulate))
    with pytest.raises(ConfigurationError, match=key):
        READERS["simulated"].read(spark, settings, *of_product(product))


def test_housing_units_are_counted_vacant_and_occupied(
    spark: SparkSession, of_product: Callable, contents: Callable
) -> None:
    settings = InputSettings(reader="simulated", simulate=SimulateSettings(like="2020", share=Fraction(1, 100_000)))
    counts, units = contents(READERS["simulated"].read(spark, settings, *of_product("pl94_2020_unit")))
    expected = {(code, cell): number for code, (each, n) in units.items() for cell, number in ((0, n), (1, each[0]))}
    assert counts == {key: number for key, number in expected.items() if number}


def test_another_seed_makes_another_population(spark: SparkSession, of_product: Callable, contents: Callable) -> None:
    def read(seed: int) -> tuple[dict, dict]:
        settings = InputSettings(reader="simulated", simulate=SimulateSettings(seed=seed))
        return contents(READERS["simulated"].read(spark, settings, *of_product("e2e_2018")))

    assert read(1) != read(2)
