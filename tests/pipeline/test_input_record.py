"""What is kept of the input beside the leaves, and what is refused there."""

from __future__ import annotations

import pytest

from das_spark.errors import OutputError
from das_spark.pipeline.input_record import save_input_record

LEAVES = [("0100100001", [0, 3], [2, 1]), ("0100100002", [], [])]


@pytest.mark.spark
def test_leaves_of_which_rows_stand_twice_are_no_input(workshop):
    context = workshop.context("doubled")
    schema = "geocode string, cells array<int>, counts array<bigint>"
    leaves = workshop.spark.createDataFrame(LEAVES, schema)
    with pytest.raises(OutputError, match="hold geounits more than once"):
        save_input_record(context, "f" * 64, leaves.unionByName(leaves), ())
    assert not context.layout.restricted.input_record.exists()
    save_input_record(context, "f" * 64, leaves, ())
    assert context.layout.restricted.input_record.is_file()
