import numpy as np
import pytest
from dataframes import assert_rows
from levels_by_sql import all_geounits, all_invariants

from das_spark.constraints import AddedConstraint, Invariants, Sense, UnitBounds, bounds_up_the_spine
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.spark import bounds, ingest, tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPINE = Spine((Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 5), Geolevel("District", 7)))
FORMULAS = UnitBounds(least=(1, 1, 1), most=(99, 99999, 99999), cap_when_total_known=False)
SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))


def _census(seed=3):
    """Leaf geocodes, units (K, 3) and people by class (K, 3) that the units allow."""
    generator = np.random.default_rng(seed)
    codes = [f"{s:02d}{c:03d}{d:02d}" for s in (1, 2, 3) for c in range(2) for d in range(generator.integers(1, 4))]
    units = generator.integers(0, 3, size=(len(codes), 3)) * (generator.random((len(codes), 3)) < 0.6)
    people = units * generator.integers(1, 8, size=units.shape)
    return codes, units.astype(np.int64), people.astype(np.int64)


def _tables(spark, total_at, units=True, added=()):
    codes, unit_counts, people = _census()
    rows = [
        (code, [2 * i for i in range(3) if p[i]], [int(v) for v in p if v], [int(v) for v in u], 1)
        for code, u, p in zip(codes, unit_counts, people, strict=True)
    ]
    leaves = spark.createDataFrame(rows, tables.LEAVES)
    declared = Invariants(total_at=total_at, units=units)
    invariants = all_invariants(leaves, ingest.all_levels(leaves, SPINE), SPINE, declared)
    geounits = all_geounits(leaves, SPINE)
    pairs = tuple((each, SCHEMA.query(each.query)) for each in added)
    of_classes = bounds.class_bounds(invariants, SPINE, FORMULAS) if units else None
    return bounds.all_bounds(invariants, geounits, SPINE, declared, of_classes, FORMULAS, pairs), invariants


def _oracle(total_at):
    codes, units, people = _census()
    levels = [sorted({code[: level.length] or "0" for code in codes}) for level in SPINE.levels]
    parents, totals = [], []
    for depth in range(1, len(levels)):
        above = SPINE.levels[depth - 1].length
        parents.append(np.array([levels[depth - 1].index(code[:above] or "0") for code in levels[depth]]))
    known = SPINE.index(total_at) if total_at else -1
    for depth, level in enumerate(SPINE.levels):
        sums = [
            sum(p.sum() for c, p in zip(codes, people, strict=True) if c.startswith(g if level.length else ""))
            for g in levels[depth]
        ]
        totals.append(np.array(sums, dtype=np.int64) if depth <= known else None)
    of_classes = bounds_up_the_spine(FORMULAS, units, parents, totals)
    return {
        (level.name, code): (tuple(map(int, low)), tuple(map(int, high)))
        for level, names, (lower, upper) in zip(SPINE.levels, levels, of_classes, strict=True)
        for code, low, high in zip(names, lower, upper, strict=True)
    }


@pytest.mark.parametrize("total_at", ["State", "County", "National", "District", None])
def test_class_bounds_of_every_level_equal_the_plain_computation(spark, total_at):
    found, _ = _tables(spark, total_at)
    classes = found.where("name = 'class'").select("level", "geocode", "lower", "upper")
    assert_rows(classes, [(*geounit, *sides) for geounit, sides in _oracle(total_at).items()])


def test_totals_are_declared_at_their_level_and_above_only(spark):
    found, invariants = _tables(spark, "State")
    levels = {row["level"] for row in invariants.where("name = 'total'").collect()}
    assert levels == {"National", "State"}
    assert {row["level"] for row in found.where("name = 'total'").collect()} == {"National", "State"}
    assert {row["level"] for row in invariants.where("name = 'units'").collect()} == {"District"}


def test_flows_carry_every_descendant_with_an_invariant_total(spark):
    found, _ = _tables(spark, "County")
    codes, _, people = _census()
    flows = []
    for (level, county), sides in _oracle("County").items():
        if level == "County":
            total = sum(int(p.sum()) for code, p in zip(codes, people, strict=True) if code.startswith(county))
            limits = [(*side, total) for side in sides]
            flows += [("National", "0", county, *limits), ("State", county[:2], county, *limits)]
    assert_rows(found.where("name = 'flow'").select("level", "geocode", "member", "lower", "upper"), flows)


def test_no_flows_where_the_top_level_has_the_total(spark):
    found, _ = _tables(spark, "National")
    assert found.where("name = 'flow'").count() == 0


def test_added_constraints_are_summed_above_their_level_and_absent_below(spark):
    added = (AddedConstraint("few", "County", "hhgq", Sense.AT_MOST, (50, 5, 5)),)
    found, _ = _tables(spark, None, units=False, added=added)
    rows = {(row["level"], row["geocode"]): row["upper"] for row in found.collect()}
    assert {level for level, _ in rows} == {"National", "State", "County"}
    assert rows["County", "01000"] == [50, 5, 5]
    assert rows["State", "01"] == [100, 10, 10]
    assert rows["National", "0"] == [300, 30, 30]


def test_a_geounit_whose_total_cannot_fill_its_units_is_named(spark):
    good, _ = _tables(spark, "State")
    assert bounds.indivisible(good).count() == 0
    broken = good.selectExpr(
        "level", "geocode", "parent", "name", "member",
        "CASE WHEN name = 'total' AND geocode = '02' THEN array(0L) ELSE lower END AS lower", "upper",
    )  # fmt: skip
    assert [row["geocode"] for row in bounds.indivisible(broken).collect()] == ["02"]
