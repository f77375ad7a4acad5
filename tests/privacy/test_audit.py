"""An audit from outside: what an observer can really tell from the outputs stays within the claim.

Honest runs are convicted with at most the suite's false-alarm rate; every planted fault must be convicted, and the
chance that one is not is computed, and held below the same rate, in test_power_of_the_audit.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from auditor import (
    AFTER,
    BEFORE,
    EVEN_SHARES,
    QUERIES,
    Release,
    audit,
    budget_of,
    false_claim_of,
    half_the_noise,
    honest,
    measured_twice,
    reused_noise,
)

from das_spark.privacy import Framework, KeyedStream

pytestmark = pytest.mark.slow


@pytest.mark.statistical
@pytest.mark.parametrize("framework", list(Framework))
def test_honest_noise_stays_within_the_claim(
    framework: Framework, new_stream: Callable[..., KeyedStream], level: float
) -> None:
    verdict = audit(honest, budget_of(framework), new_stream, level)
    assert not verdict.convicted, f"{framework}: {verdict} at level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("framework", list(Framework))
def test_the_audit_is_sharp(framework: Framework, new_stream: Callable[..., KeyedStream], level: float) -> None:
    """A claim somewhat below the truth is convicted: the honest verdict is not for want of power."""
    budget = budget_of(framework)
    verdict = audit(honest, budget, new_stream, level, false_claim_of(budget))
    assert verdict.convicted, f"{framework}: {verdict} at level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("framework", list(Framework))
@pytest.mark.parametrize("fault", [half_the_noise, measured_twice], ids=lambda fault: fault.__name__)
def test_too_little_noise_is_convicted(
    fault: Release, framework: Framework, new_stream: Callable[..., KeyedStream], level: float
) -> None:
    verdict = audit(fault, budget_of(framework), new_stream, level)
    assert verdict.convicted, f"{framework}: {verdict} at level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("framework", list(Framework))
def test_noise_reused_between_two_queries_is_convicted(
    framework: Framework, new_stream: Callable[..., KeyedStream], level: float
) -> None:
    verdict = audit(reused_noise, budget_of(framework, EVEN_SHARES), new_stream, level)
    assert verdict.convicted, f"{framework}: {verdict} at level {level:.3g}"


def test_the_two_histograms_are_neighbours() -> None:
    assert BEFORE.sum() == AFTER.sum()
    for query in QUERIES.values():
        assert np.abs(query.answer_dense(BEFORE) - query.answer_dense(AFTER)).sum() == 2
