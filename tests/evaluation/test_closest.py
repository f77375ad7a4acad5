"""Lines on the closest samples: which there are, and how they are written."""

from __future__ import annotations

import csv
from fractions import Fraction

import numpy as np
import pytest

from das_spark.evaluation import SamplePoint, frequencies_of
from das_spark.evaluation.closest import closest_line, closest_table
from das_spark.evaluation.metrics import figures
from das_spark.report import csv_text, percent

OF = ("County", "total")
SMALL, HALF = Fraction(1, 250), Fraction(1, 2)
SAMPLES = (SamplePoint(SMALL, 40.0, 0.1), SamplePoint(HALF, 2.0, 0.4))


def errors(*residuals):
    return figures(frequencies_of(np.array(residuals, dtype=np.int64)))


def test_what_is_exact_or_empty_or_without_samples_has_no_line():
    assert closest_line(OF, errors(0, 0), None, SAMPLES) is None
    assert closest_line(OF, errors(), None, SAMPLES) is None
    assert closest_line(OF, errors(1, 2), 0.2, ()) is None
    assert closest_line(OF, errors(1, 2), 0.2, [SamplePoint(HALF, float("nan"), None)]) is None


def test_lines_of_one_release_and_of_several_budgets_are_written_alike():
    line = closest_line(OF, errors(3, 3), 0.11, SAMPLES)
    assert (line.closest.by_median_absolute, line.closest.by_loss) == (HALF, SMALL)
    at_budget = closest_line(OF, errors(3, 3), None, SAMPLES, Fraction(1, 4))
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
