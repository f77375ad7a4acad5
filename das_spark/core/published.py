"""Counts of another product that the estimates of a family are held to: from sparse rows to an equality (E-4).

A geounit has the published histogram of the product that published, sparse; the answers of its query `of` are those of
`query` in this product. Where this product's units tell more classes apart than the other one's, each leaf's published
counts are first divided among the classes of which it has units (`DividedCounts`), and the parts are held.

A family is given the answers that occur in one of its children. All others are held to zero: where the parent's
estimate has been held to them no cell of it touches any, and where there is no such estimate all answers are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyBounds
from das_spark.histogram import Histogram, Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class DividedCounts:
    """How the published counts of a leaf are divided among classes of units; small and picklable.

    People of the published answers that have the same classes are divided in proportion to the leaf's units of these
    classes. A class without units gets nobody, and one with units as many people as units at least, where there are as
    many people as units. All of it is a function of what was published and of declared units.

    Attributes:
        of: Query of the product that published.
        answer: Of each part the answer of `of` that it is part of, shape ``(parts,)``.
        unit_class: Of each part the class of units, shape ``(parts,)``.
    """

    of: Query
    answer: NDArray[np.int64]
    unit_class: NDArray[np.int64]

    def divide(
        self, leaf: NDArray[np.int64], cells: NDArray[np.int64], counts: NDArray[np.int64], units: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Divide the published counts of some leaves.

        Args:
            leaf: Position of the leaf of each count, shape ``(n,)``.
            cells: Cell of each count, of the product that published, shape ``(n,)``.
            counts: Records, shape ``(n,)``.
            units: Units of each leaf by class, shape ``(leaves, classes)``.

        Returns:
            Leaf, part and records of every part with records, in order of leaf and part. Records of classes of which
            the leaf has no units are of the first of them, where bounds forbid them.
        """
        published = self.of.row_of(cells)
        counted = published >= 0
        leaf, published, counts = leaf[counted], published[counted], counts[counted]
        order = np.argsort(self.answer, kind="stable")
        starts = np.searchsorted(self.answer[order], np.arange(self.of.rows + 1))
        first, width = starts[published], np.diff(starts)[published]
        row = np.repeat(np.arange(len(published)), width)
        part = order[np.repeat(first, width) + np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)]
        weight = units[leaf[row], self.unit_class[part]]
        having = np.bincount(row, weight > 0, len(published))
        share = np.where(weight > 0, counts[row], 0)
        share[(np.cumsum(width) - width)[having == 0]] = counts[having == 0]
        several = np.flatnonzero((having[row] > 1) & (weight > 0))
        # Of each part that is divided: the leaf, and the first of the classes that its published answer tells together.
        groups = leaf[row[several]] * len(self.answer) + self.unit_class[order[first[row[several]]]]
        for group in np.unique(groups):
            inside = several[groups == group]
            rows = np.unique(row[inside])
            share[inside] = divided(counts[rows], weight[inside[row[inside] == rows[0]]]).ravel()
        kept = share > 0
        pairs = leaf[row[kept]] * len(self.answer) + part[kept]
        found, place = np.unique(pairs, return_inverse=True)
        records = np.zeros(len(found), dtype=np.int64)
        np.add.at(records, place, share[kept])
        return *np.divmod(found, len(self.answer)), records


def divided(counts: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Divide records of several kinds among classes in proportion to weights, and the classes evenly among the kinds.

    Args:
        counts: Records by kind, shape ``(n,)``.
        weights: Positive weight of each class, shape ``(c,)``.

    Returns:
        Records by kind and class, shape ``(n, c)``. Shares of classes are rounded by largest remainders.
    """
    whole, rest = np.divmod(counts.sum() * weights, weights.sum())
    missing = counts.sum() - whole.sum()
    whole[np.argsort(-rest, kind="stable")[:missing]] += 1
    place = np.concatenate([(np.arange(size) + 0.5) / size for size in whole])
    of_record = np.repeat(np.arange(len(weights)), whole)[np.argsort(place, kind="stable")]
    kind = np.repeat(np.arange(len(counts)), counts)
    both = np.bincount(kind * len(weights) + of_record, minlength=len(counts) * len(weights))
    return both.reshape(len(counts), len(weights))


@dataclass(frozen=True, slots=True)
class HeldCounts:
    """What every geounit is held to; small and picklable.

    Attributes:
        name: Name of the equality among the bounds of a family.
        query: Query of this product, whose answers are held.
        of: Query of what was published: as many answers, in the same order.
        parts: How what was published is divided first; None where it is held as it is.
    """

    name: str
    query: Query
    of: Query
    parts: DividedCounts | None = None

    @classmethod
    def in_parts(cls, name: str, query: Query, parts: DividedCounts) -> HeldCounts:
        """Hold answers to parts of what was published, each of which has the place of its answer."""
        same = Query("parts", (query.rows,), (np.arange(query.rows, dtype=np.int64),))
        return cls(name, query, same, parts)

    def cells(self) -> NDArray[np.int64]:
        """For each answer the first cell of the product that published that counts in it, shape ``(answers,)``."""
        answers, first = np.unique(self.of.row_of(np.arange(self.of.size)), return_index=True)
        return np.asarray(first[answers >= 0], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedFamily:
    """The children of a family with what was published of them.

    Attributes:
        geocodes: Of the K children, sorted.
        cells: Occupied cells of all children, of the product that published or its parts, one child after the other,
            shape ``(n,)``.
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
