"""Stages, drivers and warnings from the lines of a log, whatever became of its drivers."""

from __future__ import annotations

from das_spark.evaluation import FAMILY_FIGURES
from das_spark.telemetry import Event
from das_spark.telemetry.history import (
    KILLED,
    driver_attempts,
    has_ended,
    logged_stages,
    slowest_families,
    warnings_of,
)


def line(opening: int, event: Event, second: int = 0, **fields):
    common = {"time": f"T{second:02}", "run_id": "r", "opening": opening, "application": "", "application_attempt": ""}
    return {**common, "event": event.value, "level": event.level, **fields}


def began(opening, stage):
    return line(opening, Event.STAGE_STARTED, stage=stage)


def ended(opening, stage, seconds, event=Event.STAGE_FINISHED, **spark):
    return line(opening, event, stage=stage, seconds=seconds, spark=spark)


KILLED_IN_COUNTY = [
    line(1, Event.RUN_OPENED, 1),
    began(1, "ingest"),
    ended(1, "ingest", 5.0, tasks=4, heap_bytes=10),
    began(1, "measure County"),
    line(1, Event.STAGE_PROGRESS, 8, stage="measure County", seconds=10.0),
    line(1, Event.STAGE_PROGRESS, 9, stage="measure County", seconds=20.0),
]
RESUMED = [
    *KILLED_IN_COUNTY,
    line(2, Event.RUN_RESUMED, 10, application="app-2"),
    began(2, "ingest"),
    ended(2, "ingest", 0.5, tasks=1, heap_bytes=7),
    began(2, "measure County"),
    ended(2, "measure County", 3.0, Event.STAGE_FAILED, tasks=2, failed_tasks=1),
    line(2, Event.RUN_FAILED, 20, code="DAS500", exit_code=1, error="OutputError", message="full"),
]


def test_the_cost_of_a_stage_is_that_of_all_drivers():
    ingest, measure = logged_stages(RESUMED)
    assert (ingest.name, ingest.seconds, ingest.entered, ingest.failed, ingest.cut_short) == ("ingest", 5.5, 2, 0, 0)
    assert (ingest.metrics.tasks, ingest.metrics.heap_bytes) == (5, 10), "sums, but the largest of what is a peak"
    assert (measure.seconds, measure.entered, measure.failed, measure.cut_short) == (23.0, 2, 1, 1)
    assert (measure.metrics.tasks, measure.metrics.failed_tasks) == (2, 1)
    assert (measure.work, measure.geolevel, ingest.geolevel) == ("measure", "County", "")


def test_the_slowest_families_are_those_of_the_last_estimation_of_a_level():
    figures = {name: 1 for name in FAMILY_FIGURES}
    told = [("County", "01", 2.0), ("State", "", 0.5), ("County", "02", 3.0)]
    lines = [
        line(1, Event.FAMILIES_SLOWEST, geolevel=level, families=[figures | {"family": family, "seconds": seconds}])
        for level, family, seconds in told
    ]
    found = slowest_families([*KILLED_IN_COUNTY, *lines])
    assert {level: [(each.geolevel, each.family, each.seconds) for each in kept] for level, kept in found.items()} == {
        "State": [("State", "", 0.5)],
        "County": [("County", "02", 3.0)],
    }


def test_a_stage_at_work_is_not_cut_short():
    assert logged_stages(KILLED_IN_COUNTY)[-1].cut_short == 1
    assert logged_stages(KILLED_IN_COUNTY, live=True)[-1].cut_short == 0


def test_a_stage_whose_figures_are_not_known_keeps_those_that_are():
    lines = [began(1, "x"), line(1, Event.STAGE_FINISHED, stage="x", seconds=1.0)]
    assert logged_stages(lines)[0].metrics is None
    lines += [began(2, "x"), ended(2, "x", 1.0, tasks=3)]
    assert logged_stages(lines)[0].metrics.tasks == 3


def test_figures_of_a_later_version_are_left_out():
    assert logged_stages([began(1, "x"), ended(1, "x", 1.0, tasks=3, of_the_future=9)])[0].metrics.tasks == 3


def test_drivers_are_told_apart_with_their_ends():
    first, second = driver_attempts(RESUMED)
    assert (first.number, first.began, first.last, first.end) == (1, "T01", "T09", KILLED)
    assert (second.application, second.end) == ("app-2", "failed: DAS500")
    assert driver_attempts(KILLED_IN_COUNTY, live=True)[0].end == "at work"


def test_ends_are_known_also_where_the_page_failed_after_them():
    lines = [line(1, Event.RUN_OPENED), line(1, Event.RUN_FINISHED)]
    assert has_ended(lines)
    lines.append(line(1, Event.PAGE_FAILED, error="ValueError"))
    assert driver_attempts(lines)[0].end == "finished"
    assert not has_ended(KILLED_IN_COUNTY)
    assert not has_ended([])


def test_an_error_that_is_none_of_ours_is_named_by_its_type():
    lines = [line(1, Event.RUN_FAILED, error="Py4JJavaError", exit_code=1)]
    assert driver_attempts(lines)[0].end == "failed: Py4JJavaError"


def test_an_attempt_of_the_application_is_named_where_there_is_one():
    lines = [line(1, Event.SPARK_STARTED) | {"application": "application_1", "application_attempt": "2"}]
    assert driver_attempts(lines)[0].application == "application_1, attempt 2"


def test_what_is_shown_are_warnings_and_errors_with_what_they_say():
    found = warnings_of(RESUMED)
    assert [each.event for each in found] == ["stage.failed", "run.failed"]
    assert found[1].text == "code: DAS500; exit_code: 1; error: OutputError; message: full"
    assert "spark" not in found[0].text
