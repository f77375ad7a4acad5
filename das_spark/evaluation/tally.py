"""From the histograms of many geounits to few numbers that add up: what a task does for the accuracy report.

Everything is a row (line, class of population, value, frequency); rows of the same three are summed, over batches,
tasks and machines. Arrays follow the occupied cells, never the size of the schema, and all sums are of integers, so
that they do not depend on their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError
from das_spark.evaluation.bins import FIFTIES, Bins
from das_spark.evaluation.homogeneity import DEFINITIONS, Definition, homogeneity_index
from das_spark.evaluation.shares import Differences, largest_share, relative_error
from das_spark.histogram import NO_GROUP, Query

Subject = Literal["geounits", "errors", "criterion", "empty strata", "marginal product"]

#: Values of a line of geounits: how many, what they count, and how many are empty in both histograms.
GEOUNITS, COUNTED, EMPTY = 0, 1, 2
#: Values of a line of a criterion: geounits within the tolerance, geounits without difference, sum of differences.
WITHIN, UNDEFINED, SUM = 0, 1, 2


class Line(NamedTuple):
    """What a row of a tally is about.

    Attributes:
        subject: `geounits` and `criterion`: sums by their values; `errors`: the value is a residual; a definition of
            the homogeneity index: the value is a residual of the total, and the index stands for the class.
        query: Place of the query among those compared; that of the strata where the subject is an index.
        bins: Classes of population.
    """

    subject: Subject
    query: int
    bins: Bins


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What is compared in a geolevel; small enough to travel to every task.

    Attributes:
        queries: The total first.
        sizes: Classes of population of the geolevel.
        strata: Which of the queries has the strata of the homogeneity index; None for no lines by that.

    Raises:
        InputError: The first query is not the total.
    """

    queries: tuple[Query, ...]
    sizes: Bins
    strata: Query | None = None

    def __post_init__(self) -> None:
        """Check that the total comes first."""
        if not self.queries or self.queries[0].rows != 1 or not self.queries[0].is_partition:
            raise InputError("the first query of a comparison is the total")

    def lines(self) -> tuple[Line, ...]:
        """What is tallied: every query by the classes of the level, the total by steps of 50, and shares by both.

        Shares are those of the largest group, of queries with several answers; the relative error, of the total.
        """
        both = (self.sizes, FIFTIES)
        found = [Line("geounits", 0, bins) for bins in both]
        for place, query in enumerate(self.queries):
            found += [Line("errors", place, bins) for bins in (both if place == 0 else (self.sizes,))]
            if place == 0 or query.rows > 1:
                found += [Line("criterion", place, bins) for bins in both]
        if self.strata is not None:
            found += [Line(definition, self.queries.index(self.strata), self.sizes) for definition in DEFINITIONS]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Confidential and protected counts side by side, where either is positive.

    Attributes:
        geounits: How many geounits there are, K, empty ones too.
        owner: Geounit of each count, (n,), ascending.
        place: Cell or answer of each count, (n,), ascending in a geounit.
        truth: Confidential counts, (n,).
        estimate: Protected counts, (n,).
    """

    geounits: int
    owner: NDArray[np.int64]
    place: NDArray[np.int64]
    truth: NDArray[np.int64]
    estimate: NDArray[np.int64]

    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums by geounit, (K,) each."""
        return _sums(self.owner, self.truth, self.geounits), _sums(self.owner, self.estimate, self.geounits)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Rows that add up; arrays of one length.

    Attributes:
        line: Place in `Comparison.lines`.
        bin: Class of population, or homogeneity index.
        value: A residual, or which sum it is.
        frequency: How often, or the sum.
    """

    line: NDArray[np.int64]
    bin: NDArray[np.int64]
    value: NDArray[np.int64]
    frequency: NDArray[np.int64]

    def of(self, line: int) -> Tally:
        """The rows of one line.

        Args:
            line: Place in `Comparison.lines`.
        """
        chosen = self.line == line
        return Tally(*(column[chosen] for column in (self.line, self.bin, self.value, self.frequency)))


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Histograms of K geounits as lists of counts.

    Attributes:
        owner: Geounit of each count, (n,).
        cell: Cell of each count, (n,).
        count: The counts, (n,).
    """

    owner: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]


def paired(truth: Side, estimate: Side, geounits: int, size: int) -> Paired:
    """Put two lists of histograms side by side.

    Args:
        truth: Confidential.
        estimate: Protected.
        geounits: How many geounits there are.
        size: Cells of the schema.
    """
    keys = np.concatenate([truth.owner * size + truth.cell, estimate.owner * size + estimate.cell])
    counts = (
        np.concatenate([truth.count, np.zeros_like(estimate.count)]),
        np.concatenate([np.zeros_like(truth.count), estimate.count]),
    )
    keys, (true, protected) = _summed(keys, counts)
    some = (true > 0) | (protected > 0)
    owner, cell = np.divmod(keys[some], size)
    return Paired(geounits, owner, cell, true[some], protected[some])


def tally(comparison: Comparison, cells: Paired) -> Tally:
    """Reduce geounits to rows that add up.

    Args:
        comparison: What is compared.
        cells: Both histograms of every geounit.
    """
    batch = _Batch(comparison, cells)
    rows = []
    for number, line in enumerate(comparison.lines()):
        found = batch.rows(line)
        rows.append(np.vstack([np.full(found.shape[1], number), found]))
    return Tally(*np.concatenate(rows, axis=1))


class _Batch:
    """Some geounits with what several lines need of them."""

    def __init__(self, comparison: Comparison, cells: Paired) -> None:
        self.comparison, self.geounits = comparison, cells.geounits
        self.truth, self.estimate = cells.totals()
        self.answers = [_answers(query, cells) for query in comparison.queries]
        # The total counts geounits without people, too.
        self.answers[0] = Paired(cells.geounits, *_everywhere(cells.geounits), self.truth, self.estimate)
        self.classes: dict[Bins, NDArray[np.int64]] = {}
        self.differences: dict[int, Differences] = {}

    def rows(self, line: Line) -> NDArray[np.int64]:
        """What is tallied of a line: rows class, value, frequency."""
        if line.subject in DEFINITIONS:
            return _frequencies(self._index(line.query, line.subject), self.estimate - self.truth)
        if line.bins not in self.classes:
            self.classes[line.bins] = line.bins.place(self.truth)
        classes = self.classes[line.bins]
        if line.subject == "errors":
            compared = self.answers[line.query]
            return _frequencies(classes[compared.owner], compared.estimate - compared.truth)
        if line.subject == "geounits":
            empty = (self.truth == 0) & (self.estimate == 0)
            return _fields(classes, (np.ones_like(self.truth), self.truth, empty.astype(np.int64)))
        return _fields(classes, self._differences(line.query).sums())

    def _index(self, query: int, definition: Definition) -> NDArray[np.int64]:
        compared = self.answers[query]
        there = compared.truth > 0
        strata = self.comparison.queries[query]
        return homogeneity_index(strata, self.geounits, compared.owner[there], compared.place[there], definition)

    def _differences(self, query: int) -> Differences:
        if query not in self.differences:
            compared = self.answers[query]
            self.differences[query] = (
                largest_share(compared.geounits, compared.owner, compared.truth, compared.estimate)
                if query
                else relative_error(self.truth, self.estimate)
            )
        return self.differences[query]


def _answers(query: Query, cells: Paired) -> Paired:
    """Answers to a query where either is positive."""
    row = query.row_of(cells.place)
    inside = row != NO_GROUP
    keys = cells.owner[inside] * query.rows + row[inside]
    keys, (truth, estimate) = _summed(keys, (cells.truth[inside], cells.estimate[inside]))
    owner, place = np.divmod(keys, query.rows)
    return Paired(cells.geounits, owner, place, truth, estimate)


def _everywhere(geounits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One answer in every geounit."""
    return np.arange(geounits, dtype=np.int64), np.zeros(geounits, dtype=np.int64)


def _summed(
    keys: NDArray[np.int64], counts: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sum counts of one key; keys come out ascending."""
    order = np.argsort(keys, kind="stable")  # a merge of runs: keys that ascend already cost one pass
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        return keys, counts
    return keys[starts], (np.add.reduceat(counts[0][order], starts), np.add.reduceat(counts[1][order], starts))


def _frequencies(bins: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each value occurs in each class: rows bin, value, frequency."""
    if not len(values):
        return np.zeros((3, 0), dtype=np.int64)
    least = int(values.min())
    span = int(values.max()) - least + 1
    keys, frequency = np.unique(bins * span + (values - least), return_counts=True)
    return np.stack([keys // span, keys % span + least, frequency])


def _fields(bins: NDArray[np.int64], fields: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
    """Sums of some fields in each class that has geounits: rows bin, value (which field), frequency (the sum)."""
    present, inverse = np.unique(bins, return_inverse=True)
    sums = [_sums(inverse, field, len(present)) for field in fields]
    values = np.repeat(np.arange(len(fields)), len(present))
    return np.stack([np.tile(present, len(fields)), values, np.concatenate(sums)])


def _sums(owner: NDArray[Any], values: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    sums = np.zeros(number, dtype=np.int64)
    np.add.at(sums, owner, values)
    return sums
