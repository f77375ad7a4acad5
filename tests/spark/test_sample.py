"""Samples drawn by Spark: their sums, their distribution, and that nobody's partitions can be seen in them."""

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import InputError
from das_spark.evaluation.metrics import frequencies_of
from das_spark.evaluation.samples import Draw, SampleReport
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.spark import sample
from das_spark.spark.sample import sample_levels

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = Schema("small", (Attribute("hhgq", ("a", "b", "c")), Attribute("race", ("x", "y"))))
STRATA = SCHEMA.query("race")
TYPES = "geocode string, cells array<int>, counts array<long>"
SPINE = Spine((Geolevel("Nation", 0), Geolevel("State", 1), Geolevel("County", 3), Geolevel("Tract", 5)))
SHARES = (Fraction(1, 20), Fraction(1, 2), Fraction(19, 20))
HALF = Fraction(1, 2)


def population(states=3, counties=4, tracts=5, seed=5):
    """Geocodes and dense histograms; some tracts and one county have nobody."""
    rng = np.random.default_rng(seed)
    codes = [
        f"{state}{county:02d}{tract:02d}"
        for state in range(states)
        for county in range(counties)
        for tract in range(tracts)
    ]
    dense = rng.geometric(0.05, (len(codes), SCHEMA.size)) * (rng.random((len(codes), SCHEMA.size)) < 0.4)
    dense[:tracts] = 0
    dense[:, 1] = 0
    return codes, dense


def frame(spark, codes, dense):
    rows = []
    for code, histogram in zip(codes, dense, strict=True):
        cells = np.flatnonzero(histogram)
        rows.append((code, cells.tolist(), histogram[cells].tolist()))
    return spark.createDataFrame(rows, TYPES)


@pytest.fixture(scope="module")
def people():
    return population()


@pytest.fixture(scope="module")
def leaves(spark, people):
    return frame(spark, *people).cache()


def sums(codes, dense, length):
    """Dense histograms of a level."""
    names = sorted({code[:length] for code in codes})
    return np.stack([dense[[code[:length] == name for code in codes]].sum(axis=0) for name in names])


def weighted(entry):
    return int((entry.frequencies.values * entry.frequencies.counts).sum())


@pytest.mark.parametrize("on_driver", [1, 12, 60], ids=["nation", "counties", "tracts"])
def test_every_level_has_all_its_counts_and_the_same_exact_sum(leaves, people, on_driver):
    codes, dense = people
    report = sample_levels(leaves, SPINE, STRATA, SHARES, [0, 1], geounits_on_driver=on_driver)
    assert [(entry.share, entry.seed, entry.place, entry.measure) for entry in report.entries] == [
        (share, seed, level, measure)
        for share in SHARES
        for seed in (0, 1)
        for level in SPINE.names
        for measure in ("total", "race")
    ]
    persons = int(dense.sum())
    for entry in report.entries:
        truth = sums(codes, dense, SPINE.level(entry.place).length)
        totals, strata = truth.sum(axis=1), STRATA.answer_dense(truth)
        found = entry.frequencies
        if entry.measure == "total":
            assert (found.total, found.double_zero) == (len(totals), (totals == 0).sum())
        else:
            assert (found.total, found.double_zero) == ((strata > 0).sum(), (strata == 0).sum())
        share = entry.share
        assert weighted(entry) == round(share * persons) * share.denominator - persons * share.numerator
        assert entry.divisor == share.numerator


@pytest.mark.parametrize(("most", "middle"), [(0, 0), (1, 0), (2, 0), (3, 1), (12, 2), (59, 2), (60, 3)])
def test_the_middle_level_is_the_lowest_with_few_enough_geounits(most, middle):
    assert sample._middle((1, 3, 12, 60), most) == middle


def test_partitions_batches_and_memory_change_nothing(leaves, monkeypatch):
    whole = sample_levels(leaves.coalesce(1), SPINE, STRATA, SHARES, [0, 7], geounits_on_driver=12).to_json()
    for parts in (3, 7):
        dealt = leaves.orderBy("counts").repartition(parts)
        assert sample_levels(dealt, SPINE, STRATA, SHARES, [0, 7], geounits_on_driver=12).to_json() == whole
    monkeypatch.setattr(sample, "_COUNTS", 10)  # one or two samples at a time
    assert sample_levels(leaves, SPINE, STRATA, SHARES, [0, 7], geounits_on_driver=12).to_json() == whole


def test_a_sample_does_not_depend_on_the_others_and_seeds_differ(leaves):
    several = sample_levels(leaves, SPINE, STRATA, SHARES, [0, 7], geounits_on_driver=12)
    alone = sample_levels(leaves, SPINE, STRATA, [HALF], [7], geounits_on_driver=12)
    for level in SPINE.names:
        first, second = (several.entry(HALF, level, "race", seed).frequencies for seed in (0, 7))
        again = alone.entry(HALF, level, "race", 7).frequencies
        assert again.values.tolist() == second.values.tolist()
        assert again.counts.tolist() == second.counts.tolist()
        assert first.values.tolist() != second.values.tolist()


def test_the_report_is_the_sample_of_the_documented_generators(leaves, people):
    # By hand, from the same generators: what each county gives, then from which cells of its tracts.
    codes, dense = people
    draw = Draw(Fraction(1, 4), 11)
    counties = sums(codes, dense, 3).sum(axis=1)
    persons = draw.taken(counties, draw.persons(int(counties.sum())))
    names = sorted({code[:3] for code in codes})
    sampled = np.zeros((len(codes), STRATA.rows), dtype=np.int64)
    for name, number in zip(names, persons.tolist(), strict=True):
        rows = [place for place, code in enumerate(codes) if code.startswith(name)]
        truth = STRATA.answer_dense(dense[rows]).T  # strata, then tracts
        some = truth > 0
        part = np.zeros_like(truth)
        part[some] = draw.taken(truth[some], number, name)
        sampled[rows] = part.T
    report = sample_levels(leaves, SPINE, STRATA, [draw.share], [11], geounits_on_driver=12)
    for level in SPINE.levels:
        truth = sums(codes, STRATA.answer_dense(dense), level.length)
        found = sums(codes, sampled, level.length) * 4 - truth
        for measure, residuals in (("total", found.sum(axis=1)), ("race", found[truth > 0])):
            expected, entry = frequencies_of(residuals), report.entry(draw.share, level.name, measure, 11)
            assert entry.frequencies.values.tolist() == expected.values.tolist()
            assert entry.frequencies.counts.tolist() == expected.counts.tolist()


def test_strata_that_leave_people_out_still_have_them_in_totals(spark, people):
    codes, dense = people
    some = SCHEMA.query("race")
    assert some.is_partition
    partial = type(some)("x only", some.shape, (some.factors[0], np.array([0, -1])))
    report = sample_levels(frame(spark, codes, dense), SPINE, partial, [HALF], [0], geounits_on_driver=12)
    inside = partial.answer_dense(dense)[:, 0]
    assert 0 < inside.sum() < dense.sum()
    for level in SPINE.levels:
        assert report.entry(HALF, level.name, "total").frequencies.total == len(sums(codes, dense, level.length))
        found = report.entry(HALF, level.name, "x only").frequencies
        assert found.total == (sums(codes, inside[:, np.newaxis], level.length) > 0).sum()


def test_a_population_of_nobody_has_no_error(spark, people):
    codes, dense = people
    report = sample_levels(frame(spark, codes, dense * 0), SPINE, STRATA, [HALF], [0], geounits_on_driver=12)
    assert report.entry(HALF, "Tract", "total").figures.largest == 0
    assert report.entry(HALF, "Tract", "race").figures.n == 0
    assert SampleReport.from_json(report.to_json()).entries[-1].frequencies.double_zero == 120


@pytest.mark.parametrize(("shares", "seeds"), [([], [0]), ([HALF], []), ([HALF, HALF], [0]), ([HALF], [1, 1])])
def test_no_sample_and_the_same_sample_twice_are_refused(leaves, shares, seeds):
    with pytest.raises(InputError, match="each once"):
        sample_levels(leaves, SPINE, STRATA, shares, seeds)
