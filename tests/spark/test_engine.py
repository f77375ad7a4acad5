"""How functions of tasks are carried out."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from das_spark.process import same_numbers
from das_spark.spark.engine import in_tasks


@pytest.mark.spark
def test_tasks_have_the_environment_in_which_numbers_are_the_same_on_every_machine(spark):
    names = list(same_numbers())

    def told(batches):
        list(batches)
        yield pa.RecordBatch.from_pydict({"name": names, "value": [os.environ.get(name) for name in names]})

    rows = in_tasks(spark.range(0, 1, 1, 1), told, "name string, value string").collect()
    assert {row["name"]: row["value"] for row in rows} == same_numbers()
