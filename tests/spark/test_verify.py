"""Every check passes on a whole small run and catches the corruption that is planted for it."""

from dataclasses import replace

import pytest
from verified_run import (
    BLOCKS,
    CELL,
    CLASS_BOUNDS,
    COUNTY,
    ESTIMATES,
    LEVELS,
    PRODUCT,
    QUERIES,
    SIZE,
    TRACTS,
    ZEROS,
    estimates,
    frame,
    judged,
)

from das_spark.spark.checks import NOTHING
from das_spark.verification import (
    NAMED,
    RELAXED,
    UNKNOWN,
    BoundsKept,
    ChildrenSum,
    GeounitsPresent,
    HistogramsPossible,
    InvariantTotals,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRESENT, KEPT, COUNTY_TOTALS = GeounitsPresent(LEVELS), BoundsKept(QUERIES), InvariantTotals(("County",))
POSSIBLE = HistogramsPossible(LEVELS, PRODUCT.schema, ZEROS)
FORBIDDEN = int(ZEROS[0].mask(PRODUCT.schema).sum())


def verified(tables):
    return judged(tables, PRESENT, POSSIBLE, COUNTY_TOTALS, KEPT, sums(tables))


def sums(tables):
    return ChildrenSum(LEVELS[1:], tables.relaxed)


def at_level(rule, tables, level: str, name: str = ""):
    """The only check of a level, or the one of that name."""
    (check,) = [check for check in judged(tables, rule) if check.geolevel == level and name in ("", check.name)]
    return check


def test_a_whole_run_passes_every_check_at_every_level(run):
    checks = verified(run.tables)
    assert [check for check in checks if not check.passed] == []
    assert {(check.name, check.geolevel): check.checked for check in checks} == {
        **{("geounits present once", level): number for level, number in zip(LEVELS, (1, 2, 3), strict=True)},
        **{("nonnegative", level): number for level, number in zip(LEVELS, (1, 2, 3), strict=True)},
        **{
            ("structural zero nurse_nva_0", level): n * int(ZEROS[0].mask(PRODUCT.schema).sum())
            for level, n in zip(LEVELS, (1, 2, 3), strict=True)
        },
        ("invariant totals", "County"): 1,
        ("bounds total", "County"): 1,
        ("bounds class", "Block"): 8,
        ("children sum to parents", "Tract"): 1 + 6,
        ("children sum to parents", "Block"): 2 + 6,
    }


def test_a_corruption_at_one_level_is_told_of_at_that_level_alone(spark, run):
    rows = run.tables.estimates.where("level != 'Tract'")
    one, other = ((code, people) for code, people in (("44007000100", {1: 9}), ("44007000299", {2: 5})))
    wrong = rows.unionByName(estimates(spark, "Tract", dict([one, other])))
    found = {(check.name, check.geolevel): check.failing for check in verified(replace(run.tables, estimates=wrong))}
    assert found["geounits present once", "Tract"] == (TRACTS[1], "44007000299")
    assert found["geounits present once", "Block"] == ()
    assert found["children sum to parents", "Tract"] == (COUNTY,)
    assert found["children sum to parents", "Block"] == (*TRACTS, "44007000299")


def test_one_person_moved_to_another_cell_breaks_the_sums_and_names_the_parent(run):
    moved = run.with_blocks({BLOCKS[2]: {CELL["adult"]: 1, CELL["nursing"]: 2, CELL["prison"]: 2}})
    check = at_level(sums(moved), moved, "Block")
    assert not check.passed
    assert check.failing == (TRACTS[1],)
    assert at_level(sums(moved), moved, "Tract").passed


def test_a_child_under_a_strange_parent_is_caught(run):
    orphan = run.with_block_rows(
        run.blocks().selectExpr("level", "geocode", f"'{TRACTS[0]}' as parent", "cells", "counts")
    )
    assert at_level(PRESENT, orphan, "Block").failing == (BLOCKS[2],)


@pytest.mark.parametrize("corruption", ["missing", "twice", "strange"])
def test_a_geounit_that_is_missing_twice_or_strange_is_caught(spark, run, corruption):
    rows = run.blocks()
    wrong = {
        "missing": (rows.where(f"geocode != '{BLOCKS[1]}'"), BLOCKS[1]),
        "twice": (rows.unionByName(rows.where(f"geocode = '{BLOCKS[1]}'")), BLOCKS[1]),
        "strange": (rows.unionByName(estimates(spark, "Block", {"4400700020029999": {}})), "4400700020029999"),
    }[corruption]
    check = at_level(PRESENT, run.with_block_rows(wrong[0]), "Block")
    assert not check.passed
    assert check.failing == (wrong[1],)


def test_a_geounit_without_geocode_is_caught_though_both_tables_have_it(run):
    nameless = replace(
        run.tables,
        geounits=run.tables.geounits.selectExpr("level", "nullif(geocode, '44007') as geocode", "parent", "children"),
        estimates=run.tables.estimates.selectExpr(
            "level", "nullif(geocode, '44007') as geocode", "parent", "cells", "counts"
        ),
    )
    assert at_level(PRESENT, nameless, "County").failing == ("?",)


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
def test_a_histogram_that_cannot_be_is_caught(spark, run, cells, counts):
    bad = frame(spark, [("Block", BLOCKS[0], TRACTS[0], cells, counts)], ESTIMATES)
    corrupt = run.with_block_rows(bad)
    assert at_level(POSSIBLE, corrupt, "Block", "nonnegative").failing == (BLOCKS[0],)
    assert at_level(POSSIBLE, corrupt, "Tract", "nonnegative").passed


def test_a_person_in_a_forbidden_cell_is_caught(run):
    corrupt = run.with_blocks({BLOCKS[2]: {CELL["minor in nursing"]: 1}})
    assert at_level(POSSIBLE, corrupt, "Block", "structural zero nurse_nva_0").failing == (BLOCKS[2],)
    assert at_level(POSSIBLE, corrupt, "Block", "nonnegative").passed


def test_a_total_that_is_off_by_one_or_not_declared_is_caught(run):
    assert judged(run.tables, COUNTY_TOTALS)[0].passed
    assert at_level(COUNTY_TOTALS, run.with_total(15), "County").failing == (COUNTY,)
    # Declared for a level whose geounits have none.
    undeclared = judged(run.tables, InvariantTotals(("County", "Tract")))
    assert [(check.geolevel, check.failing) for check in undeclared] == [("County", ()), ("Tract", TRACTS)]
    assert at_level(COUNTY_TOTALS, replace(run.tables, invariants=None), "County").failing == (COUNTY,)


def test_an_estimate_without_people_keeps_a_total_of_none_only(spark, run):
    empty = run.tables.estimates.where("level != 'County'").unionByName(estimates(spark, "County", {COUNTY: {}}))
    assert at_level(COUNTY_TOTALS, replace(run.tables, estimates=empty), "County").failing == (COUNTY,)
    missing = replace(run.tables, estimates=run.tables.estimates.where("level != 'County'"))
    assert at_level(COUNTY_TOTALS, missing, "County").failing == (COUNTY,)


@pytest.mark.parametrize("side", ["below", "above", "above zero", "short"])
def test_an_answer_outside_its_bounds_is_caught(run, side):
    lower, upper = list(CLASS_BOUNDS[0]), list(CLASS_BOUNDS[1])
    change = {"below": (lower, 0, 6), "above": (upper, 1, 3), "above zero": (lower, 5, 1), "short": (upper, 0, 9)}[side]
    change[0][change[1]] = change[2]
    if side == "short":
        upper.pop()
    (check,) = judged(run.with_bounds("class", lower, upper), KEPT)
    assert (check.name, check.geolevel, check.passed) == ("bounds class", "Block", False)
    assert check.failing == (BLOCKS[0],)


def test_a_bound_on_an_unknown_query_is_no_success_and_flows_are_left_to_their_own_level(run):
    (unknown,) = judged(run.with_bounds("added:x", [0], [1]), KEPT)
    assert (unknown.name, unknown.passed) == ("bounds added:x", False)
    assert UNKNOWN in unknown.note
    assert judged(run.with_bounds("flow", [0], [1]), KEPT) == []


def test_relaxed_families_are_exempt_from_sums_alone_and_listed(run):
    moved = run.with_blocks({BLOCKS[2]: {CELL["adult"]: 2}})
    exempt = replace(moved, relaxed={"Block": (TRACTS[1],)})
    check = at_level(sums(exempt), exempt, "Block")
    assert check.passed
    assert check.note == RELAXED
    elsewhere = replace(moved, relaxed={"Block": (TRACTS[0],)})
    assert not at_level(sums(elsewhere), elsewhere, "Block").passed
    other_level = replace(moved, relaxed={"Tract": (TRACTS[1],)})
    assert not at_level(sums(other_level), other_level, "Block").passed


def test_relaxed_families_keep_their_bounds(run):
    wrong = run.with_bounds("class", [6, *CLASS_BOUNDS[0][1:]], CLASS_BOUNDS[1])
    (check,) = judged(replace(wrong, relaxed={"Block": (TRACTS[0],)}), KEPT)
    assert check.failing == (BLOCKS[0],)


def test_a_level_without_any_row_is_no_success(run):
    nothing = replace(
        run.tables,
        estimates=run.without_blocks(),
        geounits=run.tables.geounits.where("level != 'Block'"),
    )
    check = at_level(PRESENT, nothing, "Block")
    assert (check.passed, check.checked, check.note) == (False, 0, NOTHING)


def test_of_many_failing_geounits_the_first_are_named(spark, run):
    strange = {f"44007000200{number:05d}": {} for number in range(2 * NAMED)}
    wrong = run.with_block_rows(run.blocks().unionByName(estimates(spark, "Block", strange)))
    assert at_level(PRESENT, wrong, "Block").failing == tuple(sorted(strange)[:NAMED])
