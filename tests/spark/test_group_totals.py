"""Two states, one of them in two parts, on the way from confidential counts to verified estimates.

The same census on a spine of whole states is the oracle for all that must not depend on the parts.
"""

import io
from dataclasses import replace

import numpy as np
import pytest
from collected import collected, stored, writing
from dataframes import assert_frames, assert_rows
from levels_by_sql import all_geounits, all_invariants
from verified_run import judged

from das_spark.constraints import Invariants, UnitBounds
from das_spark.core import GROUP_TOTAL, LevelPlan, MeasuredFamily, TopDown, saved_family
from das_spark.estimation import FamilyGroups, FamilyPlan, FamilyProblem
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.spark import bounds, ingest, tables
from das_spark.spark.family_rows import Families, FamilySpan, FamilySpread
from das_spark.spark.level_pass import EstimationTask, PublicLevel, estimates
from das_spark.spark.verify import RunTables
from das_spark.verification import (
    BoundsKept,
    ChildrenSum,
    GeounitsPresent,
    GroupBoundsKept,
    GroupTotals,
    InvariantTotals,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = Spine((Geolevel("National", 0), Geolevel("State", 3), Geolevel("County", 6)), total_key=(2, 2))
WHOLE = Spine((Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 5)))
NAMES = Spine(PARTS.levels[:2], total_key=(2, 2))
FORMULAS = UnitBounds(least=(1, 1), most=(9, 99), cap_when_total_known=True)
SCHEMA = Schema("small", (Attribute("hhgq", ("household", "group")), Attribute("age", ("young", "old"))))
QUERIES = {name: SCHEMA.query(name) for name in ("hhgq", "detailed", "total")} | {"class": SCHEMA.query("hhgq")}
#: County -> units by class, people by cell. State 02 has a part inside (1) and one outside (0).
CENSUS = {
    "001001": ([2, 1], [3, 2, 0, 4]),
    "001003": ([1, 0], [0, 2, 0, 0]),
    "002001": ([4, 0], [5, 6, 0, 0]),
    "002002": ([0, 2], [0, 0, 7, 1]),
    "102001": ([1, 1], [1, 1, 0, 3]),
}
TOTALS = {"01": 11, "02": 24}


def frames(spark, spine, total_at="State"):
    """Leaves of the census on a spine, and what is declared and bounded."""
    length = spine.leaf.length
    rows = [
        (code[-length:], [i for i in range(4) if p[i]], [v for v in p if v], units, 0)
        for code, (units, p) in CENSUS.items()
    ]
    if length < len("102001"):  # the parts of a county of state 02 are one county there
        rows = [row for row in rows if row[0] != "02001"]
        rows.append(("02001", [0, 1, 3], [6, 7, 3], [5, 1], 0))
    leaves = spark.createDataFrame(rows, tables.LEAVES)
    key, declared = spine.total_key_at(total_at), Invariants(total_at, units=True)
    every = ingest.all_levels(leaves, spine)
    invariants = all_invariants(leaves, every, spine, declared, key).cache()
    geounits = all_geounits(leaves, spine).cache()
    of_classes = bounds.class_bounds(invariants, spine, FORMULAS).cache()
    limits = bounds.all_bounds(invariants, geounits, spine, declared, of_classes, FORMULAS, (), key).cache()
    return {"histograms": every, "invariants": invariants, "geounits": geounits, "bounds": limits}


@pytest.fixture(scope="module")
def parts(spark):
    return frames(spark, PARTS)


@pytest.fixture(scope="module")
def whole(spark):
    return frames(spark, WHOLE)


def at(frame, where):
    return {
        (row["geocode"], row["member"]): (list(row["lower"]), list(row["upper"]))
        for row in frame.where(where).collect()
    }


def test_a_part_declares_the_total_of_its_state_and_a_whole_state_its_own(parts):
    expected = [("001", "total", [11]), ("002", GROUP_TOTAL, [24]), ("102", GROUP_TOTAL, [24])]
    assert_rows(parts["invariants"].where("level = 'State'").select("geocode", "name", "values"), expected)
    limits = parts["bounds"].where("level = 'State'")
    assert at(limits, "name = 'total'") == {("001", "001"): ([11], [11])}
    assert at(limits, "name = 'group_total'") == {(code, "02"): ([24], [24]) for code in ("002", "102")}


def test_bounds_and_flows_of_the_nation_are_those_of_whole_states(parts, whole):
    for name in ("total", "class", "flow"):
        both = [each["bounds"].where(f"level = 'National' and name = '{name}'") for each in (parts, whole)]
        assert_frames(*both, ignore_row_order=True)
    assert {member for _, member in at(parts["bounds"], "name = 'flow'")} == {"01", "02"}


def test_a_part_is_bounded_by_its_units_alone(parts):
    limits = at(parts["bounds"], "name = 'class' and level = 'State'")
    assert limits["102", "102"] == ([1, 1], [9, 99])
    assert limits["002", "002"] == ([4, 2], [36, 198])


def test_a_group_whose_total_cannot_fill_its_units_is_named_by_its_key(parts):
    assert bounds.indivisible(parts["bounds"], grouped=True).count() == 0
    few = "IF(name = 'group_total', array(7L), {0}) AS {0}"
    broken = parts["bounds"].selectExpr(
        "level", "geocode", "parent", "name", "member", *map(few.format, ("lower", "upper"))
    )
    assert [row["geocode"] for row in bounds.indivisible(broken, grouped=True).collect()] == ["02"]


def measured(level, spine):
    """Noisy answers of every geounit of a level."""
    length = dict(zip(spine.names, (each.length for each in spine.levels), strict=True))[level]
    truth = {}
    for code, (_, people) in CENSUS.items():
        own = code[:length] or "0"
        truth[own] = truth.get(own, np.zeros(4, dtype=np.int64)) + people
    generator = np.random.default_rng(5)
    parent = "0" if level == "State" and spine.levels[0].length == 0 else ""
    rows = []
    for code, each in truth.items():
        for name in ("hhgq", "detailed"):
            noisy = QUERIES[name].answer_dense(each) + generator.integers(-2, 3, QUERIES[name].rows)
            rows.append((code, parent, name, None, noisy.tolist(), 2.0))
    return stored(rows, "measurements")


def estimated(spark, frames_, spine, level, parents):
    plan = LevelPlan(SCHEMA.size, QUERIES, FamilyPlan(level, classes=SCHEMA.query("hhgq")), TopDown())
    geounits, limits = (
        stored(frames_[name].where(f"level = '{level}'").drop("level").toArrow(), name)
        for name in ("geounits", "bounds")
    )
    public = PublicLevel(geounits, measured(level, spine), limits)
    above = None if parents is None else stored(parents.toArrow(), "estimates")
    families = Families.of_children(geounits, FamilySpan.of(spine, level))
    task = EstimationTask(plan)
    found = collected(estimates(spark, public, above, task, FamilySpread(families, 3, 2), writing()))
    assert {row["status"] for row in found["diagnostics"]} == {"optimal"}
    names = tables.ESTIMATES.names
    return spark.createDataFrame([tuple(row[name] for name in names) for row in found["estimates"]], tables.ESTIMATES)


def people(frame):
    return {row["geocode"]: sum(row["counts"]) for row in frame.collect()}


@pytest.fixture(scope="module")
def run(spark, parts):
    """Estimates of the nation and its states, as verification reads them."""
    nation = estimated(spark, parts, PARTS, "National", None)
    states = estimated(spark, parts, PARTS, "State", nation)
    every = nation.selectExpr("'National' AS level", "*").unionByName(states.selectExpr("'State' AS level", "*"))
    names = "level in ('National', 'State')"
    return RunTables(
        ("National", "State"),
        parts["geounits"].where(names),
        every.cache(),
        parts["invariants"].where(names),
        parts["bounds"].where(names),
    )


def verified(run, total_key=(2, 2)):
    names = run.levels
    rules = [GeounitsPresent(names), ChildrenSum(names[1:], {}), BoundsKept(QUERIES, grouped=total_key is not None)]
    if total_key is None:
        rules.append(InvariantTotals(names))
    else:
        rules += [InvariantTotals(names[:1]), GroupTotals("State", total_key), GroupBoundsKept()]
    checks = judged(run, *rules, spine=NAMES)
    return {(check.name, check.geolevel): check for check in checks}


def test_the_parts_sum_to_the_state_and_every_check_passes(run):
    found = people(run.estimates.where("level = 'State'"))
    assert {key: sum(n for code, n in found.items() if code[1:] == key) for key in TOTALS} == TOTALS
    checks = verified(run)
    assert [check for check in checks.values() if not check.passed] == []
    assert checks["invariant totals", "State"].checked == 3
    assert checks["bounds group_total", "State"].checked == 2
    assert checks["bounds total", "State"].passed


def test_a_person_in_another_state_is_told_of_and_one_in_the_other_part_is_not(run):
    def moved(giver, taker):
        more = f"IF(geocode = '{taker}', 1L, IF(geocode = '{giver}', -1L, 0L))"
        first = f"transform(counts, (count, place) -> IF(place = 0, count + {more}, count)) AS counts"
        return replace(run, estimates=run.estimates.selectExpr("level", "geocode", "parent", "cells", first))

    within, across = moved("002", "102"), moved("002", "001")
    rules = (GroupTotals("State", (2, 2)), GroupBoundsKept())
    assert all(check.passed for check in judged(within, *rules, spine=NAMES))
    of_totals, of_bounds = judged(across, *rules, spine=NAMES)
    assert of_totals.failing == ("01", "02")
    assert of_bounds.failing == ("02",)


def test_a_part_that_declares_no_total_or_its_own_is_told_of(run):
    for wrong in (
        run.invariants.where("geocode != '102'"),
        run.invariants.replace({GROUP_TOTAL: "total"}, subset="name"),
        run.invariants.unionByName(run.invariants.where("geocode = '102'")),
    ):
        (check,) = judged(replace(run, invariants=wrong), GroupTotals("State", (2, 2)), spine=NAMES)
        assert check.failing == ("02",)


def test_totals_of_groups_do_not_pass_where_none_are_known_of(run):
    checks = verified(run, total_key=None)
    assert not checks["bounds group_total", "State"].passed
    assert not checks["invariant totals", "State"].passed


def test_in_a_run_without_a_nation_the_parts_meet_in_one_family(spark):
    spine = Spine(PARTS.levels[1:], PARTS.total_key)
    given = frames(spark, spine)
    assert given["bounds"].where("name = 'flow'").count() == 0
    states = estimated(spark, given, spine, "State", None)
    found = people(states)
    assert {key: sum(n for code, n in found.items() if code[1:] == key) for key in TOTALS} == TOTALS
    assert {row["parent"] for row in states.collect()} == {""}


def test_the_problem_of_a_failed_family_names_its_groups():
    groups = FamilyGroups(("01", "02", "02"), np.array([11, 24, 24]))
    parent = Histogram.from_dense(np.array([35, 0, 0, 0]))
    problem = FamilyProblem("0", parent, ("001", "002", "102"), 4, (), groups=groups)
    saved = np.load(io.BytesIO(saved_family(MeasuredFamily(problem))))
    assert saved["group"].tolist() == ["01", "02", "02"]
    assert saved["group total"].tolist() == [11, 24, 24]
