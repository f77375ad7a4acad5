"""A state of the size of Washington in 1940, as it was published."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.studies.epl_appendix import COUNTIES, DISTRICTS, OCCUPIED, PERSONS, washington


@pytest.mark.parametrize("seed", [0, 1])
def test_it_has_the_published_size(seed: int) -> None:
    state = washington(seed)
    totals = state.counts.sum(axis=1)
    assert state.counts.shape == (DISTRICTS, 24)
    assert (np.diff(state.county) >= 0).all()
    assert len(np.unique(state.county)) == COUNTIES
    assert totals.sum() == pytest.approx(PERSONS, rel=0.002)
    assert (state.counts > 0).sum() == pytest.approx(OCCUPIED, rel=0.06)
    counties = np.bincount(state.county, totals)
    assert counties.max() == pytest.approx(506_344, rel=0.02)
    assert totals.min() > 0


def test_the_seed_decides() -> None:
    first, again, other = (washington(seed).counts for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
