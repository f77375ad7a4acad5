"""The product of the 1940 runs against the published facts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.privacy import DiscreteLaplace
from das_spark.products import PRODUCTS

E2E = PRODUCTS["e2e_1940"]

PERSON = [
    "SCHEMA_TYPE_CODE",
    "SCHEMA_BUILD_ID",
    "STATE",
    "COUNTY",
    "ENUMDIST",
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
    "STATE",
    "COUNTY",
    "ENUMDIST",
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
    assert [attribute.name for attribute in E2E.schema.attributes] == ["hhgq", "age18plus", "hispanic", "race"]
    assert E2E.schema.shape == (8, 2, 2, 6)
    assert E2E.schema.size == 192
    assert [E2E.schema.query(name).rows for name in ("hhgq", E2E.strata, "detailed")] == [8, 24, 192]
    assert E2E.structural_zeros == ()


def test_geocodes_are_cut_at_state_county_and_enumeration_district() -> None:
    levels = [(level.name, level.length) for level in E2E.geolevels]
    assert levels == [("National", 0), ("State", 2), ("County", 6), ("Enumdist", 10)]
    assert E2E.default_levels == tuple(name for name, _ in levels)
    assert E2E.total_at == "State"


@pytest.mark.parametrize("level", ["National", "State", "County", "Enumdist"])
@pytest.mark.parametrize(
    ("query", "scale"), [("hhgq", 142.2222), ("age18plus * hispanic * race", 47.4074), ("detailed", 320.0)]
)
def test_scales_at_epsilon_one_quarter_are_the_published_ones(level: str, query: str, scale: float) -> None:
    budget = E2E.strategies["e2e_1940"].budget
    assert budget.total == Fraction(1, 4)
    mechanism = budget.mechanism(level, query)
    assert isinstance(mechanism, DiscreteLaplace)
    assert mechanism.scale == 2 / budget.spent(level, query)
    assert round(float(mechanism.scale), 4) == scale


def test_institutions_are_classes_one_to_three() -> None:
    first = np.arange(0, 192, 24)
    assert E2E.schema.query("hhinstlevels").row_of(first).tolist() == [0, 1, 1, 1, 2, 2, 2, 2]
    assert E2E.schema.query("instlevels").row_of(first).tolist() == [-1, 0, 0, 0, 1, 1, 1, 1]
    assert E2E.schema.query("gqlevels").row_of(first).tolist() == [-1, *range(7)]


def test_both_files_have_the_columns_of_the_specification_in_order() -> None:
    assert [column.name for column in E2E.microdata.person] == PERSON
    assert [column.name for column in E2E.microdata.unit] == UNIT
    assert (len(PERSON), len(UNIT)) == (23, 25)
    assert E2E.microdata.name == "mdf_1940"


def test_codes_of_the_1940_files() -> None:
    person = {column.name: column.source for column in E2E.microdata.person}
    unit = {column.name: column.source for column in E2E.microdata.unit}
    assert person["SCHEMA_TYPE_CODE"] == "constant:MPD1940"
    assert unit["SCHEMA_TYPE_CODE"] == "constant:MUD1940"
    assert person["QAGE"] == "recode:age18plus:17,18"
    assert person["CENRACE"] == "recode:race:1,2,3,4,5,6"
    assert unit["GQTYPE"] == "recode:unit_class:0,2,3,4,6,7,8,9,0"
    assert [person[name] for name in ("STATE", "COUNTY", "ENUMDIST")] == [
        "geocode[0:2]",
        "geocode[2:6]",
        "geocode[6:10]",
    ]
