"""Rules on the noisy answers of geounits: whose they are, which they are, and how wide their noise is said to be.

Of a nation there are a hundred million rows of answers, and those of the children of a family are nearly alike: they
have the same numbers of rows and differ in their values alone, of which no rule needs more than the sum. So rows of
neighbours are put together where they lie, before they come to the task of their family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.core import UNMEASURED
from das_spark.verification.families import COLUMNS, NAMED, FamilyRule, Found, Key, Lists, first_wrong, starts, summed
from das_spark.verification.geounits import keys, rule_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.histogram import Query
    from das_spark.verification.families import Families, Rows, Texts

#: What `together` gives: the columns of `measured`, and which family they are of.
TOGETHER: Final = pa.schema([("family", pa.string()), *COLUMNS["measured"].items()])


def together(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put neighbouring rows of one family and query with the same numbers of rows together, their values summed up.

    Args:
        batch: Of one level: columns family, query, rows, values, geocode, odd, variance.

    Returns:
        Rows of `TOGETHER`; the width is -1 where there are no values, or a null among them.
    """
    changed = starts(batch, ("family", "query"))
    rows, values = Lists.of(batch.column("rows")), Lists.of(batch.column("values"))
    named = batch.column("rows").is_valid().to_numpy(zero_copy_only=False)
    kept = np.where(named, rows.lengths, -1)
    # A row with a null in it is like no other.
    holed = ~values.whole | (named & ~rows.whole)
    changed |= holed
    changed[1:] |= holed[:-1]
    for length in (kept, values.lengths):
        changed[1:] |= np.diff(length) != 0
    # Where a row has as many numbers as the one before, these stand just before its own.
    before = np.arange(len(rows.values)) - np.repeat(rows.lengths, rows.lengths)
    other = np.concatenate([[0], np.cumsum(rows.values != rows.values[before])])
    changed |= np.diff(other[rows.offsets]) > 0
    first = np.flatnonzero(changed)
    run = np.cumsum(changed) - 1
    width = values.lengths[first]
    offsets = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    target = np.repeat(offsets[run] - values.offsets[:-1], values.lengths) + np.arange(len(values.values))
    begin = pa.array(first)
    of_run = np.append(first, batch.num_rows).astype(np.int64)
    arrays = [
        *(batch.column(name).take(begin) for name in ("family", "query", "rows")),
        pa.array(np.where(values.whole[first], width, -1)),
        *(_lists(of_run, batch.column(name)) for name in ("geocode", "odd", "variance")),
        _lists(offsets, pa.array(summed(target, values.values, int(offsets[-1])))),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TOGETHER)


def _lists(offsets: NDArray[np.int64], values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A query that a level is asked."""

    query: Query
    # share of the budget that geounits have, as text ("" stands for the level's) -> variance of the noise
    variances: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MeasurementColumns(FamilyRule):
    """Every geounit that is measured has each query of its level once, of the shape and variance that follow.

    Attributes:
        levels: From the top.
        asked: Level -> query -> what the budget says of it.
        lazy: Levels at which answers that the parent's estimate cannot touch, and geounits alone in theirs, are left
            out.
        shared: Whether geounits have shares of the budget of their own.
    """

    needs: ClassVar = ("geounits", "measured", "shares", "above_geounits", "above_estimates")

    levels: Sequence[str]
    asked: Mapping[str, Mapping[str, MeasuredQuery]]
    lazy: frozenset[str]
    shared: bool

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(rule_name("measurements"), self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        view = _Measured(families, self.asked.get(families.level, {}))
        size, number = len(families.geocodes), len(view.queries)
        # How often each geounit must have every query, and whether it is looked at.
        looked = families.geounits * (number > 0)
        if families.level in self.lazy:
            above = families.rows("above_geounits")
            several = summed(above.family, np.minimum(above.numbers("children", 0), 2), len(families.names)) > 1
            known = np.bincount(families.rows("above_estimates").family, minlength=len(families.names)) > 0
            known &= np.bincount(above.family, minlength=len(families.names)) > 0
            looked = looked * known[families.family_of]
            times = looked * several[families.family_of]
        else:
            times = looked
        shares = self._shares(families)
        if self.shared:
            times = np.where(shares == UNMEASURED, 0, times)
        query = view.query[view.row]
        inside = (view.geounit >= 0) & (query >= 0)
        count = np.bincount(view.geounit[inside] * number + query[inside], minlength=size * number)
        asked = count.reshape(size, number) != times[:, None]
        variances = self._variances(families, shares)
        right = np.zeros(len(query), dtype=np.bool_)
        right[inside] = view.variance[inside] == variances[view.geounit[inside], query[inside]]
        wrong = {
            "geocode or query": asked.any(axis=1) | view.any_geounit(query < 0),
            "parent": view.any_geounit(view.odd),
            "rows": view.any_geounit(~self._kept(families, view)[view.row] & inside),
            "values": view.any_geounit(view.crooked[view.row] & inside),
            "variance": view.any_geounit(~right & inside),
        }
        strange = [f"{name} geocode or query" for name in view.strange]
        if looked.any() or len(view.row):
            failing = [*first_wrong(families.geocodes, wrong), *strange]
            yield Found(rule_name("measurements"), int(looked.sum()) * number, failing)

    def _shares(self, families: Families) -> NDArray[np.object_]:
        """Share of each geocode as text."""
        shares = np.full(len(families.geocodes), "", dtype=object)
        if self.shared:
            rows = families.rows("shares")
            shares[:] = None
            shares[rows.geounit] = np.array(rows.columns["share"].to_pylist(), dtype=object)
        return shares

    def _variances(self, families: Families, shares: NDArray[np.object_]) -> NDArray[np.float64]:
        """Variance that each geocode's answers to each query must have; NaN where none is known."""
        asked = self.asked.get(families.level, {})
        found = np.full((len(shares), len(asked)), np.nan)
        for place, each in enumerate(asked.values()):
            for share, variance in each.variances.items():
                found[shares == share, place] = variance
        return found

    def _kept(self, families: Families, view: _Measured) -> NDArray[np.bool_]:
        """Say of each row whether it names the answers that follow: all, or those that the parent touches."""
        if families.level not in self.lazy:
            return np.asarray(~view.named)
        good = np.zeros(len(view.query), dtype=np.bool_)
        for place, query in enumerate(view.queries.values()):
            own = np.flatnonzero((view.query == place) & view.named)
            if len(own):
                good[own] = self._touched(families, query.query, view, own)
        return good

    def _touched(self, families: Families, query: Query, view: _Measured, own: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of some rows whether they name the answers that count a cell of the parent, ascending."""
        above, cells = families.rows("above_estimates"), families.cells("above_estimates")
        inside = (cells.cell >= 0) & (cells.cell < query.size)
        answer = query.row_of(cells.cell[inside])
        family = above.family[cells.row[inside]]
        key = np.unique((family * query.rows + answer)[answer >= 0])
        begin = np.searchsorted(key, np.arange(len(families.names) + 1) * query.rows)
        of_row = view.rows.family[own]
        length = np.diff(begin)[of_row]
        good = view.kept.whole[own] & (view.kept.lengths[own] == length)
        some = np.flatnonzero(good)
        width = length[some]
        row = np.repeat(np.arange(len(some)), width)
        within = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)
        due = key[begin[of_row[some]][row] + within] - of_row[some][row] * query.rows
        said = view.kept.values[view.kept.offsets[:-1][own[some]][row] + within]
        good[some] = np.bincount(row[due != said], minlength=len(some)) == 0
        return np.asarray(good)


class _Measured:
    """The rows of `measured` in some families, and the geounits that each is of."""

    def __init__(self, families: Families, queries: Mapping[str, MeasuredQuery]) -> None:
        self.rows: Rows = families.rows("measured")
        self.queries = queries
        self._size = len(families.geocodes)
        said: Texts = self.rows.texts("query")
        self.query = said.among(tuple(queries))
        self.kept = self.rows.lists("rows")
        self.named = self.rows.columns["rows"].is_valid().to_numpy(zero_copy_only=False)
        lengths = self.rows.columns["geounits"].value_lengths().to_numpy()
        #: Of each geounit of each row: the row, the place of the geounit, and what it says by itself.
        self.row = np.repeat(np.arange(len(self.rows)), lengths)
        names = self.rows.columns["geounits"].flatten()
        self.geounit = pc.index_in(names, families.geocodes).fill_null(-1).to_numpy().astype(np.int64)
        self._names = names
        self.odd = self.rows.columns["odd"].flatten().fill_null(True).to_numpy(zero_copy_only=False)
        self.variance = self.rows.columns["variances"].flatten().fill_null(np.nan).to_numpy(zero_copy_only=False)

    @cached_property
    def crooked(self) -> NDArray[np.bool_]:
        """Whether a row has another number of values than of answers."""
        whole = np.array([*(query.query.rows for query in self.queries.values()), 0])[self.query]
        return np.asarray(self.rows.numbers("width", -1) != np.where(self.named, self.kept.lengths, whole))

    @property
    def strange(self) -> list[str]:
        """Names of those that no other table of their family has."""
        odd = self._names.filter(pa.array(self.geounit < 0)).unique()
        return sorted(str(name) for name in odd.to_pylist())[:NAMED]

    def any_geounit(self, bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Say of each geocode whether any of its answers is bad."""
        return np.asarray(np.bincount(self.geounit[bad & (self.geounit >= 0)], minlength=self._size) > 0)
