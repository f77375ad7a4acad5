"""Households of the demonstration of 2010 as their run file has them, to the block: verified, and counted anew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import load_plan
from das_spark.errors import InputError
from das_spark.pipeline import run_stages
from das_spark.products import PRODUCTS

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

RUN_FILE = Path(__file__).parents[2] / "conf" / "ddp_2010_household.toml"
DDP = PRODUCTS["ddp_2010_household"]
NAMES = tuple(attribute.name for attribute in DDP.schema.attributes)
CODES = DDP.microdata.unit[8].source.split(":")[2].split(",")  # of GQTYPE: housing units, 28 types, vacant units
#: County -> its tracts: groups of two and one, and one.
TRACTS = {"01001": ("000101", "000102", "000200"), "02001": ("010001",)}
#: Place of a block -> the class of its facility, and how many there are.
FACILITIES = {1: (3, 1), 4: (10, 2), 9: (28, 1)}
EMPTY, ALL_VACANT, FULL = 2, 5, 7


def blocks() -> list[str]:
    """Block groups of one block and two."""
    return [
        f"{county}{tract}{place}{number}"
        for county, tracts in TRACTS.items()
        for tract in tracts
        for place, number in ((1, "1000"), (2, "2000"), (2, "2001"))
    ]


def write_census(folder: Path, *, too_few: bool = False) -> dict[str, list[int]]:
    """Households of possible kinds, and the units of each block by class; vacant ones among the housing units."""
    random = np.random.default_rng(2010)
    possible = np.flatnonzero(~DDP.zero_cells())
    households: Counter[tuple[object, ...]] = Counter()
    units = {}
    rows = []
    for place, block in enumerate(blocks()):
        number = 0 if place in (EMPTY, ALL_VACANT) else int(random.integers(3, 30))
        for cell in random.choice(possible[:: len(possible) // 60], number).tolist():
            households[block, *np.unravel_index(cell, DDP.schema.shape)] += 1
        vacant = 0 if place in (EMPTY, FULL) else 3
        classes = [number - (too_few and place == FULL), *[0] * 28]
        if place in FACILITIES:
            kind, many = FACILITIES[place]
            classes[kind] = many
        rows.append((block, *classes, vacant))
        units[block] = [classes[0] + vacant, *classes[1:]]
    folder.mkdir()
    counted = [(*map(str, key[:1]), *map(int, key[1:]), count) for key, count in sorted(households.items())]
    write(folder / "households.parquet", ("geocode", *NAMES, "count"), counted)
    write(folder / "living_quarters.parquet", ("geocode", *(f"units_{each}" for each in range(29)), "vacant"), rows)
    return units


def write(path: Path, names: tuple[str, ...], rows: list[tuple]) -> None:
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)


def settings(folder: Path) -> list[str]:
    return [f'input.path="{folder / "census"}"', 'input.dataset="two"', f'output.root="{folder / "runs"}"']


def records(folder: Path) -> list[dict[str, str]]:
    """The text file of units, by the names of its columns."""
    names = (folder / "1_header").read_text().strip().split("|")
    lines = [line for part in sorted(folder.glob("part-*")) for line in part.read_text().splitlines()]
    return [dict(zip(names, line.split("|"), strict=True)) for line in lines]


def test_households_are_protected_published_and_verified_with_every_unit_of_their_blocks(tmp_path, spark, tools):
    units = write_census(tmp_path / "census")
    plan = load_plan(RUN_FILE, [], settings(tmp_path))
    public = run_stages(plan, run_id="two", test_key=tools.TEST_KEY, spark=spark).layout.public
    report = json.loads(public.verification.read_text())
    assert report["passed"], [check for check in report["checks"] if not check["passed"]]

    # The file has every unit: as many housing units, occupied or vacant, and facilities of each type as declared.
    rows = records(public.microdata("household", "text"))
    assert len(rows[0]) == 27
    places = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
    found: Counter[tuple[str, str]] = Counter(("".join(row[part] for part in places), row["GQTYPE"]) for row in rows)
    declared = {
        (block, CODES[kind]): number
        for block, classes in units.items()
        for kind, number in enumerate(classes)
        if number
    }
    assert dict(found) == declared
    occupied = [row for row in rows if row["TEN"] == "9"]
    vacant = [row for row in rows if row["VACS"] == "9"]
    quarters = [row for row in rows if row["RTYPE"] == "4"]
    assert len(occupied) + len(vacant) + len(quarters) == len(rows)
    assert {row["HHSIZE"] for row in vacant + quarters} == {"0"}
    assert "0" not in {row["HHSIZE"] for row in occupied}
    assert occupied
    assert vacant

    # Tables: H13 counted from the file, at every level that a line of it tells.
    for level, length in (("Block", 16), ("Tract", 11), ("State", 2), ("Nation", 0)):
        counted: Counter[tuple[str, int]] = Counter()
        for row in occupied:
            code = "".join(row[part] for part in places)
            for line in (1, 1 + int(row["HHSIZE"])):
                counted[code[:length] or "0", line] += 1
        for row in tools.rows_of(public.tables.level("H13", "parquet", level)):
            assert [row[f"H013{line:04d}"] for line in range(1, 9)] == [
                counted[row["geocode"], line] for line in range(1, 9)
            ], (level, row["geocode"])
    # H3: occupied and vacant units, counted from the file likewise.
    for level, length in (("Block", 16), ("County", 5), ("Nation", 0)):
        of_status = Counter(
            ("".join(row[part] for part in places)[:length] or "0", place)
            for place, kind in ((2, occupied), (3, vacant))
            for row in kind
        )
        for row in tools.rows_of(public.tables.level("H3", "parquet", level)):
            counted_units = [of_status[row["geocode"], place] for place in (2, 3)]
            assert [row[f"H003{place:04d}"] for place in (1, 2, 3)] == [sum(counted_units), *counted_units]
    statement = public.privacy_statement.read_text()
    assert "One record of one household" in statement
    assert "housing units is vacant is not" in statement or "how many of the housing units are vacant" in statement


def test_more_households_than_housing_units_are_refused_before_budget_is_spent(tmp_path, spark, tools):
    write_census(tmp_path / "census", too_few=True)
    plan = load_plan(RUN_FILE, [], settings(tmp_path))
    with pytest.raises(InputError, match=f"units and households contradict each other .*{blocks()[FULL]}"):
        run_stages(plan, run_id="few", test_key=tools.TEST_KEY, spark=spark)
