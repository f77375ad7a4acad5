"""From the histograms of many geounits to few numbers that add up: what a task does for the accuracy report.

Everything is a row (line, class of population, value, frequency); rows of the same three are summed, over batches,
tasks and machines. Arrays follow the occupied cells, never the size of the schema, and all sums are of integers, so
that they do not depend on their order.

**Classes of population** are by the confidential one, so that a geounit is in the same class whatever a run made of it;
edges are those of the accuracy metrics released with the redistricting data of 2020.

**The homogeneity index** (Petti and Flaxman 2020, section "Bias"): homogeneous places gain people, diverse ones lose
them, since noise in empty strata can only raise them. The paper defines it as the number of empty strata of a geounit;
the program that made its figures computes the number of strata minus the product of how many levels of each attribute
occur, so that an index such as 19 of 24 is never reached. Both are here, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError
from das_spark.histogram import DETAILED, NO_GROUP, SEPARATOR, TOTAL, Attribute, Query, Recode, Schema


@dataclass(frozen=True, slots=True)
class Bins:
    """Classes of geounits by population; the last one is open."""

    name: str  # how reports call them
    upper: tuple[int, ...]  # the largest population of each class but the last, ascending

    def __post_init__(self) -> None:
        """Check the edges."""
        if not self.upper or self.upper[0] < 0 or any(low >= high for low, high in pairwise(self.upper)):
            raise InputError(f"population classes {self.name}: edges must ascend from 0 or more")

    @property
    def number(self) -> int:
        """How many classes there are."""
        return len(self.upper) + 1

    def place(self, population: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each geounit: shape (K,), from 0."""
        return np.searchsorted(np.array(self.upper), population, side="left").astype(np.int64)

    def least(self, place: int) -> int:
        """The smallest population of a class."""
        return self.upper[place - 1] + 1 if place else 0

    def label(self, place: int) -> str:
        """A class in words, such as "10 to 99"."""
        low = self.least(place)
        if place == len(self.upper):
            return f"{low:,} or more"
        high = self.upper[place]
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"


BLOCK: Final = Bins("block", (0, 9, 99, 999))
COUNTY: Final = Bins("county", (1_000, 9_999, 99_999, 999_999))
MAGNITUDE: Final = Bins("magnitude", (0, 9, 99, 999, 9_999, 99_999, 999_999, 9_999_999))
FIFTIES: Final = Bins("fifties", tuple(range(49, 2_500, 50)))

#: By name, for reports that are read again.
BINS: Final[Mapping[str, Bins]] = {bins.name: bins for bins in (BLOCK, COUNTY, MAGNITUDE, FIFTIES)}
#: Geolevels with classes of their own; powers of ten elsewhere.
_OF_LEVEL: Final[Mapping[str, Bins]] = {"Block": BLOCK, "County": COUNTY}


def sizes_of(geolevel: str) -> Bins:
    """The classes in which the errors of a geolevel are shown.

    Args:
        geolevel: Name of the geolevel.

    Returns:
        Classes of its own for blocks and counties, powers of ten for others.
    """
    return _OF_LEVEL.get(geolevel, MAGNITUDE)


#: Attributes that say of which demographic group somebody is: Hispanic origin and race.
_DEMOGRAPHIC: Final = ("hispanic", "cenrace", "race")


def total_of(query: Query) -> Query:
    """The query of the total on the schema of another one.

    Args:
        query: Any query of the schema.
    """
    return Query(TOTAL, query.shape, tuple(np.zeros(size, dtype=np.int64) for size in query.shape))


def demographic_groups(schema: Schema) -> Query | None:
    """The groups among which the largest is compared: origin by race, as far as the schema has them; else None.

    Args:
        schema: Of the product.
    """
    names = [attribute.name for attribute in schema.attributes if attribute.name in _DEMOGRAPHIC]
    return schema.query(SEPARATOR.join(names)) if names else None


def compared_queries(schema: Schema, measured: Iterable[str], strata: str) -> tuple[Query, ...]:
    """All that is compared in every geolevel: what is measured, and what every report holds.

    Args:
        schema: Of the product.
        measured: Spelling of the queries that the run measures, in any geolevel.
        strata: The query of the stratified counts.

    Returns:
        The total, the strata, what is measured, each attribute, the demographic groups and the detailed query: each
        once, under the first of its names, the fewest answers first.

    Raises:
        QueryError: A query names what the schema does not have.
    """
    groups = demographic_groups(schema)
    spelled = [TOTAL, strata, *measured, *(attribute.name for attribute in schema.attributes)]
    return in_order([*map(schema.query, spelled), *([groups] if groups else []), schema.query(DETAILED)])


def single_answers(schema: Schema, name: str) -> dict[str, Query]:
    """Return a query of each answer of an attribute or recode, by what it counts.

    Args:
        schema: Of the product.
        name: Of the attribute or recode.

    Raises:
        QueryError: There is none.
    """
    query = schema.query(name)
    axis = next(
        axis for axis, attribute in enumerate(schema.attributes) if name in (attribute.name, *_recodes(attribute))
    )
    attribute = schema.attributes[axis]
    labels = attribute.levels if name == attribute.name else _recodes(attribute)[name].labels
    found = {}
    for group, label in enumerate(labels):
        factors = list(query.factors)
        factors[axis] = np.where(factors[axis] == group, 0, NO_GROUP)
        found[label] = Query(f"{name}: {label}", query.shape, tuple(factors))
    return found


def _recodes(attribute: Attribute) -> dict[str, Recode]:
    return {recode.name: recode for recode in attribute.recodes}


def in_order(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Queries once each, under the first of their names; the fewest answers first.

    Args:
        queries: Of one schema; those that have the same answers count as one.
    """
    return tuple(sorted(dict.fromkeys(queries), key=lambda query: query.rows))


#: Largest difference that meets a criterion of redistricting: an inequality between integers, for in floating point
#: 11/20 - 1/2 is more than 5/100.
TOLERANCE: Final = Fraction(1, 20)
#: Differences of shares are summed as integers, in this many parts of 1.
PARTS: Final = 10**9


class ShareDifferences(NamedTuple):
    """One criterion in every geounit."""

    within: NDArray[np.bool_]  # whether the difference is defined and at most `TOLERANCE`, (K,)
    undefined: NDArray[np.bool_]  # whether there is no difference, (K,)
    parts: NDArray[np.int64]  # the difference in `PARTS`, rounded, (K,); 0 where it is not defined

    def sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The three as numbers that add up."""
        return self.within.astype(np.int64), self.undefined.astype(np.int64), self.parts


def largest_share(
    geounits: int, owner: NDArray[np.int64], truth: NDArray[np.int64], estimate: NDArray[np.int64]
) -> ShareDifferences:
    r"""Compare the share of the largest group.

    With :math:`S` and :math:`R` the protected and confidential answers to a query, and *k* the first place where
    :math:`S` is largest,

    .. math:: d = \left| \frac{S_k}{\sum S} - \frac{R_k}{\sum R} \right|.

    It is 0 where both sums are zero. Where exactly one is, it is not defined: such a geounit does not meet the
    criterion and enters no mean. This is the relative L1 error of the metrics released with the data of 2020, which
    also takes the group from the *protected* counts: it is the group that a reader of the release would name.
    """
    sums = np.zeros((2, geounits), dtype=np.int64)
    np.add.at(sums[0], owner, truth)
    np.add.at(sums[1], owner, estimate)
    largest = np.zeros((2, geounits), dtype=np.int64)
    if len(owner):
        chosen = _first_largest(owner, estimate)
        largest[0, owner[chosen]], largest[1, owner[chosen]] = truth[chosen], estimate[chosen]
    undefined = (sums[0] == 0) != (sums[1] == 0)
    wide = _products_fit(sums)
    (true_sum, sum_), (true, protected) = (sums, largest) if wide else (sums.astype(object), largest.astype(object))
    return _compared(np.abs(protected * true_sum - true * sum_), sum_ * true_sum, undefined)


def relative_error(truth: NDArray[np.int64], estimate: NDArray[np.int64]) -> ShareDifferences:
    r"""Compare totals: :math:`d = |S - R| / \max(1, R)`, of the same metrics; always defined."""
    return _compared(np.abs(estimate - truth), np.maximum(truth, 1), np.zeros(len(truth), dtype=np.bool_))


def _first_largest(owner: NDArray[np.int64], estimate: NDArray[np.int64]) -> NDArray[np.intp]:
    """Of each geounit that has answers, where its first largest one is."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    tops = np.flatnonzero(estimate == np.repeat(np.maximum.reduceat(estimate, starts), lengths))
    return tops[np.unique(owner[tops], return_index=True)[1]]


def _products_fit(sums: NDArray[np.int64]) -> bool:
    """Whether what is multiplied and compared below fits 64 bits; only a level of few geounits can be larger."""
    return TOLERANCE.denominator * int(sums[0].max(initial=0)) * int(sums[1].max(initial=0)) < 2**63


def _compared(numerator: NDArray[Any], denominator: NDArray[Any], undefined: NDArray[np.bool_]) -> ShareDifferences:
    """From integer fractions; those with denominator 0 are 0 unless they are undefined."""
    within = (numerator * TOLERANCE.denominator <= denominator * TOLERANCE.numerator).astype(np.bool_) & ~undefined
    difference = (numerator / np.maximum(denominator, 1)).astype(np.float64)
    parts = np.rint(np.where(undefined, 0.0, difference) * PARTS).astype(np.int64)
    return ShareDifferences(within, undefined, parts)


Definition = Literal["empty strata", "marginal product"]

#: As the paper defines the index, and as its program computes it.
EMPTY_STRATA: Final[Definition] = "empty strata"
MARGINAL_PRODUCT: Final[Definition] = "marginal product"
DEFINITIONS: Final = (EMPTY_STRATA, MARGINAL_PRODUCT)


def homogeneity_index(
    strata: Query, geounits: int, owner: NDArray[np.int64], row: NDArray[np.int64], definition: Definition
) -> NDArray[np.int64]:
    """The index of every geounit; a geounit without people has the highest one, the number of strata."""
    if definition == EMPTY_STRATA:
        return strata.rows - np.bincount(owner, minlength=geounits)
    sizes = [int(factor.max()) + 1 for factor in strata.factors]
    reached = (np.bincount(owner, minlength=geounits) > 0).astype(np.int64)
    for size, level in zip(sizes, np.unravel_index(row, sizes), strict=True):
        if size > 1:
            distinct = np.unique(owner * size + level) // size
            reached *= np.bincount(distinct, minlength=geounits)
    return strata.rows - reached


class ResidualDifferences(NamedTuple):
    """Of absolute residuals: first minus second."""

    totals: NDArray[np.int64]  # of every geounit, (K,)
    strata: NDArray[np.int64]  # of every geounit and stratum that has people in the truth or in a release, (m,)


def absolute_differences(
    strata: Query, geounits: int, truth: ComparedSide, first: ComparedSide, second: ComparedSide
) -> ResidualDifferences:
    """Compare two releases of the same geounits: |first - truth| - |second - truth|.

    Below zero where the first is nearer. They are paired by geounit (and stratum), so that what both have in common,
    such as how large the geounit is, cancels.

    Args:
        strata: The query of stratified counts.
        geounits: How many geounits there are, K.
        truth: Confidential.
        first: Protected.
        second: Protected, another run.
    """
    sides = (truth, first, second)
    totals = [np.bincount(side.owner, side.count, geounits).astype(np.int64) for side in sides]
    keys, counts = [], []
    for side in sides:
        row = strata.row_of(side.cell)
        inside = row != NO_GROUP
        keys.append(side.owner[inside] * strata.rows + row[inside])
        counts.append(side.count[inside])
    distinct = np.unique(np.concatenate(keys))
    sums = np.zeros((len(sides), len(distinct)), dtype=np.int64)
    for answers, key, count in zip(sums, keys, counts, strict=True):
        np.add.at(answers, np.searchsorted(distinct, key), count)
    sums = sums[:, sums.any(axis=0)]
    return ResidualDifferences(_difference(*totals), _difference(*sums))


def _difference(truth: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.abs(first - truth) - np.abs(second - truth))


Subject = Literal["geounits", "errors", "criterion", "empty strata", "marginal product"]

#: Values of a line of geounits: how many, what they count, and how many are empty in both histograms.
GEOUNITS, COUNTED, EMPTY = 0, 1, 2
#: Values of a line of a criterion: geounits within the tolerance, geounits without difference, sum of differences.
WITHIN, UNDEFINED, SUM = 0, 1, 2


class TallyLine(NamedTuple):
    """What a row of a tally is about."""

    # `geounits` and `criterion`: sums by their values; `errors`: the value is a residual; a definition of the
    # homogeneity index: the value is a residual of the total, and the index stands for the class.
    subject: Subject
    query: int  # place of the query among those compared; that of the strata where the subject is an index
    bins: Bins  # classes of population


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What is compared in a geolevel; small enough to travel to every task.

    Raises:
        InputError: The first query is not the total.
    """

    queries: tuple[Query, ...]  #: the total first
    sizes: Bins  #: classes of population of the geolevel
    strata: Query | None = None  #: the one of the queries that indices of homogeneity are of; None for none

    def __post_init__(self) -> None:
        """Check that the total comes first."""
        if not self.queries or self.queries[0].rows != 1 or not self.queries[0].is_partition:
            raise InputError("the first query of a comparison is the total")

    def lines(self) -> tuple[TallyLine, ...]:
        """What is tallied: every query by the classes of the level, the total by steps of 50, and shares by both.

        Shares are those of the largest group, of queries with several answers; the relative error, of the total.
        """
        both = (self.sizes, FIFTIES)
        found = [TallyLine("geounits", 0, bins) for bins in both]
        for place, query in enumerate(self.queries):
            found += [TallyLine("errors", place, bins) for bins in (both if place == 0 else (self.sizes,))]
            if place == 0 or query.rows > 1:
                found += [TallyLine("criterion", place, bins) for bins in both]
        if self.strata is not None:
            found += [TallyLine(definition, self.queries.index(self.strata), self.sizes) for definition in DEFINITIONS]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Confidential and protected counts side by side, where either is positive."""

    geounits: int  #: how many geounits there are, K, empty ones too
    owner: NDArray[np.int64]  #: geounit of each count, (n,), ascending
    place: NDArray[np.int64]  #: cell or answer of each count, (n,), ascending in a geounit
    truth: NDArray[np.int64]  #: confidential counts, (n,)
    estimate: NDArray[np.int64]  #: protected counts, (n,)

    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums by geounit, (K,) each."""
        return _sums(self.owner, self.truth, self.geounits), _sums(self.owner, self.estimate, self.geounits)


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTally:
    """Rows that add up; arrays of one length."""

    line: NDArray[np.int64]  #: place in `Comparison.lines`
    bin: NDArray[np.int64]  #: class of population, or homogeneity index
    value: NDArray[np.int64]  #: a residual, or which sum it is
    frequency: NDArray[np.int64]  #: how often, or the sum

    def of(self, line: int) -> ErrorTally:
        """The rows of one line."""
        chosen = self.line == line
        return ErrorTally(*(column[chosen] for column in (self.line, self.bin, self.value, self.frequency)))


@dataclass(frozen=True, slots=True, eq=False)
class ComparedSide:
    """Histograms of K geounits as lists of counts."""

    owner: NDArray[np.int64]  #: geounit of each count, (n,)
    cell: NDArray[np.int64]  #: cell of each count, (n,)
    count: NDArray[np.int64]  #: the counts, (n,)


def paired(truth: ComparedSide, estimate: ComparedSide, geounits: int, size: int) -> Paired:
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


def tally(comparison: Comparison, cells: Paired) -> ErrorTally:
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
    return ErrorTally(*np.concatenate(rows, axis=1))


class _Batch:
    """Some geounits with what several lines need of them."""

    def __init__(self, comparison: Comparison, cells: Paired) -> None:
        self.comparison, self.geounits = comparison, cells.geounits
        self.truth, self.estimate = cells.totals()
        self.answers = [_answers(query, cells) for query in comparison.queries]
        # The total counts geounits without people, too.
        self.answers[0] = Paired(cells.geounits, *_everywhere(cells.geounits), self.truth, self.estimate)
        self.classes: dict[Bins, NDArray[np.int64]] = {}
        self.differences: dict[int, ShareDifferences] = {}

    def rows(self, line: TallyLine) -> NDArray[np.int64]:
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

    def _differences(self, query: int) -> ShareDifferences:
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
