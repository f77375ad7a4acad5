"""Sums of cells by level, and residuals as they are counted, against dense arrays."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from das_spark.evaluation import sample_tally
from das_spark.evaluation.metrics import frequencies_of
from das_spark.evaluation.sample_draws import Draw
from das_spark.evaluation.sample_tally import ResidualSums, ResidualTally, TallyKey, gather, residuals
from das_spark.histogram import Attribute, Query, Schema

SCHEMA = Schema("small", (Attribute("hhgq", ("a", "b", "c")), Attribute("race", ("x", "y"))))
STRATA = SCHEMA.query("race")
#: Only who is of race x is in a stratum.
PARTIAL = Query("x only", STRATA.shape, (STRATA.factors[0], np.array([0, -1])))
CODES = np.array(["0101", "0102", "0201", "1101", "1102", "1103"])

histograms = st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=6, max_size=6).map(np.array)


def gathered(dense, strata=STRATA):
    geounit, cell = np.nonzero(dense >= 0)
    order = np.random.default_rng(1).permutation(len(geounit))  # in any order, zeros too
    return gather(CODES, geounit[order], cell[order], dense[geounit, cell][order], strata)


def by_level(dense, length):
    names = sorted({code[:length] for code in CODES.tolist()})
    return np.stack([dense[[code[:length] == name for code in CODES.tolist()]].sum(axis=0) for name in names])


@given(histograms, st.sampled_from([0, 1, 2, 4]), st.sampled_from([STRATA, PARTIAL]))
def test_sums_of_levels_equal_those_of_dense_arrays(dense, length, strata):
    cells, people = gathered(dense, strata)
    assert people.sum() == dense.sum()
    totals, stratified = cells.at_level(length, np.stack([people, -people]))
    whole = by_level(dense, length)
    some, answers = whole.sum(axis=1), strata.answer_dense(whole).T
    assert totals.tolist() == [some[some > 0].tolist(), (-some[some > 0]).tolist()]
    assert stratified.tolist() == [answers[answers > 0].tolist(), (-answers[answers > 0]).tolist()]


@given(histograms)
def test_sums_of_strata_keep_those_who_are_in_none(dense):
    cells, people = gathered(dense, PARTIAL)
    strata, sums = cells.by_stratum(people[np.newaxis])
    by_race = STRATA.answer_dense(dense.sum(axis=0))
    assert dict(zip(strata.tolist(), sums[0].tolist(), strict=True)) == {
        place: number for place, number in enumerate(by_race.tolist()) if number
    }


def test_residuals_are_whole_and_those_of_the_cells_sum_to_that_of_the_whole():
    people = np.array([30, 1, 9])
    draws = (Draw(Fraction(1, 20), 4), Draw(Fraction(19, 20), 4))
    found = residuals(people, np.array([3, 37]), draws, "5")
    assert found.dtype == np.int64
    assert found.sum(axis=1).tolist() == [3 * 20 - 40, 37 * 20 - 40 * 19]
    taken = np.stack([draw.taken(people, number, "5") for draw, number in zip(draws, (3, 37), strict=True)])
    assert np.allclose(found / [[1], [19]], taken / [[1 / 20], [19 / 20]] - people)  # people: divided by p


def test_counting_in_parts_is_counting_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    parts = [gathered(rng.integers(0, 3, (6, 6))) for _ in range(5)]
    values = [rng.integers(-3, 4, (2, len(people))) for _, people in parts]

    def counted():
        tally = ResidualTally()
        for (cells, _), each in zip(parts, values, strict=True):
            tally.add(cells, each[:1], {0: 0, 2: 4})
            tally.add(cells, each[1:], {0: 0, 2: 4}, first=1)
        return {key: (found.values.tolist(), found.counts.tolist()) for key, found in tally.frequencies().items()}

    whole = counted()
    pairs = [cells.at_level(4, each) for (cells, _), each in zip(parts, values, strict=True)]
    expected = frequencies_of(np.concatenate([stratified[1] for _, stratified in pairs]))
    assert whole[TallyKey(1, 2, True)] == (expected.values.tolist(), expected.counts.tolist())
    assert len(whole) == 8
    monkeypatch.setattr(sample_tally, "_WAITING", 20)
    assert counted() == whole


def test_sums_add_up_over_parts_and_name_strata_whose_residual_is_zero():
    sums = ResidualSums(2, 3)
    sums.add("01", np.array([0, 3]), np.array([[5, 1], [2, 0]]))
    sums.add("02", np.array([1]), np.array([[7]]), first=1)
    sums.add("01", np.array([3]), np.array([[-1], [0]]))
    found = {geocode: (strata.tolist(), values.tolist()) for geocode, strata, values in sums.found()}
    assert found == {"01": ([0, 3], [[5, 2], [0, 0]]), "02": ([1], [[0, 7]])}
