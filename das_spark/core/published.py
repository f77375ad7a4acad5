"""Counts of another product that the estimates of a family are held to: from sparse rows to an equality (E-4).

A geounit has the published histogram of the product that published, sparse; the answers of its query `of` are those of
`query` in this product. A family is given the answers that occur in one of its children. All others are held to zero:
where the parent's estimate has been held to them no cell of it touches any, and where there is no such estimate all
answers are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyBounds
from das_spark.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from das_spark.histogram import Query


@dataclass(frozen=True, slots=True)
class HeldCounts:
    """What every geounit is held to; small and picklable.

    Attributes:
        name: Name of the equality among the bounds of a family.
        query: Query of this product, whose answers are held.
        of: Query of the product that published: as many answers, in the same order.
    """

    name: str
    query: Query
    of: Query

    def cells(self) -> NDArray[np.int64]:
        """For each answer the first cell of the product that published that counts in it, shape ``(answers,)``."""
        answers, first = np.unique(self.of.row_of(np.arange(self.of.size)), return_index=True)
        return np.asarray(first[answers >= 0], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedFamily:
    """The children of a family with what was published of them.

    Attributes:
        geocodes: Of the K children, sorted.
        cells: Occupied cells of all children, of the product that published, one child after the other, shape ``(n,)``.
        counts: Records in each of them, shape ``(n,)``.
        offsets: Child k has the cells ``offsets[k]`` up to ``offsets[k + 1]``, shape ``(K + 1,)``.
    """

    geocodes: tuple[str, ...]
    cells: NDArray[np.int32]
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, histograms: Mapping[str, Histogram]) -> PublishedFamily:
        """Children from their published histograms, by geocode."""
        codes = tuple(sorted(histograms))
        lengths = [len(histograms[code].cells) for code in codes]
        return cls(
            codes,
            np.concatenate([histograms[code].cells for code in codes]),
            np.concatenate([histograms[code].counts for code in codes]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        )

    @classmethod
    def answering(cls, held: HeldCounts, records: Mapping[str, NDArray[np.int64]]) -> PublishedFamily:
        """Children of which the answers of given records were published: each in one cell that counts in it.

        Args:
            held: What is held.
            records: Geocode -> records of this product by cell, dense, shape ``(cells,)``.
        """
        cell_of = held.cells()
        found = {}
        for code, counts in records.items():
            dense = np.zeros(held.of.size, dtype=np.int64)
            dense[cell_of] = held.query.answer_dense(counts)
            found[code] = Histogram.from_dense(dense)
        return cls.of(found)


def held_bounds(held: HeldCounts, children: tuple[str, ...], published: PublishedFamily | None) -> FamilyBounds:
    """The equality of a family: the answers that occur in one of its children at least.

    Args:
        held: What is held.
        children: Geocodes, sorted.
        published: What was published of them.

    Raises:
        EstimationError: Nothing was published of one of them.
    """
    if published is None or published.geocodes != children:
        known = () if published is None else published.geocodes
        missing = sorted(set(children) ^ set(known))
        raise EstimationError(
            f"{held.name}: no published counts, or several, of {', '.join(missing[:1]) or children[0]}"
        )
    answer = held.of.row_of(published.cells)
    counted = answer >= 0
    child = np.repeat(np.arange(len(children)), np.diff(published.offsets))[counted]
    rows, column = np.unique(answer[counted], return_inverse=True)
    values = np.zeros((len(children), len(rows)), dtype=np.int64)
    np.add.at(values, (child, column), published.counts[counted])
    return FamilyBounds(held.name, held.query, values, values, rows)


def held_on(bound: FamilyBounds, parent: Histogram | None, *, everywhere: bool = False) -> FamilyBounds:
    """The same equality with all answers that cells of the parent touch; those that occur in no child are zero.

    Args:
        bound: What `held_bounds` gave.
        parent: The parent's estimate; None where there is none, and every cell may be occupied.
        everywhere: Whether cells that the parent does not occupy may be, too.
    """
    present = np.arange(bound.query.rows) if bound.rows is None else bound.rows
    if parent is None or everywhere:
        rows = np.arange(bound.query.rows)
    else:
        touched = bound.query.row_of(parent.cells)
        rows = np.union1d(present, touched[touched >= 0]).astype(np.int64)
    if len(rows) == len(present):
        return bound
    values = np.zeros((len(bound.lower), len(rows)), dtype=np.int64)
    values[:, np.searchsorted(rows, present)] = bound.lower
    return replace(bound, lower=values, upper=values, rows=rows)
