"""Our figures under the names of the published ones, and the page that shows both."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from das_spark.evaluation import AccuracyReport, Entry, frequencies_of
from das_spark.evaluation.metric_rows import HomogeneityRow
from das_spark.evaluation.samples import SHARES_OF_FIGURE_2, SampleEntry, SampleReport
from das_spark.evaluation.tallies import EMPTY_STRATA, MARGINAL_PRODUCT
from das_spark.report import page
from das_spark.studies.published_1940 import PRIVACY_LOSS, STRATA, bias_at, nearest_share, protected, sampled
from das_spark.studies.replication import Replication, Verdict, compare, our_figures

HALF = Fraction(1, 2)
LEVELS = ("State", "County", "Enumdist")


def noise(seed, number=400):
    rng = np.random.default_rng(seed)
    return rng.geometric(0.1, number) - rng.geometric(0.1, number)


def report(seed):
    entries = [
        Entry(level, measure, frequencies_of(noise(seed + at)))
        for level in LEVELS
        for at, measure in enumerate(("total", STRATA))
    ]
    lines = tuple(
        HomogeneityRow("Enumdist", definition, STRATA, 24, ((22, frequencies_of(noise(seed) + shift)),))
        for shift, definition in ((5, MARGINAL_PRODUCT), (50, EMPTY_STRATA))
    )
    return AccuracyReport("e2e_1940", (str(seed),), tuple(entries), homogeneity=lines)


def samples():
    rng = np.random.default_rng(8)
    entries = [
        SampleEntry(share, seed, "County", measure, frequencies_of(rng.integers(-40, 41, 500) * 20))
        for share in SHARES_OF_FIGURE_2
        for seed in (0, 1)
        for measure in ("total", STRATA)
    ]
    return SampleReport(SHARES_OF_FIGURE_2, (0, 1), tuple(entries))


def test_every_figure_of_ours_is_that_of_the_pooled_runs_under_its_published_name():
    runs = {HALF: [report(1), report(7)], Fraction(1): [report(5)], Fraction(3, 7): [report(2)]}
    found = our_figures(runs, samples(), replicates=40)
    together = np.concatenate([noise(1), noise(7)])
    median = found[protected(HALF, "County", "total", "median_absolute")]
    assert (median.value, median.n) == (np.median(np.abs(together)), 800)
    assert median.interval[0] <= median.value <= median.interval[1]
    assert found[protected(HALF, "County", "total", PRIVACY_LOSS)].value > 0
    bias = found[bias_at(HALF, "Enumdist", 22)]
    assert bias.value == pytest.approx(together.mean() + 5)  # by the marginal product, as the program computes it
    assert bias.interval == pytest.approx(stats.t.interval(0.95, 799, bias.value, stats.sem(together)))
    assert found[sampled(HALF, "County", STRATA, "median_absolute")].n == 1000
    assert Fraction(found[nearest_share(Fraction(1))].value).limit_denominator(100) in SHARES_OF_FIGURE_2
    assert nearest_share(HALF) not in found  # table 1 begins at 1
    assert {key.setting for key in found if key.source == "protected"} == {HALF, 1}  # 3/7 was not published


def test_the_bias_of_an_index_of_one_geounit_has_no_interval_and_its_sign_decides_nothing():
    lines = (HomogeneityRow("Enumdist", MARGINAL_PRODUCT, STRATA, 24, ((0, frequencies_of(np.array([7]))),)),)
    alone = AccuracyReport("e2e_1940", ("a",), report(1).entries, homogeneity=lines)
    bias = our_figures({HALF: [alone]}, replicates=0)[bias_at(HALF, "Enumdist", 0)]
    assert (bias.value, bias.interval, bias.n) == (7, None, 1)
    (compared,) = [each for each in compare({bias_at(HALF, "Enumdist", 0): bias}) if each.ours]
    assert compared.verdict is Verdict.UNDECIDED


def test_without_samples_nothing_is_said_of_them():
    found = our_figures({Fraction(1): [report(1)]}, replicates=0)
    assert {key.source for key in found} == {"protected"}
    assert nearest_share(Fraction(1)) not in found
    assert {each.interval for key, each in found.items() if key.index is None} == {None}


def test_the_page_shows_tables_and_the_figures_of_the_study():
    runs = {HALF: [report(1)], Fraction(1): [report(3)]}
    found = Replication(compare(our_figures(runs, samples(), replicates=0)), runs)
    assert any(comparison.verdict is not Verdict.MISSING for comparison in found.comparisons)
    shown = page(found.report(drawn=True))
    assert shown.count('class="broad"><svg') == 3
    assert "Figure 1." in shown
    assert "Figure 3" in shown
    assert "epsilon 1/2" in shown
    assert "http" not in shown.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
