"""Households with what another product tells of units: kinds of vacancy, and who is charged no rent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from das_spark.errors import OutputError
from das_spark.io.microdata_files import Division, Geounits, MicrodataWriting, listed_units
from das_spark.products import PRODUCTS
from das_spark.store import PublicLayout, Staging
from das_spark.tabulation.household_types import TYPES

HOUSEHOLD = PRODUCTS["dhc_2020_household"]
BLOCKS = ("4400700010011001", "4400700020022001")
ALONE = next(place for place, each in enumerate(TYPES) if each.alone)


def cell(tenure: int, *, sex: int = 0) -> int:
    """Somebody under 25 who lives alone."""
    return int(HOUSEHOLD.schema.ravel([[sex, 0, 0, 0, 0, tenure, ALONE]])[0])


def geounits(*blocks: dict[int, int]) -> Geounits:
    cells, counts, owner = (
        np.array(column, dtype=np.int64)
        for column in zip(*((c, n, k) for k, block in enumerate(blocks) for c, n in sorted(block.items())), strict=True)
    )
    return Geounits(cells, counts, owner, None)


@pytest.mark.parametrize("seed", range(20))
def test_the_last_records_of_the_last_level_are_told_apart_and_nothing_else_changes(seed):
    random = np.random.default_rng(seed)
    division = Division(levels=3, stride=4, first=1000)
    rows = 5
    owner = np.sort(random.integers(0, rows, 30))
    before = Geounits(random.integers(0, 48, 30), random.integers(1, 4, 30), owner, None)
    last = before.cells // 4 % 3 == 2
    every = np.bincount(owner, before.counts * last, minlength=rows).astype(np.int64)
    apart = random.integers(0, every + 1)
    after, too_few = division.divide(before, apart)
    assert not too_few.any()
    persons = np.repeat(after.cells, after.counts)
    homes = np.repeat(after.owner, after.counts)
    # The same records in the same order.
    assert np.array_equal(persons % 1000, np.repeat(before.cells, before.counts))
    assert np.array_equal(homes, np.repeat(before.owner, before.counts))
    for home in range(rows):
        inside = persons[(homes == home) & (persons % 1000 // 4 % 3 == 2)] >= 1000
        assert inside.sum() == apart[home]
        assert np.array_equal(np.sort(inside), inside)
    assert not (persons[persons % 1000 // 4 % 3 != 2] >= 1000).any()


def test_more_than_there_are_cannot_be_told_apart():
    division = Division.of(HOUSEHOLD)
    _, too_few = division.divide(geounits({cell(2): 2}, {cell(2): 1, cell(1): 5}), np.array([2, 2]))
    assert too_few.tolist() == [False, True]


def test_vacant_units_of_several_kinds_must_be_those_that_nobody_was_counted_in():
    units = np.array([[5, 1, 2, 1], [5, 1, 1, 1]])
    assert listed_units(units, np.array([2, 2]), (1, 2, 3), 2).tolist() == [[1, 2, 1], [1, 1, -1]]
    assert listed_units(units[:, [0, 1, 3]], np.array([2, 2]), (1, 2)).tolist() == [[1, 4], [1, 4]]


def write(path, blocks, units, divided):
    made = geounits(*blocks)
    rows = pa.RecordBatch.from_pydict(
        {
            "geocode": pa.array(BLOCKS[: len(blocks)]),
            "cells": pa.array([sorted(block) for block in blocks], pa.list_(pa.int32())),
            "counts": pa.array([[n for _, n in sorted(block.items())] for block in blocks], pa.list_(pa.int64())),
            "units": pa.array(units, pa.list_(pa.int64())),
            "divided": pa.array(divided, pa.int64()),
        }
    )
    assert made.counts.sum() == sum(sum(block.values()) for block in blocks)
    layout = PublicLayout(path)
    writing = MicrodataWriting(HOUSEHOLD, layout, ["text"], Staging(path / ".staging"), "2030-01-01")
    writing.write_one_slice(rows)
    return (layout.microdata("household", "text") / "part-00000.txt").read_text().splitlines()


def of_units(housing: int, *, facilities: dict[int, int], vacant: dict[int, int]) -> list[int]:
    found = [housing, *[0] * 31]
    for kind, number in facilities.items():
        found[kind] = number
    for kind, number in vacant.items():
        found[24 + kind] = number
    return found


def test_a_block_lists_households_vacant_units_by_kind_and_facilities_by_type(tmp_path):
    blocks = ({cell(0): 1, cell(2): 2, cell(2, sex=1): 1}, {})
    units = [
        of_units(6, facilities={1: 1, 24: 2}, vacant={1: 1, 7: 1}),
        of_units(1, facilities={}, vacant={5: 1}),
    ]
    lines = write(tmp_path, blocks, units, [2, 0])
    start = "MUD|1.1.0|44|007|000100|1|1001|"
    man = "1|4|09|0|0|0|1|1|01|4|0|0|0|0|4|1"
    woman = "1|6|05|0|0|0|1|1|01|4|0|0|0|0|4|2"
    nobody = "0|0|00|0|0|0|0|0|00|0|0|0|0|0|0|0"
    assert lines == [
        f"{start}2|000|1|0|{man}",
        f"{start}2|000|3|0|{man}",
        f"{start}2|000|4|0|{man}",
        f"{start}2|000|4|0|{woman}",
        f"{start}4|101|0|0|{nobody}",
        *[f"{start}4|997|0|0|{nobody}"] * 2,
        f"{start}2|000|0|1|{nobody}",
        f"{start}2|000|0|7|{nobody}",
        f"MUD|1.1.0|44|007|000200|2|2001|2|000|0|5|{nobody}",
    ]


def test_counts_of_units_that_contradict_the_households_are_refused(tmp_path):
    right = of_units(3, facilities={}, vacant={1: 1})
    assert len(write(tmp_path / "right", ({cell(2): 2},), [right], [2])) == 3
    for name, units, divided in (("more", right, 3), ("vacant", of_units(4, facilities={}, vacant={1: 1}), 0)):
        with pytest.raises(OutputError, match=BLOCKS[0]):
            write(tmp_path / name, ({cell(2): 2},), [units], [divided])
