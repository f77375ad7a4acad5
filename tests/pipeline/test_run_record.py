"""What is known of a run: its state, where drivers came and went."""

from __future__ import annotations

import pytest

from das_spark.pipeline.run_record import page_of, run_record, write_page
from das_spark.store import RunLayout, open_run
from das_spark.telemetry import LEFT, Event, RunLog


@pytest.fixture
def layout(tmp_path) -> RunLayout:
    made = RunLayout.at(tmp_path / "runs", "first")
    open_run(made, "0" * 64)
    return made


def driver(layout: RunLayout, first: Event, last: Event) -> None:
    log = RunLog(layout.restricted.log, layout.run_id)
    log.log(first, product="p", geolevels=["State"], config_hash="0" * 64, insecure=False, software="1")
    log.log(last)


def test_a_run_that_was_told_to_stop_is_left(layout):
    driver(layout, Event.RUN_OPENED, Event.RUN_LEFT)
    assert run_record(layout).state == LEFT


def test_a_scheduler_that_looks_at_an_early_stage_of_a_finished_run_does_not_change_its_state(layout):
    driver(layout, Event.RUN_OPENED, Event.RUN_FINISHED)
    layout.public.verification.write_text('{"passed": true, "checks": []}')
    done = run_record(layout).state
    assert "verified" in done
    driver(layout, Event.RUN_RESUMED, Event.RUN_LEFT)
    assert run_record(layout).state == done


def test_a_page_with_restricted_facts_is_for_its_owner_alone(layout, tmp_path):
    page = tmp_path / "page.html"
    page.touch(mode=0o644)
    page_of(layout.folder, page)
    assert page.stat().st_mode & 0o777 == 0o600
    page_of(layout.public.path, page)
    (tmp_path / "usual").touch()
    assert page.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert write_page(layout).stat().st_mode & 0o777 == 0o600


def test_one_that_was_verified_and_left_before_its_evaluation_is_not_finished(layout):
    driver(layout, Event.RUN_OPENED, Event.RUN_LEFT)
    layout.public.verification.write_text('{"passed": true, "checks": []}')
    assert run_record(layout).state == LEFT
