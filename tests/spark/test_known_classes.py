"""Columns are made without looking for classes of the JVM again."""

from __future__ import annotations

import pytest
from py4j.java_gateway import JavaClass, JVMView
from pyspark.sql import functions as F

from das_spark.spark.session import session


@pytest.fixture
def lookups(spark, monkeypatch) -> list[str]:
    """The names that are looked up in the JVM from here on."""
    session("any")
    F.sum(F.when(F.col("a") == 1, F.lit(2)))  # members are looked up when they are first asked for
    names: list[str] = []
    for kind in (JVMView, JavaClass):
        look_up = kind.__getattr__

        def told(at, name, look_up=look_up):
            names.append(name)
            return look_up(at, name)

        monkeypatch.setattr(kind, "__getattr__", told)
    return names


def test_functions_of_columns_are_looked_up_once(lookups):
    F.sum(F.when(F.col("b") == 3, F.lit(4)))
    assert lookups == []


def test_results_are_those_of_spark(spark):
    session("any")
    rows = spark.range(3).select(F.when(F.col("id") == 1, "one").otherwise(F.lit("other")).alias("name")).collect()
    assert [row["name"] for row in rows] == ["other", "one", "other"]
