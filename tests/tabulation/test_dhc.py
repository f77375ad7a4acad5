"""Tables of the Demographic and Housing Characteristics of 2020: names, numbers of lines, levels, and sums."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.geography import Spine
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products import PRODUCTS
from das_spark.products.dhc_2020_household import SCHEMA as HOUSEHOLDS
from das_spark.products.dhc_2020_person import SCHEMA as PERSONS
from das_spark.products.dhc_2020_unit import SCHEMA as UNITS
from das_spark.tabulation import (
    dhc_household_tables,
    dhc_person_medians,
    dhc_person_tables,
    dhc_unit_tables,
    incidence,
    redistricting_tables,
    tabulate,
)
from das_spark.tabulation.household_types import TYPES

TABLES = {
    kind: {table.name: table for table in tables}
    for kind, tables in {
        "persons": dhc_person_tables(PERSONS),
        "households": dhc_household_tables(HOUSEHOLDS),
        "units": dhc_unit_tables(UNITS),
    }.items()
}
SCHEMAS = {"persons": PERSONS, "households": HOUSEHOLDS, "units": UNITS}
#: Lines of every table that is no iteration, as published.
LINES = {
    "persons": {
        **{"P1": 1, "P3": 8, "P4": 3, "P5": 17, "P6": 7, "P7": 15, "P8": 71, "P9": 73, "P10": 71, "P11": 73},
        **{
            "P12": 49,
            "P14": 43,
            "P15": 3,
            "P17": 31,
            "P18": 63,
            "PCT8": 36,
            "PCT9": 16,
            "PCT11": 6,
            "PCT12": 209,
            "PCT13": 49,
        },
        **{"PCT19": 195, "PCO1": 39, "PCO2": 39, "PCO3": 33, "PCO4": 15, "PCO5": 31, "PCO6": 39, "PCO7": 39},
        **{"PCO8": 25, "PCO9": 25, "PCO10": 39, "H8": 1},
    },
    "households": {
        **{"P16": 9, "P19": 11, "P20": 19, "P21": 7, "PCT1": 17, "PCT2": 19, "PCT3": 21, "PCT4": 15, "PCT5": 11},
        **{"PCT6": 11, "PCT7": 16, "PCT10": 20, "PCT14": 3, "PCT15": 12, "PCT16": 15, "H4": 4, "H6": 8, "H7": 17},
        **{"H9": 8, "H10": 17, "H11": 7, "H12": 17, "H13": 21, "H14": 69, "H15": 7, "HCT1": 35, "HCT2": 13},
        "HCT3": 13,
    },
    "units": {"H1": 1, "H3": 3, "H5": 8},
}
A_TO_I = list("ABCDEFGHI")
A_TO_V = list("ABCDEFGHIJKLMNOPQRSTUV")
#: Iterated tables -> the letters of their iterations, and the table that is iterated.
ITERATIONS = {
    "persons": {
        "P12": ("P12", [*A_TO_V, *"WXYZ", *(f"A{letter}" for letter in "ABCDEFGH")]),
        "PCT9": ("PCT9", A_TO_I),
        "PCT12": ("PCT12", A_TO_V[:15]),
        "PCT13": ("PCT13", A_TO_I),
        "PCT17": ("P17", A_TO_I),
        "PCT18": ("P18", A_TO_I),
    },
    "households": {
        **{name: (name, A_TO_V) for name in ("P16", "H4")},
        **{name: (name, A_TO_I) for name in ("PCT7", "PCT10", "PCT14", "H12", "H13")},
    },
    "units": {},
}
RNG = np.random.default_rng(2020)
CELLS = {
    kind: np.sort(RNG.choice(schema.size, min(schema.size, 3_000), replace=False)) for kind, schema in SCHEMAS.items()
}
COUNTS = {kind: RNG.integers(1, 9, len(cells)) for kind, cells in CELLS.items()}
RECORDS = {
    kind: [
        (dict(zip([attribute.name for attribute in SCHEMAS[kind].attributes], codes, strict=True)), count)
        for codes, count in zip(SCHEMAS[kind].unravel(cells).tolist(), COUNTS[kind].tolist(), strict=True)
    ]
    for kind, cells in CELLS.items()
}
#: Headings whose lines are some of what they count: (table, label of the heading).
SOME = {("P17", each) for each in ("Biological child", "Adopted child", "Stepchild", "Grandchild")} | {
    ("P20", "Living alone")
}


def counted(kind: str, name: str) -> list[int]:
    offsets = np.array([0, len(CELLS[kind])])
    return tabulate(incidence([TABLES[kind][name]]), CELLS[kind], offsets, COUNTS[kind])[0].tolist()


def number(kind: str, is_in) -> int:
    return sum(count for record, count in RECORDS[kind] if is_in(record))


@pytest.mark.parametrize("kind", TABLES)
def test_all_tables_are_there_with_as_many_lines_as_published(kind: str):
    wanted = dict(LINES[kind])
    for name, (of, letters) in ITERATIONS[kind].items():
        wanted |= {f"{name}{letter}": LINES[kind][of] for letter in letters}
    assert {name: len(table.columns) for name, table in TABLES[kind].items()} == wanted


def test_of_247_tables_237_are_sums_of_cells_and_ten_are_medians():
    medians = dhc_person_medians(PERSONS)
    assert sum(map(len, TABLES.values())) + len(medians) == 247
    assert {kind: len(tables) for kind, tables in TABLES.items()} == {"persons": 117, "households": 117, "units": 3}
    assert sum(sum(lines.values()) for lines in LINES.values()) + len(medians[0].columns) == 1821
    names = [column.name for tables in TABLES.values() for table in tables.values() for column in table.columns]
    assert len(set(names)) == len(names) == 9_029


@pytest.mark.parametrize(
    ("kind", "table", "first", "last"),
    [
        ("persons", "P17", "P0170001", "P0170031"),
        ("persons", "P6", "P0060001", "P0060007"),
        ("persons", "P7", "P0070001", "P0070015"),
        ("persons", "P12A", "P012A001", "P012A049"),
        ("persons", "P12AA", "P012AA01", "P012AA49"),
        ("persons", "PCT8", "PCT0080001", "PCT0080036"),
        ("persons", "PCT9I", "PCT09I0001", "PCT09I0016"),
        ("persons", "PCT17I", "PCT017I001", "PCT017I031"),
        ("persons", "PCO10", "PCO0100001", "PCO0100039"),
        ("persons", "H8", "H0080001", "H0080001"),
        ("households", "PCT7A", "PCT07A0001", "PCT07A0016"),
        ("households", "PCT10A", "PCT010A001", "PCT010A020"),
        ("households", "H4A", "H004A0001", "H004A0004"),
        ("households", "HCT3", "HCT0030001", "HCT0030013"),
    ],
)
def test_columns_have_their_published_names(kind: str, table: str, first: str, last: str):
    assert TABLES[kind][table].names[:: max(1, len(TABLES[kind][table].names) - 1)] in {(first, last), (first,)}


def test_letters_say_how_far_down_a_table_is_published():
    census = Spine(PRODUCTS["dhc_2020_person"].geolevels)
    lowest = {table.name: table.levels(census)[-1] for tables in TABLES.values() for table in tables.values()}
    by_letters = {"PCT": "Tract", "HCT": "Tract", "PCO": "County"}
    assert lowest == {name: by_letters.get(name[:3], "Block") for name in lowest}


@pytest.mark.parametrize("kind", TABLES)
def test_the_lines_under_a_heading_sum_to_it(kind: str):
    for name, table in TABLES[kind].items():
        values = counted(kind, name)
        for place, column in enumerate(table.columns):
            below = [values[part] for part in table.parts(place)]
            base = "P17" if name.startswith("PCT17") else name
            if below and (base, column.label) not in SOME:
                assert sum(below) == values[place], (name, column.name, column.label)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("persons", {"P12": ("ABCDEFG",), "PCT12": ("ABCDEFG", "IJKLMNOH"), "PCT9": ("ABCDEFG",)}),
        ("households", {"P16": ("ABCDEFG", "IJKLMNOH", "IJKLMNOPQRSTUV"), "H4": ("ABCDEFG",), "H13": ("ABCDEFG",)}),
    ],
)
def test_iterations_of_all_races_or_origins_sum_to_their_table(kind: str, parts: dict[str, tuple[str, ...]]):
    for name, ways in parts.items():
        for letters in ways:
            summed = np.sum([counted(kind, f"{name}{letter}") for letter in letters], axis=0)
            assert summed.tolist() == counted(kind, name)


def test_a_race_in_combination_is_all_combinations_that_name_it():
    labels = PERSONS.attributes[PERSONS.axis("cenrace")].levels
    races = ("White", "Black or African American", "American Indian", "Asian", "Native Hawaiian", "Some Other Race")
    letters = ("W", "X", "Y", "Z", "AA", "AB", "AC", "AD", "AE", "AF", "AG", "AH")
    for place, letter in enumerate(letters):
        origin, race = divmod(place, 6)
        wanted = number("persons", lambda p, o=origin, r=race: p["hispanic"] == o and races[r] in labels[p["cenrace"]])
        assert counted("persons", f"P12{letter}")[0] == wanted


def test_who_has_several_races_is_tallied_once_for_each_of_them():
    # The levels of race say which races, joined by hyphens: "White-Asian".
    labels = PERSONS.attributes[PERSONS.axis("cenrace")].levels
    first = [label.split("-")[0] for label in labels[:6]]

    def tallied(people, among=lambda race: True) -> int:
        return sum(
            count * sum(among(race) for race in labels[person["cenrace"]].split("-"))
            for person, count in RECORDS["persons"]
            if people(person)
        )

    by_race = [tallied(lambda p: True)] + [tallied(lambda p: True, lambda r, of=of: r == of) for of in first]
    assert counted("persons", "P6") == by_race
    assert by_race[0] > counted("persons", "P1")[0]
    by_origin = [by_race[0]]
    for level in range(2):
        by_origin.append(tallied(lambda p, o=level: p["hispanic"] == o))
        by_origin += [tallied(lambda p, o=level: p["hispanic"] == o, lambda r, of=of: r == of) for of in first]
    assert counted("persons", "P7") == by_origin
    # Each race is the sum of its iterations of P12, by origin and in combination.
    letters = ("W", "X", "Y", "Z", "AA", "AB", "AC", "AD", "AE", "AF", "AG", "AH")
    iterated = [counted("persons", f"P12{letter}")[0] for letter in letters]
    assert by_origin[2:8] + by_origin[9:] == iterated
    assert [column.label for column in TABLES["persons"]["P7"].columns[:2]] == [
        "Total races tallied",
        "Not Hispanic or Latino",
    ]


def test_race_tables_are_those_of_the_redistricting_data():
    attributes = {attribute.name: attribute for attribute in PERSONS.attributes}
    hhgq = Attribute("hhgq", tuple(map(str, range(8))))
    small = Schema("x", (hhgq, *(attributes[name] for name in ("age", "hispanic", "cenrace"))))
    before = {table.name: table for table in redistricting_tables(small)}
    for name, old in {"P8": "P1", "P9": "P2", "P10": "P3", "P11": "P4"}.items():
        own = [(column.label, column.depth, dict(column.where[0])) for column in TABLES["persons"][name].columns]
        wanted = [(column.label, column.depth, dict(column.where[0])) for column in before[old].columns]
        assert [each[1:] for each in own] == [each[1:] for each in wanted]
        assert [each[0] for each in own[3:]] == [each[0] for each in wanted[3:]]


def test_relationships_and_quarters_follow_the_labels_of_the_levels():
    relgq = PERSONS.attributes[PERSONS.axis("relgq")].levels
    table = TABLES["persons"]["P17"]
    of = dict(zip([table.path(place) for place in range(len(table.columns))], counted("persons", "P17"), strict=True))

    def people(*labels: str, **more: int) -> int:
        return number(
            "persons", lambda p: relgq[p["relgq"]] in labels and all(p[name] == value for name, value in more.items())
        )

    house = "Total: In households: "
    assert of[f"{house}Householder: Female: Living alone"] == people("Householder living alone", sex=1)
    assert of[f"{house}Householder: Male: Not living alone"] == people("Householder not living alone", sex=0)
    for own, label in {
        "Opposite-sex spouse": "Opposite-sex spouse",
        "Same-sex spouse": "Same-sex spouse",
        "Opposite-sex unmarried partner": "Opposite-sex unmarried partner",
        "Same-sex unmarried partner": "Same-sex unmarried partner",
        "Biological child": "Biological son or daughter",
        "Stepchild": "Stepson or stepdaughter",
        "Grandchild": "Grandchild",
        "Parent-in-law": "Parent-in-law",
        "Foster child": "Foster child",
    }.items():
        assert of[f"{house}{own}"] == people(label)
    assert of[f"{house}Other nonrelative"] == people("Roommate or housemate", "Other nonrelative")
    assert of[f"{house}Grandchild: Under 18 years"] == number(
        "persons", lambda p: relgq[p["relgq"]] == "Grandchild" and p["age"] < 18
    )
    assert of["Total: In group quarters"] == number("persons", lambda p: p["relgq"] > 17)


def test_classes_of_quarters_are_those_of_the_recode():
    recode: Recode = next(
        recode for recode in PERSONS.attributes[PERSONS.axis("relgq")].recodes if recode.name == "hhgq8lev"
    )
    table, values = TABLES["persons"]["P18"], counted("persons", "P18")
    for place, column in enumerate(table.columns):
        if column.depth == 4:
            (levels,) = (levels for label, levels in recode.groups if label == column.label)
            age = range(
                *{"Under 18 years": (0, 18), "18 to 64 years": (18, 65)}.get(
                    table.columns[table.heading(table.heading(place))].label, (65, 116)
                )
            )
            sex = "Female" in table.path(place)
            assert values[place] == number(
                "persons", lambda p, of=levels, a=age, s=sex: p["relgq"] in of and p["age"] in a and p["sex"] == s
            )


def test_households_are_counted_by_what_their_type_says():
    def households(where, **more) -> int:
        return number(
            "households",
            lambda h: where(TYPES[h["hhtype_dhch"]]) and all(h[name] in values for name, values in more.items()),
        )

    def rent(where) -> int:
        return households(where, hhtenshort_3lev=(2,))

    tenure = counted("households", "HCT3")
    assert tenure[7:] == [
        rent(lambda t: True),
        rent(lambda t: t.children),
        *(rent(lambda t, ages=ages: t.children == ages) for ages in (1, 3, 2)),
        rent(lambda t: not t.children),
    ]
    assert counted("households", "H15")[2] == households(lambda t: t.children, hhtenshort_3lev=(0, 1))
    assert counted("households", "HCT2")[2] == households(lambda t: t.own_children, hhtenshort_3lev=(0, 1))
    assert counted("households", "P21")[1:4] == [
        households(lambda t: t.minor),
        households(lambda t: t.minor and t.relatives),
        households(lambda t: t.minor and not t.relatives),
    ]
    assert counted("households", "PCT7")[2:8] == [
        households(lambda t, n=n: t.relatives and t.size == n) for n in range(2, 8)
    ]
    assert counted("households", "PCT15")[8:12] == [
        households(lambda t: t.couple == 3),
        households(lambda t: t.couple == 3, sex=(0,)),
        households(lambda t: t.couple == 3, sex=(1,)),
        households(lambda t: not t.coupled),
    ]
    assert counted("households", "PCT14")[1] == households(lambda t: t.generations)
    assert counted("households", "P20")[16:19] == [
        households(lambda t: not t.coupled and t.own_children, sex=(1,)),
        households(lambda t: not t.coupled and t.relatives and not t.own_children, sex=(1,)),
        households(lambda t: not t.coupled and not t.relatives and not t.alone, sex=(1,)),
    ]
    assert counted("households", "P19")[4] == households(lambda t: t.relatives, elderly=(2, 3))


def test_units_are_occupied_or_vacant():
    counts = dict(zip(CELLS["units"].tolist(), COUNTS["units"].tolist(), strict=True))
    occupied = sum(counts[level] for level in range(4))
    vacant = [counts[level] for level in range(4, 11)]
    assert counted("units", "H1") == [occupied + sum(vacant)]
    assert counted("units", "H3") == [occupied + sum(vacant), occupied, sum(vacant)]
    assert counted("units", "H5") == [sum(vacant), *vacant]
    assert [column.label for column in TABLES["units"]["H5"].columns][:3] == [
        "Total",
        "For rent",
        "Rented, not occupied",
    ]
