"""The report on samples, and the sample closest to a release: against the published table 1."""

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import InputError
from das_spark.evaluation.metrics import figures, frequencies_of
from das_spark.evaluation.sample_draws import Draw
from das_spark.evaluation.sampling import (
    SHARES,
    SHARES_OF_FIGURE_2,
    SamplePoint,
    SampleReport,
    closest_sample,
    entries_of,
    unequal_seeds_note,
)

HALF = Fraction(1, 2)

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
        SamplePoint(HALF, 4.0, None),
        SamplePoint(HALF / 2, 4.0, 0.25),
    ]
    found = closest_sample(given_points, (3.0, 0.5))
    assert (found.by_median_absolute, found.by_loss) == (HALF / 2, HALF / 2)
    found = closest_sample(given_points, (4.0, None))
    assert (found.by_median_absolute, found.by_loss, found.by_both) == (HALF / 2, None, None)
    assert closest_sample(given_points[1:2], (4.0, 0.2)).by_loss is None


def test_a_release_without_error_is_close_to_a_sample_without_error():
    perfect = [SamplePoint(Fraction(1), 0.0, 0.0), SamplePoint(HALF, 1.0, 0.1)]
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
    whole, found = figures(entry.frequencies), entry.figures
    assert (found.n, found.double_zero, entry.divisor) == (40, 4, 19)
    assert found.median_absolute == pytest.approx(whole.median_absolute / 19)
    assert found.rmse == pytest.approx(whole.rmse / 19)
    assert found.bias == pytest.approx(whole.bias / 19)
    assert found.quantiles == pytest.approx([each / 19 for each in whole.quantiles])


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
        report().entry(HALF, "County", "race")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}', '{"schema_version": 9}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(InputError, match="report on samples"):
        SampleReport.from_json(text)
