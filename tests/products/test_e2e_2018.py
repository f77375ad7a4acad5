"""The product of the 2018 End-to-End test against the published facts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.products import PRODUCTS

E2E = PRODUCTS["e2e_2018"]

PERSON = [
    "SCHEMA_TYPE_CODE",
    "SCHEMA_BUILD_ID",
    "TABBLKST",
    "TABBLKCOU",
    "TABTRACTCE",
    "TABBLKGRPCE",
    "TABBLK",
    "EUID",
    "EPNUM",
    "RTYPE",
    "QREL",
    "QSEX",
    "QAGE",
    "CENHISP",
    "CENRACE",
    "QSPANX",
    "QRACE1",
    "QRACE2",
    "QRACE3",
    "QRACE4",
    "QRACE5",
    "QRACE6",
    "QRACE7",
    "QRACE8",
    "CIT",
]
UNIT = [
    "SCHEMA_TYPE_CODE",
    "SCHEMA_BUILD_ID",
    "TABBLKST",
    "TABBLKCOU",
    "TABTRACTCE",
    "TABBLKGRPCE",
    "TABBLK",
    "EUID",
    "RTYPE",
    "GQTYPE",
    "TEN",
    "VACS",
    "FINAL_POP",
    "HHT",
    "HHT2",
    "NPF",
    "CPLT",
    "UPART",
    "MULTG",
    "HHLDRAGE",
    "HHSPAN",
    "HHRACE",
    "PAOC",
    "P18",
    "P60",
    "P65",
    "P75",
]


def test_cells_and_answers_have_the_published_numbers() -> None:
    assert [attribute.name for attribute in E2E.schema.attributes] == ["hhgq", "votingage", "hispanic", "cenrace"]
    assert E2E.schema.shape == (8, 2, 2, 63)
    assert E2E.schema.size == 2016
    assert [E2E.schema.query(name).rows for name in ("hhgq", E2E.strata, "detailed")] == [8, 252, 2016]


def test_geocodes_are_cut_at_state_county_tract_block_group_and_block() -> None:
    assert {level.name: level.length for level in E2E.geolevels} == {
        "State": 2,
        "County": 5,
        "Tract": 11,
        "Block_Group": 12,
        "Block": 16,
    }
    assert E2E.default_levels == ("County", "Tract", "Block_Group", "Block")
    assert E2E.total_at == "County"


def test_the_budget_is_2499_of_10000_in_equal_quarters() -> None:
    budget = E2E.strategies["e2e_2018"].budget
    assert budget.total == Fraction(2499, 10_000)
    assert {level.share for level in budget.levels} == {Fraction(1, 4)}
    shares = {query.query: query.share for query in budget.level("Block").queries}
    assert shares == {"hhgq": Fraction(9, 40), E2E.strata: Fraction(27, 40), "detailed": Fraction(1, 10)}
    assert budget.spent("Tract", "hhgq") == Fraction(2499, 10_000) * Fraction(1, 4) * Fraction(9, 40)


def test_only_minors_in_nursing_facilities_are_impossible() -> None:
    (rule,) = E2E.structural_zeros
    codes = E2E.schema.unravel(np.flatnonzero(rule.mask(E2E.schema)))
    assert len(codes) == 2 * 63
    assert set(map(tuple, codes[:, :2].tolist())) == {(3, 0)}


def test_a_household_holds_1_to_99_and_a_facility_1_to_99999() -> None:
    assert E2E.unit_bounds.least == (1,) * 8
    assert E2E.unit_bounds.most == (99, *(99_999,) * 7)
    assert not E2E.unit_bounds.cap_when_total_known


def test_institutions_are_classes_one_to_four() -> None:
    assert E2E.schema.query("hhinstlevels").row_of(np.arange(0, 2016, 252)).tolist() == [0, 1, 1, 1, 1, 2, 2, 2]
    assert E2E.schema.query("instlevels").row_of(np.arange(0, 2016, 252)).tolist() == [-1, 0, 0, 0, 0, 1, 1, 1]
    assert E2E.schema.query("hhgq_2level").row_of(np.arange(0, 2016, 252)).tolist() == [0, *[1] * 7]


def test_both_files_have_the_columns_of_the_specification_in_order() -> None:
    assert [column.name for column in E2E.microdata.person] == PERSON
    assert [column.name for column in E2E.microdata.unit] == UNIT
    assert (len(PERSON), len(UNIT)) == (25, 27)


def test_types_of_records_and_fillers() -> None:
    person = {column.name: column for column in E2E.microdata.person}
    unit = {column.name: column for column in E2E.microdata.unit}
    assert person["SCHEMA_TYPE_CODE"].source == "constant:MPD"
    assert unit["SCHEMA_TYPE_CODE"].source == "constant:MUD"
    assert person["SCHEMA_BUILD_ID"].source == unit["SCHEMA_BUILD_ID"].source == "constant:3.1.4"
    fillers = {name: column.source for name, column in person.items() if set(column.source[9:]) == {"9"}}
    assert fillers == {
        "QREL": "constant:99",
        "QSEX": "constant:9",
        "QSPANX": "constant:9999",
        **{f"QRACE{number}": "constant:9999" for number in range(1, 9)},
        "CIT": "constant:9",
    }
    widths = [unit[name].source.removeprefix("constant:") for name in UNIT[13:]]
    assert widths == ["9", "99", "99", "9", "9", "9", "999", "9", "99", "9", "99", "99", "99", "99"]


def test_codes_of_age_race_and_group_quarters() -> None:
    person = {column.name: column.source for column in E2E.microdata.person}
    assert person["QAGE"] == "recode:votingage:17,18"
    assert person["CENHISP"] == "recode:hispanic:1,2"
    races = person["CENRACE"].removeprefix("recode:cenrace:").split(",")
    assert (races[0], races[8], races[9], races[62], len(races)) == ("01", "09", "10", "63", 63)
    gqtype = next(column.source for column in E2E.microdata.unit if column.name == "GQTYPE")
    expected = ["000", *(str(level * 100 + 1) for level in range(1, 8)), "000"]
    assert gqtype.removeprefix("recode:unit_class:").split(",") == expected
