"""Tallies and the lines made of them, against dense arrays and loops over geounits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.evaluation.bins import FIFTIES, Bins
from das_spark.evaluation.lines import lines_of
from das_spark.evaluation.queries import in_order, total_of
from das_spark.evaluation.shares import PARTS
from das_spark.evaluation.tally import Comparison, Side, Tally, paired, tally
from das_spark.histogram import Attribute, Recode, Schema

SCHEMA = Schema(
    "small",
    (
        Attribute("hhgq", ("a", "b", "c"), (Recode("quarters", (("quarters", (1, 2)),)),)),
        Attribute("race", ("x", "y")),
    ),
)
QUERIES = in_order(map(SCHEMA.query, ["total", "race", "hhgq", "quarters * race", "quarters", "detailed"]))
COMPARISON = Comparison(QUERIES, Bins("magnitude", (0, 9, 99)))


def side(dense):
    owner, cell = np.nonzero(dense)
    return Side(owner.astype(np.int64), cell.astype(np.int64), dense[owner, cell].astype(np.int64))


def tallied(truth, estimate):
    return tally(COMPARISON, paired(side(truth), side(estimate), len(truth), SCHEMA.size))


def summed(tallies):
    """What Spark does with the rows of all tasks."""
    sums = Counter()
    for each in tallies:
        rows = zip(*(column.tolist() for column in (each.line, each.bin, each.value, each.frequency)), strict=True)
        for *key, frequency in rows:
            sums[tuple(key)] += frequency
    rows = [(*key, frequency) for key, frequency in sorted(sums.items())]
    return Tally(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def lines(truth, estimate, cuts=()):
    parts = np.split(np.arange(len(truth)), cuts)
    return lines_of("Block", COMPARISON, summed(tallied(truth[part], estimate[part]) for part in parts))


@st.composite
def populations(draw):
    """Truth and estimate of a few geounits: many zeros, some empty geounits, some of hundreds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    number = draw(st.integers(1, 25))
    scale = rng.choice([0, 1, 20, 200], size=(number, 1))
    truth = rng.poisson(scale * rng.random((number, SCHEMA.size)))
    estimate = np.maximum(truth + rng.integers(-3, 4, truth.shape) * (rng.random(truth.shape) < 0.4), 0)
    estimate[rng.random(number) < 0.1] = 0
    return truth, estimate


@given(populations())
def test_errors_by_query_and_population_are_those_of_dense_arrays(both):
    truth, estimate = both
    population = truth.sum(axis=1)
    errors, _ = lines(truth, estimate)
    assert [line.key[1:] for line in errors] == [
        ("total", "magnitude"), ("total", "fifties"), *((query.name, "magnitude") for query in QUERIES[1:])
    ]  # fmt: skip
    for line in errors:
        query = SCHEMA.query(line.query)
        answers = [query.answer_dense(each) for each in both]
        for part in line.parts:
            low = line.bins.least(part.bin)
            high = line.bins.least(part.bin + 1) if part.bin + 1 < line.bins.number else np.inf
            here = (population >= low) & (population < high)
            true, protected = (each[here].ravel() for each in answers)
            compared = np.ones(len(true), dtype=bool) if line.query == "total" else (true > 0) | (protected > 0)
            residuals = (protected - true)[compared]
            assert (part.geounits, part.counted) == (here.sum(), population[here].sum())
            counted = zip(part.frequencies.values.tolist(), part.frequencies.counts.tolist(), strict=True)
            assert dict(counted) == Counter(residuals.tolist())
            assert part.frequencies.double_zero == ((true == 0) & (protected == 0)).sum()
            numbers = part.numbers()
            assert numbers["l1"] == np.abs(protected - true).sum()
            assert numbers["exact"] == (residuals == 0).sum()
            if part.counted:
                assert numbers["one_minus_tvd"] == pytest.approx(1 - numbers["l1"] / (2 * part.counted))
            if len(residuals):
                assert numbers["mean_absolute"] == pytest.approx(np.abs(residuals).mean())
                assert numbers["rmse"] == pytest.approx(np.sqrt((residuals**2).mean()))
                assert numbers["bias"] == pytest.approx(residuals.mean())
                assert numbers["median_absolute"] == pytest.approx(np.median(np.abs(residuals)))
        assert line.whole.geounits == len(truth)
        assert line.whole.counted == truth.sum()


@given(populations())
def test_criteria_are_those_of_loops_over_geounits(both):
    truth, estimate = both
    population = truth.sum(axis=1)
    _, criteria = lines(truth, estimate)
    several = [query.name for query in QUERIES if query.rows > 1]
    assert {line.key[1:] for line in criteria} == {
        (name, query, bins)
        for name, queries in (("total", ["total"]), ("largest group", several))
        for query in queries
        for bins in ("magnitude", "fifties")
    }
    for line in criteria:
        answers = [SCHEMA.query(line.query).answer_dense(each) for each in both]
        want = {}
        for number, (true, protected) in enumerate(zip(*answers, strict=True)):
            place = sum(bool(population[number] > edge) for edge in line.bins.upper)
            sums = want.setdefault(place, [0, 0, 0, 0.0])
            one_empty = line.name == "largest group" and (true.sum() == 0) != (protected.sum() == 0)
            difference = 0.0
            if line.name == "total":
                difference = abs(protected[0] - true[0]) / max(1, true[0])
            elif true.sum() and protected.sum():
                largest = int(np.argmax(protected))
                difference = abs(protected[largest] / protected.sum() - true[largest] / true.sum())
            sums[0] += 1
            sums[1] += not one_empty and difference <= 0.05 + 1e-12
            sums[2] += one_empty
            sums[3] += difference
        found = {part.bin: [part.geounits, part.within, part.undefined, part.parts / PARTS] for part in line.parts}
        assert found.keys() == want.keys()
        for place, sums in want.items():
            assert found[place] == pytest.approx(sums, abs=1e-7)


@given(populations(), st.data())
def test_tallies_of_parts_add_up_to_the_tally_of_all(both, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(both[0])), max_size=3)))
    one, many = summed([tallied(*both)]), lines(*both, cuts)
    whole = lines_of("Block", COMPARISON, one)
    assert str(many) == str(whole)


def test_a_part_without_geounits_and_a_level_without_geounits_are_empty():
    nothing = np.zeros((0, SCHEMA.size), dtype=np.int64)
    assert len(tallied(nothing, nothing).line) == 0
    errors, criteria = lines(nothing, nothing)
    assert {line.parts for line in errors} | {line.parts for line in criteria} == {()}
    assert np.isnan(errors[0].whole.one_minus_tvd)
    assert np.isnan(criteria[0].whole.numbers()["share_within"])


def test_geounits_where_nobody_lives_count_in_totals_and_criteria_and_nowhere_else():
    empty = np.zeros((3, SCHEMA.size), dtype=np.int64)
    errors, criteria = lines(empty, empty)
    total, *others = [line.whole for line in errors if line.bins != FIFTIES]
    assert (total.frequencies.total, total.frequencies.double_zero) == (3, 3)
    assert {line.frequencies.total for line in others} == {0}
    assert [line.frequencies.double_zero for line in others] == [3 * query.rows for query in QUERIES[1:]]
    assert {line.whole.within for line in criteria} == {3}


def test_people_invented_where_nobody_lives_are_an_error_without_a_share():
    truth = np.zeros((1, SCHEMA.size), dtype=np.int64)
    estimate = truth.copy()
    estimate[0, 2] = 4
    errors, criteria = lines(truth, estimate)
    assert errors[0].whole.numbers()["bias"] == 4
    assert np.isnan(errors[0].whole.one_minus_tvd)
    largest = next(line.whole for line in criteria if line.query == "race")
    assert (largest.within, largest.undefined) == (0, 1)
    assert np.isnan(largest.numbers()["mean_difference"])


def test_who_a_query_does_not_count_is_not_in_its_shares():
    truth = np.array([[90, 0, 5, 5, 0, 0]])  # 90 in households; race of the ten others
    estimate = np.array([[70, 0, 6, 4, 0, 0]])
    _, criteria = lines(truth, estimate)
    found = next(line.whole for line in criteria if line.query == "quarters * race")
    assert found.numbers()["mean_difference"] == pytest.approx(0.1)


def test_a_comparison_begins_with_the_total():
    with pytest.raises(InputError, match="total"):
        Comparison(QUERIES[1:], FIFTIES)
    assert total_of(QUERIES[-1]) == QUERIES[0]
