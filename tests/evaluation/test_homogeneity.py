"""The homogeneity index against loops over people, and residuals by index against dense arrays."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.evaluation.metric_rows import (
    HomogeneityRow,
    homogeneity_json,
    homogeneity_of_json,
    homogeneity_rows_of,
    pooled_homogeneity,
)
from das_spark.evaluation.metrics import frequencies_of
from das_spark.evaluation.present import homogeneity_table
from das_spark.evaluation.tallies import (
    EMPTY_STRATA,
    MARGINAL_PRODUCT,
    Bins,
    ComparedSide,
    Comparison,
    homogeneity_index,
    in_order,
    paired,
    tally,
)
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.report import CSV, csv_text

SCHEMA = Schema(
    "small",
    (
        Attribute("hhgq", ("a", "b", "c"), (Recode("quarters", (("quarters", (1, 2)),)),)),
        Attribute("age", ("minor", "adult")),
        Attribute("race", ("x", "y", "z")),
    ),
)
STRATA = SCHEMA.query("age * race")
COMPARISON = Comparison(in_order([SCHEMA.query("total"), STRATA]), Bins("magnitude", (9,)), STRATA)


def expected(row, definition):
    """From the definition, for one geounit: people by (hhgq, age, race)."""
    strata = row.reshape(3, 2, 3).sum(axis=0)
    if definition == EMPTY_STRATA:
        return int((strata == 0).sum())
    return 6 - int((strata.sum(axis=1) > 0).sum()) * int((strata.sum(axis=0) > 0).sum())


@st.composite
def populations(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    number = draw(st.integers(1, 20))
    truth = rng.poisson(rng.choice([0, 0.1, 1], size=(number, 1)) * np.ones((number, SCHEMA.size)))
    estimate = np.maximum(truth + rng.integers(-2, 3, truth.shape), 0)
    return truth, estimate


def side(dense):
    owner, cell = np.nonzero(dense)
    return ComparedSide(owner.astype(np.int64), cell.astype(np.int64), dense[owner, cell].astype(np.int64))


def lines(truth, estimate):
    summed = tally(COMPARISON, paired(side(truth), side(estimate), len(truth), SCHEMA.size))
    return homogeneity_rows_of("Block", COMPARISON, summed)


@given(populations())
def test_the_index_and_the_residuals_by_it_are_those_of_loops_over_geounits(both):
    truth, estimate = both
    found = lines(truth, estimate)
    assert [line.definition for line in found] == [EMPTY_STRATA, MARGINAL_PRODUCT]
    for line in found:
        want = Counter()
        for true, protected in zip(truth, estimate, strict=True):
            want[expected(true, line.definition), int(protected.sum() - true.sum())] += 1
        assert (line.cells, line.strata) == (6, STRATA.name)
        got = {
            (index, value): count
            for index, residuals in line.parts
            for value, count in zip(residuals.values.tolist(), residuals.counts.tolist(), strict=True)
        }
        assert got == dict(want)


def test_the_product_of_marginal_supports_is_not_the_number_of_occupied_strata():
    diagonal = np.zeros((1, 3, 2, 3), dtype=np.int64)
    diagonal[0, 0, 0, 0] = diagonal[0, 2, 1, 1] = 1  # two strata, but two ages and two races
    owner, place = side(diagonal.reshape(1, -1)).owner, STRATA.row_of(np.flatnonzero(diagonal))
    assert homogeneity_index(STRATA, 1, owner, place, EMPTY_STRATA).tolist() == [4]
    assert homogeneity_index(STRATA, 1, owner, place, MARGINAL_PRODUCT).tolist() == [2]


@pytest.mark.parametrize("definition", [EMPTY_STRATA, MARGINAL_PRODUCT])
def test_a_geounit_without_people_is_as_homogeneous_as_can_be(definition):
    none = np.zeros(0, dtype=np.int64)
    assert homogeneity_index(STRATA, 2, none, none, definition).tolist() == [6, 6]


@given(populations(), populations())
def test_pooled_lines_are_those_of_all_geounits_and_survive_json(one, other):
    pairs = list(zip(lines(*one), lines(*other), strict=True))
    together = lines(*(np.concatenate(each) for each in zip(one, other, strict=True)))
    for pair, want in zip(pairs, together, strict=True):
        again = homogeneity_of_json(json.loads(json.dumps(homogeneity_json(pooled_homogeneity(pair)))))
        assert again.key == want.key
        assert dict(again.numbers()) == dict(want.numbers())


def line_of(*residuals):
    return HomogeneityRow("Block", EMPTY_STRATA, STRATA.name, 6, ((4, frequencies_of(np.array(residuals))),))


def test_the_bias_of_an_index_has_intervals_of_student_over_residuals_and_over_runs():
    runs = [[1, 5, 7], [2, 2, 4], [9, 0, 3]]
    ((_, told),) = pooled_homogeneity([line_of(*run) for run in runs]).numbers()
    together = np.concatenate(runs)
    expected = stats.t.interval(0.95, 8, together.mean(), stats.sem(together))
    assert (told["low"], told["high"]) == pytest.approx(expected)
    biases = [np.mean(run) for run in runs]
    expected = stats.t.interval(0.95, 2, np.mean(biases), stats.sem(biases))
    assert (told["low_over_runs"], told["high_over_runs"]) == pytest.approx(expected)


def test_one_geounit_of_an_index_in_one_run_has_no_interval():
    ((_, told),) = line_of(7).numbers()
    assert told["bias"] == 7
    assert np.isnan([told[end] for end in ("low", "high", "low_over_runs", "high_over_runs")]).all()
    figures = homogeneity_json(line_of(7))["by_index"][0]["figures"]
    assert (figures["bias"], figures["low"], figures["high_over_runs"]) == (7, None, None)


def test_the_table_of_biases_has_a_line_an_index_with_its_unit():
    pooled_line = pooled_homogeneity([line_of(1, 5, 7), line_of(2, 2, 4)])
    table = homogeneity_table("homogeneity", "", [pooled_line, line_of(7)], "housing units", CSV)
    both, one = csv.DictReader(csv_text(table).splitlines())
    ((_, told),) = pooled_line.numbers()
    assert {name: float(both[name]) for name in told.keys() & both.keys()} == {
        name: told[name] for name in told.keys() & both.keys()
    }
    assert {"n", "bias", "low", "high", "low_over_runs", "high_over_runs"} <= told.keys() & both.keys()
    assert (both["place"], both["definition"], both["index"]) == ("Block", EMPTY_STRATA, "4")
    assert (one["unit"], one["bias"], one["low"], one["high_over_runs"]) == ("housing units", "7.0", "", "")


def test_an_index_that_a_run_lacks_has_no_interval_over_runs():
    none = HomogeneityRow("Block", EMPTY_STRATA, STRATA.name, 6, ())
    ((_, told),) = pooled_homogeneity([line_of(1, 2), line_of(3, 5), none]).numbers()
    assert told["low"] < told["high"]
    assert np.isnan(told["low_over_runs"])


def test_bias_weighted_by_geounits_is_the_bias_of_all():
    rng = np.random.default_rng(7)
    truth = rng.poisson(1, (200, SCHEMA.size)) * rng.integers(0, 2, (200, SCHEMA.size))
    estimate = np.maximum(truth + rng.integers(-2, 3, truth.shape), 0)
    for line in lines(truth, estimate):
        weighted = sum(numbers["n"] * numbers["bias"] for _, numbers in line.numbers()) / 200
        assert weighted == pytest.approx((estimate.sum(axis=1) - truth.sum(axis=1)).mean())
