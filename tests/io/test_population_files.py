"""Simulated populations as files: two layouts of the same people, and folders that are whole or not there."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings, SimulateSettings
from das_spark.errors import ConfigurationError, OutputError
from das_spark.io.cef import PERSON, UNIT
from das_spark.io.ipums_1940 import lines
from das_spark.io.population_files import simulate
from das_spark.simulation import Population

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.spark.readers import IngestedTables


TINY = Fraction(1, 20_000)


def test_tidy_tables_hold_every_person_and_every_geounit(tmp_path: Path) -> None:
    summary = simulate(tmp_path / "out", "quickstart", seed=4)
    persons, units = (pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("persons", "units"))
    assert sum(persons["count"].to_pylist()) == summary.persons
    assert persons.num_rows == summary.cells
    assert units.num_rows == summary.geounits == 154
    assert sum(units["vacant"].to_pylist()) == summary.vacant
    assert persons.column_names == ["geocode", "hhgq", "votingage", "hispanic", "cenrace", "count"]
    stated = json.loads((tmp_path / "out" / "population.json").read_text())
    assert stated["persons"] == summary.persons
    assert stated["files"] == ["persons.parquet", "units.parquet"]
    assert f"{summary.persons:,} persons" in (tmp_path / "out" / "README.md").read_text()


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        simulate(tmp_path / name, "1940", TINY, "ipums", seed=3, compress=True)
    first, second = ((tmp_path / name / "EXT1940USCB.dat.gz").read_bytes() for name in ("one", "two"))
    assert first == second
    simulate(tmp_path / "plain", "1940", TINY, "ipums", seed=3)
    assert gzip.decompress(first) == (tmp_path / "plain" / "EXT1940USCB.dat").read_bytes()


def test_lines_have_the_widths_of_the_extract_and_households_come_first() -> None:
    population = Population(
        geocodes=np.array(["5300100001", "5300100002"]),
        geounit=np.array([0, 0, 0]),
        cell=np.array([3, 12, 24 + 12 + 6 + 5]),
        count=np.array([2, 3, 1]),
        units=np.array([[2, 1, 0, 0, 0, 0, 0, 0], [0] * 8]),
        vacant=np.array([0, 1]),
    )
    text = b"".join(part for part, _ in lines(population, 7)).decode()
    rows = text.splitlines()
    assert [(row[0], len(row)) for row in rows] == [
        *[("H", 159), ("P", 273), ("P", 273), ("P", 273)],
        *[("H", 159), ("P", 273), ("P", 273)],
        *[("H", 159), ("P", 273)],
        ("H", 159),
    ]
    assert [row[7:15] for row in rows if row[0] == "H"] == ["00000007", "00000008", "00000009", "00000010"]
    assert [row[93:95] for row in rows if row[0] == "H"] == ["10", "10", "32", "00"]
    adults = [[int(row[73:76]) >= 18 for row in rows[start:stop]] for start, stop in ((1, 4), (5, 7))]
    assert adults == [[True, True, False], [True, False]]
    assert rows[8][84] == "6"
    assert rows[8][88] == "1"


def contents_of(tables: IngestedTables) -> tuple[set[tuple[str, int, int]], set[tuple[str, tuple[int, ...], int]]]:
    """Geocode, cell and count; geocode, units and vacant units."""
    leaves = tables.leaves.collect()
    counts = {
        (row["geocode"], cell, count) for row in leaves for cell, count in zip(row["cells"], row["counts"], strict=True)
    }
    return counts, {(row["geocode"], tuple(row["units"]), row["vacant"]) for row in leaves}


@pytest.mark.spark
@pytest.mark.slow
def test_both_layouts_and_the_reader_without_files_give_the_same_histograms(
    spark: SparkSession, tmp_path: Path
) -> None:
    from das_spark.geography import Spine
    from das_spark.products import PRODUCTS
    from das_spark.spark.readers import READERS

    product = PRODUCTS["e2e_1940"]
    spine = Spine(product.geolevels)
    simulate(tmp_path / "tidy", "1940", TINY, "tidy", seed=5)
    simulate(tmp_path / "ipums", "1940", TINY, "ipums", seed=5, compress=True)
    settings = [
        InputSettings(reader="tidy_counts", path=str(tmp_path / "tidy")),
        InputSettings(reader="ipums_1940", path=str(tmp_path / "ipums")),
        InputSettings(reader="simulated", simulate=SimulateSettings(like="1940", seed=5, share=TINY)),
    ]
    found = []
    for setting in settings:
        tables = READERS[setting.reader].read(spark, setting, product, spine)
        found.append(contents_of(tables))
    assert found[0] == found[1] == found[2]
    assert sum(count for _, _, count in found[0][0]) == pytest.approx(132_404_766 * TINY, rel=0.1)


@pytest.mark.spark
@pytest.mark.slow
def test_records_of_2020_give_the_histograms_of_the_population_they_were_written_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    from das_spark.products import PRODUCTS
    from das_spark.spark.readers import READERS

    share = Fraction(1, 2000)
    summary = simulate(tmp_path / "tidy", "2020-state", share, "tidy", seed=5)
    simulate(tmp_path / "cef", "2020-state", share, "cef", seed=5, compress=True)
    settings = [
        InputSettings(reader="tidy_counts", path=str(tmp_path / "tidy")),
        InputSettings(reader="cef_2020", path=str(tmp_path / "cef")),
        InputSettings(reader="simulated", simulate=SimulateSettings(like="2020-state", seed=5, share=share)),
    ]
    found = []
    persons, units = "pl94_2020_person", "pl94_2020_unit"
    for each, name in [*((setting, persons) for setting in settings), *((setting, units) for setting in settings[:2])]:
        product = PRODUCTS[name]
        tables = READERS[each.reader].read(spark, each, product, product.spine())
        assert tables.problems == ()
        found.append(contents_of(tables))
    assert found[0] == found[1] == found[2]
    assert sum(count for _, _, count in found[0][0]) == summary.persons
    assert found[3] == found[4]
    counted, units = found[3]
    assert units == found[0][1]
    assert counted == {(code, cell, n) for code, each, n0 in units for cell, n in ((0, n0), (1, each[0])) if n}


def test_records_of_2020_are_the_same_for_the_same_seed_and_may_be_compressed(tmp_path: Path) -> None:
    share = Fraction(1, 20_000)
    simulate(tmp_path / "plain", "2020-state", share, "cef", seed=3)
    summary = simulate(tmp_path / "small", "2020-state", share, "cef", seed=3, compress=True)
    assert summary.files == ("geography.txt.gz", "persons.txt.gz", "units.txt.gz")
    for name in summary.files:
        packed = (tmp_path / "small" / name).read_bytes()
        assert gzip.decompress(packed) == (tmp_path / "plain" / name.removesuffix(".gz")).read_bytes()
    persons = (tmp_path / "plain" / "persons.txt").read_bytes().splitlines()
    assert (len(persons), {len(line) for line in persons}) == (summary.persons, {91})


@pytest.mark.spark
@pytest.mark.slow
def test_people_with_households_are_read_for_every_product_of_2020(spark: SparkSession, tmp_path: Path) -> None:
    from das_spark.products import PRODUCTS
    from das_spark.spark.readers import READERS

    share = Fraction(1, 4000)
    summary = simulate(tmp_path / "people", "2020-state", share, "cef", seed=5, product="dhc_2020")
    settings = InputSettings(reader="cef_2020", path=str(tmp_path / "people"))
    found = {}
    for name in ("pl94_2020_person", "pl94_2020_unit", "dhc_2020_person", "dhc_2020_unit", "dhc_2020_household"):
        product = PRODUCTS[name]
        tables = READERS["cef_2020"].read(spark, settings, product, product.spine())
        assert tables.problems == ()
        counted, geounits = contents_of(tables)
        found[name] = {(geocode, cell): count for geocode, cell, count in counted}, geounits
        tables.release()
    (persons, units), (housing, same_units), (relatives, also_detailed), (tenures, detailed), (types, _) = (
        found.values()
    )
    assert units == same_units
    assert detailed == also_detailed
    # Units of the characteristics: one class of housing units and 24 of facilities, in the order of the types.
    first = [0, 1, 7, 10, 11, 16, 17, 19, 25]
    assert units == {
        (geocode, tuple(sum(each[low:high]) for low, high in pairwise(first)), vacant)
        for geocode, each, vacant in detailed
    }
    occupied = {geocode: each[0] for geocode, each, _ in units if each[0]}
    assert _sums(tenures, lambda cell: cell < 4) == occupied
    assert _sums(tenures, lambda cell: cell >= 4) == {geocode: vacant for geocode, _, vacant in units if vacant}
    assert _sums(types, lambda _: True) == occupied
    households = PRODUCTS["dhc_2020_household"].schema
    tenure = {cell: int(households.unravel(np.array(cell))[5]) for _, cell in types}
    for level, cells in enumerate(((0,), (1,), (2, 3))):
        assert _sums(types, lambda cell, level=level: tenure[cell] == level) == _sums(
            tenures, lambda cell, cells=cells: cell in cells
        )
    assert sum(persons.values()) == sum(relatives.values()) == summary.persons
    assert sum(housing.values()) == sum(each[0] + vacant for _, each, vacant in units)
    # The cells of both products of persons agree where they tell the same: by block, class, age, origin and race.
    schema = PRODUCTS["dhc_2020_person"].schema
    classes = np.repeat(np.arange(8), [18, 6, 3, 1, 5, 1, 2, 6])
    coarse: dict[tuple[str, int], int] = {}
    heads: dict[str, int] = {}
    for (geocode, cell), count in relatives.items():
        relgq, _, age, *rest = (int(each) for each in schema.unravel(np.array(cell)))
        key = geocode, int(np.ravel_multi_index((classes[relgq], age >= 18, *rest), (8, 2, 2, 63)))
        coarse[key] = coarse.get(key, 0) + count
        if relgq <= 1:
            heads[geocode] = heads.get(geocode, 0) + count
    assert coarse == persons
    # Tidy tables are of the same people.
    again = simulate(tmp_path / "counts", "2020-state", share, "tidy", seed=5, product="dhc_2020")
    assert (again.persons, again.units, again.vacant) == (summary.persons, summary.units, summary.vacant)
    for table, attributes, counts in (
        ("persons", schema.attributes, relatives),
        ("redistricting/persons", PRODUCTS["pl94_2020_person"].schema.attributes, persons),
    ):
        rows = pq.read_table(tmp_path / "counts" / f"{table}.parquet").to_pylist()
        axes = [len(attribute.levels) for attribute in attributes]
        cells = {
            (row["geocode"], int(np.ravel_multi_index([row[attribute.name] for attribute in attributes], axes))): row[
                "count"
            ]
            for row in rows
        }
        assert (cells, len(rows)) == (counts, len(counts))
    for table, wanted in (("units", detailed), ("redistricting/units", units)):
        tidy = pq.read_table(tmp_path / "counts" / f"{table}.parquet").to_pylist()
        classes = len(next(iter(wanted))[1])
        assert {
            (row["geocode"], tuple(row[f"units_{level}"] for level in range(classes)), row["vacant"]) for row in tidy
        } == wanted
    assert heads == {geocode: each[0] for geocode, each, _ in units if each[0]}


def _sums(counts: dict[tuple[str, int], int], where: Callable[[int], bool]) -> dict[str, int]:
    """Counts of some cells by geocode."""
    sums: dict[str, int] = {}
    for (geocode, cell), count in counts.items():
        if where(cell):
            sums[geocode] = sums.get(geocode, 0) + count
    return sums


def test_records_of_units_say_what_those_of_their_persons_do(tmp_path: Path) -> None:
    simulate(tmp_path / "people", "2020-state", Fraction(1, 5000), "cef", seed=3, product="dhc_2020")
    persons: dict[int, list[tuple[int, ...]]] = {}
    for line in (tmp_path / "people" / "persons.txt").read_text().splitlines():
        assert re.fullmatch(PERSON.pattern, line)
        of = {field.name: line[field.start : field.end] for field in PERSON.fields}
        assert int(of["QDOB_YEAR"]) == 2020 - int(of["QAGE"])
        row = tuple(int(of[name]) for name in ("RELSHIP", "QSEX", "QAGE", "CENHISP", "CENRACE", "LIVE_ALONE"))
        persons.setdefault(int(of["MAFID"]), []).append(row)
        assert int(of["CUF_PNC"]) == len(persons[int(of["MAFID"])])
    kinds = set()
    for line in (tmp_path / "people" / "units.txt").read_text().splitlines():
        assert re.fullmatch(UNIT.pattern, line)
        of = {field.name: line[field.start : field.end].strip() for field in UNIT.fields}
        mine = persons.pop(int(of["MAFID"]), [])
        assert int(of["FINAL_POP"]) == len(mine)
        kinds.add((of["RTYPE"], of["TEN"] != "0", of["VACS"] != "0", of["QGQTYP"] != "", bool(mine)))
        if of["TEN"] != "0":
            _, sex, age, origin, race, alone = mine[0]
            assert [int(of[name]) for name in ("HHSEX", "HHLDRAGE", "HHSPAN", "HHRACE")] == [sex, age, origin, race]
            assert [int(of[f"P{least}"]) for least in (60, 65, 75)] == [
                sum(each[2] >= least for each in mine) for least in (60, 65, 75)
            ]
            assert {each[-1] for each in mine} == {alone} == {1 if len(mine) == 1 else 2}
        else:
            assert (of["HHLDRAGE"], of["HHRACE"], of["HHT"], of["PAOC"]) == ("", "", "0", "0")
    assert persons == {}
    assert kinds == {
        ("2", True, False, False, True),
        ("2", False, True, False, False),
        ("4", False, False, True, True),
    }


def test_people_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        simulate(tmp_path / name, "2020-state", Fraction(1, 5000), "cef", seed=3, product="dhc_2020", compress=True)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert "--product dhc_2020" in (tmp_path / "one" / "README.md").read_text()


@pytest.mark.parametrize(
    ("like", "layout", "product"),
    [("2020-state", "cef", "dhc_2030"), ("1940", "tidy", "dhc_2020"), ("2010-state", "tidy", "dhc_2020")],
)
def test_a_product_that_people_cannot_be_made_for_is_refused(
    tmp_path: Path, like: str, layout: str, product: str
) -> None:
    with pytest.raises(ConfigurationError, match=product):
        simulate(tmp_path / "out", like, Fraction(1, 5000), layout, product=product)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("layout", "product", "lowest", "wrong"),
    [
        ("tidy", "dhc_2020", "county", "county"),
        ("cef", "dhc_2020", "County", "tidy"),
        ("tidy", "", "County", "dhc_2020"),
    ],
)
def test_tables_end_where_they_can(tmp_path: Path, layout: str, product: str, lowest: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        simulate(tmp_path / "out", "2020", Fraction(1, 5000), layout, product=product, lowest=lowest)


def by_county(folder: Path) -> Counter[tuple[object, ...]]:
    """All that tidy tables count, and units, by county."""
    counts: Counter[tuple[object, ...]] = Counter()
    for table in ("persons", "redistricting/persons"):
        for row in pq.read_table(folder / f"{table}.parquet").to_pylist():
            geocode, *codes, count = row.values()
            counts[table, geocode[:5], *codes] += count
    for row in pq.read_table(folder / "units.parquet").to_pylist():
        geocode = row.pop("geocode")
        counts.update({("units", geocode[:5], name): number for name, number in row.items()})
    return +counts


def test_a_nation_by_county_is_the_same_as_by_block(tmp_path: Path) -> None:
    found = {}
    for lowest in ("Block", "County"):
        summary = simulate(tmp_path / lowest, "2020", Fraction(1, 2000), seed=2, product="dhc_2020", lowest=lowest)
        found[lowest] = by_county(tmp_path / lowest), summary.persons, summary.vacant
    assert found["Block"] == found["County"]
    counts, persons, vacant = found["County"]
    assert len({key[1][:2] for key in counts}) > 1, "several states"
    assert sum(count for key, count in counts.items() if key[0] == "persons") == persons
    assert sum(count for key, count in counts.items() if key[::2] == ("units", "vacant")) == vacant
    assert "--lowest County" in (tmp_path / "County" / "README.md").read_text()


def test_units_and_blocks_of_a_nation_have_numbers_of_their_own(tmp_path: Path) -> None:
    share, product = Fraction(1, 2000), "dhc_2020"
    summary = simulate(tmp_path / "cef", "2020", share, "cef", seed=2, product=product)
    counts = simulate(tmp_path / "tidy", "2020", share, "tidy", seed=2, product=product)
    numbers = ("persons", "units", "vacant", "geounits")
    assert [getattr(summary, name) for name in numbers] == [getattr(counts, name) for name in numbers]
    places = {field.name: slice(field.start, field.end) for field in UNIT.fields}
    units = (tmp_path / "cef" / "units.txt").read_text().splitlines()
    _, *blocks = (tmp_path / "cef" / "geography.txt").read_text().splitlines()
    state_of = {line.split("|")[-1]: line.split("|")[0] for line in blocks}
    assert len(state_of) == len(blocks) == summary.geounits
    assert len({line[places["MAFID"]] for line in units}) == len(units) == summary.units + summary.vacant
    assert len(set(state_of.values())) > 1
    for line in units:
        assert state_of[line[places["OIDTB"]].lstrip("0")] == line[places["BCUSTATEFP"]]


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(OutputError, match="is there already, and not an empty folder"):
        simulate(tmp_path, "quickstart")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert simulate(tmp_path / "out", "quickstart").persons > 0


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OutputError, match="no space left"):
        simulate(tmp_path / "out", "quickstart")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("like", "layout", "share"),
    [
        ("1950", "tidy", "1"),
        ("1940", "xml", "1"),
        ("quickstart", "ipums", "1"),
        ("1940", "cef", "1"),
        ("1940", "tidy", "3/2"),
    ],
)
def test_what_cannot_be_simulated_is_refused(tmp_path: Path, like: str, layout: str, share: str) -> None:
    with pytest.raises(ConfigurationError):
        simulate(tmp_path / "out", like, Fraction(share), layout)
    assert not (tmp_path / "out").exists()


def test_progress_is_told_part_by_part(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    simulate(tmp_path / "out", "1940", TINY, progress=lambda done, parts: seen.append((done, parts)))
    assert seen[-1][0] == seen[-1][1] == len(seen)
