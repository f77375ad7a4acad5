"""Classes of counts, offsets against written-out cases, and how often an interval holds a count of its kind."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, fsum, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.evaluation import COUNT_CLASSES, TOTAL_CLASSES, error_classes
from das_spark.features.replicates.offsets import ErrorOffsets, count_intervals, error_offsets

#: Exact as floating-point numbers, so that ranks and required cases are those of fractions.
LEVELS = [0.5, 0.75, 0.875, 0.9375, 0.96875]
PLACES = {pair: place for place, pair in enumerate(product(range(len(COUNT_CLASSES)), range(len(TOTAL_CLASSES))))}
COUNTS = st.one_of(st.integers(0, 60), st.integers(0, 3_000_000), st.sampled_from(COUNT_CLASSES))


def class_of(count: int, total: int) -> int:
    """By looking at one bound after the other."""
    of_count, of_total = -1, -1
    for least in COUNT_CLASSES:
        if least <= count:
            of_count += 1
    for least in TOTAL_CLASSES:
        if least <= total:
            of_total += 1
    return PLACES[of_count, of_total]


def one_class(count: int, total: int) -> int:
    return int(error_classes(np.array([[count]]), np.array([total]))[0, 0])


def test_bounds_of_classes_begin_with_nobody_and_ascend():
    for bounds in (COUNT_CLASSES, TOTAL_CLASSES):
        assert bounds[0] == 0
        assert all(one < other for one, other in pairwise(bounds))


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=1, max_size=8))
def test_classes_are_those_of_a_loop_over_the_bounds(rows):
    counts, totals = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    expected = [[class_of(count, total) for count in row[:2]] for row, total in zip(rows, totals, strict=True)]
    assert error_classes(counts, totals).tolist() == expected


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_classes_ascend_with_the_count_first_and_then_with_the_total(count, other, total, another):
    (less, more), (few, many) = sorted((count, other)), sorted((total, another))
    assert one_class(less, few) <= one_class(more, many)
    # Whatever the totals, where the counts are of two classes.
    if one_class(less, 0) < one_class(more, 0):
        assert one_class(less, many) < one_class(more, few)


@st.composite
def errors(draw) -> list[tuple[int, int, int]]:
    """How often each difference occurs in each class: class, difference, cases."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(-40, 40)), min_size=1, max_size=40, unique=True))
    return [(*pair, draw(st.integers(1, 90))) for pair in pairs]


def offsets_of(rows: list[tuple[int, int, int]], level: float) -> ErrorOffsets:
    return error_offsets(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)), level=level)


def brute_force(rows: list[tuple[int, int, int]], level: float) -> list[tuple[int, int, float, int, int]]:
    """First class, cases, root mean square error and offsets of joined classes, from every case by itself."""
    outside = 1 - Fraction(level)
    required = max(100, ceil(10 / outside))
    cases = sorted((number, difference) for number, difference, times in rows for _ in range(times))
    joined: list[list[tuple[int, int]]] = [[]]  # the greatest classes first
    for number in sorted({number for number, _ in cases}, reverse=True):
        if len(joined[-1]) >= required:
            joined.append([])
        joined[-1] += [case for case in cases if case[0] == number]
    if len(joined) > 1 and len(joined[-1]) < required:
        rest = joined.pop()
        joined[-1] += rest
    found = []
    for group in reversed(joined):
        differences = sorted(difference for _, difference in group)
        size, rmse = len(group), sqrt(fsum(difference**2 for difference in differences) / len(group))
        if size < required:
            reach = ceil(stats.t.ppf(0.5 + level / 2, size) * rmse)
            low, high = -reach, reach
        else:
            # Of one case more, as many ranks lie below as may be missed on that side.
            missed = int((size + 1) * outside / 2)
            low, high = differences[missed - 1], differences[size - missed]
        found.append((min(number for number, _ in group), size, rmse, min(low, 0), max(high, 0)))
    return found


@given(errors(), st.sampled_from(LEVELS))
def test_offsets_are_those_of_written_out_cases(rows, level):
    found = offsets_of(rows, level)
    expected = brute_force(rows, level)
    columns = [column.tolist() for column in (found.first, found.cases, found.low, found.high)]
    assert list(zip(*columns, strict=True)) == [(first, cases, low, high) for first, cases, _, low, high in expected]
    assert found.rmse.tolist() == pytest.approx([rmse for _, _, rmse, _, _ in expected], rel=1e-12)


@given(errors(), st.sampled_from([*LEVELS, 0.9, 0.95, 0.99]), st.randoms())
def test_joined_classes_have_all_cases_and_enough_of_them_and_offsets_hold_zero(rows, level, chance):
    found = offsets_of(rows, level)
    times = Counter()
    for number, _, cases in rows:
        times[number] += cases
    ends = [*found.first[1:].tolist(), max(times) + 1]
    for first, end, cases in zip(found.first.tolist(), ends, found.cases.tolist(), strict=True):
        assert cases == sum(time for number, time in times.items() if first <= number < end)
    assert found.first[0] == min(times)
    if len(found.first) > 1:
        assert found.cases.min() >= max(100, 10 / (1 - level))
    assert (found.low <= 0).all()
    assert (found.high >= 0).all()
    # The order of the rows says nothing, nor whether cases of one difference stand in one row.
    parts = [(number, each, part) for number, each, cases in rows for part in (1, cases - 1) if part]
    chance.shuffle(parts)
    again = offsets_of(parts, level)
    for name in ErrorOffsets.__slots__:
        assert getattr(again, name).tolist() == getattr(found, name).tolist()


def test_the_greatest_counts_are_joined_first_and_what_is_left_joins_the_least():
    # 90 + 20 cases are enough, 100 are, and 30 + 40 are not.
    classes = [(2, 0, 30), (3, 5, 40), (4, 1, 100), (6, 7, 20), (9, -9, 90)]
    found = offsets_of(classes, 0.875)
    assert (found.first.tolist(), found.cases.tolist()) == ([2, 6], [170, 110])
    assert (found.low.tolist(), found.high.tolist()) == ([0, -9], [5, 7])
    # With 100 cases of the least class there is nothing left.
    found = offsets_of([(2, 0, 100), *classes[2:]], 0.875)
    assert (found.first.tolist(), found.cases.tolist()) == ([2, 4, 6], [100, 100, 110])
    # Rare misses need more cases: 10 outside, of 1 in 32.
    found = offsets_of(classes, 0.96875)
    assert (found.first.tolist(), found.cases.tolist()) == ([2], [280])


def test_ranks_of_offsets_are_those_that_one_case_more_would_have():
    # The differences are their own ranks, from -50 to 49: of 101 cases 6 (of 6.3) may lie on each side.
    found = offsets_of([(1, each, 1) for each in range(-50, 50)], 0.875)
    assert (found.low.tolist(), found.high.tolist()) == ([-45], [44])


def test_few_cases_have_student_s_t_times_their_root_mean_square():
    found = offsets_of([(0, 3, 1), (5, -4, 1)], 0.9)
    assert found.rmse.tolist() == [pytest.approx(sqrt(12.5))]
    # 2.92 of the table of Student's t with 2 degrees of freedom; the mean is known to be 0.
    assert found.high.tolist() == [-low for low in found.low] == [ceil(2.92 * sqrt(12.5))]
    nothing = offsets_of([(0, 0, 7)], 0.9)
    assert (nothing.rmse.tolist(), nothing.low.tolist(), nothing.high.tolist()) == ([0], [0], [0])


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True), st.lists(st.integers(0, 14), max_size=9))
def test_a_class_belongs_to_the_last_joined_one_that_does_not_begin_after_it(firsts, classes):
    numbers = np.zeros(len(firsts), dtype=np.int64)
    offsets = ErrorOffsets(np.array(sorted(firsts)), numbers, numbers.astype(np.float64), numbers, numbers)
    expected = []
    for number in classes:
        before = [place for place, first in enumerate(sorted(firsts)) if first <= number]
        expected.append(before[-1] if before else 0)
    assert offsets.of(np.array(classes, dtype=np.int64)).tolist() == expected


@given(
    st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=1, max_size=6),
    st.lists(st.one_of(st.none(), errors()), min_size=3, max_size=3),
)
def test_intervals_are_counts_and_the_offsets_of_their_class(rows, given_errors):
    offsets = [None if error is None else offsets_of(error, 0.75) for error in given_errors]
    counts = np.array(rows, dtype=np.int64)
    before = counts.copy()
    rmse, low, high = count_intervals(counts, offsets)
    assert (counts == before).all(), "the counts themselves were changed"
    for row, own in enumerate(rows):
        for column, count in enumerate(own):
            of, expected = offsets[column], (0.0, count, count)
            if of is not None:
                firsts = of.first.tolist()
                place = max([n for n, first in enumerate(firsts) if first <= class_of(count, own[0])], default=0)
                expected = (of.rmse[place], max(count + of.low[place], 0), count + of.high[place])
            assert (rmse[row, column], low[row, column], high[row, column]) == expected
    assert (low <= counts).all()
    assert (counts <= high).all()


#: Of one comparison with a binomial distribution, on each side.
FALSE_ALARM = 1e-7
TRIALS = 4000
PEOPLE = 100_000  # so wide that two differences are seldom the same


def errors_drawn(kind: str, numbers: np.random.Generator, size: int) -> np.ndarray:
    """Differences that are alike, centred at 0 but for the skewed ones, whose median is there."""
    if kind == "normal":
        drawn = numbers.normal(0, PEOPLE, size)
    elif kind == "wide":
        drawn = PEOPLE * numbers.standard_t(2, size)
    else:
        drawn = PEOPLE * (numbers.exponential(1, size) - np.log(2))
    return np.rint(drawn).astype(np.int64)


def covered(kind: str, cases: int, level: float, part: int = 1) -> int:
    """In how many trials a difference lies within the offsets of others like it, divided by `part`."""
    numbers, found = np.random.default_rng([1790, cases, part]), 0
    ones = np.ones(cases, dtype=np.int64)
    for _ in range(TRIALS):
        *known, fresh = errors_drawn(kind, numbers, cases + 1)
        offsets = error_offsets(ones, np.array(known), ones, level)
        found += offsets.low[0] / part <= fresh <= offsets.high[0] / part
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["normal", "wide", "skewed"])
@pytest.mark.parametrize(("cases", "level"), [(100, 0.875), (230, 0.9375)])
def test_a_further_difference_lies_inside_as_often_as_the_level_says(kind, cases, level):
    """The rank of a difference among others like it is uniform, so that the number of trials in which it lies inside is
    binomial with a probability that is known exactly and is at least the level. Seeds are fixed; over seeds one
    comparison in 10 million fails on either side. Halved offsets are the control: they cover much less."""
    missed = int((cases + 1) * (1 - Fraction(level)) / 2)
    exact = 1 - 2 * missed / (cases + 1)
    assert exact >= level
    least, most = stats.binom.ppf([FALSE_ALARM, 1 - FALSE_ALARM], TRIALS, exact)
    assert least <= covered(kind, cases, level) <= most
    assert covered(kind, cases, level, part=2) < stats.binom.ppf(FALSE_ALARM, TRIALS, level)


@pytest.mark.statistical
@pytest.mark.parametrize("cases", [1, 4, 30])
def test_few_normal_differences_say_as_much_by_student_s_t(cases):
    """A normal difference over the root mean square of n others has Student's distribution with n degrees of freedom
    (the mean is known), so that coverage is that of the level; the false-alarm rate and the control are as above."""
    least, most = stats.binom.ppf([FALSE_ALARM, 1 - FALSE_ALARM], TRIALS, 0.9)
    assert least <= covered("normal", cases, 0.9) <= most
    assert covered("normal", cases, 0.9, part=2) < least
