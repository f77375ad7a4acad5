"""A small study, made up: two runs with strata, homogeneity indices, and a geolevel without residuals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.evaluation import AccuracyReport, Entry, Study, frequencies_of, study_of
from das_spark.evaluation.metric_rows import HomogeneityRow
from das_spark.evaluation.samples import SampleEntry, SampleReport
from das_spark.evaluation.tallies import DEFINITIONS

STRATA = "race * hispanic"
SHARES = (Fraction(1, 250), Fraction(1, 40), Fraction(1, 2))


def made_run(seed: int) -> AccuracyReport:
    """Totals and strata of counties; indices 0 (one geounit) and 4 (49) of fifty counties; nothing in the districts."""
    rng = np.random.default_rng(seed)
    totals, strata = (rng.laplace(0, size, n).round().astype(np.int64) for size, n in ((9, 50), (4, 400)))
    entries = (
        Entry("County", "total", frequencies_of(totals)),
        Entry("County", STRATA, frequencies_of(strata)),
        Entry("District", STRATA, frequencies_of(np.zeros(0), 7)),
    )
    parts = ((0, frequencies_of(totals[:1])), (4, frequencies_of(totals[1:])))
    lines = tuple(HomogeneityRow("County", definition, STRATA, 24, parts) for definition in DEFINITIONS)
    return AccuracyReport("e2e_1940", (f"run {seed}",), entries, homogeneity=lines)


def made_samples() -> SampleReport:
    rng = np.random.default_rng(9)
    entries = [
        SampleEntry(share, 0, "County", measure, frequencies_of(rng.laplace(0, 2 / float(share), 400).round()))
        for share in SHARES
        for measure in ("total", STRATA)
    ]
    return SampleReport(SHARES, (0,), tuple(entries))


def made_study(runs: int = 2, *, samples: bool = False) -> Study:
    return study_of([made_run(seed) for seed in range(runs)], made_samples() if samples else None, replicates=40)
