"""Tables of Summary File 1: every column against a second declaration by words, and sums of people one by one."""

from __future__ import annotations

import re
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from das_spark.products import PRODUCTS
from das_spark.tabulation import (
    MedianColumns,
    age_label,
    demographic_medians,
    demographic_tables,
    incidence,
    medians,
    redistricting_tables,
    tabulate,
)

SCHEMA = PRODUCTS["ddp_2010_person"].schema
TABLES = {table.name: table for table in demographic_tables(SCHEMA)}
NAMES = [attribute.name for attribute in SCHEMA.attributes]
#: A few thousand people, of every type of group quarters and age.
CELLS = np.sort(np.random.default_rng(1).choice(SCHEMA.size, 4_000, replace=False))
COUNTS = np.random.default_rng(2).integers(1, 9, len(CELLS))
PEOPLE = [dict(zip(NAMES, codes, strict=True)) for codes in SCHEMA.unravel(CELLS).tolist()]
OFFSETS = np.array([0, len(CELLS)])

P12 = "0-4 5-9 10-14 15-17 18-19 20 21 22-24 25-29 30-34 35-39 40-44 45-49 50-54 55-59 60-61 62-64 65-66 67-69 70-74 75-79 80-84 85-115"  # fmt: skip  # noqa: E501
FIVES = "0-4 5-9 10-14 15-19 20-24 25-29 30-34 35-39 40-44 45-49 50-54 55-59 60-64 65-69 70-74 75-79 80-84 85-115"
#: Table of sex by age -> ages, and the types of group quarters of its universe.
SEX_BY_AGE = {
    "P12": (P12, range(8)),
    "PCT13": (P12, (0,)),
    "P14": (" ".join(map(str, range(20))), range(8)),
    "PCT12": (" ".join([*map(str, range(100)), "100-104", "105-109", "110-115"]), range(8)),
    # In the file of 2010 these ten have the same 39 lines.
    "PCO1": (FIVES, range(1, 8)),
    "PCO2": (FIVES, (1, 2, 3, 4)),
    "PCO3": (FIVES, (1,)),
    "PCO4": (FIVES, (2,)),
    "PCO5": (FIVES, (3,)),
    "PCO6": (FIVES, (4,)),
    "PCO7": (FIVES, (5, 6, 7)),
    "PCO8": (FIVES, (5,)),
    "PCO9": (FIVES, (6,)),
    "PCO10": (FIVES, (7,)),
}
#: Letter of an iteration -> who is in it.
WHO = {letter: (lambda person, race=race: person["cenrace"] == race) for race, letter in enumerate("ABCDEF")} | {
    "G": lambda person: person["cenrace"] > 5,
    "H": lambda person: person["hispanic"] == 1,
    "I": lambda person: person["cenrace"] == 0 and person["hispanic"] == 0,
}
#: I to O: those of A to G who are not Hispanic.
NOT_HISPANIC = {
    letter: (lambda person, race=race: WHO[race](person) and person["hispanic"] == 0)
    for letter, race in zip("IJKLMNO", "ABCDEFG", strict=True)
}


def ages(text: str) -> list[range]:
    found = []
    for part in text.split():
        first, _, last = part.partition("-")
        found.append(range(int(first), int(last or first) + 1))
    return found


def counted(name: str) -> list[int]:
    return tabulate(incidence([TABLES[name]]), CELLS, OFFSETS, COUNTS)[0].tolist()


def number(is_in) -> int:
    return sum(int(count) for person, count in zip(PEOPLE, COUNTS, strict=True) if is_in(person))


def sex_by_age(text: str, quarters, among=lambda person: True) -> list[int]:
    """Total; then of each sex its people, and those of each group of ages."""
    groups = ages(text)
    oldest = groups[-1][-1]
    lines = [[0] * (1 + len(groups)) for _ in range(2)]
    for person, count in zip(PEOPLE, COUNTS.tolist(), strict=True):
        if person["hhgq"] in quarters and person["age"] <= oldest and among(person):
            own = lines[person["sex"]]
            own[0] += count
            own[1 + next(place for place, group in enumerate(groups) if person["age"] in group)] += count
    return [lines[0][0] + lines[1][0], *lines[0], *lines[1]]


@pytest.mark.parametrize("name", SEX_BY_AGE)
def test_sex_by_age_is_the_sum_of_people(name: str):
    assert counted(name) == sex_by_age(*SEX_BY_AGE[name])


@pytest.mark.parametrize("letter", WHO)
@pytest.mark.parametrize("name", ["P12", "PCT13"])
def test_iterations_count_the_same_lines_among_some(name: str, letter: str):
    assert counted(name + letter) == sex_by_age(*SEX_BY_AGE[name], WHO[letter])


@pytest.mark.parametrize("letter", ["A", "G", "H", *NOT_HISPANIC])
def test_single_years_are_iterated_up_to_races_that_are_not_hispanic(letter: str):
    assert counted(f"PCT12{letter}") == sex_by_age(*SEX_BY_AGE["PCT12"], {**WHO, **NOT_HISPANIC}[letter])


def by_type(among) -> list[int]:
    """Institutions and their types, the others and theirs."""
    kinds = ((1, 2, 3, 4), (1,), (2,), (3,), (4,), (5, 6, 7), (5,), (6,), (7,))
    return [number(lambda person, of=of: person["hhgq"] in of and among(person)) for of in kinds]


@pytest.mark.parametrize("letter", ["", *WHO])
def test_group_quarters_by_sex_age_and_type(letter: str):
    among = WHO.get(letter, lambda person: True)
    wanted = [number(lambda person: person["hhgq"] > 0 and among(person))]
    for sex in range(2):
        wanted.append(number(lambda person, sex=sex: person["hhgq"] > 0 and person["sex"] == sex and among(person)))
        for least, most in ((0, 17), (18, 64), (65, 115)):

            def mine(person, sex=sex, least=least, most=most) -> bool:
                return person["sex"] == sex and least <= person["age"] <= most and among(person)

            wanted += [number(lambda person, mine=mine: person["hhgq"] > 0 and mine(person)), *by_type(mine)]
    assert counted(f"DDP_PCO43{letter}" if letter else "P43") == wanted
    assert len(wanted) == 63


@pytest.mark.parametrize("letter", ["", *WHO])
def test_adults_in_group_quarters_are_18_and_older(letter: str):
    among = WHO.get(letter, lambda person: True)
    wanted = [number(lambda person: person["hhgq"] > 0 and person["age"] >= 18 and among(person))]
    for sex in range(2):

        def mine(person, sex=sex) -> bool:
            return person["sex"] == sex and person["age"] >= 18 and among(person)

        wanted += [number(lambda person, mine=mine: person["hhgq"] > 0 and mine(person)), *by_type(mine)]
    assert counted(f"PCT22{letter}") == wanted


def test_group_quarters_by_type_alone():
    assert counted("P42") == [number(lambda person: person["hhgq"] > 0), *by_type(lambda person: True)]


@pytest.mark.parametrize("letter", ["", *WHO])
def test_median_ages_are_those_of_all_people_and_of_each_sex(letter: str):
    (table,) = (table for table in demographic_medians(SCHEMA) if table.name == f"P13{letter}")
    is_counted = WHO.get(letter, lambda person: True)
    expected = []
    for sexes in ((0, 1), (0,), (1,)):
        number_of = [0] * 116
        for person, count in zip(PEOPLE, COUNTS.tolist(), strict=True):
            if is_counted(person) and person["sex"] in sexes:
                number_of[person["age"]] += count
        half = Fraction(sum(number_of), 2)
        age = next(age for age in range(116) if sum(number_of[: age + 1]) >= half)
        before = sum(number_of[:age])
        assert age < 115
        expected.append(floor(10 * (age + (half - before) / number_of[age]) + Fraction(1, 2)))
    assert medians(MedianColumns.of([table]), CELLS, OFFSETS, COUNTS)[0].tolist() == expected
    assert table.names[0] == (f"P013{letter}001" if letter else "P0130001")


def test_races_origins_and_households():
    everybody = number(lambda person: True)
    races = [number(WHO[letter]) for letter in "ABCDEFG"]
    assert counted("SF1_P1") == [everybody]
    assert counted("SF1_P3") == [everybody, *races]
    hispanics = number(WHO["H"])
    assert counted("SF1_P4") == [everybody, everybody - hispanics, hispanics]
    wanted = [everybody]
    for origin in range(2):
        wanted.append(number(lambda person, origin=origin: person["hispanic"] == origin))
        wanted += [
            number(lambda person, origin=origin, letter=letter: person["hispanic"] == origin and WHO[letter](person))
            for letter in "ABCDEFG"
        ]
    assert counted("P5") == wanted
    homes = [number(lambda person, low=low, high=high: person["hhgq"] == 0 and low <= person["age"] < high) for low, high in ((0, 116), (0, 18), (18, 116))]  # fmt: skip  # noqa: E501
    assert counted("P16") == homes
    assert counted("H10") == homes[:1]


def test_who_has_several_races_is_tallied_once_for_each_of_them():
    labels = SCHEMA.attributes[SCHEMA.axis("cenrace")].levels
    races = [label.split("-") for label in labels]

    def tallied(among, race: str | None = None) -> int:
        return sum(
            count * (len(races[person["cenrace"]]) if race is None else race in races[person["cenrace"]])
            for person, count in zip(PEOPLE, COUNTS.tolist(), strict=True)
            if among(person)
        )

    def lines(among) -> list[int]:
        return [tallied(among), *(tallied(among, *each) for each in races[:6])]

    assert counted("P6") == lines(lambda person: True)
    by_origin = [lines(lambda person, origin=origin: person["hispanic"] == origin) for origin in range(2)]
    assert counted("P7") == [counted("P6")[0], *by_origin[0], *by_origin[1]]
    assert counted("P6")[0] > number(lambda person: True)


def test_redistricting_tables_take_adults_from_ages():
    small = PRODUCTS["pl94_2020_person"].schema
    codes = SCHEMA.unravel(CELLS)
    coarse = small.ravel(np.stack([codes[:, 0], codes[:, 2] >= 18, codes[:, 3], codes[:, 4]], axis=1).astype(np.int64))
    ours, theirs = (
        tabulate(incidence(redistricting_tables(schema)), cells, OFFSETS, COUNTS)
        for schema, cells in ((SCHEMA, CELLS), (small, coarse))
    )
    assert (ours == theirs).all()


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_what_a_heading_counts_falls_into_the_lines_under_it(table):
    found = counted(table.name)
    for place in range(len(table.columns)):
        if parts := table.parts(place):
            assert found[place] == sum(found[part] for part in parts)


def test_names_of_columns_are_the_published_ones():
    assert TABLES["P12"].names[48] == "P0120049"
    assert TABLES["P12A"].names[:2] == ("P012A001", "P012A002")
    assert TABLES["PCT12"].names[208] == "PCT0120209"
    assert TABLES["PCT13I"].names[0] == "PCT013I001"
    assert TABLES["PCO10"].names[0] == "PCO0100001"
    assert TABLES["SF1_P1"].names == ("SF1_P0010001",)
    for name, table in TABLES.items():
        letters, digits, letter = re.fullmatch(r"(SF1_|DDP_)?[A-Z]+?(\d+)([A-O]?)", name).group(0, 2, 3)
        assert letters
        assert all(re.search(rf"0*{digits}{letter}\d{{{3 if letter else 4}}}$", column) for column in table.names)


def test_labels_are_in_words():
    assert [age_label(*pair) for pair in ((0, 0), (1, 1), (2, 2), (0, 4), (60, 61), (62, 64), (85, 115))] == [
        "Under 1 year",
        "1 year",
        "2 years",
        "Under 5 years",
        "60 and 61 years",
        "62 to 64 years",
        "85 years and over",
    ]
    assert TABLES["P12"].path(4) == "Total: Male: 10 to 14 years"
    assert TABLES["P43"].path(5) == "Total: Male: Under 18 years: Institutionalized population: Juvenile facilities"
    assert TABLES["P12I"].universe == "People who are White alone, not Hispanic or Latino"
    assert TABLES["PCT22D"].universe == "Population 18 years and over in group quarters who are Asian alone"
    assert TABLES["PCO2"].title == "Group quarters population in institutional facilities by sex by age"


def test_pct_tables_stop_at_the_tract_and_pco_tables_at_the_county_and_none_has_groups_of_tracts():
    spine = PRODUCTS["ddp_2010_person"].spine()
    census = tuple(name for name in spine.names if name != "Tract_Group")
    for name, table in TABLES.items():
        lowest = "Tract" if "PCT" in name else "County" if "PCO" in name else "Block"
        assert table.levels(spine) == census[: census.index(lowest) + 1]
