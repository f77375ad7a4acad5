"""The households of the 2010 demonstration against published facts: cells, shares, scales, zeros, layout, tables."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate, product
from math import exp

import numpy as np
import pytest

from das_spark.io.microdata_formats import record_columns
from das_spark.products import PRODUCTS, microdata_codes

DDP = PRODUCTS["ddp_2010_household"]
BUDGET = DDP.strategies["ddp_2010"].budget
LEVELS = ("Nation", "State", "County", "Tract_Group", "Tract", "Block_Group", "Block")
#: Query -> answers, share, and the published scales at nation and states, and below.
PUBLISHED = {
    "hisp * hhrace * size * hhtype": (2688, Fraction(1, 4), 20, 33.33),
    "hhsex * hisp * hhrace * hhtype": (672, Fraction(1, 4), 20, 33.33),
    "hisp * hhrace * multi": (28, Fraction(1, 10), 50, 83.33),
    "hhsex * hhtype * elderly": (192, Fraction(1, 10), 50, 83.33),
    "hhsex * hhage * hhtype": (432, Fraction(1, 10), 50, 83.33),
    "detailed": (387_072, Fraction(1, 5), 25, 41.67),
}


def test_the_histogram_has_the_published_axes() -> None:
    assert [(attribute.name, attribute.size) for attribute in DDP.schema.attributes] == [
        ("hhsex", 2),
        ("hhage", 9),
        ("hisp", 2),
        ("hhrace", 7),
        ("size", 8),
        ("hhtype", 24),
        ("elderly", 4),
        ("multi", 2),
    ]
    assert DDP.schema.size == 387_072


def test_it_counts_households_on_the_levels_of_the_persons() -> None:
    persons = PRODUCTS["ddp_2010_person"]
    assert DDP.record == "household"
    assert DDP.counted == "households"
    assert DDP.geolevels == persons.geolevels
    assert DDP.default_levels == LEVELS
    assert DDP.total_at == "none"


def test_epsilon_2_and_shares_are_the_published_ones_at_every_level() -> None:
    assert BUDGET.total == 2
    assert BUDGET.total + PRODUCTS["ddp_2010_person"].strategies["ddp_2010"].budget.total == 6
    assert {level.geolevel: level.share for level in BUDGET.levels} == {
        level: Fraction(1, 5) if level in LEVELS[:2] else Fraction(3, 25) for level in LEVELS
    }
    for level in BUDGET.levels:
        assert {item.query: item.share for item in level.queries} == {name: row[1] for name, row in PUBLISHED.items()}
    assert {name: DDP.schema.query(name).rows for name in PUBLISHED} == {n: row[0] for n, row in PUBLISHED.items()}
    assert all(DDP.schema.query(name).is_partition for name in PUBLISHED)
    assert not DDP.strategies["ddp_2010"].passes


@pytest.mark.parametrize("query", PUBLISHED)
@pytest.mark.parametrize("level", LEVELS)
def test_scales_of_noise_are_the_published_ones(level: str, query: str) -> None:
    _, share, above, below = PUBLISHED[query]
    scale = BUDGET.mechanism(level, query).scale
    of_level = Fraction(1, 5) if level in LEVELS[:2] else Fraction(3, 25)
    assert scale == 2 / (2 * of_level * share)
    assert float(scale) == pytest.approx(above if level in LEVELS[:2] else below, abs=0.005)


def quantile(scale: Fraction, probability: float) -> int:
    """The least whole number that the noise is at most with a probability: P(k) ~ exp(-|k| / scale)."""
    ratio = exp(-1 / float(scale))
    values = range(-3000, 3000)
    weight = [ratio ** abs(k) * (1 - ratio) / (1 + ratio) for k in values]
    return next(k for k, total in zip(values, accumulate(weight), strict=True) if total >= probability)


def test_percentiles_of_the_noise_of_all_cells_are_the_published_ones() -> None:
    detailed = BUDGET.mechanism("Block", "detailed").scale
    assert (quantile(detailed, 0.75), quantile(detailed, 0.975)) == (29, 125)


def possible(hhage: int, size: int, hhtype: int, elderly: int, multi: int) -> bool:
    """Whether one or two people can be such a household: by who they are, not by the rules of the release."""
    own = (0, 0, 0, 0, 0, 1, 2, 3, 3)[hhage]  # class of the householder's age among those of the oldest member
    if multi or size == 0:
        return False
    if size == 1:
        return hhtype == 18 and elderly == own
    if hhtype in (19, 20):  # the other one is a child
        return elderly == own
    if hhtype in (3, 7, 12, 17):  # a spouse or partner; the release has none of 75 beside somebody under 25
        return elderly >= own and not (hhage == 0 and elderly == 3)
    return hhtype in (22, 23) and elderly >= own  # another relative, or somebody who is none


def test_147980_cells_are_possible_and_29_rules_say_which() -> None:
    assert np.count_nonzero(~DDP.zero_cells()) == 147_980
    assert len(DDP.structural_zeros) == 29  # the 30th constraint is the one by the housing units
    assert len({rule.name for rule in DDP.structural_zeros}) == 29


def test_households_of_one_and_two_are_possible_where_their_people_are() -> None:
    zero = DDP.zero_cells().reshape(DDP.schema.shape)
    for hhage, size, hhtype, elderly, multi in product(range(9), range(3), range(24), range(4), range(2)):
        cells = zero[:, hhage, :, :, size, hhtype, elderly, multi]
        expected = not possible(hhage, size, hhtype, elderly, multi)
        assert cells.all() == cells.any() == expected, (hhage, size, hhtype, elderly, multi)


@pytest.mark.parametrize(
    ("cell", "is_zero"),
    [
        ((1, 3, 22, 2, 1), False),  # parent, householder and child of the householder's sister
        ((1, 3, 2, 0, 0), True),  # a couple with children of two ages are four
        ((1, 3, 21, 0, 0), False),
        ((1, 3, 21, 1, 0), True),  # a mother of 30 with two children: nobody is 60
        ((1, 3, 0, 0, 1), True),  # a couple with a child are two generations
        ((1, 4, 0, 2, 1), False),  # and three with a parent of 70
        ((1, 4, 2, 2, 1), True),
        ((7, 6, 22, 2, 0), True),  # the householder of 80 is somebody of 75
        ((6, 6, 22, 1, 0), True),
        ((5, 6, 22, 0, 0), True),
        ((0, 3, 1, 3, 0), True),  # a couple under 25 with a child
        ((0, 4, 1, 3, 0), False),  # a fourth may be 75
        ((1, 7, 18, 0, 0), True),
        ((1, 7, 12, 0, 1), True),
    ],
)
def test_rules_of_larger_households_hold_in_examples(cell: tuple[int, ...], is_zero: bool) -> None:
    hhage, size, hhtype, elderly, multi = cell
    cells = DDP.zero_cells().reshape(DDP.schema.shape)[:, hhage, :, :, size, hhtype, elderly, multi]
    assert cells.all() == cells.any() == is_zero


def test_households_are_at_most_the_housing_units_and_facilities_bound_nothing() -> None:
    bounds = DDP.unit_bounds
    assert bounds is not None
    assert (bounds.least, bounds.most) == ((0,), (1,))
    assert DDP.schema.query(DDP.class_query).rows == 1
    assert bounds.upper(np.array([[7], [0]])).tolist() == [[7], [0]]
    assert bounds.lower(np.array([[7], [0]])).tolist() == [[0], [0]]


def test_28_types_of_facilities_and_housing_units_are_exact_and_vacant_ones_are_not() -> None:
    assert len(DDP.unit_classes) == 29
    assert DDP.unit_classes[0] == "Housing unit (occupied or vacant)"
    assert DDP.vacant_counted
    assert DDP.listed == tuple(range(1, 30))


def test_the_unit_file_has_the_published_columns() -> None:
    assert [(column.name, column.type) for column in DDP.microdata.unit] == [
        ("SCHEMA_TYPE_CODE", "CHAR3"),
        ("SCHEMA_BUILD_ID", "CHAR5"),
        ("TABBLKST", "CHAR2"),
        ("TABBLKCOU", "CHAR3"),
        ("TABTRACTCE", "CHAR6"),
        ("TABBLKGRPCE", "CHAR1"),
        ("TABBLK", "CHAR4"),
        ("RTYPE", "CHAR1"),
        ("GQTYPE", "CHAR3"),
        ("TEN", "CHAR1"),
        ("VACS", "CHAR1"),
        ("HHSIZE", "INT5"),
        ("HHT", "CHAR1"),
        ("HHT2", "CHAR2"),
        ("CPLT", "CHAR1"),
        ("UPART", "CHAR1"),
        ("MULTG", "CHAR1"),
        ("HHLDRAGE", "CHAR1"),
        ("HHSPAN", "CHAR1"),
        ("HHRACE", "CHAR2"),
        ("PAOC", "CHAR1"),
        ("P18", "CHAR1"),
        ("P60", "CHAR1"),
        ("P65", "CHAR1"),
        ("P75", "CHAR1"),
        ("PAC", "CHAR1"),
        ("HHSEX", "CHAR1"),
    ]
    assert DDP.files(units=True) == ("household",)


NAMES = ("RTYPE", "GQTYPE", "TEN", "VACS", "HHSIZE", "HHT", "HHT2", "CPLT", "UPART", "MULTG", "HHLDRAGE", "HHSPAN")
NAMES += ("HHRACE", "PAOC", "P60", "P65", "P75", "HHSEX")
#: (hhsex, hhage, hisp, hhrace, size, hhtype, elderly, multi) -> the text of the columns NAMES, by the published codes.
HOUSEHOLDS = {
    (0, 1, 0, 0, 4, 2, 0, 0): "2 000 9 0 4 1 01 1 5 1 2 1 01 3 0 0 0 1",  # a couple with children of both ages
    (1, 6, 1, 3, 1, 18, 2, 0): "2 000 9 0 1 6 05 0 5 0 7 2 04 4 1 1 0 2",  # a woman of 70, alone
    (0, 8, 0, 1, 1, 18, 3, 0): "2 000 9 0 1 4 09 0 5 0 9 1 02 4 1 1 1 1",  # a man of 90, alone
    (1, 2, 0, 0, 5, 9, 1, 1): "2 000 9 0 5 3 03 3 4 2 3 1 01 2 1 0 0 2",  # a woman and a man, unmarried, a child of 10
    (0, 2, 0, 6, 2, 17, 0, 0): "2 000 9 0 2 5 04 4 1 0 3 1 07 4 0 0 0 1",  # two men, unmarried
    (1, 0, 0, 0, 2, 19, 0, 0): "2 000 9 0 2 3 06 5 5 0 1 1 01 1 0 0 0 2",  # a young mother with a child
    (1, 3, 0, 0, 7, 22, 3, 1): "2 000 9 0 7 3 07 5 5 2 4 1 01 4 1 1 1 2",  # a woman with relatives
    (0, 3, 0, 0, 3, 23, 0, 0): "2 000 9 0 3 5 12 5 5 1 4 1 01 4 0 0 0 1",  # men who share a dwelling
    (0, 4, 0, 0, 2, 7, 0, 0): "2 000 9 0 2 1 02 2 5 0 5 1 01 4 0 0 0 1",  # two men, married
}
NOBODY = "0 0 00 0 0 0 0 0 00 0 0 0 0 0"


def test_codes_of_households_vacant_units_and_facilities_are_the_published_ones() -> None:
    coded = {column.name: column for column in record_columns(DDP, units=True).columns if column.name in NAMES}
    cells = np.array([np.ravel_multi_index(levels, DDP.schema.shape) for levels in HOUSEHOLDS])
    found = [" ".join(row) for row in zip(*[coded[name].texts(cells) for name in NAMES], strict=True)]
    assert found == list(HOUSEHOLDS.values())
    codes = DDP.schema.size + np.array([0, 9, 27, 28])  # federal detention, nursing, shelters, and vacant units
    listed = [" ".join(row) for row in zip(*[coded[name].texts(codes) for name in NAMES], strict=True)]
    assert listed == [f"{first} {NOBODY}" for first in ("4 101 0 0", "4 301 0 0", "4 904 0 0", "2 000 0 9")]


def test_every_kind_of_unit_has_codes_of_its_own() -> None:
    codes = microdata_codes(DDP)
    kinds = np.arange(DDP.schema.size, DDP.schema.size + len(DDP.listed))
    assert len(set(codes.codes_of(kinds))) == 29
    assert codes.classes_of(kinds).tolist() == list(DDP.listed)
    facilities = DDP.microdata.unit[8].source.split(":")[2].split(",")
    types = {1: range(101, 107), 2: range(201, 204), 3: (301,), 4: range(401, 406), 5: (501,), 6: (601, 602)}
    others = (701, 702, 704, 706, 801, 802, 900, 901, 903, 904)
    assert list(map(int, facilities[1:-1])) == [code for codes in types.values() for code in codes] + list(others)


#: Table -> its lines.
LINES = {
    **{"P15": 17, "P18": 9, "P19": 19, "P22": 21, "P23": 15, "P24": 11, "P25": 11, "P26": 11, "P28": 16, "P35": 1},
    **{"P38": 20, "PCT14": 3, "PCT18": 15, "H6": 8, "H7": 17, "H13": 8},
    # Of the demonstration alone: in the file P20 and PCT15 have 34 lines each, of children who are related.
    **{"DDP_P20": 19, "DDP_PCT15": 12},
}
ITERATED = ("P18", "P28", "P35", "P38", "PCT14")
#: Who the householders of the iterations are.
WHO = (
    "White alone",
    "Black or African American alone",
    "American Indian and Alaska Native alone",
    "Asian alone",
    "Native Hawaiian and Other Pacific Islander alone",
    "Some Other Race alone",
    "Two or More Races",
    "Hispanic or Latino",
    "White alone, not Hispanic or Latino",
)


def test_tables_are_those_that_households_determine_with_the_lines_of_their_shells() -> None:
    found = {table.name: len(table.columns) for table in DDP.tables}
    assert {name: rows for name, rows in found.items() if name in LINES} == LINES
    iterated = Counter(name.rstrip("ABCDEFGHI") for name in found if name not in LINES)
    assert iterated == dict.fromkeys(ITERATED, 9)
    assert all(found[name] == LINES[name.rstrip("ABCDEFGHI")] for name in found if name not in LINES)
    names = {table.name: table.names for table in DDP.tables}
    assert names["P15"][:2] == ("P0150001", "P0150002")
    assert names["P18A"][-1] == "P018A009"
    assert names["PCT14"][-1] == "PCT0140003"
    assert names["H13"][0] == "H0130001"
    assert names["DDP_PCT15"][0] == "DDP_PCT0150001"


def test_occupancy_counts_vacant_units_in_a_cell_that_no_household_can_be_in() -> None:
    """H3 of the file: its total is the housing units, whose vacant ones have the size 0."""
    (occupancy,) = DDP.occupancy
    assert (occupancy.name, occupancy.title, occupancy.universe) == ("H3", "Occupancy status", "Housing units")
    assert occupancy.names == ("H0030001", "H0030002", "H0030003")
    zero, (total, occupied, vacant) = DDP.zero_cells(), [column.times(DDP.schema) for column in occupancy.columns]
    assert zero[DDP.vacant_cell]
    assert (total[DDP.vacant_cell], occupied[DDP.vacant_cell], vacant[DDP.vacant_cell]) == (1, 0, 1)
    assert (occupied[~zero] == 1).all()
    assert not vacant[~zero].any()
    assert (total == 1).all()
    tables = [DDP.every_table_on(DDP.spine(), units=units) for units in (True, False)]
    assert [[table.name for table in each].count("H3") for each in tables] == [1, 0]
    assert occupancy not in DDP.tables_on(DDP.spine())  # those that have intervals


def test_universes_of_iterations_are_sentences_with_every_label() -> None:
    """In the words of the file: "a" would be wrong before two of the races."""
    tables = {table.name: table for table in DDP.tables}
    for letter, who in zip("ABCDEFGHI", WHO, strict=True):
        for name, counted in (("P18", "Households"), ("P38", "Families")):
            assert tables[name + letter].universe == f"{counted} with a householder who is {who}"
            assert tables[name + letter].title == f"{tables[name].title} ({who} householder)"


def test_tables_of_tracts_stop_there_and_no_table_has_groups_of_tracts() -> None:
    census = [level for level in LEVELS if level != "Tract_Group"]
    for table in DDP.tables:
        lowest = "Tract" if "PCT" in table.name else "Block"
        assert list(table.levels(DDP.spine())) == census[: census.index(lowest) + 1]


def families(hhtype: int) -> bool:
    return hhtype not in (12, 17, 18, 23)


def test_tables_of_some_households_are_what_counting_them_one_by_one_gives() -> None:
    """Lines of several tables, counted from the households themselves by what a line says in words."""
    random = np.random.default_rng(2010)
    cells = np.flatnonzero(~DDP.zero_cells())[random.integers(0, 147_980, 4000)]
    people = np.array(np.unravel_index(cells, DDP.schema.shape)).T.tolist()
    counts = np.bincount(cells, minlength=DDP.schema.size)
    tables = {table.name: table for table in DDP.tables}

    def line(name: str, number: int) -> int:
        return int(counts[tables[name].columns[number - 1].mask(DDP.schema)].sum())

    def among(rule) -> int:
        return sum(bool(rule(*one)) for one in people)

    assert line("P18", 2) == among(lambda s, a, h, r, n, t, e, m: families(t))
    assert line("P18", 6) == among(lambda s, a, h, r, n, t, e, m: families(t) and t > 7 and s == 1)
    assert line("P18C", 8) == among(lambda s, a, h, r, n, t, e, m: t == 18 and r == 2)
    assert line("P18I", 1) == among(lambda s, a, h, r, n, t, e, m: r == 0 and h == 0)
    assert line("P19", 8) == among(lambda s, a, h, r, n, t, e, m: t in (0, 1, 2, 4, 5, 6))
    assert line("P19", 16) == among(lambda s, a, h, r, n, t, e, m: s == 1 and t in (11, 16, 22))
    assert line("DDP_P20", 10) == among(lambda s, a, h, r, n, t, e, m: s == 0 and n == 1 and a >= 6)
    assert line("P22", 21) == among(lambda s, a, h, r, n, t, e, m: not families(t) and a == 8)
    assert line("P23", 9) == among(lambda s, a, h, r, n, t, e, m: e == 0)
    assert line("P25", 4) == among(lambda s, a, h, r, n, t, e, m: n > 1 and e >= 2)
    assert line("P26", 2) == among(lambda s, a, h, r, n, t, e, m: e == 3)
    assert line("P28", 16) == among(lambda s, a, h, r, n, t, e, m: not families(t) and n == 7)
    assert line("P35F", 1) == among(lambda s, a, h, r, n, t, e, m: families(t) and r == 5)
    assert line("P38", 5) == among(lambda s, a, h, r, n, t, e, m: t in (2, 6))
    assert line("P38", 17) == among(lambda s, a, h, r, n, t, e, m: s == 1 and t in (8, 13, 19))
    assert line("PCT14", 2) == among(lambda s, a, h, r, n, t, e, m: m)
    assert line("DDP_PCT15", 11) == among(lambda s, a, h, r, n, t, e, m: 13 <= t <= 17 and s == 1)
    assert line("PCT18", 15) == among(lambda s, a, h, r, n, t, e, m: s == 1 and t in (12, 17, 23) and a >= 6)
    assert line("H7", 17) == among(lambda s, a, h, r, n, t, e, m: h == 1 and r == 6)
    assert line("H13", 8) == among(lambda s, a, h, r, n, t, e, m: n == 7)
