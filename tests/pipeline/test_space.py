"""What a run will write, known when its input is read: refused before it is charged where its disks cannot hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import level_plan, load_plan
from das_spark.core.linear import decomposition
from das_spark.errors import OutputError
from das_spark.estimation import UnionPart, informed
from das_spark.estimation.gls import summed
from das_spark.pipeline import rehearsal
from das_spark.pipeline.space import KnownSizes, require_disk_space, room_of, together

KNOWN = KnownSizes({"State": 2, "County": 8, "Enumdist": 100}, {"State": 90, "County": 200, "Enumdist": 500}, 10_000)


def test_more_of_anything_needs_more_room(dry_workshop):
    plan = dry_workshop.plan('output.microdata=["parquet"]')
    least = room_of(plan, KNOWN)
    more = [
        room_of(plan, replace(KNOWN, people=20_000)),
        room_of(plan, replace(KNOWN, geounits={**KNOWN.geounits, "Enumdist": 1000})),
        room_of(dry_workshop.plan('output.microdata=["parquet", "text"]'), KNOWN),
        room_of(dry_workshop.plan("measurement.rows=all"), KNOWN),
    ]
    assert all(each.public > least.public for each in more)


def test_the_tables_of_a_pass_upwards_are_counted_by_the_numbers_that_they_hold(dry_workshop):
    plan = dry_workshop.plan("estimation.estimator=blue_down", "measurement.rows=all")
    without = room_of(dry_workshop.plan("measurement.rows=all"), KNOWN)
    # Of a geounit in whose cells everybody can be: two tables of each level, and next to nothing of the lowest.
    family = rehearsal.synthetic_family(plan, "State")
    algebra = decomposition(level_plan(plan, "State").family)
    arrays = summed([each.at_zero() for each in informed(family.problem, [None], algebra)], algebra).arrays()
    size = 8 * sum(len(array) for array in arrays.values())
    assert len(arrays["mean"]) == plan.product.schema.size == 192
    found = room_of(plan, KNOWN).public - without.public
    rows = 200
    above = KNOWN.geounits["State"] + KNOWN.geounits["County"]
    assert found == above * 2 * (size + rows) + KNOWN.geounits["Enumdist"] * rows


CONF = Path(__file__).parents[2] / "conf"
GEOUNITS = {"US": 1, "State": 2, "County": 6, "Tract": 20, "Block_Group": 50, "Block": 900}


def intervals_alone(*settings: str, wanted: str = "") -> int:
    """Bytes of intervals of H1, which has three columns, and of all that is made for them."""
    known = KnownSizes(GEOUNITS, dict.fromkeys(GEOUNITS, 10), 10_000)
    given = ["input.path=files", "input.dataset=d", "measurement.rows=all", *settings]
    plans = [
        load_plan(CONF / "pl94_2020_unit.toml", settings=[*given, *more], files=False)
        for more in ([], ["output.intervals.level=0.9", *([wanted] if wanted else [])])
    ]
    assert all(plan.spine.names == tuple(GEOUNITS) for plan in plans)
    without, there = (room_of(plan, known) for plan in plans)
    assert there.restricted == without.restricted
    assert there.scratch >= without.scratch
    return there.public - without.public


def test_intervals_are_counted_with_what_their_passes_make_and_on_areas_with_the_unions():
    # Occupied or vacant: two means, which cells and sites there are, three covariances, all of them in one component.
    plan = load_plan(CONF / "pl94_2020_unit.toml", settings=["input.path=files", "input.dataset=d"], files=False)
    family = rehearsal.synthetic_family(plan, "US")
    algebra = decomposition(level_plan(plan, "US").family)
    arrays = summed([each.at_zero() for each in informed(family.problem, [None], algebra)], algebra).arrays()
    row, of_column = 200, 22 + 42  # in Parquet and CSV
    size = 8 * sum(len(array) for array in arrays.values()) + row
    moments = 2 * 3 * 8 + row
    above = sum(GEOUNITS.values()) - GEOUNITS["Block"]
    up = above * 2 * size + GEOUNITS["Block"] * row
    whole = up + above * (size + moments) + GEOUNITS["Block"] * moments + (above + GEOUNITS["Block"]) * 3 * of_column
    assert intervals_alone() == whole
    # The pass downwards stops where nothing is wanted below.
    few = intervals_alone('output.tables=["parquet"]', wanted='output.intervals.geolevels=["US", "State"]')
    assert few == up + GEOUNITS["US"] * size + 3 * moments + 3 * 3 * 22
    # Every census geounit above the blocks is a union, which is cut by its border at every level above.
    parts = above * 2 * (8 * UnionPart.numbers(algebra) + row) * 5
    areas = intervals_alone("geography.spine=optimised", "geography.reader=block_assignment", "geography.path=areas")
    assert areas == whole + parts + above * moments * 6


def test_a_replicate_is_all_levels_once_more_where_the_passes_for_intervals_do_not_need_as_much():
    known = KnownSizes(GEOUNITS, dict.fromkeys(GEOUNITS, 10), 0)  # nobody, so that there is no microdata

    def public(*settings: str) -> int:
        given = ["input.path=files", "input.dataset=d", "output.tables=[]", "measurement.rows=all", *settings]
        return room_of(load_plan(CONF / "pl94_2020_unit.toml", settings=given, files=False), known).public

    replicates, geounits = 'output.replicates={runs=8, level="0.9"}', sum(GEOUNITS.values())
    levels, both_formats = public(), 'output.tables=["parquet", "csv"]'
    of_column = 22  # in Parquet; 42 more in CSV
    assert public(replicates) == 2 * levels + geounits * 3 * of_column
    assert public(replicates.replace("8", "1")) == public(replicates), "one at a time"
    assert public(replicates, both_formats) - public(both_formats) == levels + geounits * 3 * (of_column + 42)
    # Its table of the pass upwards is one of all levels, too.
    blue = "estimation.estimator=blue_down"
    assert public(blue, replicates) - public(blue) == public(blue) + geounits * 3 * of_column
    intervals = "output.intervals.level=0.9"
    passes = public(intervals) - levels - geounits * 3 * of_column
    assert passes > levels, "nothing would be shown"
    assert public(intervals, replicates) == public(intervals) + geounits * 3 * of_column


def test_places_on_one_disk_are_counted_together(tmp_path):
    assert together([(tmp_path / "a", 3), (tmp_path / "b" / "c", 4)]) == {tmp_path / "a": 7}


def test_a_run_that_does_not_fit_is_refused_without_a_number_of_people(dry_workshop, monkeypatch):
    noted: dict[str, Any] = {}
    layout = dry_workshop.layout("big")
    conf = SimpleNamespace(getAll=lambda: [("spark.local.dir", str(dry_workshop.folder))])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", getConf=lambda: conf))
    progress = SimpleNamespace(log=lambda event, **fields: noted.update(fields))
    context = SimpleNamespace(plan=dry_workshop.plan(), layout=layout, spark=spark, progress=progress)
    monkeypatch.setattr(KnownSizes, "of", lambda _: replace(KNOWN, people=31_337 * 10**15))
    with pytest.raises(OutputError, match="less room than the rest of the run needs; nothing is charged") as caught:
        require_disk_space(context)
    assert noted["public"] > 31_337 * 10**15
    assert "31" not in str(caught.value).replace(str(dry_workshop.folder), "")
    monkeypatch.setattr(KnownSizes, "of", lambda _: KNOWN)
    require_disk_space(context)


def test_sizes_are_those_of_the_files(dry_workshop):
    plan, layout = dry_workshop.plan(), dry_workshop.layout("read")
    lists = {"State": [[1, 2], [3]], "County": [[1], [2], [3]], "Enumdist": [[1, 1], [1], [2], [1]]}
    for level, counts in lists.items():
        folder = layout.restricted.level("histograms", level)
        folder.mkdir(parents=True)
        rows = {"geocode": [str(place) for place in range(len(counts))], "counts": pa.array(counts)}
        pq.write_table(pa.table({**rows, "cells": pa.array(counts)}), folder / "part-00000.parquet")
    context = SimpleNamespace(
        plan=plan,
        spine=plan.spine,
        tables=SimpleNamespace(
            folder=layout.restricted.level,
            geounit_counts=lambda: {level: len(counts) for level, counts in lists.items()},
        ),
    )
    assert KnownSizes.of(context) == KnownSizes(
        {"State": 2, "County": 3, "Enumdist": 4}, {"State": 3, "County": 3, "Enumdist": 5}, 6
    )
