"""The reader of the 1940 extract: recodes, units, and every kind of broken line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
A, B, C = "5300100001", "5300100002", "0600300001"


@pytest.fixture
def read(spark: SparkSession, of_product: Callable, tmp_path: Path) -> Callable:
    def run(lines: list[str], name: str = "census.dat", product: str = "e2e_1940"):
        text = "".join(line + "\n" for line in lines)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        settings = InputSettings(reader="ipums_1940", path=str(tmp_path / name.split("/", maxsplit=1)[0]))
        return READERS["ipums_1940"].read(spark, settings, *of_product(product))

    return run


def test_codes_become_cells_of_class_age_origin_and_race(read: Callable, ipums: type, contents: Callable) -> None:
    lines = [
        ipums.household(1, A),
        ipums.person(1, "017", "1", "0"),
        ipums.person(1, "018", "2", "4"),
        ipums.household(2, A, "4", "9"),
        ipums.person(2, "135", "6", "9"),
        ipums.household(3, C, "3", "2"),
        ipums.person(3, "018", "3", "1"),
        ipums.person(3, "018", "3", "1"),
    ]
    counts, _ = contents(read(lines))
    assert counts == {
        (A, 0): 1,
        (A, 12 + 6 + 1): 1,
        (A, 7 * 24 + 12 + 6 + 5): 1,
        (C, 1 * 24 + 12 + 6 + 2): 2,
    }


def test_every_gqtype_is_its_class(read: Callable, ipums: type, contents: Callable) -> None:
    classes = {"0": 0, "2": 1, "3": 2, "4": 3, "6": 4, "7": 5, "8": 6, "9": 7}
    lines = []
    for serial, gqtype in enumerate(classes, start=1):
        lines += [ipums.household(serial, f"530010000{serial}", "1", gqtype), ipums.person(serial)]
    counts, units = contents(read(lines))
    assert counts == {(f"530010000{serial}", level * 24 + 12): 1 for serial, level in enumerate(classes.values(), 1)}
    for serial, level in enumerate(classes.values(), 1):
        assert units[f"530010000{serial}"] == ([int(each == level) for each in range(8)], 0)


def test_districts_exist_by_their_units_vacant_ones_too(read: Callable, ipums: type, contents: Callable) -> None:
    lines = [
        ipums.household(1, A),
        ipums.person(1),
        ipums.household(2, A, "5"),
        ipums.person(2),
        ipums.household(3, B, "0", "0"),
        ipums.household(4, B, "0", "8"),
    ]
    counts, units = contents(read(lines))
    assert counts == {(A, 12): 2}
    assert units == {A: ([2, 0, 0, 0, 0, 0, 0, 0], 0), B: ([0, 0, 0, 0, 0, 0, 1, 0], 1)}


@pytest.mark.parametrize("name", ["census.dat.gz", "parts/part-0.dat", "parts/part-0.dat.gz"])
def test_gzip_and_folders_of_parts_are_read(read: Callable, ipums: type, contents: Callable, name: str) -> None:
    counts, _ = contents(read([ipums.household(1, A), ipums.person(1)], name))
    assert counts == {(A, 12): 1}


def test_persons_find_their_household_in_another_part(
    read: Callable, ipums: type, contents: Callable, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part-1.dat").write_text(ipums.person(1) + "\n")
    counts, _ = contents(read([ipums.household(1, A)], "parts/part-0.dat"))
    assert counts == {(A, 12): 1}


def _set(line: str, start: int, text: str) -> str:
    return line[:start] + text + line[start + len(text) :]


BROKEN = {
    "RECTYPE": lambda h, p: ["X" + h[1:]],
    "record length, expected 159": lambda h, p: [h[:-1]],
    "record length, expected 273": lambda h, p: [h, p + "0"],
    "SERIAL": lambda h, p: [_set(h, 7, "12 45678")],
    "STATEFIP, COUNTY": lambda h, p: [_set(h, 54, "x")],
    "ENUMDIST": lambda h, p: [_set(h, 126, " ")],
    "GQ": lambda h, p: [_set(h, 93, "7")],
    "GQTYPE": lambda h, p: [_set(h, 94, "5")],
    "AGE": lambda h, p: [h, _set(p, 73, "abc")],
    "AGE, expected one of 000-135": lambda h, p: [h, _set(p, 73, "136")],
    "RACE": lambda h, p: [h, _set(p, 84, "7")],
    "HISPAN": lambda h, p: [h, _set(p, 88, "x")],
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_broken_line_is_named_by_file_field_and_number(read: Callable, ipums: type, field: str) -> None:
    good = [line for serial in (1, 2, 3) for line in (ipums.household(serial), ipums.person(serial))]
    broken = BROKEN[field](ipums.household(9), ipums.person(9))
    with pytest.raises(BadInputError) as caught:
        read([*good, *broken])
    (problem,) = caught.value.problems
    assert problem.field == field.split(", expected", maxsplit=1)[0]
    assert field.rsplit(", ", maxsplit=1)[-1].removeprefix("expected ") in str(problem)
    assert problem.rows == 1
    assert problem.examples == (6 + len(broken),)
    assert "census.dat" in str(caught.value)
    assert "not so in some rows" in str(caught.value)
    assert broken[-1] not in str(caught.value)


def test_several_problems_are_told_together(read: Callable, ipums: type) -> None:
    lines = [ipums.household(1, gq="9", gqtype="1"), ipums.household(2), ipums.person(2, race="9", age="  1")]
    with pytest.raises(BadInputError) as caught:
        read(lines)
    assert {problem.field for problem in caught.value.problems} == {"GQ", "GQTYPE", "RACE", "AGE"}


def test_a_person_without_a_household_is_refused(read: Callable, ipums: type) -> None:
    with pytest.raises(BadInputError, match="a household line for every person line; not so in some rows") as caught:
        read([ipums.household(1), ipums.person(1), ipums.person(2), ipums.person(3)])
    assert caught.value.problems[0].examples == (3, 4)


def test_a_household_that_occurs_twice_is_refused(read: Callable, ipums: type) -> None:
    with pytest.raises(BadInputError, match="each household once; not so in some rows") as caught:
        read([ipums.household(1), ipums.person(1), ipums.household(1, B)])
    assert caught.value.problems[0].examples == (1, 3)


def test_an_empty_file_is_refused(read: Callable) -> None:
    with pytest.raises(InputError, match="no household line"):
        read([])


def test_another_schema_is_refused(read: Callable, ipums: type) -> None:
    with pytest.raises(ConfigurationError, match="e2e_2018"):
        read([ipums.household(1)], product="e2e_2018")


def test_geocodes_of_more_digits_than_the_file_has_are_refused(read: Callable, ipums: type) -> None:
    with pytest.raises(ConfigurationError, match="10 digits"):
        read([ipums.household(1)], product="dallas_2010")
