"""How many records of a geounit some other records agree with: exactly, and within one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

from das_spark.attack.guess import modal_cell
from das_spark.histogram import Histogram

if TYPE_CHECKING:
    from das_spark.histogram import Schema

_AGE: Final = "age"
#: An attribute of that name with fewer levels has bands of several years.
_FEWEST_YEARS: Final = 80
#: Groups of the true records of a geounit, in order: all of them; those that are not in its modal cell; not in the
#: modal cell of the area near by, such as the tract; and those that are alone in their cell of the geounit.
GROUPS: Final = ("all", "nonmodal", "nonmodal near", "unique")


@dataclass(frozen=True, slots=True)
class Nearness:
    """When two records agree within one.

    They differ in age by at most one year and in nothing else, where the schema has single years of age; elsewhere they
    differ in at most one attribute.

    Attributes:
        shape: Levels of each attribute.
        age: The attribute of single years; None where there is none.
    """

    shape: tuple[int, ...]
    age: int | None

    @classmethod
    def of(cls, schema: Schema) -> Nearness:
        """The rule of a schema: years of age are an attribute called age with at least 80 levels."""
        years = (
            at
            for at, attribute in enumerate(schema.attributes)
            if attribute.name == _AGE and attribute.size >= _FEWEST_YEARS
        )
        return cls(schema.shape, next(years, None))

    @property
    def words(self) -> str:
        """What it asks for."""
        return "the same but for one attribute" if self.age is None else "the same but for one year of age"

    def pairs(
        self, one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which cells agree within one.

        Args:
            one: Cells, each once, (n,).
            other: Cells, each once, (m,).

        Returns:
            Places in `one` and in `other` of the pairs that do, each pair once.
        """
        strides = np.concatenate([np.cumprod(self.shape[::-1])[-2::-1], [1]]).astype(np.int64)
        mine, yours = np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64)
        if self.age is not None:
            years, stride = self.shape[self.age], int(strides[self.age])
            age = mine // stride % years
            steps = [(np.flatnonzero((age + step >= 0) & (age + step < years)), step * stride) for step in (-1, 0, 1)]
            found = [_equal(mine[kept] + shift, yours, kept) for kept, shift in steps]
        else:
            found = [_equal(mine, yours, np.arange(len(mine)))]
            for size, stride in zip(self.shape, strides.tolist(), strict=True):
                own, others = ((cells // stride % size, cells) for cells in (mine, yours))
                at, to = _equal(own[1] - own[0] * stride, others[1] - others[0] * stride, np.arange(len(mine)))
                differing = mine[at] != yours[to]  # the same cells are one pair, and not one for each attribute
                found.append((at[differing], to[differing]))
        at, to = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return at, to


def _equal(
    keys: NDArray[np.int64], others: NDArray[np.int64], place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of equal keys: the places of the first ones, and the numbers of the others."""
    order = np.argsort(others, kind="stable")
    first, last = (np.searchsorted(others[order], keys, side=side) for side in ("left", "right"))
    length = last - first
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(place, length), order[np.repeat(first, length) + within]


def groups_of(truth: Histogram, near: Histogram) -> NDArray[np.bool_]:
    """Which cells of a geounit hold the records of each group.

    Args:
        truth: Its true records, of n cells.
        near: The true records of the area near by.

    Returns:
        A row for each of `GROUPS`, in order, (groups, n).
    """
    own, nearby = modal_cell(truth), modal_cell(near)
    return np.stack(
        [
            np.ones(len(truth.cells), dtype=np.bool_),
            truth.cells != own,
            truth.cells != nearby,
            truth.counts == 1,
        ]
    )


def agreement(truth: Histogram, groups: NDArray[np.bool_], other: Histogram, near: Nearness) -> NDArray[np.int64]:
    """How many records of the truth others agree with.

    Exactly: the smaller count of every cell. Within one: the most records that can each be given an own record that
    agrees within one, which is the largest flow from the cells of the truth, by their counts, to those of the others,
    which take theirs. Each group is matched as if there were no other records of the truth.

    Args:
        truth: The records of a geounit, of n cells.
        groups: Which of these cells each group has, (g, n).
        other: What they are compared with.
        near: When records agree within one.

    Returns:
        Records of each group that agree exactly, and within one, (g, 2).
    """
    shared = np.zeros(len(truth.cells), dtype=np.int64)
    _, mine, yours = np.intersect1d(truth.cells, other.cells, assume_unique=True, return_indices=True)
    shared[mine] = np.minimum(truth.counts[mine], other.counts[yours])
    exact = groups @ shared
    most = np.minimum(groups @ truth.counts, other.total)
    within = exact.copy()
    if (left := np.flatnonzero(exact < most)).size:
        within[left] = _largest_flows(truth, groups[left], other, near)
    return np.column_stack([exact, within])


def _largest_flows(truth: Histogram, groups: NDArray[np.bool_], other: Histogram, near: Nearness) -> NDArray[np.int64]:
    """The largest flow of each group: one network of parts that have nothing in common but the source and the sink."""
    at, to = near.pairs(truth.cells, other.cells)
    n, m, part = len(truth.cells), len(other.cells), np.arange(len(groups))[:, None]
    mine, yours = 1 + part * n + np.arange(n), 1 + len(groups) * n + part * m + np.arange(m)
    source, sink = 0, 1 + len(groups) * (n + m)
    edges = (
        (np.full(mine.shape, source), mine, groups * truth.counts),
        (
            mine[:, at],
            yours[:, to],
            np.broadcast_to(np.minimum(truth.counts[at], other.counts[to]), (len(groups), len(at))),
        ),
        (yours, np.full(yours.shape, sink), np.broadcast_to(other.counts, yours.shape)),
    )
    rows, columns, capacity = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*edges, strict=True))
    network = sparse.csr_array((capacity.astype(np.int32), (rows, columns)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(network, source, sink).flow
    leaving = slice(flow.indptr[source], flow.indptr[source + 1])
    found = np.zeros(len(groups), dtype=np.int64)
    np.add.at(found, (flow.indices[leaving] - 1) // n, flow.data[leaving])
    return found
