"""A driver that lost its run to another one, at whatever step, publishes nothing after that."""

from __future__ import annotations

import pytest

from das_spark.errors import OutputError
from das_spark.io.files import finished
from das_spark.pipeline import context as context_module
from das_spark.pipeline import estimate as estimate_stage
from das_spark.pipeline import measure as measure_stage
from das_spark.pipeline import run_stages, runner

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

#: A function that is at work when the run is lost, and a table that must not be published after it.
LOST = {
    "while it reads": (context_module, "discard", "geounits", "State"),
    "while it draws": (measure_stage, "_drawn", "measurements", "State"),
    "while it estimates": (estimate_stage, "_diagnosed", "estimates", "State"),
    "while it ends": (runner, "publish_statement", "verification.json", ""),
}


@pytest.mark.usefixtures("unverified")
def test_a_driver_that_lost_its_run_publishes_nothing_more_and_the_run_goes_on_elsewhere(
    workshop, reference, tools, monkeypatch
):
    plan, layout = workshop.plan(), workshop.layout("lost")
    for reason, (place, name, table, level) in LOST.items():
        original = getattr(place, name)

        def robbed(*given, original=original, **named):
            layout.restricted.lock.write_text("the word of another driver")
            return original(*given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(place, name, robbed)
            with pytest.raises(OutputError, match="another driver has taken over"):
                run_stages(plan, run_id="lost", test_key=tools.TEST_KEY, spark=workshop.spark)
        target = layout.public.level(table, level) if level else layout.public.path / table
        assert not finished(target), reason
        assert not (target.is_file()), reason
    run_stages(plan, run_id="lost", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.level_rows(layout.public.path) == reference
    attempts = sorted(path.name for path in layout.restricted.journal.glob("State.*.json"))
    assert attempts == ["State.1.json", "State.2.json"], "the draw of the lost driver was destroyed, and another made"
