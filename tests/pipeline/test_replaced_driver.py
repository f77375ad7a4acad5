"""A driver that lost its run to another one, at whatever step, publishes nothing after that."""

from __future__ import annotations

import pytest

from das_spark.errors import OutputError, VerificationError
from das_spark.pipeline import assess, levels, publish, run_stages, runner
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline.charge import enter_invariants
from das_spark.spark import microdata, run_tables
from das_spark.store import Journal, discard, finished, hold_run, part_files, succeed

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

#: A function after which the run is lost, and what must not be published any more: a folder, or a file.
LOST = {
    "before it records the input": (ingest_stage, "keep_problems", lambda run: run.restricted.input_record),
    "before it publishes leaves": (ingest_stage, "save_input_record", lambda run: run.restricted.table("leaves")),
    "while it reads": (run_tables, "discard", lambda run: run.public.level("geounits", "State")),
    "while it draws": (levels, "measurements", lambda run: run.public.level("measurements", "State")),
    "while it estimates": (levels, "estimates", lambda run: run.public.level("estimates", "State")),
    "while it assigns persons to units": (
        microdata,
        "in_sorted_tasks",
        lambda run: run.public.microdata("person", "parquet"),
    ),
    "while it sums up": (publish, "public_files", lambda run: run.public.manifest),
    "while it verifies": (assess, "ledger_equals_config", lambda run: run.public.verification),
    "while it tells its times": (runner, "restricted_manifest", lambda run: run.restricted.manifest),
}


@pytest.fixture
def hardly_verified(monkeypatch):
    """Verification takes longer than all the rest; what is not whole is not read, and found wrong at once."""
    monkeypatch.setattr(assess, "finished", lambda _: False)


@pytest.mark.usefixtures("hardly_verified")
def test_a_driver_that_lost_its_run_publishes_nothing_more_and_the_run_goes_on_elsewhere(
    workshop, reference, tools, monkeypatch
):
    plan, layout = workshop.plan(), workshop.layout("lost")
    for reason, (place, name, unpublished) in LOST.items():
        original = getattr(place, name)

        def robbed(*given, original=original, **named):
            result = original(*given, **named)
            layout.restricted.lock.write_text("the word of another driver")
            return result

        with monkeypatch.context() as patch:
            patch.setattr(place, name, robbed)
            with pytest.raises(OutputError, match="another driver has taken over"):
                run_stages(plan, run_id="lost", test_key=tools.TEST_KEY, spark=workshop.spark)
        target = unpublished(layout)
        assert not finished(target), reason
        assert not target.is_file(), reason
    with pytest.raises(VerificationError, match="folders are whole"):
        run_stages(plan, run_id="lost", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.level_rows(layout.public.path) == reference
    states = [str(attempt.state) for attempt in Journal.of(layout).attempts("State")]
    assert states == ["destroyed", "promoted"], "the draw of the lost driver was destroyed, and another made"


@pytest.mark.parametrize("knows", [True, False])
def test_levels_that_another_driver_published_meanwhile_are_not_replaced_by_empty_ones(
    workshop, calm, monkeypatch, knows
):
    context = workshop.ingested("late", calm)
    enter_invariants(context.required_ledger())  # no table is public before
    layout, theirs = context.layout, context.layout.public.level("invariants", "County")
    frame = context.tables.read_all("invariants").localCheckpoint()
    discard(layout.public.table("invariants"))
    replace = run_tables.replace_folder

    def taken_over(source, target, *files, **given):
        replace(source, target, *files, **given)
        theirs.mkdir(parents=True)
        (theirs / "part-0").write_text("of the driver that took over")
        succeed(theirs)
        discard(source.parent)
        if knows:
            layout.restricted.lock.write_text("the word of another driver")

    monkeypatch.setattr(run_tables, "replace_folder", taken_over)
    reason = "another driver has taken over" if knows else "what was written there is gone"
    with hold_run(layout), pytest.raises(OutputError, match=reason):
        context.tables.write_all("invariants", frame)
    assert finished(theirs)
    assert [path.read_text() for path in part_files(theirs)] == ["of the driver that took over"]
