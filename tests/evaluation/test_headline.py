"""The first screen of an accuracy report: every number of it is computed again, from the residuals themselves."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.evaluation import AccuracyReport, Entry, QueryErrors, frequencies_of, present_accuracy, report_from_json
from das_spark.evaluation.headline import key_figures, picture, verdict, why_unbiased
from das_spark.evaluation.metric_rows import ErrorPart
from das_spark.evaluation.tallies import BLOCK, MAGNITUDE

STRATA = "votingage * hispanic"
WORDS = {STRATA: "voting age x Hispanic origin", "detailed": "every attribute"}


def line(place, query, bins, *parts):
    """Parts: class, geounits, people, residuals."""
    found = tuple(
        ErrorPart(bin_, geounits, people, frequencies_of(np.array(residuals)))
        for bin_, geounits, people, residuals in parts
    )
    return QueryErrors(place, query, 1, bins, found)


SMALL = [9, -9, 6, -6, 3, -3]  # six blocks of 10 to 99 people: a mean error of 6
LARGE = [10, -10]  # two blocks of 100 to 999 people
HALF = [4] * 10 + [-4] * 10


@pytest.fixture
def report():
    totals = frequencies_of(np.array([*SMALL, *LARGE]))
    return AccuracyReport(
        "e2e_2018",
        ("a",),
        (
            Entry("County", "total", frequencies_of(np.array([0]))),
            Entry("Block", "total", totals),
            Entry("Block", STRATA, frequencies_of(np.array(HALF))),
        ),
        errors=(
            line("County", "total", MAGNITUDE, (3, 1, 420, [0])),
            line("Block", "total", BLOCK, (2, 6, 120, SMALL), (3, 2, 300, LARGE)),
            line("Block", STRATA, BLOCK, (2, 8, 420, HALF)),
            line("Block", "detailed", BLOCK, (2, 8, 420, [7] * 30 + [-7] * 30)),
        ),
        words=WORDS,
    )


def test_the_verdict_says_where_it_is_good_and_where_it_is_bad(report):
    text = verdict(report)
    off = (sum(map(abs, SMALL)) + sum(map(abs, LARGE))) / 420
    assert f"Totals are exact at County, and off by {100 * off:.2g} % at Block on average." in text
    assert "the 6 geounits of Block with 10 to 99 people, off by 6 people on average (30 % of what they have)" in text
    assert "Least reliable question: every attribute at Block, where 50 % of the people" in text


def test_classes_of_few_geounits_are_not_named_as_the_worst(report):
    few = line("Block", "total", BLOCK, (1, 4, 8, [8, -8, 8, -8]), *((2, 6, 120, SMALL), (3, 2, 300, LARGE)))
    changed = AccuracyReport("p", ("a",), report.entries, errors=(report.errors[0], few))
    assert "with 10 to 99 people" in verdict(changed)


def test_three_figures_are_of_the_leaf(report):
    half, most, groups = key_figures(report)
    errors = np.abs([*SMALL, *LARGE])
    assert (half.value, half.unit) == (f"{np.median(errors):g}", "people")
    assert "8 totals of a Block" in half.meaning
    assert "has 52.5 on average" in half.meaning
    assert float(most.value) == pytest.approx(np.quantile(errors, 0.95), abs=0.05)
    assert "largest error is 10" in most.meaning
    assert groups.value == f"{100 * (1 - 80 / 840):.2g} %"
    assert "voting age x Hispanic origin" in groups.meaning


def test_the_picture_has_a_point_for_every_class_with_an_error(report):
    counts, shares = picture(report).panels
    (curve,), (share,) = counts.series, shares.series
    assert list(curve.x) == [20, 150]
    assert list(curve.y) == [6, 10]
    assert list(share.y) == pytest.approx([30, 100 * 20 / 300])
    assert counts.y.label == "mean error (people)"


def test_a_bias_of_zero_is_explained_where_it_is_zero_and_only_there(report):
    assert "the total of County is published exactly" in why_unbiased(report)
    biased = (*report.entries[:1], Entry("Block", "total", frequencies_of(np.array([1, 2]))))
    assert why_unbiased(AccuracyReport("p", ("a",), biased)) == ""
    inexact = (Entry("County", "total", frequencies_of(np.array([1, -1]))),)
    assert why_unbiased(AccuracyReport("p", ("a",), inexact)) == ""


def test_an_old_report_without_classes_has_a_verdict_too(report):
    old = AccuracyReport("p", ("a",), report.entries)
    assert "at County half are within 0 people of the truth" in verdict(old)
    assert picture(old) is None
    empty = AccuracyReport("p", ("a",), (Entry("County", "total", frequencies_of(np.zeros(0))),))
    assert (verdict(empty), key_figures(empty)) == ("", ())


def test_facts_and_words_are_in_the_file_and_stand_side_by_side_when_runs_are_pooled(report):
    from dataclasses import replace

    from das_spark.evaluation import pool

    runs = [replace(report, runs=(name,), facts={"run": name, "software": "das_spark 1"}) for name in "abcd"]
    read = [report_from_json(run.to_json()) for run in runs]
    assert read[0].facts == runs[0].facts
    assert read[0].said(STRATA) == WORDS[STRATA]
    assert read[0].said("Block_Group") == "Block Group"
    assert pool(read[:2]).facts == {"run": "a, b", "software": "das_spark 1"}
    assert pool(read).facts["run"] == "a to d (4)"
    assert present_accuracy(pool(read)).facts["software"] == "das_spark 1"
