"""Classes of population: every geounit is in one, at the edges that the released metrics have.

- The criteria, against fractions geounit by geounit.
- Tallies and the lines made of them, against dense arrays and loops over geounits.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.evaluation.metric_rows import metric_rows_of
from das_spark.evaluation.tallies import (
    BINS,
    BLOCK,
    COUNTY,
    FIFTIES,
    MAGNITUDE,
    PARTS,
    Bins,
    ComparedSide,
    Comparison,
    ErrorTally,
    in_order,
    largest_share,
    paired,
    relative_error,
    sizes_of,
    tally,
    total_of,
)
from das_spark.histogram import Attribute, Recode, Schema


@pytest.mark.parametrize(
    ("bins", "population", "label"),
    [
        (BLOCK, 0, "0"),
        (BLOCK, 1, "1 to 9"),
        (BLOCK, 9, "1 to 9"),
        (BLOCK, 10, "10 to 99"),
        (BLOCK, 999, "100 to 999"),
        (BLOCK, 1_000, "1,000 or more"),
        (COUNTY, 0, "0 to 1,000"),
        (COUNTY, 1_000, "0 to 1,000"),
        (COUNTY, 1_001, "1,001 to 9,999"),
        (COUNTY, 1_000_000, "1,000,000 or more"),
        (MAGNITUDE, 9_999_999, "1,000,000 to 9,999,999"),
        (FIFTIES, 0, "0 to 49"),
        (FIFTIES, 50, "50 to 99"),
        (FIFTIES, 2_499, "2,450 to 2,499"),
        (FIFTIES, 2_500, "2,500 or more"),
    ],
)
def test_a_population_is_in_the_class_that_names_it(bins, population, label):
    assert bins.label(int(bins.place(np.array([population]))[0])) == label


@given(st.sampled_from(list(BINS.values())), st.lists(st.integers(0, 10**8), min_size=1))
def test_a_class_begins_where_the_one_before_ends(bins, populations):
    for population, place in zip(populations, bins.place(np.array(populations)).tolist(), strict=True):
        assert bins.least(place) <= population
        assert place == bins.number - 1 or population < bins.least(place + 1)


def test_there_are_fifty_steps_and_an_open_class():
    assert FIFTIES.number == 51


def test_blocks_and_counties_have_classes_of_their_own():
    assert [sizes_of(level).name for level in ("Block", "County", "Tract")] == ["block", "county", "magnitude"]


@pytest.mark.parametrize("upper", [(), (-1, 2), (3, 3), (4, 2)])
def test_edges_that_do_not_ascend_are_refused(upper):
    with pytest.raises(InputError, match="edges"):
        Bins("odd", upper)


counts = st.lists(st.integers(0, 40), min_size=3, max_size=3)
geounits = st.lists(st.tuples(counts, counts), min_size=1, max_size=8)


def expected(truth, estimate):
    """The definition, in exact fractions: within, undefined, difference."""
    if sum(truth) == sum(estimate) == 0:
        return True, False, Fraction(0)
    if 0 in (sum(truth), sum(estimate)):
        return False, True, Fraction(0)
    group = estimate.index(max(estimate))
    difference = abs(Fraction(estimate[group], sum(estimate)) - Fraction(truth[group], sum(truth)))
    return difference <= Fraction(5, 100), False, difference


def sparse(pairs):
    """Answers that are positive somewhere, as the tally gives them."""
    truth, estimate = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    owner, place = np.nonzero((truth > 0) | (estimate > 0))
    return len(pairs), owner, truth[owner, place], estimate[owner, place]


def check(found, pairs):
    for number, (truth, estimate) in enumerate(pairs):
        within, undefined, difference = expected(list(truth), list(estimate))
        assert (bool(found.within[number]), bool(found.undefined[number])) == (within, undefined)
        assert abs(int(found.parts[number]) - difference * PARTS) <= 1


@given(geounits)
def test_the_share_of_the_largest_group_is_that_of_the_definition(pairs):
    check(largest_share(*sparse(pairs)), pairs)


def test_of_equal_groups_the_first_in_the_order_of_the_answers_is_taken():
    # Protected 5, 5: the first group has 0.5 against 0.52; the second has it against 0.48.
    found = largest_share(*sparse([([52, 48, 0], [5, 5, 0]), ([100, 0, 0], [0, 3, 3])]))
    assert found.parts.tolist() == [PARTS * 2 // 100, PARTS // 2]


@pytest.mark.parametrize(
    ("truth", "estimate", "within", "undefined"),
    [
        ([0, 0, 0], [0, 0, 0], True, False),
        ([0, 0, 0], [0, 1, 0], False, True),
        ([2, 0, 0], [0, 0, 0], False, True),
        ([2, 0, 0], [7, 0, 0], True, False),
        ([10, 10, 0], [11, 9, 0], True, False),  # exactly 5 points, which is more in floating point
        ([1_000, 1_000, 0], [1_101, 899, 0], False, False),
    ],
)
def test_empty_geounits_and_the_edge_of_the_tolerance(truth, estimate, within, undefined):
    found = largest_share(*sparse([(truth, estimate)]))
    assert (bool(found.within[0]), bool(found.undefined[0])) == (within, undefined)
    assert not (undefined and found.parts[0])


def test_no_answer_anywhere_is_no_error():
    found = largest_share(*sparse([([0, 0, 0], [0, 0, 0])] * 2))
    assert found.within.tolist() == [True, True]


def test_populations_whose_products_do_not_fit_64_bits_are_compared_exactly():
    half = 10**12
    pairs = [([half, half, 0], [half + half // 10, half - half // 10, 0])]
    check(largest_share(*sparse(pairs)), pairs)
    pairs = [([half, half, 0], [half + half // 10 + 1, half - half // 10 - 1, 0])]
    check(largest_share(*sparse(pairs)), pairs)
    assert not largest_share(*sparse(pairs)).within[0]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1))
def test_the_relative_error_of_a_total_of_zero_is_the_error(pairs):
    truth, estimate = np.array(pairs).T
    found = relative_error(truth, estimate)
    for number, (true, protected) in enumerate(pairs):
        error = Fraction(abs(protected - true), max(1, true))
        assert bool(found.within[number]) == (error <= Fraction(5, 100))
        assert abs(int(found.parts[number]) - error * PARTS) <= 1
    assert not found.undefined.any()


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
    return ComparedSide(owner.astype(np.int64), cell.astype(np.int64), dense[owner, cell].astype(np.int64))


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
    return ErrorTally(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def lines(truth, estimate, cuts=()):
    parts = np.split(np.arange(len(truth)), cuts)
    return metric_rows_of("Block", COMPARISON, summed(tallied(truth[part], estimate[part]) for part in parts))


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
            true, protected = (answer[here].ravel() for answer in answers)
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
        assert line.all_classes.geounits == len(truth)
        assert line.all_classes.counted == truth.sum()


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
    one, many = summed([tallied(*both)]), lines(*both, cuts=cuts)
    whole = metric_rows_of("Block", COMPARISON, one)
    assert str(many) == str(whole)


def test_a_part_without_geounits_and_a_level_without_geounits_are_empty():
    nothing = np.zeros((0, SCHEMA.size), dtype=np.int64)
    assert len(tallied(nothing, nothing).line) == 0
    errors, criteria = lines(nothing, nothing)
    assert {line.parts for line in errors} | {line.parts for line in criteria} == {()}
    assert np.isnan(errors[0].all_classes.one_minus_tvd)
    assert np.isnan(criteria[0].all_classes.numbers()["share_within"])


def test_geounits_where_nobody_lives_count_in_totals_and_criteria_and_nowhere_else():
    empty = np.zeros((3, SCHEMA.size), dtype=np.int64)
    errors, criteria = lines(empty, empty)
    total, *others = [line.all_classes for line in errors if line.bins != FIFTIES]
    assert (total.frequencies.total, total.frequencies.double_zero) == (3, 3)
    assert {line.frequencies.total for line in others} == {0}
    assert [line.frequencies.double_zero for line in others] == [3 * query.rows for query in QUERIES[1:]]
    assert {line.all_classes.within for line in criteria} == {3}


def test_people_invented_where_nobody_lives_are_an_error_without_a_share():
    truth = np.zeros((1, SCHEMA.size), dtype=np.int64)
    estimate = truth.copy()
    estimate[0, 2] = 4
    errors, criteria = lines(truth, estimate)
    assert errors[0].all_classes.numbers()["bias"] == 4
    assert np.isnan(errors[0].all_classes.one_minus_tvd)
    largest = next(line.all_classes for line in criteria if line.query == "race")
    assert (largest.within, largest.undefined) == (0, 1)
    assert np.isnan(largest.numbers()["mean_difference"])


def test_who_a_query_does_not_count_is_not_in_its_shares():
    truth = np.array([[90, 0, 5, 5, 0, 0]])  # 90 in households; race of the ten others
    estimate = np.array([[70, 0, 6, 4, 0, 0]])
    _, criteria = lines(truth, estimate)
    found = next(line.all_classes for line in criteria if line.query == "quarters * race")
    assert found.numbers()["mean_difference"] == pytest.approx(0.1)


def test_a_comparison_begins_with_the_total():
    with pytest.raises(InputError, match="total"):
        Comparison(QUERIES[1:], FIFTIES)
    assert total_of(QUERIES[-1]) == QUERIES[0]
