"""The persons of the 2010 demonstration against published facts: cells, shares, scales of noise, zeros, layout."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate
from math import exp

import numpy as np
import pytest

from das_spark.constraints import divisible
from das_spark.products import PRODUCTS

DDP = PRODUCTS["ddp_2010_person"]
BUDGET = DDP.strategies["ddp_2010"].budget
LEVELS = ("Nation", "State", "County", "Tract_Group", "Tract", "Block_Group", "Block")
STRATA = "votingage * hispanic * cenrace * citizen"
AGES = ("sex * age", "sex * ageGroups4", "sex * ageGroups16", "sex * ageGroups64")
#: Query -> answers, share, and the published scales at nation and states, and below.
PUBLISHED = {
    "hhgq": (8, Fraction(1, 5), 12.5, 20.83),
    STRATA: (504, Fraction(1, 2), 5, 8.33),
    **{name: (rows, Fraction(1, 20), 50, 83.33) for name, rows in zip(AGES, (232, 58, 16, 4), strict=True)},
    "detailed": (467_712, Fraction(1, 10), 25, 41.67),
}


def test_the_histogram_has_the_published_axes() -> None:
    sizes = {attribute.name: attribute.size for attribute in DDP.schema.attributes}
    assert list(sizes.items()) == [
        ("hhgq", 8),
        ("sex", 2),
        ("age", 116),
        ("hispanic", 2),
        ("cenrace", 63),
        ("citizen", 2),
    ]
    assert DDP.schema.size == 467_712
    redistricting = PRODUCTS["pl94_2020_person"].schema
    for name in ("hhgq", "hispanic", "cenrace"):
        own, other = (schema.attributes[schema.axis(name)] for schema in (DDP.schema, redistricting))
        assert own.levels == other.levels
        assert own.recodes[: len(other.recodes)] == other.recodes


def test_groups_of_tracts_are_the_first_four_digits_of_tracts_and_every_level_nests() -> None:
    assert {level.name: level.length for level in DDP.geolevels} == dict(
        zip(LEVELS, (0, 2, 5, 9, 11, 12, 16), strict=True)
    )
    assert DDP.default_levels == LEVELS
    assert DDP.total_at == "State"


def test_epsilon_4_and_shares_are_the_published_ones_at_every_level() -> None:
    assert BUDGET.total == 4
    assert {level.geolevel: level.share for level in BUDGET.levels} == {
        level: Fraction(1, 5) if level in LEVELS[:2] else Fraction(3, 25) for level in LEVELS
    }
    for level in BUDGET.levels:
        assert {item.query: item.share for item in level.queries} == {name: row[1] for name, row in PUBLISHED.items()}
    assert {name: DDP.schema.query(name).rows for name in PUBLISHED} == {n: row[0] for n, row in PUBLISHED.items()}
    # One fit of everything and the cell-wise rounder, as released: no passes.
    assert not DDP.strategies["ddp_2010"].passes


@pytest.mark.parametrize("query", PUBLISHED)
@pytest.mark.parametrize("level", LEVELS)
def test_scales_of_noise_are_the_published_ones(level: str, query: str) -> None:
    _, share, above, below = PUBLISHED[query]
    scale = BUDGET.mechanism(level, query).scale
    of_level = Fraction(1, 5) if level in LEVELS[:2] else Fraction(3, 25)
    assert scale == 2 / (4 * of_level * share)
    assert float(scale) == pytest.approx(above if level in LEVELS[:2] else below, abs=0.005)


def quantile(scale: Fraction, probability: float, *, absolute: bool = False) -> int:
    """The least whole number that the noise, or its size, is at most with a probability: P(k) ~ exp(-|k| / scale)."""
    ratio, reach = exp(-1 / float(scale)), 3000
    values = range(0 if absolute else -reach, reach)
    weight = [(1 if k == 0 or not absolute else 2) * ratio ** abs(k) * (1 - ratio) / (1 + ratio) for k in values]
    return next(k for k, total in zip(values, accumulate(weight), strict=True) if total >= probability)


def test_percentiles_of_the_noise_are_the_published_ones() -> None:
    detailed, ages = (BUDGET.mechanism("Block", name).scale for name in ("detailed", "sex * age"))
    assert (quantile(detailed, 0.75), quantile(detailed, 0.975)) == (29, 125)
    # "Half the draws above 57 in absolute value": the median itself is 58.
    assert quantile(ages, 0.5, absolute=True) - 1 == 57


WIDTHS = {"ageGroups4": 4, "ageGroups16": 16, "ageGroups64": 64}


def test_groups_of_ages_have_their_widths_from_birth_and_short_last_ones() -> None:
    recodes = {recode.name: recode for recode in DDP.schema.attributes[2].recodes}
    for name, width in WIDTHS.items():
        assert recodes[name].group_of(116).tolist() == [age // width for age in range(116)]
    assert {name: len(recodes[name].groups) for name in WIDTHS} == dict(zip(WIDTHS, (29, 8, 2), strict=True))
    assert recodes["votingage"].group_of(116).tolist() == [int(age >= 18) for age in range(116)]
    assert recodes["agecat43"].group_of(116).tolist() == [(age >= 18) + (age >= 65) for age in range(116)]
    assert recodes["ageGroups4"].labels[0] == "Under 4 years"
    assert DDP.schema.attributes[2].levels[:3] == ("Under 1 year", "1 year", "2 years")


def is_impossible(quarters: int, age: int) -> bool:
    """The five rules, once more."""
    rules = {1: age < 15, 2: age > 25, 3: age < 20, 5: age < 16 or age > 65, 6: age < 17 or age > 65}
    return rules.get(quarters, False)


def test_structural_zeros_are_those_of_the_five_rules_cell_by_cell() -> None:
    zero = DDP.zero_cells().reshape(DDP.schema.shape)
    for quarters in range(8):
        for age in range(116):
            cells = zero[quarters, :, age]
            assert cells.all() == cells.any() == is_impossible(quarters, age), (quarters, age)
    assert np.count_nonzero(~zero) == 337_680
    assert [rule.name for rule in DDP.structural_zeros] == [
        "hhgq1_lessthan15",
        "hhgq2_greaterthan25",
        "hhgq3_lessthan20",
        "hhgq5_lt16gt65",
        "hhgq6_lt17gt65",
    ]


@pytest.mark.parametrize(
    ("units", "total", "lower", "upper"),
    [
        (
            [1, 2, 3, 4, 5, 6, 7, 8],
            None,
            [0, 2, 3, 4, 5, 6, 7, 8],
            [99, 199_998, 299_997, 399_996, 499_995, 599_994, 699_993, 799_992],
        ),
        ([1, 2, 3, 4, 5, 6, 7, 8], 1000, [0, 2, 3, 4, 5, 6, 7, 8], [99, 967, 968, 969, 970, 971, 972, 973]),
    ],
)
def test_bounds_of_units_are_those_of_worked_examples(
    units: list[int], total: int | None, lower: list[int], upper: list[int]
) -> None:
    formulas, known = DDP.unit_bounds, None if total is None else np.array([total])
    assert formulas is not None
    found = [side(np.array([units]), known)[0].tolist() for side in (formulas.lower, formulas.upper)]
    assert found == [lower, upper]
    assert divisible(*(np.array([side]) for side in found), total=known).all()


def test_vacant_units_count_among_the_units_of_households() -> None:
    assert DDP.vacant_counted
    assert DDP.unit_classes[0] == "Housing unit (occupied or vacant)"
    assert len(DDP.unit_classes) == 8


def test_the_person_file_has_the_columns_of_the_published_one() -> None:
    assert [(column.name, column.type) for column in DDP.microdata.person] == [
        ("SCHEMA_TYPE_CODE", "CHAR3"),
        ("SCHEMA_BUILD_ID", "CHAR5"),
        ("TABBLKST", "CHAR2"),
        ("TABBLKCOU", "CHAR3"),
        ("TABTRACTCE", "CHAR6"),
        ("TABBLKGRPCE", "CHAR1"),
        ("TABBLK", "CHAR4"),
        ("EPNUM", "INT9"),
        ("RTYPE", "CHAR1"),
        ("GQTYPE", "CHAR3"),
        ("RELSHIP", "CHAR2"),
        ("QSEX", "CHAR1"),
        ("QAGE", "INT3"),
        ("CENHISP", "CHAR1"),
        ("CENRACE", "CHAR2"),
        ("LIVE_ALONE", "CHAR1"),
    ]
    sources = {column.name: column.source for column in DDP.microdata.person}
    constants = {name: text.removeprefix("constant:") for name, text in sources.items() if text.startswith("constant:")}
    assert constants == {
        "SCHEMA_TYPE_CODE": "MPD",
        "SCHEMA_BUILD_ID": "1.1.0",
        "EPNUM": "999999999",
        "RELSHIP": "99",
        "LIVE_ALONE": "9",
    }
    assert sources["GQTYPE"] == "recode:hhgq:000,101,201,301,401,501,601,701"
    assert sources["QAGE"].split(":")[2].split(",") == [str(age) for age in range(116)]
    assert DDP.files(units=True) == ("person",)


def test_tables_are_those_that_persons_determine() -> None:
    letters = Counter(table.name.rstrip("ABCDEFGHIJKLMNO") for table in DDP.tables)
    assert letters == {
        **dict.fromkeys(("P1", "P2", "P3", "P4", "SF1_P1", "SF1_P3", "SF1_P4", "P5", "P6", "P7"), 1),
        **dict.fromkeys(("P14", "P16", "P42", "P43", "H10"), 1),
        **dict.fromkeys((f"PCO{number}" for number in range(1, 11)), 1),
        **dict.fromkeys(("P12", "PCT13", "PCT22"), 10),
        "PCT12": 16,
        "DDP_PCO43": 9,
    }
    assert len(DDP.tables) == 80
    assert sum(len(table.columns) for table in DDP.tables) == 5_950


def test_a_run_below_the_county_has_no_tables_of_counties():
    product = PRODUCTS["ddp_2010_person"]
    below = {table.name for table in product.tables_on(product.spine(["Tract", "Block_Group", "Block"]))}
    of_counties = {table.name for table in product.tables if "PCO" in table.name}
    assert below == {table.name for table in product.tables} - of_counties
    assert product.tables_on(product.spine()) == product.tables
