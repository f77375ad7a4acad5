"""Figures of a stage add up, and survive JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from das_spark.evaluation.stage_metrics import StageMetrics

ONE = StageMetrics(**{each.name: number for number, each in enumerate(fields(StageMetrics), start=1)})
TWO = StageMetrics(**{each.name: 100 - number for number, each in enumerate(fields(StageMetrics), start=1)})
PEAKS = {"execution_memory_bytes", "heap_bytes", "python_bytes", "slowest_task_seconds"}


def test_sums_are_added_and_peaks_are_not():
    together = asdict(ONE.plus(TWO))
    assert {name for name, value in together.items() if value == 100} == set(together) - PEAKS
    assert all(together[name] == max(asdict(ONE)[name], asdict(TWO)[name]) for name in PEAKS)
    assert ONE.plus(TWO) == TWO.plus(ONE)
    assert ONE.plus(StageMetrics()) == ONE


def test_they_come_back_from_json_without_what_is_unknown():
    record = {**json.loads(json.dumps(asdict(ONE))), "of_the_future": 1}
    assert StageMetrics.from_json(record) == ONE
    assert StageMetrics.from_json({}) == StageMetrics()
