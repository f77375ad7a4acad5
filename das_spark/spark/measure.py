"""Noisy measurements of one geolevel: the only place where confidential counts meet noise.

Every query is answered on a child's whole confidential histogram; then the answers that the parent's estimate cannot
touch are left out, so their noise need never be evaluated. Restricting the histogram first would bias the aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import PrivacyGuardError, without_values
from das_spark.privacy import CumulativeTable, GeounitAddresses, KeyedStream, geounit_key, sample
from das_spark.spark import families, tables
from das_spark.spark.families import HISTOGRAM, PARENT, Family, FamilySlice, Spread, Writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query

#: Share of geounits that are not measured: only children, whose part of the budget their parent has.
UNMEASURED: Final = "0/1"


@dataclass(frozen=True, slots=True, eq=False)
class _Addresses:
    """Where the children of a family find their noise, which is the same for every query.

    Attributes:
        geounits: The whole geocode of each geounit, by which its noise is drawn.
        places: Share of the budget, as text -> positions of the children that have it.
    """

    geounits: GeounitAddresses
    places: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, children: FamilySlice) -> _Addresses:
        """The addresses of some children."""
        shares = np.array(children.members)
        places = {str(share): np.flatnonzero(shares == share) for share in np.unique(shares)}
        return cls(GeounitAddresses.of(children.geocodes), places)


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """What a measure task needs, and all that it is given: the streams hold keys of this level and attempt only.

    Attributes:
        size: Cells of the histogram.
        queries: The queries measured at this level.
        mechanisms: For each share of the budget that geounits have (as text; empty where all have the geolevel's), and
            each query, the noise table and its variance (people^2).
        streams: For each query its keyed stream of random bits.
        lazy: Whether answers that the parent's support cannot touch, and only children, are left out.
        blind: Whether every answer is taken for 0, so that the noisy answers are the same whatever the histograms hold;
            for the audit of structure.

    Raises:
        PrivacyGuardError: It is blind under a real key: what is measured then is no release of anything.
    """

    size: int
    queries: Mapping[str, Query]
    mechanisms: Mapping[str, Mapping[str, tuple[CumulativeTable, float]]]
    streams: Mapping[str, KeyedStream]
    lazy: bool
    blind: bool = False

    def __post_init__(self) -> None:
        """Refuse what could be mistaken for a release."""
        if self.blind and not all(stream.is_insecure for stream in self.streams.values()):
            raise PrivacyGuardError("noise without what it shall hide is measured under a test key only")

    def __call__(self, family: Family) -> list[pa.RecordBatch]:
        """Measure every child of one family: one batch a query, or none where nothing will be read."""
        histograms = family.get(HISTOGRAM)
        parent = family.get(PARENT)
        if histograms is None or (self.lazy and parent is not None and len(histograms.geocodes) == 1):
            return []
        if set(histograms.members) == {UNMEASURED}:
            return []
        support = parent.integers if parent is not None and self.lazy else None
        addresses = _Addresses.of(histograms)
        return [self._measure(family, histograms, addresses, name, support) for name in sorted(self.queries)]

    def _measure(
        self,
        family: Family,
        children: FamilySlice,
        addresses: _Addresses,
        name: str,
        support: NDArray[np.int32] | None,
    ) -> pa.RecordBatch:
        query = self.queries[name]
        rows = np.arange(query.rows) if support is None else query.restrict(support).rows
        answers = answers_on_rows(children, query, rows)
        if self.blind:
            answers = np.zeros_like(answers)
        noise, variance = self._noise(addresses, name, rows)
        noisy = (answers + noise).ravel()
        count = len(children.geocodes)
        offsets = np.arange(count + 1, dtype=np.int64) * len(rows)
        kept = (
            pa.nulls(count, pa.list_(pa.int32()))
            if support is None
            else families.list_array(np.tile(rows, count).astype(np.int32), offsets, pa.int32())
        )
        top = family.get(PARENT) is None
        return pa.RecordBatch.from_pydict(
            {
                "geocode": pa.array(children.geocodes, pa.string()),
                "parent": pa.array(["" if top else family.geocode] * count, pa.string()),
                "query": pa.array([name] * count, pa.string()),
                "rows": kept,
                "values": families.list_array(noisy, offsets, pa.int64()),
                "variance": pa.array(variance),
            }
        )

    def _noise(
        self, addresses: _Addresses, name: str, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Noise (children, r) and variance (children,), by the share of each child."""
        count = len(addresses.geounits)
        noise, variance = np.zeros((count, len(rows)), dtype=np.int64), np.zeros(count)
        for share, mine in addresses.places.items():
            table, variance[mine] = self.mechanisms[share][name]
            noise[mine] = sample(table, self.streams[name], addresses.geounits.part(mine), rows)
        return noise, variance


def answers_on_rows(children: FamilySlice, query: Query, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact answers of a query on whole histograms, at some of its rows.

    Args:
        children: Histograms: `integers` are cells, `longs` counts.
        query: The query.
        rows: Sorted answer rows wanted, shape (r,).

    Returns:
        Shape (children, r), people.
    """
    wanted = np.zeros((len(children.geocodes), len(rows)), dtype=np.int64)
    if not len(rows):
        return wanted
    child = np.repeat(np.arange(len(children.geocodes)), np.diff(children.integer_offsets))
    answer = query.row_of(children.integers)
    position = np.minimum(np.searchsorted(rows, answer), len(rows) - 1)
    present = rows[position] == answer
    np.add.at(wanted, (child[present], position[present]), children.longs[present])
    return wanted


def shared_addresses(geounits: DataFrame) -> DataFrame:
    """Geounits of a level that would draw each other's noise: columns geocode and geounits (how many).

    A task sees one family at a time, so that only this looks at a whole level.

    Args:
        geounits: Column geocode, one row a geounit that is to be measured.
    """

    def encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column("geocode")
            keys = [geounit_key(geocode) for geocode in codes.to_pylist()]
            yield pa.RecordBatch.from_pydict({"geocode": codes, "address": pa.array(keys, pa.binary())})

    keyed = geounits.select("geocode").mapInArrow(without_values(encoded), "geocode string, address binary")
    counted = keyed.groupBy("address").agg(F.min("geocode").alias("geocode"), F.count(F.lit(1)).alias("geounits"))
    return counted.where("geounits > 1").select("geocode", "geounits")


def measurements(
    histograms: DataFrame,
    parents: DataFrame | None,
    task: MeasurementTask,
    spread: Spread,
    shares: DataFrame | None = None,
    writing: Writing | None = None,
) -> DataFrame:
    """Measure one geolevel.

    Args:
        histograms: `tables.HISTOGRAMS` of the level (restricted).
        parents: `tables.ESTIMATES` of the level above, or None at the top.
        task: What to measure, with which noise.
        spread: Files and partitions to spread the families over.
        shares: `tables.SHARES` of the level, where geounits have shares of their own.
        writing: Writes the table in the tasks; None gives its rows.

    Returns:
        `tables.MEASUREMENTS`, or, where something writes it, the report of what was written; lazy.
    """
    family = "geocode" if parents is None else "parent"
    if shares is None:
        rows = families.family_rows(histograms, family=family, kind=HISTOGRAM, sources=families.CELLS)
    else:
        shared = histograms.join(shares.select("geocode", "share"), "geocode")
        sources = {**families.CELLS, "member": "share"}
        rows = families.family_rows(shared, family=family, kind=HISTOGRAM, sources=sources)
    if parents is None:
        costs = histograms.select(F.col("geocode").alias("family"), F.lit(1).cast("long").alias("cost"))
    else:
        costs = family_costs(histograms.select("geocode", "parent"), parents)
        rows = rows.unionByName(families.family_rows(parents, family="geocode", kind=PARENT, sources=families.CELLS))
    places = families.placed(costs, spread.files)
    guarded = families.WithoutValues(task)
    if writing is None:
        return families.map_families(rows, places, spread.partitions, guarded, tables.MEASUREMENTS)
    finish = writing.of(lambda file, batch: iter([("measurements", file, batch)]))
    return families.map_families(rows, places, spread.partitions, guarded, writing.report, finish)


def family_costs(children: DataFrame, parents: DataFrame) -> DataFrame:
    """Estimated cost of a family: cells in the parent's support times children.

    Args:
        children: Columns geocode and parent; one row a geounit.
        parents: Columns geocode and cells: the estimates of the level above.

    Returns:
        Columns family (geocode of the parent), cost (long).
    """
    counted = children.groupBy(F.col("parent").alias("family")).agg(F.count(F.lit(1)).alias("children"))
    support = parents.select(F.col("geocode").alias("family"), F.size("cells").alias("support"))
    return counted.join(support, "family").select(
        "family", (F.col("children") * F.col("support")).cast("long").alias("cost")
    )
