"""A level whose histograms have lost a file is not measured: geounits that are left out could never be made good."""

from __future__ import annotations

import os

import pytest

from das_spark.errors import OutputError
from das_spark.pipeline.measure import measure

pytestmark = pytest.mark.spark


def test_nothing_is_drawn_from_a_table_that_is_not_whole(workshop, calm):
    context = workshop.ingested("lost", calm)
    folder = context.layout.restricted.level("histograms", "State")
    part = max(folder.glob("part-*"), key=lambda path: path.stat().st_size)
    content = part.read_bytes()
    for harm, said in ((part.unlink, r"0 rows where there are 2"), (lambda: os.truncate(part, 40), "not a whole")):
        harm()
        with pytest.raises(OutputError, match=said):
            measure(context, "State")
        assert not list(context.layout.restricted.journal.glob("State.*"))
        part.write_bytes(content)
    measure(context, "State")
    assert context.is_finished("measurements", ["State"])
