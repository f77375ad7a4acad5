"""Residuals counted by Spark, against dense arrays; areas against sums by hand."""

import numpy as np
import pyarrow as pa
import pytest
from dataframes import assert_rows

from das_spark.errors import InputError
from das_spark.evaluation.metrics import frequencies_of
from das_spark.geography import ENTITY_CATEGORIES, BlockTable
from das_spark.histogram import Attribute, Schema
from das_spark.spark import evaluate
from das_spark.spark.evaluate import Subject, evaluate_levels
from das_spark.spark.evaluate_areas import Areas, entity_areas

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = Schema("small", (Attribute("hhgq", ("a", "b", "c")), Attribute("race", ("x", "y"))))
STRATA = SCHEMA.query("race")
TYPES = "geocode string, parent string, cells array<int>, counts array<long>"


def frame(spark, dense):
    rows = []
    for number, histogram in enumerate(dense):
        cells = np.flatnonzero(histogram)
        rows.append((f"{number:03d}", "0", cells.tolist(), histogram[cells].tolist()))
    return spark.createDataFrame(rows, TYPES)


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(7)
    truth = rng.poisson(0.7, (40, SCHEMA.size)) * rng.integers(0, 2, (40, 1))
    return truth, np.maximum(truth + rng.integers(-2, 3, truth.shape) * (rng.random(truth.shape) < 0.3), 0)


def union_residuals(truth, estimate):
    """Residuals where either count is positive; the rest is only counted."""
    either = (truth > 0) | (estimate > 0)
    return frequencies_of((estimate - truth)[either], int((~either).sum()))


def same(entry, expected):
    assert entry.frequencies.values.tolist() == expected.values.tolist()
    assert entry.frequencies.counts.tolist() == expected.counts.tolist()
    assert entry.frequencies.double_zero == expected.double_zero


def test_residuals_equal_those_of_dense_arrays(spark, dense):
    truth, estimate = dense
    levels = [("Block", frame(spark, truth), frame(spark, estimate).repartition(3))]
    report = evaluate_levels(levels, Subject(STRATA), product="small", run="first")
    totals = truth.sum(axis=1), estimate.sum(axis=1)
    empty = int(((totals[0] == 0) & (totals[1] == 0)).sum())
    assert empty > 0
    same(report.entry("Block", "total"), frequencies_of(totals[1] - totals[0], empty))
    assert report.entry("Block", "total").figures.n == 40
    same(report.entry("Block", STRATA.name), union_residuals(*(STRATA.answer_dense(side) for side in dense)))


def test_levels_stand_in_the_order_of_the_spine(spark, dense):
    truth, estimate = dense
    levels = [(name, frame(spark, truth), frame(spark, estimate)) for name in ("County", "Block")]
    report = evaluate_levels(levels, Subject(STRATA), product="small", run="first")
    assert [entry.place for entry in report.entries] == ["County", "County", "Block", "Block"]


def test_a_perfect_estimate_has_no_error(spark, dense):
    truth, _ = dense
    report = evaluate_levels([("B", frame(spark, truth), frame(spark, truth))], Subject(STRATA), product="s", run="r")
    assert {entry.figures.largest for entry in report.entries} == {0.0}


def test_areas_are_sums_of_their_leaves_and_leaves_outside_count_nowhere(spark, dense):
    truth, estimate = dense
    area_of = np.arange(40) % 6  # area 5 is none
    rows = [(f"{number:03d}", f"area {area}") for number, area in enumerate(area_of) if area != 5]
    areas = Areas("precinct", spark.createDataFrame(rows, "geocode string, area string"))
    levels = [("Block", frame(spark, truth).repartition(4), frame(spark, estimate))]
    report = evaluate_levels(levels, Subject(STRATA), product="small", run="first", areas=(areas,))
    sums = [np.stack([side[area_of == area].sum(axis=0) for area in range(5)]) for side in dense]
    totals = [side.sum(axis=1) for side in sums]
    same(report.entry("precinct", "total"), frequencies_of(totals[1] - totals[0]))
    same(report.entry("precinct", STRATA.name), union_residuals(*(STRATA.answer_dense(side) for side in sums)))
    assert report.notes == (f"precinct: {(area_of == 5).sum()} leaf geounits lie in no area and count nowhere",)


def test_area_strata_that_nobody_is_in_are_counted_as_double_zero(spark):
    truth = np.zeros((4, SCHEMA.size), dtype=int)
    truth[0, 0] = 5
    areas = Areas(
        "precinct", spark.createDataFrame([(f"{n:03d}", str(n // 2)) for n in range(4)], "geocode string, area string")
    )
    report = evaluate_levels(
        [("Block", frame(spark, truth), frame(spark, truth))], Subject(STRATA), product="small", run="r", areas=(areas,)
    )
    found = report.entry("precinct", STRATA.name)
    assert (found.figures.n, found.frequencies.double_zero) == (1, 3)
    assert report.entry("precinct", "total").figures.n == 2
    assert report.entry("precinct", "total").frequencies.double_zero == 1


def test_a_leaf_in_two_areas_is_refused_by_name(spark, dense):
    truth, estimate = dense
    areas = Areas("precinct", spark.createDataFrame([("001", "a"), ("001", "b")], "geocode string, area string"))
    with pytest.raises(InputError, match="001"):
        evaluate_levels(
            [("Block", frame(spark, truth), frame(spark, estimate))],
            Subject(STRATA),
            product="s",
            run="r",
            areas=(areas,),
        )


def test_no_residual_at_all_is_no_error_of_ours(spark):
    nothing = frame(spark, np.zeros((3, SCHEMA.size), dtype=int))
    report = evaluate_levels([("Block", nothing, nothing)], Subject(STRATA), product="s", run="r")
    assert report.entry("Block", STRATA.name).figures.n == 0
    assert report.entry("Block", STRATA.name).frequencies.double_zero == 6


def test_queries_by_population_equal_those_of_dense_arrays_however_the_rows_are_dealt(spark, dense):
    truth, estimate = dense
    subject = Subject(STRATA, tuple(map(SCHEMA.query, ["hhgq", "detailed"])), SCHEMA.query("race"), "people")
    reports = [
        evaluate_levels(
            [("Block", frame(spark, truth).repartition(parts), frame(spark, estimate))], subject, product="s", run="r"
        )
        for parts in (1, 5)
    ]
    assert reports[0].to_json() == reports[1].to_json()
    report, population = reports[0], truth.sum(axis=1)
    assert [line.query for line in report.errors] == ["total", "total", "race", "hhgq", "detailed"]
    for line in report.errors:
        answers = [SCHEMA.query(line.query).answer_dense(each) for each in dense]
        for part in line.parts:
            here = line.bins.place(population) == part.bin
            assert part.geounits == here.sum()
            assert part.counted == population[here].sum()
            assert part.frequencies.absolute_sum == np.abs(answers[1] - answers[0])[here].sum()
    races = [STRATA.answer_dense(each) for each in dense]
    within = [
        abs(protected[k] / protected.sum() - true[k] / true.sum()) <= 0.05 + 1e-12
        if true.sum() and protected.sum()
        else true.sum() == protected.sum()
        for true, protected in zip(*races, strict=True)
        for k in [int(np.argmax(protected))]
    ]
    assert report.groups == "race"
    (line,) = report.headlines("largest group")
    assert (line.all_classes.geounits, line.all_classes.within) == (40, sum(within))


def test_a_geounit_that_is_missing_on_a_side_counts_as_empty_there(spark):
    one = np.array([[3, 0, 0, 1, 0, 0]])
    nothing = frame(spark, np.zeros((0, SCHEMA.size), dtype=int))
    for truth, estimate, bias in ((frame(spark, one), nothing, -4), (nothing, frame(spark, one), 4)):
        report = evaluate_levels([("Block", truth, estimate)], Subject(STRATA), product="s", run="r")
        assert report.entry("Block", "total").figures.bias == bias
        (line,) = (
            criterion for criterion in report.criteria if criterion.key == ("Block", "largest group", "race", "fifties")
        )
        assert line.all_classes.undefined == 1


def test_a_level_without_geounits_has_lines_without_figures(spark):
    nothing = frame(spark, np.zeros((0, SCHEMA.size), dtype=int))
    report = evaluate_levels([("Block", nothing, nothing)], Subject(STRATA), product="s", run="r")
    assert report.entry("Block", "total").figures.n == 0
    assert {line.all_classes.geounits for line in report.errors if line.query == "race"} == {0}
    report.to_json()


def test_counties_and_blocks_are_in_classes_of_their_own(spark, dense):
    truth, estimate = dense
    levels = [(name, frame(spark, truth), frame(spark, estimate)) for name in ("County", "Block")]
    report = evaluate_levels(levels, Subject(STRATA), product="s", run="r")
    lines = [(line.place, line.bins.name) for line in report.errors if line.query == "race"]
    assert lines == [("County", "county"), ("Block", "block")]


def test_slices_hold_a_bounded_number_of_counts_and_at_least_one_geounit(monkeypatch):
    monkeypatch.setattr(evaluate, "_COUNTS", 5)
    lists = [[1, 2], None, [3, 4, 5], [1] * 9, [], [7]]
    batch = pa.RecordBatch.from_pydict(
        {"true_cells": pa.array(lists, pa.list_(pa.int32())), "cells": pa.array([[]] * 6, pa.list_(pa.int32()))}
    )
    assert list(evaluate._slices(batch)) == [(0, 3), (3, 4), (4, 6)]


def test_slices_do_not_change_what_is_found(dense, monkeypatch):
    truth, estimate = dense
    rows = {
        "true_cells": [np.flatnonzero(row).tolist() for row in truth],
        "true_counts": [row[row > 0].tolist() for row in truth],
        "cells": [np.flatnonzero(row).tolist() for row in estimate],
        "counts": [row[row > 0].tolist() for row in estimate],
    }
    batch = pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in rows.items()})
    task = evaluate.TallyTask(Subject(STRATA).comparison("Block"))

    def sums():
        found = pa.Table.from_batches(task(iter([batch]))).group_by(["line", "bin", "value"]).aggregate(
            [("frequency", "sum")]
        )  # fmt: skip
        return found.sort_by([("line", "ascending"), ("bin", "ascending"), ("value", "ascending")]).to_pylist()

    whole = sums()
    monkeypatch.setattr(evaluate, "_COUNTS", 7)
    assert sums() == whole


def test_off_spine_entities_are_areas_named_as_the_reports_on_spines_name_them(spark):
    geocodes = ["4400700010011000", "4400700010011001", "4400700020011000"]
    columns = {
        "aiannhce": ["9999", "0001", "9999"],
        "cousubfp": ["11111", "11111", "22222"],
        "cousubfs": ["A", "A", "A"],
        "placefp": ["99999", "99999", "99999"],
        "placefs": ["9", "9", "9"],
        "sdunilea": ["00030", "99999", "00030"],
        "sdseclea": ["99999", "99999", "99999"],
        "sdelmlea": ["99999", "99999", "99999"],
    }
    blocks = spark.createDataFrame(
        list(zip(geocodes, *columns.values(), strict=True)),
        ", ".join(f"{name} string" for name in ("geocode", *columns)),
    )
    table = BlockTable(
        geocode16=np.array(geocodes),
        gq=np.zeros((3, 7), bool),
        **{name: np.array(column) for name, column in columns.items()},
    )
    found = entity_areas(blocks)
    assert [areas.name for areas in found] == ["aian_area", "county_subdivision", "unified_school_district"]
    for areas in found:
        names = ENTITY_CATEGORIES[areas.name](table)
        expected = [(code, str(name)) for code, name in zip(geocodes, names, strict=True) if name]
        assert_rows(areas.frame.select("geocode", "area"), expected)
