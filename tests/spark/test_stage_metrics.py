"""What a stage cost Spark, read from Spark's own store with its web page off."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from das_spark.spark import stage_metrics as module
from das_spark.spark.stage_metrics import StageMeter

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def context(spark):
    yield spark.sparkContext
    spark.sparkContext.setJobGroup("", "")


def shuffled(spark):
    spark.range(0, 1000, 1, 4).repartition(3, "id").groupBy().count().collect()


def test_the_jobs_of_a_group_are_counted_with_what_they_moved(spark, context):
    context.setJobGroup("metered", "metered")
    meter = StageMeter.started(context, "metered")
    shuffled(spark)
    context.setJobGroup("another", "another")
    shuffled(spark)
    found = meter.read()
    assert found.jobs >= 1
    assert found.tasks >= 4 + 3 + 1
    assert (found.failed_tasks, found.killed_tasks, found.lost_stages) == (0, 0, 0)
    assert found.shuffle_write_bytes > 0
    assert found.shuffle_read_bytes == found.shuffle_write_bytes
    assert found.slowest_task_seconds > 0
    assert found.run_seconds > 0


def test_a_meter_counts_from_its_beginning(spark, context):
    context.setJobGroup("twice", "twice")
    shuffled(spark)
    meter = StageMeter.started(context, "twice")
    assert meter.read().tasks == 0
    shuffled(spark)
    first = meter.read()
    assert first.tasks >= 8
    assert meter.read() == first


def failing(batches):
    raise ValueError("planted")


@pytest.mark.filterwarnings("ignore")
def test_failed_tasks_are_counted(spark, context):
    context.setJobGroup("failing", "failing")
    meter = StageMeter.started(context, "failing")
    with pytest.raises(Exception, match="planted"):
        spark.range(0, 4, 1, 1).mapInArrow(failing, "id long").collect()
    found = meter.read()
    assert (found.failed_tasks, found.tasks) == (1, 0)


def test_files_are_counted(spark, context, tmp_path):
    context.setJobGroup("files", "files")
    meter = StageMeter.started(context, "files")
    spark.range(0, 1000, 1, 1).write.parquet(str(tmp_path / "x"))
    spark.read.schema("id long").parquet(str(tmp_path / "x")).groupBy().sum("id").collect()
    found = meter.read()
    written = next((tmp_path / "x").glob("part-*")).stat().st_size
    assert found.output_bytes == written
    assert found.input_bytes > 0


def test_stages_that_spark_has_forgotten_are_counted_as_lost(spark, context, monkeypatch):
    context.setJobGroup("lost", "lost")
    meter = StageMeter.started(context, "lost")
    shuffled(spark)
    whole = meter.read()
    # No such number: the store answers as it does for what it has thrown out.
    monkeypatch.setattr(module._Store, "stages_of", lambda *_: [999_999])
    found = meter.read()
    assert (found.lost_stages, found.tasks) == (1, 0)
    assert whole.lost_stages == 0


def test_where_spark_does_not_answer_there_are_no_figures():
    assert StageMeter.started(SimpleNamespace(), "x") is None
    assert StageMeter(SimpleNamespace(), "x", frozenset()).read() is None
