"""The characteristics of 2020 after the redistricting data, as the run files have them: five runs on one population."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, load_run
from das_spark.pipeline import run_parts, run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

CONF = Path(__file__).parents[2] / "conf"
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
#: Table of persons -> the table of the redistricting data that says the same.
SAME = {"P8": "P1", "P9": "P2", "P10": "P3", "P11": "P4"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, spark, tools):
    """Public folders by run: `people` and `units` of the redistricting data, and the parts of the joint run."""
    folder = tmp_path_factory.mktemp("characteristics")
    made = ["simulate", "--like", "2020-state", "--product", "dhc_2020", "--share", "1/5000", "--layout", "cef"]
    assert main([*made, "--out", str(folder / "population")]) == 0
    settings = [
        f'input.path="{folder / "population"}"',
        f'output.root="{folder / "runs"}"',
        'budget.strategy="state"',
        "evaluation.enabled=false",
    ]
    found = {}
    for name, product in (("people", "pl94_2020_person"), ("units", "pl94_2020_unit")):
        plan = load_plan(CONF / "pl94_2020_simulated.toml", [], [*settings, f'run.product="{product}"'])
        found[name] = run_stages(plan, run_id=name, test_key=tools.TEST_KEY, spark=spark).layout.public
    # The run files of the parts name these runs; here they lie elsewhere.
    (folder / "conf").mkdir()
    for path in CONF.glob("dhc_2020*.toml"):
        text = path.read_text()
        for record, name in (("persons", "people"), ("units", "units")):
            text = text.replace(f'"runs/redistricting-{record}"', f'"{folder / "runs" / name}"')
        (folder / "conf" / path.name).write_text(text)
    joint = load_run(folder / "conf" / "dhc_2020.toml", settings=settings)
    summary = run_parts(joint, run_id="characteristics", test_key=tools.TEST_KEY, spark=spark)
    assert summary.finished
    return found | {record: part.layout.public for record, part in summary.parts.items()}


def rows(public, name: str, levels: tuple[str, ...] = LEVELS) -> dict[str, list[int]]:
    """Geolevel and geocode -> the values of a published table."""
    found = {}
    for level in levels:
        table = pa.concat_tables(
            pq.read_table(path) for path in sorted(public.tables.level(name, "parquet", level).glob("*.parquet"))
        )
        values = np.stack([table.column(each).to_numpy() for each in table.column_names if each not in KEYS], axis=1)
        for geocode, line in zip(table.column("geocode").to_pylist(), values.tolist(), strict=True):
            found[f"{level} {geocode}"] = line
    return found


KEYS = ("level", "geocode", "name")


def test_all_are_verified_and_say_which_run_they_are_held_to(runs):
    assert set(runs) == {"people", "units", "person", "unit", "household"}
    for public in runs.values():
        report = json.loads(public.verification.read_text())
        assert report["passed"], [check for check in report["checks"] if not check["passed"]]
    for name, before in (("person", "people"), ("unit", "units"), ("household", "unit")):
        source = json.loads(runs[name].published_source.read_text())
        assert source["run_id"] == json.loads(runs[before].manifest.read_text())["run_id"]


@pytest.mark.parametrize("name", SAME)
def test_tables_that_the_redistricting_data_have_too_are_equal_in_every_value(runs, name):
    own, theirs = rows(runs["person"], name), rows(runs["people"], SAME[name])
    assert own == theirs
    assert sum(line[0] for line in own.values()) > 0


def test_races_are_tallied_once_for_each_that_people_have(runs):
    races, by_origin, combinations = (rows(runs["person"], name) for name in ("P6", "P7", "P8"))
    for place, line in races.items():
        assert line[0] == sum(line[1:]) == by_origin[place][0]
        assert by_origin[place][1:8] + by_origin[place][8:] == by_origin[place][1:]
        assert [a + b for a, b in zip(by_origin[place][2:8], by_origin[place][9:], strict=True)] == line[1:]
        # Columns of P8: people of two to six races, each counted as often as they have races.
        whole = combinations[place]
        several = [whole[number] for number in (9, 25, 46, 62, 69)]
        assert line[0] == whole[1] + sum(number * people for number, people in enumerate(several, start=2))


@pytest.mark.parametrize("letter", ["", *"ABCDEFGHI"])
def test_median_ages_are_those_of_the_single_years(runs, letter):
    single = rows(runs["person"], f"PCT12{letter}", LEVELS[: LEVELS.index("Tract") + 1])
    ages = rows(runs["person"], f"P13{letter}")
    compared = 0
    for place, counted in single.items():
        male, female = counted[2:105], counted[106:209]
        for years, median in zip(([*map(sum, zip(male, female, strict=True))], male, female), ages[place], strict=True):
            half, age = sum(years) / 2, -1
            if not half:
                assert np.isnan(median)
                continue
            while half > 0:
                age += 1
                half -= years[age]
            if age < 100:  # beyond, years are grouped
                compared += 1
                assert abs(median - (age + 1 + half / years[age])) <= 0.05 + 1e-9
    # Of some races nobody lives in so small a population.
    assert bool(compared) == any(line[0] for line in single.values())
    assert ages.keys() == rows(runs["person"], "P1").keys()


def test_occupied_and_vacant_units_agree_in_all_three_products(runs):
    occupancy, own = rows(runs["units"], "H1"), rows(runs["unit"], "H3")
    assert own == occupancy
    tenure = rows(runs["household"], "H4")
    for place, (total, occupied, vacant) in occupancy.items():
        assert total == occupied + vacant
        assert tenure[place][0] == occupied
    vacancies = rows(runs["unit"], "H5")
    assert {place: line[0] for place, line in vacancies.items()} == {
        place: line[2] for place, line in occupancy.items()
    }


def test_the_file_of_households_has_every_unit_with_tenure_and_kind_of_vacancy(runs):
    own, units = (
        [line.split("|") for part in sorted(folder.glob("part-*")) for line in part.read_text().splitlines()]
        for folder in (runs["household"].microdata("household", "text"), runs["unit"].microdata("unit", "text"))
    )
    names = (runs["household"].microdata("household", "text") / "header").read_text().strip().split("|")
    others = (runs["unit"].microdata("unit", "text") / "header").read_text().strip().split("|")
    shared = [name for name in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "GQTYPE", "TEN", "VACS")]

    def told(lines: list[list[str]], header: list[str]) -> list[tuple[str, ...]]:
        places = [header.index(name) for name in shared]
        return sorted(tuple(line[place] for place in places) for line in lines)

    assert told(own, names) == told(units, others)
