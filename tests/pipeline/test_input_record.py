"""What is kept of the input beside the leaves, and what is refused there."""

from __future__ import annotations

import os

import pytest

from das_spark.errors import InputError, OutputError
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline import run_stages
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


@pytest.mark.spark
def test_an_input_that_is_replaced_while_it_is_read_is_refused_and_nothing_of_it_is_kept(workshop, monkeypatch):
    layout, plan = workshop.layout("replaced"), workshop.plan()

    settle = ingest_stage._settle_conflicts

    def delivered(*given):
        os.utime(workshop.census / "units.parquet", ns=(1, 1))
        return settle(*given)

    monkeypatch.setattr(ingest_stage, "_settle_conflicts", delivered)
    with pytest.raises(InputError, match=r"units\.parquet: changed while it was read"):
        run_stages(plan, run_id="replaced", test_key="x", spark=workshop.spark, until="ingest")
    kept = [path for path in layout.restricted.path.rglob("*") if "leaves" in path.name]
    assert not kept
    assert not layout.restricted.input_record.exists()
    monkeypatch.undo()
    run_stages(plan, run_id="replaced", test_key="x", spark=workshop.spark, until="ingest")
    assert layout.restricted.input_record.is_file()
