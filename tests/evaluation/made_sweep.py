"""A small sweep, made up: three budgets, two runs each, and samples of two shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.evaluation import AccuracyReport, Entry, frequencies_of
from das_spark.evaluation.samples import SampleEntry, SampleReport

PLACES = (("State", "total", 0.0, 2), ("County", "total", 4.0, 200), ("County", "race * hispanic", 2.0, 900))
BUDGETS = (Fraction(4), Fraction(1, 2), Fraction(1))
SHARES = (Fraction(1, 20), Fraction(9, 10))


def made_run(total: Fraction, number: int) -> AccuracyReport:
    """A run whose residuals shrink with the budget; totals of states are exact."""
    rng = np.random.default_rng((total.numerator, total.denominator, number))
    entries = [
        Entry(place, measure, frequencies_of(rng.normal(0, size / float(total), n).round().astype(np.int64)))
        for place, measure, size, n in PLACES
    ]
    return AccuracyReport("e2e_1940", (f"run <{total}> {number}",), tuple(entries), ("7 geounits lie nowhere",))


def made_runs() -> dict[Fraction, list[AccuracyReport]]:
    return {total: [made_run(total, number) for number in (1, 2)] for total in BUDGETS}


def made_samples() -> SampleReport:
    """Samples whose residuals are fractions of people: 9/10 has the divisor 9."""
    rng = np.random.default_rng(5)
    entries = [
        SampleEntry(
            share,
            seed,
            place,
            measure,
            frequencies_of((rng.normal(0, size or 1, n) * (1 - share) / share * share.numerator).astype(np.int64)),
        )
        for share in SHARES
        for seed in (0, 1)
        for place, measure, size, n in PLACES
    ]
    return SampleReport(SHARES, (0, 1), tuple(entries))
