"""The demonstration of 2010 as its run file has it, on some people of two states: verified, and counted anew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import load_plan
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

RUN_FILE = Path(__file__).parents[2] / "conf" / "ddp_2010_person.toml"
#: Names and codes as a census could have them: 15 digits of a block, codes that begin with 1.
OVERLAY = """
[input]
dataset = "two-states"
[input.columns]
block = "block15"
count = "people"
[input.code_base]
sex = 1
hispanic = 1
cenrace = 1
citizen = 1
"""
#: County -> its tracts: groups of three, one, two and one.
TRACTS = {
    "01001": ("000101", "000102", "000103", "000200"),
    "01003": ("000100",),
    "02001": ("010001", "010002", "950000"),
}
FACILITIES = {3: (1, 18, 80), 9: (3, 60, 100), 14: (5, 18, 26), 20: (2, 10, 26), 25: (6, 17, 40), 30: (7, 1, 90)}
FIRST_AGES = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 116)


def blocks() -> list[str]:
    """Block groups of two blocks, two in each tract."""
    return [f"{c}{t}{group}{number:03d}" for c, tracts in TRACTS.items() for t in tracts for group in (1, 2) for number in (0, 7)]  # fmt: skip  # noqa: E501


def write_census(folder: Path) -> Counter[str]:
    """People of every state; one block has nobody and no unit, one only vacant units."""
    random = np.random.default_rng(2010)
    people: Counter[tuple] = Counter()
    units = []
    for place, block in enumerate(blocks()):
        number = 0 if place in (5, 6) else int(random.integers(4, 24))
        for age in random.integers(0, 100, number).tolist():
            people[block, 0, *drawn(random, age)] += 1
        row = [(number + 2) // 3, *[0] * 7, 0 if place == 5 else 1]
        if place in FACILITIES:
            level, low, high = FACILITIES[place]
            row[level] = 1
            for age in random.integers(low, high, 9).tolist():
                people[block, level, *drawn(random, age)] += 1
        units.append((block, *row))
    folder.mkdir()
    names = ("block15", "hhgq", "sex", "age", "hispanic", "cenrace", "citizen")
    rows = [(*cell, count) for cell, count in sorted(people.items())]
    write(folder / "persons.parquet", (*names, "people"), rows)
    write(folder / "units.parquet", ("block15", *(f"units_{level}" for level in range(8)), "vacant"), units)
    of_states: Counter[str] = Counter()
    for (block, *_), count in people.items():
        of_states[block[:2]] += count
    return of_states


def drawn(random: np.random.Generator, age: int) -> tuple[int, ...]:
    """Sex, age, origin, race and citizenship, in codes from 1 but for the age."""
    race = int(random.choice([1, 1, 1, 2, 4, 7, 63]))
    return int(random.integers(1, 3)), age, int(random.random() < 0.2) + 1, race, int(random.random() < 0.9) + 1


def write(path: Path, names: tuple[str, ...], rows: list[tuple]) -> None:
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)


def records(folder: Path) -> list[dict[str, str]]:
    """The text files of persons, by the names of their columns."""
    names = (folder / "1_header").read_text().strip().split("|")
    lines = [line for part in sorted(folder.glob("part-*")) for line in part.read_text().splitlines()]
    return [dict(zip(names, line.split("|"), strict=True)) for line in lines]


def test_the_demonstration_is_ingested_protected_published_and_verified(tmp_path, spark, tools):
    of_states = write_census(tmp_path / "census")
    overlay = tmp_path / "names.toml"
    overlay.write_text(OVERLAY)
    settings = [f'input.path="{tmp_path / "census"}"', f'output.root="{tmp_path / "runs"}"']
    plan = load_plan(RUN_FILE, [overlay], settings)
    public = run_stages(plan, run_id="two", test_key=tools.TEST_KEY, spark=spark).layout.public
    report = json.loads(public.verification.read_text())
    assert report["passed"], [check for check in report["checks"] if not check["passed"]]

    groups = {row["geocode"] for row in tools.rows_of(public.level("estimates", "Tract_Group"))}
    assert groups == {county + tract[:4] for county, tracts in TRACTS.items() for tract in tracts}

    people = records(public.microdata("person", "text"))
    assert Counter(row["TABBLKST"] for row in people) == of_states
    assert len(people[0]) == 16
    assert {row["EPNUM"] for row in people} == {"999999999"}
    ages = {code: [int(row["QAGE"]) for row in people if row["GQTYPE"] == code] for code in ("101", "201", "301")}
    assert min(ages["101"]) >= 15
    assert max(ages["201"]) <= 25
    assert min(ages["301"]) >= 20
    parts = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
    geocodes = ["".join(row[part] for part in parts) for row in people]
    sexes = [int(row["QSEX"]) - 1 for row in people]
    years = [int(row["QAGE"]) for row in people]

    # P12, counted from the text: total, then of each sex its people and 23 groups of ages.
    for level, length in (("Block", 16), ("Tract", 11), ("State", 2), ("Nation", 0)):
        counted: Counter[tuple[str, int]] = Counter()
        for code, sex, age in zip(geocodes, sexes, years, strict=True):
            of_sex = 2 + 24 * sex
            group = int(np.searchsorted(FIRST_AGES, age, side="right"))
            for line in (1, of_sex, of_sex + group):
                counted[code[:length] or "0", line] += 1
        for row in tools.rows_of(public.tables.level("P12", "parquet", level)):
            found = {line: row[f"P012{line:04d}"] for line in range(1, 50)}
            assert found == {line: counted[row["geocode"], line] for line in range(1, 50)}, (level, row["geocode"])
    # Tables of tracts and of counties have nothing below, and none have the groups of tracts of the system.
    names = [name for name in plan.spine.names if name != "Tract_Group"]
    for table, lowest in (("P12", "Block"), ("PCT12", "Tract"), ("PCO1", "County")):
        folders = {path.name for path in public.tables.table(table, "parquet").glob("level=*")}
        assert folders == {f"level={level}" for level in names[: names.index(lowest) + 1]}
    races = Counter(row["CENRACE"] for row in people if row["CENHISP"] == "1" and int(row["QAGE"]) >= 18)
    (nation,) = tools.rows_of(public.tables.level("P4", "parquet", "Nation"))
    assert [nation[f"P004000{line}"] for line in (3, 5, 6)] == [races.total(), races["01"], races["02"]]
