"""Intervals of counts on small frames: errors, offsets and ends by plain Python, and every planted fault is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from dataframes import assert_rows
from pyspark.sql import functions as F
from verified_run import PRODUCT, frame

from das_spark.evaluation import error_classes
from das_spark.features.replicates import rows as replicates
from das_spark.features.replicates.offsets import ErrorOffsets, count_intervals, error_offsets
from das_spark.features.replicates.rows import (
    collected_offsets,
    intervals_of_counts,
    replicate_errors,
    replicate_offsets,
)
from das_spark.features.replicates.rules import CASES, COUNTS, OFFSETS, PublishedReplicates, replicate_rules
from das_spark.features.replicates.tables import interval_columns
from das_spark.spark.checks import judge
from das_spark.spark.tables import union
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_tables import PublishedTable, table_rules
from das_spark.tabulation import redistricting_tables
from das_spark.verification import TABLES_EQUAL

pytestmark = pytest.mark.spark

P1, _, _, _, P5 = redistricting_tables(PRODUCT.schema)
TABLES = (P1, P5)
SIZE = PRODUCT.schema.size
LEVEL, RUNS = 0.9, 2
LEVELS = ("County", "Block")
#: Enough blocks for quantiles of their errors, and too few counties.
CODES = {"County": ("44001", "44003"), "Block": tuple(f"4400{1 + 2 * (n % 2)}{n:011d}" for n in range(70))}
PLACES = [(level, code) for level in LEVELS for code in CODES[level]]
KEYS = {"level": pa.string(), "geocode": pa.string()}
HISTOGRAMS = {**KEYS, "cells": pa.list_(pa.int32()), "counts": pa.list_(pa.int64())}
ENDS = ("", "_rmse", "_low", "_high")
#: What each column counts, by its declared levels.
MASKS = {table: np.array([column.mask(PRODUCT.schema) for column in table.columns], dtype=np.int64) for table in TABLES}


def histograms(seed: int) -> dict[str, np.ndarray]:
    """People of each geounit by cell; the blocks have few, and some have none."""
    numbers = np.random.default_rng(seed)
    found = {}
    for number, (level, code) in enumerate(PLACES):
        found[code] = np.zeros(SIZE, dtype=np.int64)
        cells = numbers.choice(SIZE, 12, replace=False)
        if level == "County" or number % 9:
            found[code][cells] = numbers.integers(1, 90 if level == "County" else 4, 12)
    return found


TRUTH, REPEATED = histograms(1790), [histograms(1800 + number) for number in range(RUNS)]


def rows_of(people: dict[str, np.ndarray]) -> list[tuple]:
    rows = []
    for level, code in PLACES:
        (cells,) = np.nonzero(people[code])
        rows.append((level, code, cells.tolist(), people[code][cells].tolist()))
    return rows


def differences(number: int) -> Counter:
    """How often each error of a replicate occurs, geounit by geounit and column by column."""
    found: Counter = Counter()
    for level, code in PLACES:
        for table, mask in MASKS.items():
            before, after = mask @ TRUTH[code], mask @ REPEATED[number][code]
            classes = error_classes(after[None, :], after[:1])[0]
            for name, of_class, difference in zip(table.names, classes, before - after, strict=True):
                found[level, name, int(of_class), int(difference)] += 1
    return found


def expected_offsets() -> dict[tuple[str, str], ErrorOffsets]:
    total = sum((differences(number) for number in range(RUNS)), Counter())
    rows: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (level, name, of_class, difference), cases in total.items():
        rows.setdefault((level, name), []).append((of_class, difference, cases))
    return {key: error_offsets(*np.array(own).T, level=LEVEL) for key, own in rows.items()}


@pytest.fixture(scope="module")
def estimates(spark):
    return frame(spark, rows_of(TRUTH), HISTOGRAMS).persist()


@pytest.fixture(scope="module")
def repeated(spark):
    return [frame(spark, rows_of(people), HISTOGRAMS).persist() for people in REPEATED]


@pytest.fixture(scope="module")
def errors(estimates, repeated):
    """The errors of all replicates."""
    return union(replicate_errors(estimates, again, TABLES) for again in repeated).persist()


@pytest.fixture(scope="module")
def offsets(errors):
    return replicate_offsets(errors, LEVEL).persist()


@pytest.fixture(scope="module")
def published(estimates, errors, offsets):
    """P1 in two formats and P5, as they should be."""
    found = collected_offsets(offsets)
    frames = {table: intervals_of_counts(estimates, table, found).persist() for table in TABLES}
    return PublishedReplicates(errors, offsets, [(table, frames[table]) for table in (P1, P1, P5)], RUNS, LEVEL)


@pytest.fixture(scope="module")
def geounits(spark):
    return frame(spark, PLACES, KEYS)


def test_each_count_of_a_table_has_three_columns_behind_it():
    schema = interval_columns(P5)
    assert schema.names == ["geocode", *(f"{name}{end}" for name in P5.names for end in ENDS)]
    assert [str(field.type) for field in schema][:5] == ["string", "int64", "double", "int64", "int64"]
    assert not any(field.nullable for field in schema)


@pytest.mark.parametrize("partitions", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_errors_are_counted_by_column_and_by_the_class_of_the_replicate(spark, estimates, partitions):
    for number in range(RUNS):
        rows = rows_of(REPEATED[number])
        order = np.random.default_rng(partitions).permutation(len(rows))
        again = frame(spark, [rows[place] for place in order], HISTOGRAMS).repartition(partitions)
        found = replicate_errors(estimates, again, TABLES)
        assert found.columns == ["level", "column", "class", "difference", "cases"]
        assert_rows(found, [(*key, cases) for key, cases in differences(number).items()])


def test_batches_of_any_size_give_the_same_errors(monkeypatch):
    again = {row[:2]: row[2:] for row in rows_of(REPEATED[0])}
    rows = [(*row, *again[row[:2]]) for row in rows_of(TRUTH)]
    kinds = {**HISTOGRAMS, "again_cells": HISTOGRAMS["cells"], "again_counts": HISTOGRAMS["counts"]}
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds.values(), strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(kinds))
    task = replicates._Errors(replicates.incidence(TABLES), tuple(len(table.names) for table in TABLES))
    for at_once in (replicates._COUNTS, 1, 5 * len(task.matrix.names)):
        monkeypatch.setattr(replicates, "_COUNTS", at_once)
        found: Counter = Counter()
        for part in task(iter([batch.slice(0, 3), batch.slice(3, 0), batch.slice(3)])):
            for row in part.to_pylist():
                found[row["level"], row["column"], row["class"], row["difference"]] += row["cases"]
        assert found == differences(0)


def test_a_difference_of_a_thousand_million_people_keeps_its_sign_and_its_column(spark):
    far = 2_000_000_000
    places = {**KEYS, "cells": HISTOGRAMS["cells"], "counts": HISTOGRAMS["counts"]}
    pairs = [(frame(spark, [("County", "44001", [0], [n])], places) for n in each) for each in ((far, 1), (1, far))]
    for (before, after), difference in zip(pairs, (far - 1, 1 - far), strict=True):
        rows = replicate_errors(before, after, [P1]).where(F.col("column") == P1.total.name).collect()
        assert [(row["difference"], row["cases"]) for row in rows] == [(difference, 1)]


def test_offsets_are_those_of_the_errors_of_all_replicates(offsets):
    rows = [
        (*key, int(first), int(cases), float(rmse), int(low), int(high))
        for key, of in expected_offsets().items()
        for first, cases, rmse, low, high in zip(of.first, of.cases, of.rmse, of.low, of.high, strict=True)
    ]
    assert_rows(offsets, rows)
    sizes = Counter((level, name) for level, name, *_ in rows)
    assert max(sizes.values()) == 1, "140 counts of a level are one class"
    counts = {row[0]: row[3] for row in rows}
    assert counts == {level: RUNS * len(CODES[level]) for level in LEVELS}


def test_offsets_of_several_classes_reach_the_driver_in_their_order(spark):
    rows = [("Block", "b", number, difference, 60) for number in (30, 4, 17) for difference in (-number, number)]
    rows += [("Block", "a", 3, 1, 5), ("County", "b", 2, -7, 1)]
    columns = {"level": pa.string(), "column": pa.string()} | dict.fromkeys(
        ("class", "difference", "cases"), pa.int64()
    )
    found = collected_offsets(replicate_offsets(frame(spark, rows, columns).repartition(3), LEVEL))
    assert set(found) == {("Block", "a"), ("Block", "b"), ("County", "b")}
    of = found["Block", "b"]
    assert (of.first.tolist(), of.cases.tolist()) == ([4, 17, 30], [120] * 3)
    assert (of.low.tolist(), of.high.tolist()) == ([-4, -17, -30], [4, 17, 30])
    assert found["County", "b"].cases.tolist() == [1]


def test_intervals_are_those_of_the_counts_geounit_by_geounit(published):
    offsets = expected_offsets()
    for table, rows in published.intervals[1:]:
        expected = []
        for level, code in PLACES:
            counts = (MASKS[table] @ TRUTH[code])[None, :]
            parts = (counts, *count_intervals(counts, [offsets[level, name] for name in table.names]))
            numbers = [part[0, place].item() for place in range(len(table.names)) for part in parts]
            expected.append((level, code, *numbers))
        assert rows.columns == ["level", *interval_columns(table).names]
        assert_rows(rows, expected)


def test_a_count_of_which_no_replicate_says_anything_is_its_own_interval(estimates):
    rows = intervals_of_counts(estimates.where("level = 'County'"), P5, {}).collect()
    assert len(rows) == len(CODES["County"])
    for row in rows:
        for name in P5.names:
            assert [row[f"{name}{end}"] for end in ENDS[1:]] == [0.0, row[name], row[name]]


def verified(published, geounits) -> dict[tuple[str, str], tuple[str, ...]]:
    """Rule and level of every check that fails -> what fails."""
    checks = judge(replicate_rules(published, geounits, LEVELS))
    return {(check.name, check.geolevel): check.failing for check in checks if not check.passed}


def put(condition, **values):
    """Other values of some columns where a condition holds."""
    return lambda rows: rows.withColumns(
        {
            name: F.when(condition, value).otherwise(F.col(name)).cast(rows.schema[name].dataType)
            for name, value in values.items()
        }
    )


def with_table(published, place: int, change) -> PublishedReplicates:
    """The intervals with another frame in the place of one of them."""
    pairs = [
        (table, change(rows) if number == place else rows) for number, (table, rows) in enumerate(published.intervals)
    ]
    return replace(published, intervals=pairs)


def of(code: str):
    return F.col("geocode") == code


def offset_of(level: str, name: str):
    return (F.col("level") == level) & (F.col("column") == name)


TOTAL = P1.total.name
BLOCK, COUNTY = CODES["Block"][4], CODES["County"][1]


def test_right_intervals_pass_and_everything_was_looked_at(published, geounits):
    checks = judge(replicate_rules(published, geounits, LEVELS))
    assert all(check.passed for check in checks)
    columns = sum(len(table.names) for table in TABLES)
    expected = {(rule, level): columns for rule in (CASES, OFFSETS) for level in LEVELS}
    expected |= {(COUNTS, level): len(CODES[level]) * (columns + len(P1.names)) for level in LEVELS}
    assert {(check.name, check.geolevel): check.checked for check in checks} == expected


def test_a_case_that_was_lost_is_found_by_both_rules(published, geounits):
    place = offset_of("Block", TOTAL)
    first = published.errors.where(place).orderBy("class", "difference").first()
    lost = place & (F.col("class") == first["class"]) & (F.col("difference") == first["difference"])
    less = replace(published, errors=put(lost, cases=F.col("cases") - 1)(published.errors))
    found = verified(less, geounits)
    assert found[CASES, "Block"] == (TOTAL,)
    assert found[OFFSETS, "Block"] == (f"{TOTAL} {expected_offsets()['Block', TOTAL].first[0]}",)
    assert set(found) == {(CASES, "Block"), (OFFSETS, "Block")}


@pytest.mark.slow
def test_a_column_a_level_or_a_replicate_that_is_not_there_is_found(published, geounits):
    without = replace(published, errors=published.errors.where(~offset_of("County", TOTAL)))
    found = verified(without, geounits)
    assert (found[CASES, "County"], len(found[OFFSETS, "County"])) == ((TOTAL,), 1)
    none = replace(published, offsets=published.offsets.where("level != 'County'"))
    found = verified(none, geounits)
    assert set(found) == {(rule, "County") for rule in (CASES, OFFSETS, COUNTS)}
    assert set(verified(replace(published, runs=RUNS + 1), geounits)) == {(CASES, level) for level in LEVELS}


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.slow
def test_an_offset_that_was_changed_is_found_though_the_intervals_have_it(published, geounits, level, end, step):
    # Of a column whose offsets reach away from 0: quantiles of blocks, Student's t of counties.
    (row,) = published.offsets.where(offset_of(level, TOTAL)).collect()
    assert row["low"] < -1
    assert row["high"] > 1
    moved = published.offsets.transform(put(offset_of(level, TOTAL), **{end: F.col(end) + step}))
    changed = replace(published, offsets=moved)
    found = verified(changed, geounits)
    assert set(found) == {(OFFSETS, level), (COUNTS, level)}
    assert found[OFFSETS, level] == (f"{TOTAL} {row['class']}",)
    name = f"{TOTAL}_{end}"
    value = F.greatest(F.col(name) + step, F.lit(0))
    followed = replace(
        changed,
        intervals=[
            (t, put(F.col("level") == level, **{name: value})(rows) if t is P1 else rows)
            for t, rows in published.intervals
        ],
    )
    assert (OFFSETS, level) in verified(followed, geounits)


def test_a_root_mean_square_error_that_was_changed_is_found(published, geounits):
    for value in (F.col("rmse") * (1 + 1e-6), F.lit(None)):
        place = offset_of("Block", TOTAL)
        found = verified(replace(published, offsets=published.offsets.transform(put(place, rmse=value))), geounits)
        assert len(found[OFFSETS, "Block"]) == 1
        assert set(found) == {(OFFSETS, "Block"), (COUNTS, "Block")}


@pytest.mark.parametrize(
    ("place", "end", "value"),
    [
        (0, "_high", 1),
        pytest.param(1, "_high", -1, marks=pytest.mark.slow),
        pytest.param(2, "_low", 1, marks=pytest.mark.slow),
        pytest.param(2, "_rmse", 1e-6, marks=pytest.mark.slow),
        pytest.param(1, "_rmse", None, marks=pytest.mark.slow),
    ],
)
def test_an_end_or_an_error_that_was_changed_is_found_in_any_format(published, geounits, place, end, value):
    name = f"{published.intervals[place][0].names[0]}{end}"
    changed = with_table(published, place, put(of(BLOCK), **{name: F.col(name) + F.lit(value)}))
    assert verified(changed, geounits) == {(COUNTS, "Block"): (BLOCK,)}


def counts(published):
    """The counts among the intervals."""
    return [(table, rows.select("level", "geocode", *table.names)) for table, rows in published.intervals]


def judged_as_tables(counted, estimates, geounits, spark) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """What the rules on tables say of counts, as a run is verified."""
    pairs = zip(("parquet", "csv"), counted, strict=True)
    nothing = frame(spark, [], KEYS)
    tables = RunTables(LEVELS, geounits, estimates, nothing, nothing)
    checks = judge(table_rules([PublishedTable(table, format, rows) for format, (table, rows) in pairs], tables))
    assert checks
    return {(check.name, check.geolevel, check.note): check.failing for check in checks if not check.passed}


def test_a_count_that_was_changed_is_found_by_the_rule_on_tables(published, estimates, geounits, spark):
    assert judged_as_tables(counts(published)[:2], estimates, geounits, spark) == {}
    # By as much as its whole interval, so that the rules on intervals see nothing: in one format only.
    ends = {f"{P1.names[2]}{end}": F.col(f"{P1.names[2]}{end}") + 1 for end in ("", "_low", "_high")}
    changed = with_table(published, 1, put(of(COUNTY), **ends))
    found = judged_as_tables(counts(changed)[:2], estimates, geounits, spark)
    assert found == {(TABLES_EQUAL, "County", "csv files"): (f"{COUNTY} {P1.names[2]}",)}


@pytest.mark.slow
def test_a_geounit_that_is_missing_is_found_by_the_rule_on_tables(published, estimates, geounits, spark):
    changed = with_table(published, 1, lambda rows: rows.where(~of(BLOCK)))
    found = judged_as_tables(counts(changed)[:2], estimates, geounits, spark)
    assert {key[1:] for key in found} == {("Block", "csv files")}
    assert all(each.startswith(BLOCK) for failing in found.values() for each in failing)
