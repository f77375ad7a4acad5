"""A stage that reads a table which has lost a file stops: geounits that are left out could never be made good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from das_spark.errors import OutputError
from das_spark.pipeline.context import RunContext
from das_spark.pipeline.levels import estimate, measure

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@contextmanager
def lost_and_cut(folder: Path) -> Iterator[Iterator[str]]:
    """The largest part file of a folder, first gone, then cut short; what an error says of each."""
    part = max(folder.glob("part-*"), key=lambda path: path.stat().st_size)
    content = part.read_bytes()

    def harms() -> Iterator[str]:
        part.unlink()
        yield r"rows, expected \d"
        part.write_bytes(content[:40])
        yield "not a whole"

    yield harms()
    part.write_bytes(content)


def test_nothing_is_drawn_from_a_table_that_is_not_whole(workshop, calm, tools):
    """Histograms of the level and estimates of the parents are joined: each would leave geounits out for ever."""
    context = workshop.ingested("lost", calm)
    tools.charge(context)
    with lost_and_cut(context.tables.folder("histograms", "State")) as harms:
        for said in harms:
            refuses(measure, context, "State", said)
    measure(context, "State")
    estimate(context, "State")
    with lost_and_cut(context.tables.folder("estimates", "State")) as harms:
        for said in harms:
            refuses(measure, context, "County", said)
    measure(context, "County")
    assert context.tables.is_finished("measurements", ["State", "County"])


def test_nothing_is_estimated_from_a_table_that_is_not_whole(workshop, calm, tools):
    context = workshop.ingested("lost", calm)
    tools.charge(context)
    measure(context, "State")
    estimate(context, "State")
    measure(context, "County")
    with lost_and_cut(context.tables.folder("estimates", "State")) as harms:
        for said in harms:
            refuses(estimate, context, "County", said)
    assert not context.tables.is_finished("estimates", ["County"])


def refuses(stage: Callable[[RunContext, str], None], context: RunContext, geolevel: str, said: str) -> None:
    """A stage stops before it did anything."""
    before = sorted(context.layout.restricted.journal.glob(f"{geolevel}.*"))
    with pytest.raises(OutputError, match=said):
        stage(context, geolevel)
    assert sorted(context.layout.restricted.journal.glob(f"{geolevel}.*")) == before
