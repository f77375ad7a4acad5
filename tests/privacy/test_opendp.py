"""The same distributions drawn by an independent exact sampler: OpenDP."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as opendp
import pytest
from numpy.typing import NDArray
from scipy import stats

from das_spark.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    KeyedStream,
    Mechanism,
    cumulative_table,
    sample,
)

pytestmark = pytest.mark.slow

THEIRS = 30_000  # OpenDP draws some 50,000 values a second.
OURS = 3_000_000


def theirs(mechanism: Mechanism) -> NDArray[np.int64]:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64"), size=THEIRS)
    if isinstance(mechanism, DiscreteLaplace):
        measurement = opendp.m.make_laplace(space, opendp.l1_distance(T="i64"), scale=float(mechanism.scale))
    else:
        scale = float(mechanism.sigma_squared) ** 0.5
        measurement = opendp.m.make_gaussian(space, opendp.l2_distance(T="i64"), scale=scale)
    return np.array(measurement([0] * THEIRS), dtype=np.int64)


def ours(mechanism: Mechanism, stream: KeyedStream) -> NDArray[np.int64]:
    geounits = GeounitAddresses.of(map(str, range(OURS // 1000)))
    return sample(cumulative_table(mechanism), stream, geounits, np.arange(1000)).reshape(-1)


def wider(mechanism: Mechanism) -> Mechanism:
    """The negative control: the scale is a quarter too large."""
    if isinstance(mechanism, DiscreteLaplace):
        return DiscreteLaplace(mechanism.scale * Fraction(5, 4))
    return DiscreteGaussian(mechanism.sigma_squared * Fraction(25, 16))


def two_sample_p(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Chi-square homogeneity; every bin holds at least a thirtieth of the first sample, the last one its upper end."""
    edges = np.unique(np.quantile(first, np.linspace(0, 1, 31)[1:-1], method="inverted_cdf"))[:-1]
    counts = np.array(
        [np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (first, second)]
    )
    return float(stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(9)),
        DiscreteGaussian(Fraction(8100)),
        DiscreteLaplace(Fraction(1)),
        DiscreteLaplace(Fraction(89, 2)),
    ],
    ids=str,
)
def test_opendp_draws_from_the_same_distribution(
    mechanism: Mechanism, new_stream: Callable[..., KeyedStream], level: float
) -> None:
    other = theirs(mechanism)
    p_value = two_sample_p(ours(mechanism, new_stream()), other)
    assert p_value > level, f"{mechanism}: p = {p_value:.3g}, level {level:.3g}"
    wrong = two_sample_p(ours(wider(mechanism), new_stream("control")), other)
    assert wrong < level, f"a wider distribution is not rejected: p = {wrong:.3g}"
