"""What is published of a run does not tell how many tasks made it."""

from __future__ import annotations

import json

import pytest

from das_spark.pipeline.context import RunContext
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.publish import _manifest
from das_spark.privacy import LedgerEntry, RunKey

pytestmark = [pytest.mark.spark]


@pytest.mark.slow
def test_the_manifest_is_the_same_text_whatever_the_partitions(workshop, calm, tools):
    plan = workshop.plan()
    context = RunContext(
        plan, calm, workshop.spark, RunKey.insecure(tools.TEST_KEY), Progress(lambda _: None, calm.run_id), "2026-01-01"
    )
    entry = LedgerEntry("calm#0", "2026-01-01", plan.product.name, plan.product.record, plan.budget, insecure=True)
    before, texts = workshop.spark.conf.get("spark.sql.shuffle.partitions"), set()
    try:
        for partitions in (1, 2, 5, 7):
            workshop.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            status = _manifest(context, entry, "").solver_status
            texts.add(json.dumps(status))
    finally:
        workshop.spark.conf.set("spark.sql.shuffle.partitions", before)
    assert len(texts) == 1
    levels = json.loads(texts.pop())
    assert all(list(counts) == sorted(counts) for counts in levels.values())
    assert max(len(counts) for counts in levels.values()) > 1, "some level has families of several statuses"
