"""The reader of the official redistricting files: a state made by hand, its faults, and the real test area."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from readings import ingest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import Geolevel, Spine
from das_spark.io.pl94_tables import race_items
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

FIRST, SECOND = "530010001001000", "530010001002003"
CODE_1, CODE_2 = "5300100010011000", "5300100010022003"


@pytest.fixture
def read(of_product: Callable) -> Callable:
    def run(folder: Path, spine: Spine | None = None, product: str = "e2e_2018"):
        given, own = of_product(product)
        settings = InputSettings(reader="pl94_summary", path=str(folder))
        return ingest(READERS["pl94_summary"].gathering(settings, given, spine or own))

    return run


def _cell(hhgq: int, adult: int, hispanic: int, race: int) -> int:
    return ((hhgq * 2 + adult) * 2 + hispanic) * 63 + race


def _two_blocks(official) -> None:
    official.block("53001", {(1, 0, 0): 99}, sumlev="050")
    official.block(FIRST, {(1, 0, 0): 3, (0, 1, 5): 2, (1, 1, 2): 1}, {2: 1, 4: 1}, (2, 4))
    official.block(SECOND, housing=(0, 7))


def test_people_are_exact_and_quarters_follow_p5(read: Callable, contents: Callable, official, tmp_path: Path) -> None:
    _two_blocks(official)
    counts, units = contents(read(official.write(tmp_path)))
    # Nursing takes an adult first (of White 3, Indian 1), correctional the next one in proportion.
    assert counts == {
        (CODE_1, _cell(3, 1, 0, 0)): 1,
        (CODE_1, _cell(1, 1, 0, 0)): 1,
        (CODE_1, _cell(0, 1, 0, 0)): 1,
        (CODE_1, _cell(0, 0, 1, 5)): 2,
        (CODE_1, _cell(0, 1, 1, 2)): 1,
    }
    assert units == {CODE_1: ([2, 1, 0, 1, 0, 0, 0, 0], 4), CODE_2: ([0] * 8, 7)}


def test_housing_units_are_those_of_h1(read: Callable, contents: Callable, official, tmp_path: Path) -> None:
    _two_blocks(official)
    counts, units = contents(read(official.write(tmp_path), product="pl94_2020_unit"))
    assert counts == {(CODE_1, 0): 4, (CODE_1, 1): 2, (CODE_2, 0): 7}
    assert units == {CODE_1: ([2, 1, 0, 1, 0, 0, 0, 0], 4), CODE_2: ([0] * 8, 7)}


def test_a_folder_of_several_states_is_read(read: Callable, contents: Callable, official, tmp_path: Path) -> None:
    _two_blocks(official)
    official.write(tmp_path / "one")
    for rows in official.rows.values():
        for row in rows:
            row[1] = "YY"
            if len(row) == 97:
                row[9] = "54" + row[9][2:]
    official.write(tmp_path / "two", "yy")
    _, units = contents(read(tmp_path))
    assert set(units) == {CODE_1, CODE_2, "54" + CODE_1[2:], "54" + CODE_2[2:]}


def test_a_spine_that_ends_at_block_groups_gets_their_sums(
    read: Callable, contents: Callable, official, tmp_path: Path
) -> None:
    _two_blocks(official)
    spine = Spine((Geolevel("County", 5), Geolevel("Tract", 11)))
    counts, units = contents(read(official.write(tmp_path), spine))
    assert units == {CODE_1[:11]: ([2, 1, 0, 1, 0, 0, 0, 0], 11)}
    assert sum(counts.values()) == 6


@pytest.mark.parametrize("kind", ["geo", "00001", "00002", "00003"])
def test_a_missing_file_of_a_state_is_named(read: Callable, official, tmp_path: Path, kind: str) -> None:
    _two_blocks(official)
    official.write(tmp_path)
    (tmp_path / f"xx{kind}2020.pl").unlink()
    with pytest.raises(InputError, match=f"no file xx{kind}.* of state XX"):
        read(tmp_path)


def test_two_vintages_of_a_file_are_refused(read: Callable, official, tmp_path: Path) -> None:
    _two_blocks(official)
    official.write(tmp_path)
    (tmp_path / "xxgeo2010.pl").write_text("")
    with pytest.raises(InputError, match="2 files"):
        read(tmp_path)


def _columns(official) -> None:
    official.rows["00001"][1].append("0")


def _no_number(official) -> None:
    official.rows["00002"][1][5 + 71 + 4] = "12a"


def _negative(official) -> None:
    official.rows["00003"][2][5 + 9] = "-1"


def _record(official) -> None:
    official.rows["00003"][1][4] = "x"


def _geocode(official) -> None:
    official.rows["geo"][2][9] = "53001000100200"


BROKEN = {
    "149 columns": (_columns, "", "00001"),
    "a whole number at P0040005": (_no_number, "P0040005", "00002"),
    "a whole number at P0050010": (_negative, "P0050010", "00003"),
    "a whole number at LOGRECNO": (_record, "LOGRECNO", "00003"),
    "15 digits in a block's row": (_geocode, "GEOCODE", "geo"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_row_is_named_by_file_and_field(read: Callable, official, tmp_path: Path, case: str) -> None:
    spoil, field, kind = BROKEN[case]
    _two_blocks(official)
    spoil(official)
    with pytest.raises(BadInputError) as caught:
        read(official.write(tmp_path))
    (problem,) = caught.value.problems
    assert problem.field == field
    assert f"??{kind}*.pl" in problem.file
    assert problem.expected == case.split(" at ", maxsplit=1)[0]
    assert problem.rows == 1


@pytest.mark.parametrize("kind", ["geo", "00001", "00002", "00003"])
def test_a_record_without_partner_is_refused(read: Callable, official, tmp_path: Path, kind: str) -> None:
    _two_blocks(official)
    official.rows[kind].pop()
    with pytest.raises(BadInputError, match=r"LOGRECNO: expected each record of the other files, once") as caught:
        read(official.write(tmp_path))
    assert kind in caught.value.problems[0].file


def _p2_above_p1(official) -> None:
    row = official.rows["00001"][1]
    row[5 + 2], row[5 + 71 + 4] = "1", "9"


def _wrong_total(official) -> None:
    official.rows["00001"][1][5] = "700"


def _too_many_in_quarters(official) -> None:
    for item in (0, 6, 9):
        official.rows["00003"][2][5 + item] = "4"


def _units(official) -> None:
    official.rows["00002"][1][-3] = "999"


def _nursing(official) -> None:
    for item in (0, 1, 4):
        official.rows["00003"][1][5 + item] = "6"
    official.rows["00003"][1][5 + 2] = "0"


CONTRADICTIONS = {
    "P1 to P4": (_p2_above_p1, CODE_1),
    "P1, P3": (_wrong_total, CODE_1),
    "P5": (_too_many_in_quarters, CODE_2),
    "H1": (_units, CODE_1),
    "P5, P3": (_nursing, CODE_1),
}


@pytest.mark.parametrize("field", CONTRADICTIONS)
def test_tables_that_contradict_each_other_are_refused_with_the_block(
    read: Callable, official, tmp_path: Path, field: str
) -> None:
    spoil, geounit = CONTRADICTIONS[field]
    _two_blocks(official)
    spoil(official)
    with pytest.raises(BadInputError) as caught:
        read(official.write(tmp_path))
    problem = next(problem for problem in caught.value.problems if problem.field == field)
    assert problem.geounits == (geounit,)
    assert geounit not in str(caught.value)
    assert "999" not in str(caught.value).replace(str(tmp_path), "")


def test_a_block_that_occurs_twice_is_refused(read: Callable, official, tmp_path: Path) -> None:
    official.block(FIRST)
    official.block(FIRST)
    with pytest.raises(BadInputError, match="each block once"):
        read(official.write(tmp_path))


def test_files_without_blocks_are_refused(read: Callable, official, tmp_path: Path) -> None:
    official.block("53001", sumlev="050")
    with pytest.raises(InputError, match="no block"):
        read(official.write(tmp_path))


def test_a_county_that_is_not_the_sum_of_its_blocks_is_noticed(read: Callable, official, tmp_path: Path) -> None:
    official.block("53", {(1, 0, 0): 3, (0, 1, 5): 2}, {2: 1}, (2, 11), sumlev="040")
    official.block("53001", {(1, 0, 0): 614, (0, 1, 5): 2}, {2: 1}, (2, 11), sumlev="050")
    official.block(FIRST[:11], {(1, 0, 0): 3, (0, 1, 5): 2}, {2: 1}, (2, 11), sumlev="140")
    official.block(FIRST[:12], {(1, 0, 0): 3, (0, 1, 5): 2}, {2: 1}, (2, 4), sumlev="150")
    official.block("53009", {(1, 0, 0): 2}, sumlev="050")
    official.rows["geo"][-1][3] = "43"  # the rural part of a county: not what blocks sum to
    official.block(FIRST, {(1, 0, 0): 3, (0, 1, 5): 2}, {2: 1}, (2, 4))
    official.block(SECOND, housing=(0, 7))
    problems = read(official.write(tmp_path)).problems
    assert {(problem.field, problem.rows, problem.geounits) for problem in problems} == {
        ("P0010001", 1, ("53001",)),
        ("P0030001", 1, ("53001",)),
    }
    assert all("summary level 050" in problem.expected for problem in problems)
    assert "61" not in "".join(map(str, problems)).replace(str(tmp_path), "")


def test_a_folder_of_other_files_says_what_is_looked_for(read: Callable, tmp_path: Path) -> None:
    (tmp_path / "xx2020.pl.zip").write_text("")
    with pytest.raises(InputError, match="no official summary file") as caught:
        read(tmp_path)
    assert "unzip" in caught.value.hint


def test_another_schema_is_refused(read: Callable) -> None:
    with pytest.raises(ConfigurationError, match=r"e2e_1940.*no recodes"):
        read(Path(), product="e2e_1940")


@pytest.mark.real_data
def test_the_area_of_the_2018_test_is_tabulated_back_exactly(
    read: Callable, contents: Callable, census_data: Path
) -> None:
    folder = census_data / "official" / "ri2018_2020Style.pl"
    counts, units = contents(read(folder))
    assert len(units) == 569
    assert sum(counts.values()) == 29_225
    geo = _rows(folder, "rigeo")
    block = {row[7]: row[9][:11] + row[9][11] + row[9][11:] for row in geo if row[2] == "750"}
    codes = sorted(block.values())
    dense = np.zeros((len(codes), 8, 2, 2, 63), dtype=np.int64)
    for (geocode, cell), count in counts.items():
        dense[codes.index(geocode)].reshape(-1)[cell] += count
    people = dense.sum(axis=1)
    first, second, third = (
        {row[4]: [int(x) for x in row[5:]] for row in _rows(folder, f"ri0000{n}")} for n in (1, 2, 3)
    )
    items = np.array(race_items())
    for record, geocode in block.items():
        mine = people[codes.index(geocode)]
        assert np.array_equal(mine.sum(axis=(0, 1)), np.array(first[record])[items])
        assert np.array_equal(mine[:, 0].sum(axis=0), np.array(first[record])[73 + items])
        assert np.array_equal(mine[1].sum(axis=0), np.array(second[record])[items])
        assert np.array_equal(mine[1, 0], np.array(second[record])[73 + items])
        assert units[geocode][0][0] == second[record][145]
        assert units[geocode][1] == second[record][146]
        by_type = dense[codes.index(geocode)].sum(axis=(1, 2, 3))[1:]
        assert by_type.tolist() == [third[record][item] for item in (2, 3, 4, 5, 7, 8, 9)]
        assert units[geocode][0][1:] == [int(persons > 0) for persons in by_type]
    assert dense[:, 3, 0].sum() == 0


def _rows(folder: Path, start: str) -> list[list[str]]:
    (path,) = folder.glob(f"{start}*.pl")
    return [line.split("|") for line in path.read_text(encoding="latin-1").splitlines()]
