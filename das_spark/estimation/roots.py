"""Roots of covariances and precisions, and the one inverse that they have (README, section 14).

A root of a positive semidefinite matrix M is any R with R'R = M. Sums of matrices are stacks of their roots, so that
nothing is ever subtracted, and no variance comes out negative. A root has the square root of the range of its matrix:
budgets over 13 orders of magnitude leave half of the digits, and what has no length stands out (E-93).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.errors import EstimationError

if TYPE_CHECKING:
    from das_spark.estimation.problem import Floats

#: Length, beside that of the columns of a root, up to which a direction has none.
_NO_LENGTH: Final = 1e-13

#: Squared length of independent directions, beside the longest, where rows are of whole numbers and have no weights.
_INDEPENDENT: Final = 1e-10


def triangle(root: Floats) -> Floats:
    """Return an upper triangular root of the same matrix, shape ``(..., p, p)``.

    Args:
        root: Shape ``(..., r, p)``.
    """
    rows, size = root.shape[-2:]
    if rows < size:
        root = np.concatenate([root, np.zeros((*root.shape[:-2], size - rows, size))], axis=-2)
    return np.asarray(np.linalg.qr(root, mode="r"), dtype=np.float64)


def gram(root: Floats) -> Floats:
    """Return the matrix of a root."""
    return np.asarray(np.swapaxes(root, -1, -2) @ root, dtype=np.float64)


def inverse_root(root: Floats, basis: Floats | None = None) -> Floats:
    """Return a root of the inverse of root'root on a subspace, shape ``(..., q, p)``; the inverse is zero beside it.

    Args:
        root: Shape ``(..., r, p)``.
        basis: Orthonormal columns that span the subspace, shape ``(p, q)``; None stands for the whole space.

    Raises:
        EstimationError: A direction of the subspace has no length, so that its variance is not finite.
    """
    free = root if basis is None else root @ basis
    rows, size = free.shape[-2:]
    scale = np.sqrt((free**2).sum(axis=-2))[..., None, :]
    if rows < size or not scale.all():
        raise _undetermined()
    upper = np.linalg.qr(free / scale, mode="r")
    if np.abs(np.diagonal(upper, axis1=-2, axis2=-1)).min(initial=1.0) <= _NO_LENGTH:
        raise _undetermined()
    inverted = np.linalg.inv(upper)  # triangular, and without a zero on its diagonal
    if np.abs(inverted).max(initial=0.0) >= 1.0 / _NO_LENGTH:
        raise _undetermined()
    found = np.swapaxes(inverted, -1, -2) / scale
    return np.asarray(found if basis is None else found @ basis.T, dtype=np.float64)


def row_space(root: Floats) -> Floats:
    """Return an orthonormal basis of the directions that have a length, as columns, shape ``(p, rank)``."""
    values, vectors = np.linalg.eigh(gram(root))
    return np.asarray(
        vectors[:, values > _INDEPENDENT * max(np.max(values, initial=0.0), _NO_LENGTH)], dtype=np.float64
    )


def _undetermined() -> EstimationError:
    return EstimationError(
        "the answers of a geounit and of those below it do not determine its counts",
        hint="measure a query of all cells, such as detailed, at the lowest geolevel that is measured completely",
    )
