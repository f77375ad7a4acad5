"""Draws by cell against persons drawn one by one, and against the distribution itself.

- Sums of cells by level, and residuals as they are counted, against dense arrays.
- The report on samples, and the sample closest to a release: against the published table 1.
- Lines on the closest samples: which there are, and how they are written.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation import samples
from das_spark.evaluation.metrics import frequencies_of
from das_spark.evaluation.samples import (
    SHARES,
    SHARES_OF_FIGURE_2,
    Draw,
    ResidualSums,
    ResidualTally,
    SamplePoint,
    SampleReport,
    TallyKey,
    closest_row,
    closest_sample,
    closest_table,
    entries_of,
    gather,
    residuals,
    unequal_seeds_note,
)
from das_spark.histogram import Attribute, Query, Schema
from das_spark.report import csv_text, percent

HALF = Fraction(1, 2)
PEOPLE = np.array([3, 0, 4, 2, 1])
#: Two geounits: the first three cells, and the others.
PARTS = (slice(0, 3), slice(3, 5))
SAMPLES = 5_000
#: Of each statistical test here, in one run. Seeds are fixed: a failure that is not a fault can only come with a
#: change of the code or of numpy.
FALSE_ALARM = 1e-6


def in_two_steps(draw):
    """What each geounit gives first, then its cells."""
    persons = draw.taken(np.array([PEOPLE[part].sum() for part in PARTS]), draw.persons(int(PEOPLE.sum())))
    pairs = zip(PARTS, persons.tolist(), ("07", "11"), strict=True)
    return np.concatenate([draw.taken(PEOPLE[part], number, name) for part, number, name in pairs])


def one_by_one(generator):
    """The definition: the first half of all persons in a random order."""
    persons = np.repeat(np.arange(len(PEOPLE)), PEOPLE)
    return np.bincount(generator.permutation(persons)[: len(persons) // 2], minlength=len(PEOPLE))


def p_value(samples):
    """Chi-square of how often each sample was drawn against the multivariate hypergeometric distribution, all of it."""
    possible = [each for each in product(*(range(number + 1) for number in PEOPLE)) if sum(each) == PEOPLE.sum() // 2]
    expected = stats.multivariate_hypergeom.pmf(possible, PEOPLE, PEOPLE.sum() // 2) * len(samples)
    places = {each: place for place, each in enumerate(possible)}
    observed = np.bincount([places[tuple(sample)] for sample in samples.tolist()], minlength=len(possible))
    rare = expected < 20  # pooled, so that the chi-square distribution holds far out
    assert len(possible) == 22
    return stats.chisquare(
        np.append(observed[~rare], observed[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    ).pvalue


@pytest.mark.statistical
def test_two_steps_have_the_joint_distribution_of_persons_drawn_one_by_one():
    samples = np.stack([in_two_steps(Draw(HALF, seed)) for seed in range(SAMPLES)])
    assert p_value(samples) > FALSE_ALARM
    generator = np.random.default_rng(1)
    assert p_value(np.stack([one_by_one(generator) for _ in range(SAMPLES)])) > FALSE_ALARM  # the oracle agrees


@pytest.mark.statistical
def test_the_test_of_the_distribution_finds_geounits_that_always_give_their_expected_number():
    def stratified(draw):  # the right mean in every cell, and no sample of the whole population
        return np.concatenate(
            [draw.taken(PEOPLE[part], number, "7") for part, number in zip(PARTS, (4, 1), strict=True)]
        )

    assert p_value(np.stack([stratified(Draw(HALF, seed)) for seed in range(SAMPLES)])) < FALSE_ALARM


@pytest.mark.statistical
def test_seeds_shares_and_geounits_are_independent_and_the_same_draw_is_not():
    people = np.full(4000, 50)

    def deviations(draw, geocode):
        return draw.taken(people, draw.persons(int(people.sum())), geocode) - 50 * float(draw.share)

    first = deviations(Draw(HALF, 1), "12")
    others = {
        "seed": deviations(Draw(HALF, 2), "12"),
        "large seed": deviations(Draw(HALF, 1 + (1 << 32)), "12"),
        "share": deviations(Draw(Fraction(1, 4), 1), "12"),
        "geounit": deviations(Draw(HALF, 1), "13"),
        "longer geocode": deviations(Draw(HALF, 1), "012"),
        "letters": deviations(Draw(HALF, 1), "1a"),
        "other letters": deviations(Draw(HALF, 1), "a1"),
        "whole": deviations(Draw(HALF, 1), ""),
    }
    for name, other in others.items():
        assert stats.pearsonr(first, other).pvalue > FALSE_ALARM / len(others), name
    again = deviations(Draw(HALF, 1), "12")
    assert (again == first).all()
    assert stats.pearsonr(first, again).pvalue < FALSE_ALARM


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    st.fractions(Fraction(1, 1000), 1, max_denominator=1000),
    st.integers(0, 2**63 - 1),
)
def test_no_cell_gives_more_than_it_has_and_all_give_what_is_asked(people, share, seed):
    draw, counts = Draw(share, seed), np.array(people)
    persons = draw.persons(int(counts.sum()))
    found = draw.taken(counts, persons, "042")
    assert found.sum() == persons
    assert ((found >= 0) & (found <= counts)).all()
    assert abs(persons - share * int(counts.sum())) <= HALF


def test_halves_of_persons_are_rounded_to_even():
    assert [Draw(HALF, 0).persons(number) for number in (3, 5, 7)] == [2, 2, 4]


def test_everybody_is_drawn_by_a_share_of_one():
    assert (Draw(Fraction(1), 3).taken(PEOPLE, 10, "1") == PEOPLE).all()


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(21, 20), Fraction(0.05)])
def test_shares_out_of_range_and_former_floats_are_refused(share):
    with pytest.raises(InputError, match="share"):
        Draw(share, 0)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(InputError, match="seed"):
        Draw(HALF, seed)


def test_too_large_a_population_is_refused_without_its_number():
    with pytest.raises(InputError, match="fewer than 1,000,000,000 people"):
        Draw(HALF, 0).taken(np.array([10**9 - 1, 1]), 5)


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
        for (cells, _), value in zip(parts, values, strict=True):
            tally.add(cells, value[:1], {0: 0, 2: 4})
            tally.add(cells, value[1:], {0: 0, 2: 4}, first=1)
        return {key: (found.values.tolist(), found.counts.tolist()) for key, found in tally.frequencies().items()}

    whole = counted()
    pairs = [cells.at_level(4, value) for (cells, _), value in zip(parts, values, strict=True)]
    expected = frequencies_of(np.concatenate([stratified[1] for _, stratified in pairs]))
    assert whole[TallyKey(1, 2, True)] == (expected.values.tolist(), expected.counts.tolist())
    assert len(whole) == 8
    monkeypatch.setattr(samples, "_WAITING", 20)
    assert counted() == whole


def test_sums_add_up_over_parts_and_name_strata_whose_residual_is_zero():
    sums = ResidualSums(2, 3)
    sums.add("01", np.array([0, 3]), np.array([[5, 1], [2, 0]]))
    sums.add("02", np.array([1]), np.array([[7]]), first=1)
    sums.add("01", np.array([3]), np.array([[-1], [0]]))
    found = {geocode: (strata.tolist(), values.tolist()) for geocode, strata, values in sums.found()}
    assert found == {"01": ([0, 3], [[5, 2], [0, 0]]), "02": ([1], [[0, 7]])}


HALF_SAMPLE = Fraction(1, 2)

# Petti and Flaxman 2020, Gates Open Research 3:1722, and the result files of its repository, for the 1940 census.
#: Per cent -> median absolute error and empirical privacy loss of county strata.
COUNTY_STRATA = {
    5: (19.0, 0.034), 10: (14.0, 0.048), 15: (11.0, 0.062), 20: (9.0, 0.073), 25: (8.0, 0.083), 30: (7.0, 0.093),
    35: (6.29, 0.108), 40: (5.5, 0.121), 45: (5.0, 0.135), 50: (5.0, 0.15), 55: (4.18, 0.166), 60: (3.67, 0.181),
    65: (3.38, 0.2), 70: (3.0, 0.225), 75: (2.67, 0.258), 80: (2.25, 0.293), 85: (1.94, 0.339), 90: (1.56, 0.429),
    95: (1.0, 0.611),
}  # fmt: skip
#: Epsilon of TopDown -> the same of its county strata, and the closest sample of table 1.
TABLE_1 = {"1": (6, 0.164, 50), "2": (4, 0.253, 75), "4": (2, 0.445, 90), "6": (1, 0.626, 95)}


def points(shares):
    return [SamplePoint(share, *COUNTY_STRATA[int(share * 100)]) for share in shares]


@pytest.mark.parametrize("epsilon", TABLE_1)
def test_the_published_table_1_goes_by_loss_alone(epsilon):
    error, loss, percent = TABLE_1[epsilon]
    assert closest_sample(points(SHARES_OF_FIGURE_2), (error, loss)).by_loss == Fraction(percent, 100)


def test_among_all_shares_and_by_the_other_rules_other_samples_are_closest():
    assert closest_sample(points(SHARES), (6, 0.164)).by_loss == Fraction(55, 100)  # not in figure 2
    found = closest_sample(points(SHARES_OF_FIGURE_2), (4, 0.253))
    assert (found.by_median_absolute, found.by_both) == (Fraction(3, 5), Fraction(3, 5))


def test_of_equally_close_samples_the_smaller_wins_and_undefined_losses_are_passed_over():
    given_points = [
        SamplePoint(Fraction(3, 4), 2.0, 0.75),
        SamplePoint(HALF_SAMPLE, 4.0, None),
        SamplePoint(HALF_SAMPLE / 2, 4.0, 0.25),
    ]
    found = closest_sample(given_points, (3.0, 0.5))
    assert (found.by_median_absolute, found.by_loss) == (HALF_SAMPLE / 2, HALF_SAMPLE / 2)
    found = closest_sample(given_points, (4.0, None))
    assert (found.by_median_absolute, found.by_loss, found.by_both) == (HALF_SAMPLE / 2, None, None)
    assert closest_sample(given_points[1:2], (4.0, 0.2)).by_loss is None


def test_a_release_without_error_is_close_to_a_sample_without_error():
    perfect = [SamplePoint(Fraction(1), 0.0, 0.0), SamplePoint(HALF_SAMPLE, 1.0, 0.1)]
    assert closest_sample(perfect, (0.0, 0.0)).by_both == 1
    with pytest.raises(InputError, match="no sample"):
        closest_sample([], (1.0, 0.1))


def report():
    rng = np.random.default_rng(3)
    entries = []
    for share in (Fraction(1, 20), Fraction(19, 20)):
        for seed in (0, 1):
            for place in ("County", "Tract"):
                some = [frequencies_of(rng.integers(-90, 90, 40), double_zero=seed + 3) for _ in range(2)]
                entries += entries_of(Draw(share, seed), place, "race", *some)
    return SampleReport((Fraction(1, 20), Fraction(19, 20)), (0, 1), tuple(entries), "housing units")


def test_a_report_is_the_same_after_writing_and_reading():
    text = report().to_json()
    again = SampleReport.from_json(text)
    assert again.to_json() == text
    assert (again.shares, again.seeds, again.counted) == (report().shares, (0, 1), "housing units")
    for one, other in zip(report().entries, again.entries, strict=True):
        assert one.frequencies.values.tolist() == other.frequencies.values.tolist()
        assert (one.figures, one.share, one.seed) == (other.figures, other.share, other.seed)
    assert "RESTRICTED" in text


def test_figures_are_in_people():
    entry = report().entry(Fraction(19, 20), "Tract", "total", 1)
    whole, found = entry.frequencies.figures, entry.figures
    assert (found.n, found.double_zero, entry.divisor) == (40, 4, 19)
    assert found.median_absolute == pytest.approx(whole.median_absolute / 19)
    assert found.rmse == pytest.approx(whole.rmse / 19)
    assert found.bias == pytest.approx(whole.bias / 19)
    assert found.quantiles == pytest.approx([quantile / 19 for quantile in whole.quantiles])


def test_seeds_are_pooled_and_the_report_of_the_pooled_can_be_written():
    samples = report()
    pooled = samples.pooled()
    assert len(pooled.entries) == 8
    one, two = (samples.entry(SHARES[0], "County", "race", seed).frequencies for seed in (0, 1))
    together = pooled.entry(SHARES[0], "County", "race")
    assert together.seed is None
    assert (together.frequencies.total, together.frequencies.double_zero) == (80, 7)
    assert together.frequencies.absolute_sum == one.absolute_sum + two.absolute_sum
    assert SampleReport.from_json(pooled.to_json()).pooled().to_json() == pooled.to_json()


def test_a_note_says_where_samples_are_not_as_many_as_runs():
    assert unequal_seeds_note(3, 3) == ()
    (note,) = unequal_seeds_note(3, 1)
    assert note.startswith("samples of every share: 1, runs beside them: 3;")


def test_lines_that_are_not_there_are_named():
    with pytest.raises(InputError, match="Block, race, share 1/20, seed 0"):
        report().entry(SHARES[0], "Block", "race", 0)
    with pytest.raises(InputError, match="County, race, share 1/2"):
        report().entry(HALF_SAMPLE, "County", "race")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}', '{"schema_version": 9}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(InputError, match="report on samples"):
        SampleReport.from_json(text)


OF = ("County", "total")
SMALL, HALF = Fraction(1, 250), Fraction(1, 2)
POINTS = (SamplePoint(SMALL, 40.0, 0.1), SamplePoint(HALF, 2.0, 0.4))


def errors(*residuals):
    return frequencies_of(np.array(residuals, dtype=np.int64)).figures


def test_what_is_exact_or_empty_or_without_samples_has_no_line():
    assert closest_row(OF, errors(0, 0), None, POINTS) is None
    assert closest_row(OF, errors(), None, POINTS) is None
    assert closest_row(OF, errors(1, 2), 0.2, ()) is None
    assert closest_row(OF, errors(1, 2), 0.2, [SamplePoint(HALF, float("nan"), None)]) is None


def test_lines_of_one_release_and_of_several_budgets_are_written_alike():
    line = closest_row(OF, errors(3, 3), 0.11, POINTS)
    assert (line.closest.by_median_absolute, line.closest.by_loss) == (HALF, SMALL)
    at_budget = closest_row(OF, errors(3, 3), None, POINTS, Fraction(1, 4))
    tables = [csv_text(closest_table([line])), csv_text(closest_table([at_budget], "epsilon"))]
    one, other = (next(csv.DictReader(table.splitlines())) for table in tables)
    assert (one["by_median_absolute"], one["by_loss"], one["empirical_privacy_loss"]) == ("1/2", "1/250", "0.11")
    assert (other["epsilon"], other["by_loss"], other["empirical_privacy_loss"]) == ("1/4", "", "")
    assert other.keys() - one.keys() == {"epsilon"}


@pytest.mark.parametrize(
    ("share", "said"),
    [(Fraction(1, 20), "5 %"), (Fraction(1, 40), "2.5 %"), (SMALL, "0.4 %"), (Fraction(1, 3), "33.3333 %")],
)
def test_a_share_is_said_in_per_cent(share, said):
    assert percent(share) == said
