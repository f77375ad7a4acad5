"""VR1 and VR2: every published scale from exact fractions, and percentiles of the noise against its exact law."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.studies import demonstration as published
from das_spark.studies.demonstration import allocation_table, drawn_noise, noise_figures, quantile


def test_all_26_published_scales_follow_from_the_shares():
    table = allocation_table()
    assert len(table) == 26
    assert all(line.agrees for line in table)
    assert {line.printed for line in table} == {
        *("25.00", "41.67", "12.50", "20.83", "5.00", "8.33", "50.00", "83.33", "20.00", "33.33")
    }


def test_what_is_spent_adds_up_to_the_published_totals():
    queries = {"person": published.PERSON_QUERIES, "household": published.HOUSEHOLD_QUERIES}
    assert sum(published.GEOLEVEL_SHARES.values()) == 1
    assert all(sum(query.share for query in asked) == 1 for asked in queries.values())
    assert sum(published.TOTALS.values()) == 6
    spent = {line.query.name: Fraction(0) for line in allocation_table()}
    for line in allocation_table():
        spent[line.query.name] += line.epsilon * (2 if line.scope == "nation and state" else 5)
    assert sum(spent.values()) == 6


def test_a_wrong_share_is_found():
    line = allocation_table()[-1]
    assert line.agrees
    assert not replace(line, epsilon=line.epsilon * Fraction(11, 10)).agrees


@pytest.mark.parametrize("scale", [Fraction(25), published.FIGURE_1_SCALE, published.WIDE_SCALE, Fraction(1, 3)])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.9, 0.975])
def test_quantiles_are_those_of_the_summed_law(scale, probability):
    with mpmath.workdps(40):
        ratio = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        reached, k = (1 + (1 - ratio) / (1 + ratio)) / 2, 0  # P(X <= 0)
        while reached < probability:
            k += 1
            reached += (1 - ratio) / (1 + ratio) * ratio**k
    assert quantile(scale, probability) == k


def test_the_noise_of_figure_1_has_its_printed_percentiles():
    figures = noise_figures(published.FIGURE_1_SCALE)
    assert (figures.p75, figures.p97_5) == (published.FIGURE_1_HALF, published.FIGURE_1_MOST)
    assert abs(noise_figures(published.WIDE_SCALE).p75 - published.WIDE_HALF) <= 1


@pytest.mark.parametrize("probability", [0.4, 1.0])
def test_other_probabilities_are_refused(probability):
    with pytest.raises(ConfigurationError, match=r"0\.5"):
        quantile(Fraction(10), probability)


@pytest.mark.statistical
def test_draws_of_the_sampler_have_the_published_percentiles():
    # 400,000 draws: the standard error of the 95th percentile is 0.29 people, so that a deviation of 1.5 (one beyond
    # rounding) is a false alarm of less than one in a million.
    draws = np.abs(drawn_noise(published.FIGURE_1_SCALE, 400_000, 7))
    assert abs(np.median(draws) - published.FIGURE_1_HALF) <= 1
    assert abs(np.quantile(draws, 0.95) - published.FIGURE_1_MOST) <= 1
    wide = np.abs(drawn_noise(published.WIDE_SCALE, 400_000, 7))
    assert abs(np.median(wide) - published.WIDE_HALF) <= 1
    assert abs(np.median(draws) - published.WIDE_HALF) > 1  # another scale is told apart
