"""The published figures of 1940 are all there, as the article's text has them, and do not contradict each other."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from das_spark.evaluation.accuracy import TOTAL
from das_spark.products import PRODUCTS
from das_spark.simulation import GEOUNITS_1940
from das_spark.studies.published_1940 import (
    STRATA,
    FigureKey,
    FigureSource,
    bias_at,
    nearest_share,
    protected,
    published,
    sampled,
)

MEDIAN, LOSS = "median_absolute", "privacy_loss"
HALF, ONE, TWO = Fraction(1, 2), Fraction(1), Fraction(2)
EPSILONS = [Fraction(text) for text in ("1/4", "1/2", "3/4", "1", "2", "4", "6", "8")]
SHARES = [Fraction(percent, 100) for percent in range(5, 100, 5)]

# From the text of the article, not from the files that the data were taken from.
ARTICLE = {
    protected: {
        ("Enumdist", TOTAL, MEDIAN): {HALF: 29, ONE: 15, TWO: 8},
        ("County", TOTAL, MEDIAN): {HALF: 45, ONE: 24, TWO: 13},
        ("Enumdist", STRATA, MEDIAN): {HALF: 10, ONE: 6, TWO: 4},
        ("County", STRATA, MEDIAN): {HALF: 11, ONE: 6, TWO: 4},
        ("State", STRATA, MEDIAN): {HALF: 13, ONE: 7, TWO: 4},
        ("Enumdist", TOTAL, LOSS): {HALF: 0.033, ONE: 0.064, TWO: 0.116},
        ("County", TOTAL, LOSS): {HALF: 0.035, ONE: 0.048, TWO: 0.094},
        ("Enumdist", STRATA, LOSS): {HALF: 0.2, ONE: 0.241, TWO: 0.28},
        ("County", STRATA, LOSS): {HALF: 0.165, ONE: 0.164, TWO: 0.253},
        ("State", STRATA, LOSS): {HALF: 0.104, ONE: 0.166, TWO: 0.3},
    },
    sampled: {
        ("Enumdist", TOTAL, MEDIAN): {Fraction(1, 20): 74, HALF: 17, Fraction(19, 20): 4},
        ("County", TOTAL, MEDIAN): {Fraction(1, 20): 388, HALF: 90, Fraction(19, 20): 20},
        ("State", TOTAL, MEDIAN): {Fraction(1, 20): 3883, HALF: 932, Fraction(19, 20): 130},
    },
}


@pytest.mark.parametrize("names", ARTICLE)
def test_the_data_are_those_of_the_articles_text(names) -> None:
    for (level, measure, statistic), values in ARTICLE[names].items():
        for setting, value in values.items():
            digits = 3 if statistic == LOSS else 0
            assert round(published()[names(setting, level, measure, statistic)], digits) == value


def test_biases_by_index_are_those_of_the_articles_text() -> None:
    text = {("Enumdist", 0): (-31.7, -18.9, -11.6), ("Enumdist", 22): (5.4, 3.6, 2.3)}
    text |= {("County", 0): (-59.2, -33.9, -18.8), ("County", 22): (21.7, 14.5, 11.1)}
    for (level, index), values in text.items():
        assert [published()[bias_at(epsilon, level, index)] for epsilon in (HALF, ONE, TWO)] == list(values)


def test_table_1_is_exact() -> None:
    table = {ONE: HALF, TWO: Fraction(3, 4), Fraction(4): Fraction(9, 10), Fraction(6): Fraction(19, 20)}
    assert {epsilon: published()[nearest_share(epsilon)] for epsilon in table} == {
        epsilon: float(share) for epsilon, share in table.items()
    }


def test_every_setting_level_measure_and_statistic_is_there() -> None:
    figures = published()
    of_all = ("median_absolute", "p95_absolute", "largest", "rmse", LOSS)
    levels = [level.name for level in PRODUCTS["e2e_1940"].geolevels[1:]]
    assert list(GEOUNITS_1940) == levels
    for names, settings in ((protected, EPSILONS), (sampled, SHARES)):
        wanted = [names(s, level, m, t) for s in settings for level in levels for m in (TOTAL, STRATA) for t in of_all]
        assert set(wanted) <= set(figures)
    assert {protected(epsilon, level, TOTAL, "bias") for epsilon in EPSILONS for level in levels} <= set(figures)
    indices = {"County": (0, 4, 8, 12, 16, 18, 20, 22), "Enumdist": (0, 4, 8, 12, 14, 16, 18, 20, 21, 22, 23)}
    by_index = {bias_at(e, level, index) for e in EPSILONS for level, all_ in indices.items() for index in all_}
    assert by_index == {key for key in figures if key.index is not None}
    assert len(figures) == (8 + 19) * 30 + 8 * 3 + 8 * 19 + 4


def test_only_the_loss_of_exact_totals_is_undefined() -> None:
    undefined = {key for key, value in published().items() if value is None}
    assert undefined == {protected(epsilon, "State", TOTAL, LOSS) for epsilon in EPSILONS}


def test_figures_of_the_same_residuals_are_in_order() -> None:
    figures = published()
    places = Counter((key.source, key.setting, key.level, key.measure) for key in figures if key.index is None)
    for source, setting, level, measure in places:
        median, p95, rmse, largest = (
            figures[FigureKey(source, setting, level, measure, name)]
            for name in ("median_absolute", "p95_absolute", "rmse", "largest")
        )
        assert median <= p95 <= largest
        # All but half of the residuals are at least the median; rounding forgives half a person.
        assert (median - 0.5) / 2**0.5 <= rmse <= largest or largest == 0


@pytest.mark.parametrize(("level", "people", "within"), [("Enumdist", 981.8, 0.02), ("County", 42_601, 0.15)])
def test_errors_of_samples_are_those_of_the_sizes_of_geounits(level, people, within) -> None:
    # The variance of a sample's total is n (1 - f) / f: its mean over geounits knows their mean size only. Counties:
    # one sample of few large ones, whose root mean square varies by five percent.
    for share in SHARES:
        expected = float(people * (1 - share) / share) ** 0.5
        assert published()[sampled(share, level, TOTAL, "rmse")] == pytest.approx(expected, rel=within)


def test_a_key_says_in_words_what_it_names() -> None:
    assert str(bias_at(HALF, "County", 12)) == "bias of County, total at homogeneity index 12 (epsilon 1/2)"
    assert str(sampled(HALF, "County", STRATA, "rmse")) == f"rmse of County, {STRATA} (share 1/2)"
    assert FigureSource("sample") is FigureSource.SAMPLE
