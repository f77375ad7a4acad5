r"""Totals of a spine estimated by least squares where counts may be negative: the ablation of nonnegativity.

The estimator of a run has no such arm and needs none: without nonnegativity and rounding, least squares has a closed
form for totals. Let each of the queries q have equal groups, with r_q answers and noise variance v_q, and let H be the
sum over q of A_q' A_q / v_q, with n cells. Every cell counts once, so A_q' A_q 1 = (n / r_q) 1, and 1 is an eigenvector
of H. Hence the unconstrained total of a geounit k is the mean of the sums of its noisy answers, weighted by precision,

    t_k = sum_q w_q 1'y_kq / sum_q w_q,     w_q = 1 / (r_q v_q)                                                    (O-3)

and, H being the same for siblings, all that is left to decide in the direction of totals, where the children sum to the
parent's T, is separate from every other direction of the cells:

    min sum_k (s_k - t_k)^2   subject to   sum_k s_k = T,   s_k <= u_k where bounded                               (O-4)

whose solution is s_k = min(u_k, t_k + c), with c such that they sum to T.

Real numbers, not rounded, otherwise the same problem on the same noise as `das_spark.studies.top_down.release`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import EstimationError, QueryError
from das_spark.privacy import RunKey
from das_spark.studies.top_down import Layer, Measured, Mechanism, noise_sums

Floats = NDArray[np.float64]


def linear_totals(layers: Sequence[Layer], mechanism: Mechanism, key: RunKey, *, bounded: bool) -> tuple[Floats, ...]:
    """Estimate the totals of every layer, top first, with no sign asked of any count.

    Args:
        layers: As for `release`.
        mechanism: What is measured; every query divides the cells into groups of one size.
        key: Of the noise; the same key gives the same noise as in `release`.
        bounded: Whether the upper bounds of the layers are kept.

    Returns:
        Records of each geounit, (K,) a layer.

    Raises:
        QueryError: The groups of a query differ in size.
        EstimationError: Bounds leave no room for the total of the parent.
    """
    for each in mechanism.queries:
        _check_groups(each)
    found: list[Floats] = []
    for layer in layers:
        totals = unconstrained_totals(layer, mechanism, key)
        most = np.full(len(totals), np.inf)
        if bounded and layer.most is not None:
            most = layer.most.astype(np.float64)
        if not found:
            found.append(np.minimum(totals, most))
            continue
        for parent, children in layer.families():
            totals[children] = divided(totals[children], most[children], float(found[-1][parent]))
        found.append(totals)
    return tuple(found)


def unconstrained_totals(layer: Layer, mechanism: Mechanism, key: RunKey) -> Floats:
    """Each geounit's total from its own answers alone (O-3).

    Args:
        layer: The geounits.
        mechanism: What is measured.
        key: Of the noise.

    Returns:
        Records, (K,).
    """
    precisions = [1 / (each.query.rows * mechanism.law(layer.name, each).variance()) for each in mechanism.queries]
    errors = [noise_sums(layer, mechanism, each, key) for each in mechanism.queries]
    totals: Floats = layer.truth.sum(axis=1) + np.average(errors, axis=0, weights=precisions)
    return totals


def divided(wanted: Floats, most: Floats, whole: float) -> Floats:
    """The nearest numbers to what is wanted, in least squares, that sum to a whole and keep upper bounds (O-4).

    Args:
        wanted: (K,).
        most: Upper bounds, (K,); infinite where there is none.
        whole: What they sum to.

    Returns:
        (K,): min(most, wanted + c).

    Raises:
        EstimationError: The bounds sum to less than the whole.
    """
    room = most - wanted
    if most.sum() < whole:
        raise EstimationError("the upper bounds of a family sum to less than its parent has")
    # Children reach their bounds in the order of their room; c is settled by those that do not.
    order = np.argsort(room, kind="stable")
    bounds = np.concatenate([[0.0], np.cumsum(most[order])[:-1]])
    rest = wanted.sum() - np.concatenate([[0.0], np.cumsum(wanted[order])[:-1]])
    shift = (whole - bounds - rest) / np.arange(len(wanted), 0, -1)
    # The first number of children at their bounds with which no further one would pass its own; else all are full.
    settled = np.flatnonzero(shift <= room[order])
    step = shift[settled[0]] if settled.size else np.inf
    return np.minimum(most, wanted + step)


def _check_groups(measured: Measured) -> None:
    """Equal groups, which (O-3) rests on."""
    sizes = measured.query.answer_dense(np.ones(measured.query.size, dtype=np.int64))
    if (sizes != sizes[0]).any() or not measured.query.is_partition:
        raise QueryError(f"query {measured.name!r}: the closed form of totals needs groups of one size")
