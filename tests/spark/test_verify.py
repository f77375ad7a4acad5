"""Every check passes on a whole small run and catches the corruption that is planted for it."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import VerificationError
from das_spark.histogram import Query
from das_spark.io.layout import PublicLayout
from das_spark.io.writers.microdata import write_microdata
from das_spark.io.writers.reading import read_microdata
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare
from das_spark.products import PRODUCTS
from das_spark.spark.verify import (
    RELAXED,
    Check,
    LevelTables,
    VerificationReport,
    bounds_kept,
    budget_shares,
    children_sum_to_parents,
    geounits_present,
    invariant_totals,
    ledger_equals_config,
    nonnegative,
    row_counts,
    structural_zero,
    verify_levels,
)
from das_spark.spark.verify_microdata import microdata_of, verify_microdata

PRODUCT = PRODUCTS["e2e_2018"]
SIZE = PRODUCT.schema.size
COUNTY, TRACTS = "44007", ("44007000100", "44007000200")
BLOCKS = ("4400700010011001", "4400700010011002", "4400700020022001")
CELL = {
    name: int(PRODUCT.schema.ravel([code])[0])
    for name, code in {
        "adult": (0, 1, 0, 0),
        "child": (0, 0, 1, 5),
        "prison": (1, 1, 0, 1),
        "nursing": (3, 1, 0, 1),
        "minor in nursing": (3, 0, 0, 0),
    }.items()
}
PEOPLE = {
    BLOCKS[0]: {"adult": 3, "child": 2, "prison": 4},
    BLOCKS[1]: {},
    BLOCKS[2]: {"adult": 1, "nursing": 3, "prison": 1},
}
UNITS = {BLOCKS[0]: [2, 1, 0, 0, 0, 0, 0, 0], BLOCKS[1]: [0] * 8, BLOCKS[2]: [1, 1, 0, 2, 0, 0, 0, 0]}
VACANT = {BLOCKS[0]: 1, BLOCKS[1]: 3, BLOCKS[2]: 0}
QUERIES: dict[str, Query] = {name: PRODUCT.schema.query(name) for name in ("total",)} | {
    "class": PRODUCT.schema.query("hhgq")
}
ZERO = np.flatnonzero(PRODUCT.structural_zeros[0].mask(PRODUCT.schema)).tolist()

Rows = dict[str, dict[int, int]]


def at(length: int) -> Rows:
    summed: Rows = {}
    for block, people in PEOPLE.items():
        own = summed.setdefault(block[:length], {})
        for name, count in people.items():
            own[CELL[name]] = own.get(CELL[name], 0) + count
    return summed


def estimates(spark, rows: Rows, above: int):
    table = [
        (code, code[:above], sorted(people), [people[cell] for cell in sorted(people)]) for code, people in rows.items()
    ]
    return spark.createDataFrame(table, "geocode string, parent string, cells array<int>, counts array<long>")


def geounits(spark, codes, above: int):
    table = [(code, code[:above], 0) for code in codes]
    return spark.createDataFrame(table, "geocode string, parent string, children long")


def invariants(spark, *, total: int | None = None, units=UNITS, vacant=VACANT):
    kind = "geocode string, parent string, name string, values array<long>"
    if total is not None:
        return spark.createDataFrame([(COUNTY, "", "total", [total])], kind)
    rows = [(code, code[:11], "units", values) for code, values in units.items()]
    return spark.createDataFrame(rows + [(code, code[:11], "vacant", [count]) for code, count in vacant.items()], kind)


def bounds(spark, code: str, name: str, lower, upper):
    kind = "geocode string, parent string, name string, member string, lower array<long>, upper array<long>"
    return spark.createDataFrame([(code, "", name, code, lower, upper)], kind)


@pytest.fixture(scope="module")
def levels(spark):
    total = sum(sum(people.values()) for people in PEOPLE.values())
    return [
        LevelTables(
            "County",
            geounits(spark, [COUNTY], 0),
            estimates(spark, at(5), 0),
            invariants(spark, total=total),
            bounds(spark, COUNTY, "total", [total], [total]),
        ),
        LevelTables("Tract", geounits(spark, TRACTS, 5), estimates(spark, at(11), 5)),
        LevelTables(
            "Block",
            geounits(spark, BLOCKS, 11),
            estimates(spark, at(16), 11),
            invariants(spark),
            bounds(spark, BLOCKS[0], "class", [2, 1, 0, 0, 0, 0, 0, 0], [8, 7, 0, 0, 0, 0, 0, 0]),
        ),
    ]


def block_with(spark, levels, changed: Rows) -> LevelTables:
    return replace(levels[2], estimates=estimates(spark, {**at(16), **changed}, 11))


@pytest.mark.spark
def test_a_whole_run_passes_every_check(levels):
    checks = verify_levels(levels, size=SIZE, queries=QUERIES, zeros={"nurse_nva_0": ZERO}, totals=["County"])
    report = VerificationReport(tuple(checks))
    assert report.passed, report.summary()
    assert {check.name for check in checks} == {
        "geounits present once",
        "nonnegative",
        "structural zero nurse_nva_0",
        "invariant totals",
        "bounds total",
        "bounds class",
        "children sum to parents",
    }
    assert all(check.checked > 0 for check in checks)


@pytest.mark.spark
def test_one_person_moved_to_another_cell_breaks_the_sums_and_names_the_parent(spark, levels):
    moved = block_with(spark, levels, {BLOCKS[2]: {CELL["adult"]: 1, CELL["nursing"]: 2, CELL["prison"]: 2}})
    check = children_sum_to_parents(levels[1], moved)
    assert not check.passed
    assert check.failing == (TRACTS[1],)


@pytest.mark.spark
def test_a_child_under_a_strange_parent_is_caught(spark, levels):
    orphan = levels[2].estimates.selectExpr("geocode", f"'{TRACTS[0]}' as parent", "cells", "counts")
    corrupt = replace(levels[2], estimates=orphan)
    assert children_sum_to_parents(levels[1], corrupt).failing == TRACTS
    assert geounits_present(corrupt).failing == (BLOCKS[2],)


@pytest.mark.spark
@pytest.mark.parametrize("corruption", ["missing", "twice", "strange"])
def test_a_geounit_that_is_missing_twice_or_strange_is_caught(spark, levels, corruption):
    rows = levels[2].estimates
    wrong = {
        "missing": (rows.where(f"geocode != '{BLOCKS[1]}'"), BLOCKS[1]),
        "twice": (rows.unionByName(rows.where(f"geocode = '{BLOCKS[1]}'")), BLOCKS[1]),
        "strange": (rows.unionByName(estimates(spark, {"4400700020029999": {}}, 11)), "4400700020029999"),
    }[corruption]
    check = geounits_present(replace(levels[2], estimates=wrong[0]))
    assert not check.passed
    assert check.failing == (wrong[1],)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("cells", "counts"),
    [
        ([1], [-1]),
        ([1], [0]),
        ([SIZE], [1]),
        ([-1], [1]),
        ([2, 1], [1, 1]),
        ([1, 1], [1, 1]),
        ([1, 2], [1]),
        (None, None),
    ],
)
def test_a_histogram_that_cannot_be_is_caught(spark, levels, cells, counts):
    kind = "geocode string, parent string, cells array<int>, counts array<long>"
    bad = spark.createDataFrame([(BLOCKS[0], TRACTS[0], cells, counts)], kind)
    assert nonnegative(replace(levels[2], estimates=bad), SIZE).failing == (BLOCKS[0],)


@pytest.mark.spark
def test_a_person_in_a_forbidden_cell_is_caught(spark, levels):
    corrupt = block_with(spark, levels, {BLOCKS[2]: {CELL["minor in nursing"]: 1}})
    check = structural_zero(corrupt, "nurse_nva_0", ZERO)
    assert check.failing == (BLOCKS[2],)


@pytest.mark.spark
def test_a_total_that_is_off_by_one_or_not_declared_is_caught(spark, levels):
    wrong = replace(levels[0], invariants=invariants(spark, total=15))
    assert invariant_totals(wrong).failing == (COUNTY,)
    undeclared = replace(levels[0], invariants=levels[2].invariants)
    assert invariant_totals(undeclared).failing == (COUNTY,)
    with pytest.raises(VerificationError, match="invariants"):
        invariant_totals(levels[1])


@pytest.mark.spark
@pytest.mark.parametrize("side", ["below", "above", "above zero", "short"])
def test_an_answer_outside_its_bounds_is_caught(spark, levels, side):
    lower, upper = [2, 1, 0, 0, 0, 0, 0, 0], [8, 7, 0, 0, 0, 0, 0, 0]
    change = {"below": (lower, 0, 6), "above": (upper, 1, 3), "above zero": (lower, 5, 1), "short": (upper, 0, 9)}[side]
    change[0][change[1]] = change[2]
    if side == "short":
        upper.pop()
    corrupt = replace(levels[2], bounds=bounds(spark, BLOCKS[0], "class", lower, upper))
    (check,) = bounds_kept(corrupt, QUERIES)
    assert not check.passed
    assert check.failing == (BLOCKS[0],)


@pytest.mark.spark
def test_a_bound_on_an_unknown_query_is_no_success_and_flows_are_left_to_their_own_level(spark, levels):
    unknown = replace(levels[2], bounds=bounds(spark, BLOCKS[0], "added:x", [0], [1]))
    assert [check.passed for check in bounds_kept(unknown, QUERIES)] == [False]
    flow = replace(levels[2], bounds=bounds(spark, BLOCKS[0], "flow", [0], [1]))
    assert bounds_kept(flow, QUERIES) == []


@pytest.mark.spark
def test_relaxed_families_are_exempt_from_sums_alone_and_listed(spark, levels):
    moved = block_with(spark, levels, {BLOCKS[2]: {CELL["adult"]: 2}})
    relaxed = replace(moved, relaxed=(TRACTS[1],))
    check = children_sum_to_parents(levels[1], relaxed)
    assert check.passed
    assert check.note == RELAXED
    elsewhere = replace(moved, relaxed=(TRACTS[0],))
    assert not children_sum_to_parents(levels[1], elsewhere).passed


@pytest.mark.spark
def test_a_level_without_any_row_is_no_success(spark, levels):
    nothing = replace(levels[2], estimates=levels[2].estimates.limit(0), geounits=levels[2].geounits.limit(0))
    assert not geounits_present(nothing).passed


@pytest.mark.spark
def test_a_row_count_that_differs_from_the_manifest_is_caught(levels):
    frames = {"estimates/Block": levels[2].estimates, "estimates/Tract": levels[1].estimates}
    assert all(check.passed for check in row_counts({"estimates/Block": 3, "estimates/Tract": 2}, frames))
    wrong = row_counts({"estimates/Block": 4, "estimates/County": 1}, frames)
    assert [(check.failing, check.passed) for check in wrong] == [
        (("estimates/Block",), False),
        (("estimates/County",), False),
        (("estimates/Tract",), False),
    ]


def budget(share: str) -> Budget:
    queries = (QueryShare("hhgq", Fraction(share)), QueryShare("detailed", 1 - Fraction(share)))
    return Budget(Framework.PURE_DP, Fraction(1, 4), (LevelBudget("County", Fraction(1), queries),))


def test_a_ledger_that_differs_in_one_share_is_caught_by_name():
    told = budget_shares(budget("9/40"))
    assert told["County / hhgq"] == "9/40"
    assert ledger_equals_config(told, budget_shares(budget("9/40"))).passed
    wrong = ledger_equals_config(told, budget_shares(budget("1/40")))
    assert wrong.failing == ("County / detailed", "County / hhgq")
    assert ledger_equals_config(told, {**told, "Block": "1"}).failing == ("Block",)
    assert not ledger_equals_config({}, {}).passed


def test_the_report_says_what_failed_and_is_json():
    report = VerificationReport((Check("a", "Block", True, 3), Check("b", "Block", False, 3, ("1", "2"))), ("Block/1",))
    assert not report.passed
    assert "b Block (1, 2)" in report.summary()
    content = json.loads(report.to_json())
    assert (content["passed"], content["relaxed"]) == (False, ["Block/1"])
    assert VerificationReport(report.checks[:1]).summary() == "1 checks passed"


@pytest.fixture(scope="module")
def written(levels, tmp_path_factory):
    layout = PublicLayout(tmp_path_factory.mktemp("public"))
    write_microdata(levels[2].estimates, levels[2].invariants, PRODUCT, layout, ["parquet", "text"], created="now")
    return layout


@pytest.fixture(scope="module")
def files(spark, written):
    person, unit = read_microdata(spark, written, PRODUCT, "parquet", units=True)
    return person.cache(), unit.cache()


def failing(checks) -> set[str]:
    return {check.name for check in checks if not check.passed}


@pytest.mark.spark
@pytest.mark.parametrize("flavour", ["parquet", "text"])
def test_the_microdata_of_a_whole_run_pass(spark, written, levels, flavour):
    files = read_microdata(spark, written, PRODUCT, flavour, units=True)
    checks = verify_microdata(microdata_of(PRODUCT, *files), levels[2])
    assert failing(checks) == set(), checks
    assert len(checks) == 5


@pytest.mark.spark
@pytest.mark.parametrize(
    ("column", "value", "where"),
    [("CENRACE", "63", "QAGE = '17'"), ("QAGE", "17", "RTYPE = '5'"), ("RTYPE", "3", "RTYPE = '5'")],
)
def test_a_person_with_another_code_is_caught(files, levels, column, value, where):
    person = files[0].selectExpr(
        *[name for name in files[0].columns if name != column], f"if({where}, '{value}', {column}) as {column}"
    )
    checks = verify_microdata(microdata_of(PRODUCT, person, files[1]), levels[2])
    assert "microdata equal estimates" in failing(checks)
    assert all(check.failing for check in checks if not check.passed)


@pytest.mark.spark
def test_a_prisoner_in_a_nursing_home_is_caught_though_the_person_codes_agree(files, levels):
    """Block 3 has a prison unit and two nursing homes; adults of the same race live in both."""
    unit = files[1].selectExpr(
        *[name for name in files[1].columns if name != "GQTYPE"],
        "case GQTYPE when '101' then '301' when '301' then '101' else GQTYPE end as GQTYPE",
    )
    checks = verify_microdata(microdata_of(PRODUCT, files[0], unit), levels[2])
    assert {"microdata equal estimates", "units equal invariants", "unit populations"} <= failing(checks)


@pytest.mark.spark
@pytest.mark.parametrize("corruption", ["missing", "twice", "moved"])
def test_a_person_that_is_missing_twice_or_elsewhere_is_caught(files, levels, corruption):
    person, unit = files
    one = "EUID = 0 and EPNUM = 1"
    wrong = {
        "missing": person.where(f"not ({one})"),
        "twice": person.unionByName(person.where(one)),
        "moved": person.selectExpr(
            *[name for name in person.columns if name != "TABBLK"], f"if({one}, '1002', TABBLK) as TABBLK"
        ),
    }[corruption]
    checks = verify_microdata(microdata_of(PRODUCT, wrong, unit), levels[2])
    assert {"microdata equal estimates", "persons in units"} <= failing(checks)
    assert BLOCKS[0] in checks[0].failing


@pytest.mark.spark
@pytest.mark.parametrize("corruption", ["missing", "vacant lost", "became vacant", "unknown code"])
def test_units_that_differ_from_the_invariants_are_caught(files, levels, corruption):
    person, unit = files
    rest = [name for name in unit.columns if name not in ("TEN", "VACS", "GQTYPE")]
    wrong = {
        "missing": unit.where("EUID != 1"),
        "vacant lost": unit.where("VACS != '9'"),
        "became vacant": unit.selectExpr(*rest, "GQTYPE", "if(EUID = 1, '0', TEN) TEN", "if(EUID = 1, '9', VACS) VACS"),
        "unknown code": unit.selectExpr(*rest, "TEN", "VACS", "if(EUID = 1, '777', GQTYPE) GQTYPE"),
    }[corruption]
    checks = verify_microdata(microdata_of(PRODUCT, person, wrong), levels[2])
    assert "units equal invariants" in failing(checks)


@pytest.mark.spark
def test_populations_that_do_not_sum_or_do_not_fit_the_persons_are_caught(files, levels):
    person, unit = files
    rest = [name for name in unit.columns if name != "FINAL_POP"]
    more = unit.selectExpr(*rest, "if(EUID = 0, FINAL_POP + 1, FINAL_POP) as FINAL_POP")
    checks = verify_microdata(microdata_of(PRODUCT, person, more), levels[2])
    assert {"unit populations", "persons in units"} <= failing(checks)
    vacant = unit.selectExpr(*rest, "if(VACS = '9', 1, FINAL_POP) as FINAL_POP")
    checks = verify_microdata(microdata_of(PRODUCT, person, vacant), levels[2])
    assert {"unit populations", "persons in units"} <= failing(checks)


@pytest.mark.spark
@pytest.mark.parametrize("column", ["EUID", "EPNUM"])
def test_numbers_that_are_not_running_are_caught(files, levels, column):
    person, unit = files
    if column == "EUID":
        rest = [name for name in unit.columns if name != "EUID"]
        wrong = (person, unit.selectExpr(*rest, "if(VACS = '9' and EUID = 3, 2, EUID) as EUID"))
        named = "unit numbers"
    else:
        rest = [name for name in person.columns if name != "EPNUM"]
        wrong = (person.selectExpr(*rest, "if(EUID = 0 and EPNUM = 2, 1, EPNUM) as EPNUM"), unit)
        named = "persons in units"
    assert named in failing(verify_microdata(microdata_of(PRODUCT, *wrong), levels[2]))


@pytest.mark.spark
def test_without_units_persons_are_compared_as_far_as_their_codes_tell(spark, levels, tmp_path):
    leaf = replace(levels[2], invariants=None)
    write_microdata(leaf.estimates, None, PRODUCT, PublicLayout(tmp_path), ["text"], created="now")
    person, _ = read_microdata(spark, PublicLayout(tmp_path), PRODUCT, "text", units=False)
    checks = verify_microdata(microdata_of(PRODUCT, person, None), leaf)
    assert [(check.name, check.passed) for check in checks] == [("microdata equal estimates", True)]
    wrong = person.limit(person.count() - 1)
    assert failing(verify_microdata(microdata_of(PRODUCT, wrong, None), leaf)) == {"microdata equal estimates"}
