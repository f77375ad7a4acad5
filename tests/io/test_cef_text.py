"""Simulated populations as CEF records: every line is allowed, and says what the population says."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from das_spark.io.cef import ENTITY_PARTS, HEADER, PERSON, UNIT, block_lines, record_lines
from das_spark.simulation import Population

A, B = "2000100010011000", "2000100010011001"


def _population() -> Population:
    """A home of five, a nursing facility of one and two dormitories with three; a block with vacant units."""
    adult, minor = 126, 0
    return Population(
        geocodes=np.array([A, B]),
        geounit=np.array([0, 0, 0, 0, 0]),
        cell=np.array([minor + 62, adult + 0, adult + 63 + 5, 3 * 252 + adult + 1, 5 * 252 + adult + 30]),
        count=np.array([2, 2, 1, 1, 3]),
        units=np.array([[2, 0, 0, 1, 0, 2, 0, 0], [0] * 8]),
        vacant=np.array([0, 3]),
    )


def _lines() -> tuple[list[str], list[str]]:
    units, persons, number = zip(*record_lines(_population(), 100_000_001, 500), strict=True)
    assert sum(number) == 8
    return b"".join(units).decode().splitlines(), b"".join(persons).decode().splitlines()


def test_every_line_is_allowed():
    units, persons = _lines()
    assert all(re.fullmatch(UNIT.pattern, line) for line in units)
    assert all(re.fullmatch(PERSON.pattern, line) for line in persons)


def test_units_carry_their_number_block_class_and_people():
    units, _ = _lines()
    assert [line[1:10] for line in units] == [f"{100_000_001 + place}" for place in range(8)]
    assert [int(line[37:59]) for line in units] == [500] * 5 + [501] * 3
    assert [line[0] for line in units] == list("22444222")
    assert [line[33:36] for line in units] == ["   ", "   ", "301", "501", "501", "   ", "   ", "   "]
    assert [int(line[17:22]) for line in units] == [3, 2, 1, 2, 1, 0, 0, 0]
    assert [line[32] != "0" for line in units] == [False] * 5 + [True] * 3


def test_persons_carry_the_codes_of_their_cells_and_live_where_their_class_does():
    units, persons = _lines()
    kind = {line[1:10]: line[33:36] for line in units}
    codes = Counter((line[87:90], int(line[23:26]) >= 18, line[47], line[81:83]) for line in persons)
    assert codes == {
        ("   ", False, "1", "63"): 2,
        ("   ", True, "1", "01"): 2,
        ("   ", True, "2", "06"): 1,
        ("301", True, "1", "02"): 1,
        ("501", True, "1", "31"): 3,
    }
    assert all(kind[line[1:10]] == line[87:90] for line in persons)
    first = {line[1:10]: line for line in reversed(persons)}
    assert all(int(line[23:26]) >= 18 for line in first.values())
    assert [line[10:15] for line in persons[:3]] == ["00001", "00002", "00003"]


def test_ages_agree_with_dates_of_birth():
    _, persons = _lines()
    assert all(2020 - int(line[26:30]) == int(line[23:26]) for line in persons)
    assert all(line[26:34] == line[38:42] + line[34:36] + line[36:38] for line in persons)


def test_blocks_are_rows_of_the_reference_file_with_the_group_in_the_block():
    rows = [line.split("|") for line in (HEADER + block_lines(_population().geocodes, 500)).decode().splitlines()]
    assert rows[0][:5] == ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"]
    assert rows[0][5:] == [*(name for name, _ in ENTITY_PARTS), "OIDTABBLK"]
    assert [row[:5] for row in rows[1:]] == [["20", "001", "000100", "1", "1000"], ["20", "001", "000100", "1", "1001"]]
    assert [row[-1] for row in rows[1:]] == ["500", "501"]
    assert all([len(text) for text in row[5:-1]] == [width for _, width in ENTITY_PARTS] for row in rows[1:])
