"""Intervals of moments: their columns and ends, sums of unions to the last bit, and every planted fault is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, sqrt

import numpy as np
import pyarrow as pa
import pytest
from dataframes import assert_rows
from pyspark.sql import functions as F
from verified_run import BLOCKS, COUNTY, LENGTHS, LEVELS, PRODUCT, TRACTS, frame

from das_spark.features.intervals.rows import (
    IntervalTask,
    census_moments,
    census_unions,
    intervals,
    of_unions,
    summed_moments,
    unions_of_areas,
)
from das_spark.features.intervals.rules import ENDS, SAME, SUMS, PublishedIntervals, interval_rules
from das_spark.features.intervals.tables import interval_columns
from das_spark.geography import ROOT_GEOCODE, Geolevel, Spine
from das_spark.privacy import Framework
from das_spark.spark.checks import judge
from das_spark.spark.tables import UPWARD
from das_spark.tabulation import redistricting_tables

pytestmark = pytest.mark.spark

P1, _, _, _, P5 = redistricting_tables(PRODUCT.schema)
WIDTH = len(P1.names) + len(P5.names)
SPINE = Spine(tuple(Geolevel(level, LENGTHS[level][0]) for level in LEVELS))
LEVEL = 0.9
ZCDP = Framework.ZCDP
MOVED = [("_low", -2), ("_low", 2), ("_high", -2), ("_high", 2)]
NORMAL = 1.6448536269514722  # of a normal distribution, 0.9 lies within this many standard deviations
DOUBLES = pa.list_(pa.float64())
MOMENTS = {"geocode": pa.string(), "estimates": DOUBLES, "variances": DOUBLES}
TEXTS = {"geocode": pa.string(), "area": pa.string()}


def moments() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimates and variances of P1 and P5 of every geounit; parents are the sums of their children."""
    generator = np.random.default_rng(1790)
    found = {code: (generator.normal(3, 30, WIDTH), generator.uniform(0.5, 900, WIDTH)) for code in BLOCKS}
    for code in (*TRACTS, COUNTY):
        own = [found[block] for block in BLOCKS if block.startswith(code)]
        found[code] = (sum(each[0] for each in own), 0.8 * sum(each[1] for each in own))
    # What is exact: the total of the county.
    found[COUNTY][1][0] = 0.0
    return found


def test_an_error_is_stated_however_small_it_is_and_that_of_an_exact_count_is_none():
    count = len(P1.names)
    variances = [1e-12, *[1.0] * (count - 2), 0.0]
    batch = pa.RecordBatch.from_pydict(
        {"geocode": ["1"], "estimates": [[5.0] * count], "variances": [variances]}, schema=pa.schema(MOMENTS)
    )
    (found,) = IntervalTask(0, interval_columns(P1), LEVEL, ZCDP)(iter([batch]))
    errors = [found.column(f"{name}_se")[0].as_py() for name in P1.names]
    assert errors == [1e-6, *[1.0] * (count - 2), 0.0]


def level_of(code: str) -> str:
    return next(level for level in LEVELS if LENGTHS[level][0] == len(code))


@pytest.fixture(scope="module")
def given(spark):
    """The moments, with a column level."""
    rows = [(level_of(code), code, *map(list, pair)) for code, pair in moments().items()]
    return frame(spark, rows, {"level": pa.string(), **MOMENTS}).persist()


@pytest.fixture(scope="module")
def published(given):
    """P1 in two formats and P5, as they should be."""
    frames = {
        P1: intervals(given, P1, 0, LEVEL, ZCDP, "level"),
        P5: intervals(given, P5, len(P1.names), LEVEL, ZCDP, "level"),
    }
    kept = {table: each.persist() for table, each in frames.items()}
    return tuple(
        PublishedIntervals(*which, kept[which[0]]) for which in ((P1, "parquet"), (P1, "csv"), (P5, "parquet"))
    )


def test_each_column_of_a_table_has_four():
    names = tuple(interval_columns(P5).names[1:])
    assert len(names) == len(set(names)) == 4 * len(P5.names)
    assert names[:5] == ("P0050001", "P0050001_se", "P0050001_low", "P0050001_high", "P0050002")
    schema = interval_columns(P5)
    assert schema.names == ["geocode", *names]
    assert not any(field.nullable for field in schema)
    assert {str(field.type) for field in schema if field.name.endswith(("_low", "_high"))} == {"int64"}


def test_every_number_is_where_its_column_says(published):
    found = {(row["geocode"], each.table.name): row for each in published for row in each.frame.collect()}
    assert len(found) == 2 * 6
    for code, (estimates, variances) in moments().items():
        for table, first in ((P1, 0), (P5, len(P1.names))):
            row = found[code, table.name]
            assert row["level"] == level_of(code)
            for place, name in enumerate(table.names, first):
                estimate, error = float(estimates[place]), float(variances[place]) ** 0.5
                reach = NORMAL * sqrt(error**2 + 1 / 12) + 0.5  # all errors here are wide
                ends = max(ceil(estimate - reach), 0), max(floor(estimate + reach), 0)
                if not error:
                    ends = (max(round(estimate), 0),) * 2
                four = [row[f"{name}{end}"] for end in ("", "_se", "_low", "_high")]
                assert four == [estimate, pytest.approx(error, rel=1e-12), *ends]


def test_batches_of_any_size_give_the_same_intervals(monkeypatch):
    rows = moments()
    columns = [pa.array(list(rows)), *(pa.array([list(pair[n]) for pair in rows.values()], DOUBLES) for n in (0, 1))]
    batch = pa.RecordBatch.from_arrays(columns, names=list(MOMENTS))
    task = IntervalTask(len(P1.names), interval_columns(P5), LEVEL, ZCDP)
    whole = pa.Table.from_batches(task(iter([batch])))
    monkeypatch.setattr("das_spark.features.intervals.rows._DENSE", 2 * len(interval_columns(P5)))
    parts = list(task(iter([batch.slice(0, 1), batch.slice(1, 0), batch.slice(1)])))
    assert max(part.num_rows for part in parts) == 2
    assert pa.Table.from_batches(parts).equals(whole)
    assert pa.Table.from_batches(task(iter([])), schema=whole.schema).num_rows == 0


#: Numbers whose floating-point sum depends on their order: large ones that cancel, and small ones that get lost.
AWKWARD = [(1e16, 1.0), (1.0, 2.0**-60), (-1e16, 1e-3), (0.1, 1e9), (0.2, 3e-9), (1e-8, 0.1), (-1.0, 7.0)]


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_sums_of_unions_are_exact_whatever_the_partitions(spark, partitions):
    rows = [("first", [a, b], [b, 1.0]) for a, b in AWKWARD] + [("second", [0.25, -2.0], [4.0, 0.0])]
    order = np.random.default_rng(partitions).permutation(len(rows))
    given = frame(spark, [rows[place] for place in order], MOMENTS).repartition(partitions)
    exact = [float(sum(map(Fraction, column))) for column in zip(*AWKWARD, strict=True)]
    assert sum(a for a, _ in AWKWARD) != exact[0], "nothing would be shown"
    expected = [("first", exact, [exact[1], float(len(AWKWARD))]), ("second", [0.25, -2.0], [4.0, 0.0])]
    assert_rows(summed_moments(given), expected)


def test_leaves_of_areas_are_found_by_their_geocodes_and_others_are_named(spark, run):
    leaves = run.tables.geounits.where("level = 'Block'").select("geocode")
    areas = [(BLOCKS[0], "a"), (BLOCKS[1], ""), (BLOCKS[2], None), ("4400700099999999", "a"), ("1", "")]
    members, unknown = unions_of_areas(frame(spark, areas, TEXTS), leaves, is_census=True)
    assert_rows(members, [(BLOCKS[0], "a")])
    assert_rows(unknown, [("4400700099999999", "a")])
    on_spine = frame(spark, [(f"17{block}",) for block in BLOCKS], {"geocode": pa.string()})
    members, unknown = unions_of_areas(frame(spark, areas, TEXTS), on_spine, is_census=False)
    assert_rows(members, [(f"17{BLOCKS[0]}", "a")])
    assert_rows(unknown, [("4400700099999999", "a")])
    rows = of_unions(members)
    assert [field.name for field in rows.schema] == UPWARD.names
    assert [tuple(row) for row in rows.collect()] == [(f"17{BLOCKS[0]}", "", "union a", [])]


@pytest.mark.slow
def test_census_geounits_are_unions_of_the_leaves_of_a_spine_of_areas(spark, given):
    on_spine = frame(spark, [(f"9{block}",) for block in BLOCKS], {"geocode": pa.string()})
    members = census_unions(on_spine, SPINE, LEVELS)
    above = [(f"9{block}", f"{level}/{block[: LENGTHS[level][0]]}") for block in BLOCKS for level in LEVELS[:-1]]
    assert_rows(members, above)
    assert census_unions(on_spine, SPINE, ("Block",)).count() == 0
    leaves = given.where("level = 'Block'").select(
        F.concat(F.lit("9"), "geocode").alias("geocode"), "estimates", "variances"
    )
    code = F.concat("level", F.lit("/"), "geocode").alias("geocode")
    unions = given.where("level != 'Block'").select(code, "estimates", "variances")
    both = census_moments(leaves, unions, SPINE, LEVELS)
    columns = ["level", "geocode", "estimates", "variances"]
    assert_rows(both.select(*columns), [tuple(row) for row in given.select(*columns).collect()])
    alone = census_moments(leaves, unions, SPINE, LEVELS[:-1])
    assert {row["level"] for row in alone.collect()} == set(LEVELS[:-1])


def verified(published, run, levels=LEVELS) -> dict[tuple[str, str], tuple[str, ...]]:
    """Rule and level of every check that fails -> what fails."""
    rules = interval_rules(published, run.tables.geounits, SPINE, levels, LEVEL, ZCDP)
    return {(check.name, check.geolevel): check.failing for check in judge(rules) if not check.passed}


def changed(published, place: int, change):
    """The intervals with another frame in the place of one of them."""
    return tuple(
        replace(each, frame=change(each.frame)) if number == place else each for number, each in enumerate(published)
    )


def put(code: str, **values):
    """Other values of some columns of a geounit."""
    return lambda rows: rows.withColumns(
        {
            name: F.when(F.col("geocode") == code, value).otherwise(F.col(name)).cast(rows.schema[name].dataType)
            for name, value in values.items()
        }
    )


def test_right_intervals_pass_and_everything_was_looked_at(published, run):
    checks = judge(interval_rules(published, run.tables.geounits, SPINE, LEVELS, LEVEL, ZCDP))
    assert all(check.passed for check in checks)
    columns = 2 * len(P1.names) + len(P5.names)
    expected = {(ENDS, level): rows * columns for level, rows in zip(LEVELS, (1, 2, 3), strict=True)}
    expected |= {(SAME, level): rows * 3 for level, rows in zip(LEVELS, (1, 2, 3), strict=True)}
    expected |= {(SUMS, "County"): 1 * 2, (SUMS, "Tract"): 2 * 2}
    assert {(check.name, check.geolevel): check.checked for check in checks} == expected


def test_without_intervals_there_is_no_rule_and_one_level_is_no_sum(published, run):
    assert interval_rules((), run.tables.geounits, SPINE, LEVELS, LEVEL, ZCDP) == []
    tracts = tuple(replace(each, frame=each.frame.where("level = 'Tract'")) for each in published)
    rules = interval_rules(tracts, run.tables.geounits, SPINE, ("Tract",), LEVEL, ZCDP)
    found = [(check.name, check.geolevel, check.passed) for check in judge(rules)]
    assert found == [(ENDS, "Tract", True), (SAME, "Tract", True)]
    (rule,) = interval_rules(tracts[1:], run.tables.geounits, SPINE, ("Tract",), LEVEL, ZCDP)[:1]
    assert [check.name for check in judge([rule])] == [ENDS]


def test_a_table_has_intervals_of_the_levels_alone_that_it_is_published_for(published, run):
    upper = LEVELS[:2]
    some = tuple(
        replace(each, frame=each.frame.where("level != 'Block'"), levels=upper) if each.table == P1 else each
        for each in published
    )
    checks = judge(interval_rules(some, run.tables.geounits, SPINE, LEVELS, LEVEL, ZCDP))
    assert all(check.passed for check in checks)
    assert {(check.name, check.geolevel): check.checked for check in checks if check.geolevel == "Block"} == {
        (ENDS, "Block"): 3 * len(P5.names),
        (SAME, "Block"): 3,
    }
    lost = changed(some, 0, lambda frame: frame.where(F.col("geocode") != TRACTS[0]))
    assert (ENDS, "Tract") in verified(lost, run)
    alone = tuple(each for each in some if each.table == P1)
    assert {
        check.geolevel for check in judge(interval_rules(alone, run.tables.geounits, SPINE, LEVELS, LEVEL, ZCDP))
    } == set(upper)


@pytest.mark.slow
def test_levels_that_do_not_follow_each_other_are_sums_too(published, run):
    without = tuple(replace(each, frame=each.frame.where("level != 'Tract'")) for each in published)
    assert verified(without, run, ("County", "Block")) == {}
    more = put(BLOCKS[1], P0010001=F.col("P0010001") + 0.5)
    assert (SUMS, "County") in verified(changed(without, 0, more), run, ("County", "Block"))


@pytest.mark.parametrize(
    ("place", "end", "step"),
    [(1, "_low", -2), *(pytest.param(0, *each, marks=pytest.mark.slow) for each in MOVED)],
)
def test_an_end_that_was_moved_is_found(published, run, place, end, step):
    # Of a column whose interval begins far from 0, where ends are cut.
    code = max(moments(), key=lambda code: moments()[code][0][2] - NORMAL * moments()[code][1][2] ** 0.5)
    name = f"{P1.names[2]}{end}"
    found = verified(changed(published, place, put(code, **{name: F.col(name) + step})), run)
    assert found == {(rule, level_of(code)): (code,) for rule in (ENDS, SAME)}


def test_formats_that_do_not_agree_are_found(published, run):
    # So little that each format is right by itself, and so are the sums: it is the second one that was changed.
    for code in (COUNTY, BLOCKS[1]):
        more = put(code, P0010002=F.col("P0010002") + 1e-9)
        assert verified(changed(published, 1, more), run) == {(SAME, level_of(code)): (code,)}
    both = changed(changed(published, 0, more), 1, more)
    assert verified(both, run) == {}


@pytest.mark.slow
def test_another_probability_is_found_everywhere(published, run):
    rules = interval_rules(published, run.tables.geounits, SPINE, LEVELS, 0.95, ZCDP)
    assert {(check.name, check.geolevel) for check in judge(rules) if not check.passed} == {
        (ENDS, level) for level in LEVELS
    }


@pytest.mark.slow
@pytest.mark.parametrize("value", [-3.0, None, float("nan"), float("inf")])
def test_a_standard_error_that_is_none_is_found(published, run, value):
    assert verified(changed(published, 2, put(TRACTS[1], P0050002_se=F.lit(value))), run) == {
        (ENDS, "Tract"): (TRACTS[1],)
    }


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "_low", "_high"])
def test_a_null_is_found(published, run, end):
    found = verified(changed(published, 2, put(BLOCKS[0], **{f"P0050003{end}": F.lit(None)})), run)
    assert found == {(ENDS, "Block"): (BLOCKS[0],)}


@pytest.mark.slow
def test_ends_that_changed_places_are_found(published, run):
    turned = put(COUNTY, P0010002_low=F.col("P0010002_high"), P0010002_high=F.col("P0010002_low"))
    assert verified(changed(published, 0, turned), run) == {(rule, "County"): (COUNTY,) for rule in (ENDS, SAME)}


@pytest.mark.slow
def test_a_geounit_that_is_missing_twice_there_or_of_nowhere_is_found(published, run):
    block = BLOCKS[1]
    for place in (0, 2):
        found = verified(changed(published, place, lambda rows: rows.where(F.col("geocode") != block)), run)
        assert found[ENDS, "Block"] == (block,)
        found = verified(
            changed(published, place, lambda rows: rows.unionAll(rows.where(F.col("geocode") == block))), run
        )
        assert found[ENDS, "Block"] == (block,)
    moved = F.when(F.col("geocode") == block, "4400700010011009").otherwise(F.col("geocode"))
    found = verified(changed(published, 0, lambda rows: rows.withColumn("geocode", moved)), run)
    assert found == {(ENDS, "Block"): (block, "4400700010011009")}  # in the same tract, so that sums are as they were


@pytest.mark.slow
def test_a_row_that_one_table_lacks_is_not_made_up_for_by_another(published, run):
    block = BLOCKS[1]
    less = changed(published, 1, lambda rows: rows.where(F.col("geocode") != block))
    other = changed(less, 2, lambda rows: rows.unionAll(rows.where(F.col("geocode") == block)))
    assert verified(other, run)[ENDS, "Block"] == (block,)


@pytest.mark.slow
def test_a_level_without_rows_is_no_success(published, run):
    none = tuple(replace(each, frame=each.frame.where("level != 'Tract'")) for each in published)
    found = verified(none, run)
    assert found[ENDS, "Tract"] == TRACTS
    assert (SUMS, "County") in found


def test_children_that_do_not_sum_to_their_parent_are_found_there_alone(published, run):
    # So little that the ends stay right: only the sum tells.
    more = put(BLOCKS[2], P0050001=F.col("P0050001") + 0.001)
    assert verified(changed(published, 2, more), run) == {(SUMS, "Tract"): (TRACTS[1],)}
    tract = put(TRACTS[0], P0050001=F.col("P0050001") - 0.001)
    found = verified(changed(published, 2, tract), run)
    assert found == {(SUMS, "County"): (COUNTY,), (SUMS, "Tract"): (TRACTS[0],)}
    nothing = put(BLOCKS[2], P0050001=F.col("P0050001") + 1e-6)  # as far as two ways to add may differ
    assert verified(changed(published, 2, nothing), run) == {}


def test_a_root_without_digits_is_the_parent_of_all(published, run):
    length = {"County": 0}
    spine = Spine(tuple(Geolevel(level, length.get(level, LENGTHS[level][0])) for level in LEVELS))
    rooted = F.when(F.col("geocode") == COUNTY, ROOT_GEOCODE).otherwise(F.col("geocode"))
    there = tuple(replace(each, frame=each.frame.withColumn("geocode", rooted)) for each in published)
    geounits = run.tables.geounits.withColumn("geocode", rooted)
    assert all(check.passed for check in judge(interval_rules(there, geounits, spine, LEVELS, LEVEL, ZCDP)))
    more = put(TRACTS[0], P0050001=F.col("P0050001") + 0.001)
    wrong = judge(interval_rules(changed(there, 2, more), geounits, spine, LEVELS, LEVEL, ZCDP))
    failing = {(check.name, check.geolevel): check.failing for check in wrong if not check.passed}
    assert failing[SUMS, "County"] == (ROOT_GEOCODE,)
