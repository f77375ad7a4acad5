"""The characteristics of 2020 after the redistricting data, as the run files have them: five runs on one population.

The joint run of the characteristics is carried out twice, on the spine of the census and on that of the production, and
held to the same two runs of the redistricting data: persons on the spine of the census, units on an optimised one.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, load_run
from das_spark.features.microdata.feature import Microdata
from das_spark.pipeline import estimate_from, levels, open_source, run_parts, run_stages, verify_run

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

CONF = Path(__file__).parents[2] / "conf"
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
#: Levels of the spine of the production.
PRODUCTION = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
PARTS = ("person", "unit", "household")
#: Table of persons -> the table of the redistricting data that says the same.
SAME = {"P8": "P1", "P9": "P2", "P10": "P3", "P11": "P4"}
#: First age of who may vote.
ADULT = 18
#: Blocks in which people must be for a test to say anything.
MANY = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A synthetic population, in places and tribal areas that are synthetic, too."""
    place = tmp_path_factory.mktemp("characteristics")
    made = ["simulate", "--like", "2020-state", "--product", "dhc_2020", "--share", "1/1000", "--layout", "cef"]
    assert main([*made, "--out", str(place / "population")]) == 0
    return place


@pytest.fixture(scope="module")
def settings(folder) -> list[str]:
    """What all runs are told."""
    places = [f'input.path="{folder / "population"}"', f'output.root="{folder / "runs"}"']
    return [*places, "evaluation.enabled=false"]


@pytest.fixture(scope="module")
def redistricting(folder, settings, spark, tools):
    """Public folders of the runs that come first: `people` and `units`."""
    found = {}
    for name, product, spine in (("people", "pl94_2020_person", "census"), ("units", "pl94_2020_unit", "optimised")):
        own = [f'run.product="{product}"', 'budget.strategy="state"', f'geography.spine="{spine}"']
        plan = load_plan(CONF / "pl94_2020_simulated.toml", [], [*settings, *own])
        found[name] = run_stages(plan, run_id=name, test_key=tools.TEST_KEY, spark=spark).layout.public
    # The run files of the parts name these runs; here they lie elsewhere.
    (folder / "conf").mkdir()
    for path in CONF.glob("dhc_2020*.toml"):
        text = path.read_text()
        for record, name in (("persons", "people"), ("units", "units")):
            text = text.replace(f'"runs/redistricting-{record}"', f'"{folder / "runs" / name}"')
        (folder / "conf" / path.name).write_text(text)
    return found


@pytest.fixture(scope="module")
def joint(folder, settings, redistricting, spark, tools):
    """Carries out the joint run under a strategy, or goes on with it."""
    carry_out = partial(run_parts, test_key=tools.TEST_KEY, spark=spark)
    own = folder / "conf" / "dhc_2020.toml"
    return lambda name, *more: carry_out(load_run(own, settings=[*settings, *more]), run_id=name)


def folders(redistricting, summary):
    """Public folders by run: those of the redistricting data, and the parts of the joint run."""
    assert summary.finished
    return redistricting | {record: part.layout.public for record, part in summary.parts.items()}


@pytest.fixture(scope="module")
def on_census(redistricting, joint):
    """The joint run on the spine of the census."""
    return folders(redistricting, joint("census", 'budget.strategy="state"'))


@pytest.fixture(scope="module")
def on_production(redistricting, joint, tools):
    """The joint run on the spine of the production, whose driver dies in a part and between two parts."""
    own = ("production", 'budget.strategy="us_dhc_spine"', 'geography.spine="dhc"')
    for module, place, nth in ((levels, "estimate", 4), (Microdata, "publish", 2)):
        with tools.dying(module, place, nth=nth):
            joint(*own)
    return folders(redistricting, joint(*own))


@pytest.fixture(params=["on_census", "on_production"])
def runs(request):
    """Either of them."""
    return request.getfixturevalue(request.param)


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


def test_the_claims_name_the_redistricting_data_and_what_they_cost(runs):
    for name, before in (("person", ["people"]), ("unit", ["units"]), ("household", ["unit", "units"])):
        manifest = json.loads(runs[name].manifest.read_text())
        entries = [json.loads(runs[each].manifest.read_text())["ledger"] for each in before]
        assert [release["run_id"] for release in manifest["published"]["releases"]] == [
            entry["run_id"] for entry in entries
        ]
        total = sum(Fraction(each["total"]) for each in (manifest["ledger"], *entries))
        statement = runs[name].privacy_statement.read_text()
        assert f"**rho = {total}**" in statement
    joint = runs["person"].path.parents[1]
    (statement,) = joint.glob(f"{runs['person'].path.parent.name.removesuffix('-person')}/privacy_statement.md")
    ledger = json.loads((statement.parent / "privacy_ledger.json").read_text())
    assert {each["run_id"].partition("#")[0] for each in ledger["held_to"]} == {"people", "units"}
    text = statement.read_text()
    assert "| person | people | pl94_2020_person | rho = " in text
    assert "By run people: The total number of people in every geounit of the geolevel State" in text


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
    names = (runs["household"].microdata("household", "text") / "1_header").read_text().strip().split("|")
    others = (runs["unit"].microdata("unit", "text") / "1_header").read_text().strip().split("|")
    shared = [name for name in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "GQTYPE", "TEN", "VACS")]

    def told(lines: list[list[str]], header: list[str]) -> list[tuple[str, ...]]:
        places = [header.index(name) for name in shared]
        return sorted(tuple(line[place] for place in places) for line in lines)

    assert told(own, names) == told(units, others)


def lines(public, record: str) -> list[dict[str, str]]:
    """Microdata as text, by names of columns."""
    folder = public.microdata(record, "text")
    names = (folder / "1_header").read_text().strip().split("|")
    texts = [part.read_text().splitlines() for part in sorted(folder.glob("part-*"))]
    return [dict(zip(names, line.split("|"), strict=True)) for text in texts for line in text]


def block(line: dict[str, str]) -> str:
    """Its 15 digits."""
    return "".join(line[name] for name in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"))


def class_of(facility: str) -> str:
    """What the redistricting data call a type of group quarters: its first digit, but one class from 7 on."""
    return min(facility[0], "7")


def test_people_of_every_block_are_in_both_files_of_microdata_the_same(runs):
    """Counted in the texts, by rules of the layouts alone: neither tables nor queries of the products are asked."""
    before = Counter(
        (block(line), *(line[name] for name in ("GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")))
        for line in lines(runs["people"], "person")
    )
    after = Counter(
        (block(line), class_of(line["GQTYPE"]), "12"[int(line["QAGE"]) >= ADULT], line["CENHISP"], line["CENRACE"])
        for line in lines(runs["person"], "person")
    )
    assert after == before
    assert len({place for place, *_ in after}) > MANY
    assert {facility for _, facility, *_ in after} > {"0", "5"}


def test_people_live_in_quarters_of_a_type_where_the_block_has_a_facility_of_it_and_nowhere_else(runs):
    people, facilities = (
        Counter((block(line), line["GQTYPE"]) for line in lines(runs[record], record) if line["GQTYPE"] != "000")
        for record in ("person", "unit")
    )
    assert set(people) == set(facilities)
    assert all(people[place] >= number for place, number in facilities.items())
    assert len({kind for _, kind in people}) > 5


#: RELSHIP of householders, of spouses and of unmarried partners; CPLT of married and of cohabiting couples.
HEADS, SPOUSES, PARTNERS = ("20",), ("21", "23"), ("22", "24")
MARRIED, COHABITING = ("1", "2"), ("3", "4")


def test_contradictions_between_the_parts_are_counted_and_said(runs):
    """Counted once more in the texts of the microdata."""
    people, homes = (lines(runs[record], record) for record in ("person", "household"))
    living = [line for line in people if line["GQTYPE"] == "000"]
    occupied = [line for line in homes if line["HHSIZE"] != "0"]

    def number(found, name: str, codes: tuple[str, ...]) -> Counter[str]:
        return Counter(block(line) for line in found if line[name] in codes)

    at_home, households = (Counter(map(block, each)) for each in (living, occupied))
    sizes: Counter[str] = Counter()
    for line in occupied:
        sizes[block(line)] += int(line["HHSIZE"])
    blocks = {block(line) for line in homes} | set(at_home)

    def unequal(one: Counter[str], other: Counter[str]) -> int:
        return sum(one[place] != other[place] for place in blocks)

    expected = [
        len(set(households) - set(at_home)),
        len(set(at_home) - set(households)),
        sum(at_home[place] < sizes[place] for place in blocks),
        unequal(number(living, "RELSHIP", HEADS), households),
        unequal(number(living, "RELSHIP", SPOUSES), number(occupied, "CPLT", MARRIED)),
        unequal(number(living, "RELSHIP", PARTNERS), number(occupied, "CPLT", COHABITING)),
    ]
    folder = runs["person"].path.parents[1] / runs["person"].path.parent.name.removesuffix("-person")
    record = json.loads((folder / "contradictions.json").read_text())
    assert list(record["numbers"].values()) == expected
    assert all(expected[2:])
    statement = (folder / "privacy_statement.md").read_text()
    for sentence, count in record["numbers"].items():
        assert f"- in {count} of {record['geounits']} geounits of geolevel Block: {sentence}\n" in statement
    for name in PARTS:
        manifest = json.loads(runs[name].manifest.read_text())
        assert "contradict each other in places" in manifest["notices"][-1]


def shares(public) -> dict[str, dict[str, tuple[str, Fraction]]]:
    """Level -> geocode -> parent and share of the budget."""
    found = {}
    for level in PRODUCTION:
        table = [row for path in public.level("shares", level).glob("*.parquet") for row in read(path)]
        found[level] = {row["geocode"]: (row["parent"], Fraction(row["share"])) for row in table}
        assert len(found[level]) == len(table)
    return found


def read(path: Path) -> list[dict]:
    return pq.ParquetFile(path).read().to_pylist()


@pytest.mark.parametrize("record", PARTS)
def test_every_block_has_one_path_of_the_whole_budget_down_the_levels_of_the_production(on_production, folder, record):
    found = shares(on_production[record])
    written = (folder / "population" / "geography.txt").read_text().splitlines()[1:]
    # State, county and tract; the block group, which a geocode names before the block, too; block.
    blocks = sorted("".join(line.split("|")[:5]) for line in written)
    assert sorted(code[-16:] for code in found["Block"]) == blocks
    for code in found["Block"]:
        place, spent = code, Fraction(0)
        for level in reversed(PRODUCTION):
            place, share = found[level][place]
            spent += share
        assert (place, spent) == ("", 1), code
    sizes = [len(found[level]) for level in PRODUCTION]
    assert sizes == sorted(sizes)
    assert sizes[PRODUCTION.index("State")] == 2, "in and out of tribal areas"
    for level in ("Tract_Subset", "Block_Group", "Block"):
        assert len(found[level]) > len(found["State"])
    # Geounits with one child, and what the production takes out, have given their share away or taken another's.
    assert {share == 0 for level in PRODUCTION for _, share in found[level].values()} == {True, False}


@pytest.mark.parametrize("record", PARTS)
def test_nothing_is_measured_of_a_geounit_without_a_share(on_production, record):
    found = shares(on_production[record])
    for level in PRODUCTION:
        paths = on_production[record].level("measurements", level).glob("*.parquet")
        measured = {code for path in paths for code in pq.ParquetFile(path).read(["geocode"])["geocode"].to_pylist()}
        assert measured <= {code for code, (_, share) in found[level].items() if share}
        assert measured or not any(share for _, share in found[level].values())


def test_another_count_of_a_block_than_the_published_one_is_found(on_production, tmp_path, spark):
    shutil.copytree(on_production["unit"].path, tmp_path / "public")
    (path, *_) = sorted((tmp_path / "public" / "published" / "level=Block").glob("part-*.parquet"))
    table = pq.ParquetFile(path).read()
    counts = table["counts"].to_pylist()
    place = next(row for row, count in enumerate(counts) if count)
    counts[place] = [counts[place][0] + 1, *counts[place][1:]]
    field = table.schema.field("counts")
    column = table.schema.get_field_index(field.name)
    pq.write_table(table.set_column(column, field, pa.array(counts, field.type)), path)
    report = verify_run(tmp_path / "public", spark)
    failed = {check.name for check in report.checks if not check.passed}
    assert {"published counts kept", "published counts sum up"} <= failed


def test_who_has_the_public_folder_makes_the_same_estimates_and_tables_of_it(on_production, tmp_path, spark):
    shutil.copytree(on_production["unit"].path, tmp_path / "public")
    source = open_source(tmp_path / "public", None, [f'output.root="{tmp_path}/again"'])
    summary = estimate_from(source, run_id="again", spark=spark)
    again = summary.layout.public
    assert json.loads(again.verification.read_text())["passed"]
    for name in ("H1", "H3", "H5"):
        assert rows(again, name) == rows(on_production["unit"], name)
