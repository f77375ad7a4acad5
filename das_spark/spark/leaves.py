"""From what readers give to the confidential histograms of the lowest geolevel, and what is wrong with them.

Units and people that contradict each other in a leaf geounit are found, named, and on request resolved: a geounit with
n units of a class must hold between least*n and most*n people of that class. Published counts that were protected
before (such as those of the 2018 End-to-End test) break this; so may records with errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import functions as F

from das_spark.spark import tables
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.lists import flat_histograms, flat_lists, list_rows
from das_spark.store.parquet import file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.constraints import UnitBounds
    from das_spark.histogram import Query
    from das_spark.store import FileRecord
    from das_spark.store.parquet import ParquetTables


def pooled(leaves: DataFrame) -> DataFrame:
    """Count vacant units among those of the first class (null where no units are known), and tell them apart no more.

    `tables.LEAVES`.
    """
    first = F.get("units", F.lit(0)) + F.coalesce("vacant", F.lit(0))
    units = F.concat(F.array(first), F.slice("units", F.lit(2), F.size("units") - 1))
    return leaves.withColumn("units", F.when(F.col("units").isNotNull(), units)).withColumn(
        "vacant", F.lit(None).cast("long")
    )


@dataclass(frozen=True, slots=True)
class UnitRule:
    """How units bound people in a leaf geounit."""

    query: Query  # the query of class margins (people by class)
    unit_bounds: UnitBounds  # least and most people a unit of each class may hold

    def people(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """People by class of each leaf of a batch, shape (leaves, classes)."""
        leaf, cells, counts = flat_histograms(batch)
        margins = np.zeros((batch.num_rows, self.query.rows), dtype=np.int64)
        np.add.at(margins, (leaf, self.query.row_of(cells)), counts)
        return margins

    def units(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Units of each class that bounds, of each leaf of a batch, shape (leaves, classes)."""
        return flat_lists(batch.column("units"), np.int64)[0].reshape(batch.num_rows, -1)[:, : self.query.rows]

    def conflicts(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Leaves of a batch whose people break the bounds of their units, and the class in which they do."""
        people, units = self.people(batch), self.units(batch)
        low, high = np.array(self.unit_bounds.least) * units, np.array(self.unit_bounds.most) * units
        leaf, unit_class = np.nonzero((people < low) | (people > high))
        return leaf, unit_class

    def nearest_units(self, people: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The nearest number of units, class by class, that the people allow.

        Units by class, shape (leaves, classes).
        """
        least, most = np.array(self.unit_bounds.least), np.array(self.unit_bounds.most)
        fewest = -(-people // most)
        # A class whose units may be empty has no largest number of them.
        largest = np.where(least > 0, people // np.maximum(least, 1), np.maximum(units, fewest))
        return np.clip(units, fewest, np.maximum(largest, fewest))


@dataclass(frozen=True, slots=True)
class LeafRules:
    """What must hold of leaves; rules of units where these are a declared invariant."""

    named: int  # how many geounits that break a rule are named
    units: bool = False  # whether the units of each must be known
    counted: bool = False  # whether units of the first class are what the histogram counts
    bounds: UnitRule | None = None  # how units bound people


@dataclass(slots=True)
class LeafFacts:
    """What leaves hold, and the first of those that break a rule, by geocode. Restricted."""

    geounits: int = 0
    occupied: int = 0  # cells
    people: int = 0
    conflicts: int = 0  # classes of geounits in which units and people contradict each other
    twice: list[str] = field(default_factory=list)  # geounits that stand there more than once
    without_units: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    conflicting: list[tuple[str, int]] = field(default_factory=list)  # geounit and class
    files: tuple[FileRecord, ...] = ()

    def rows(self) -> dict[str, int]:
        """As the record of the input has them."""
        return {"geounits": self.geounits, "occupied cells": self.occupied, "people": self.people}


def write_leaves(leaves: DataFrame, writer: ParquetTables, rules: LeafRules) -> LeafFacts:
    """Write leaves by one job, and find out what they hold and what is wrong with them.

    Args:
        leaves: Rows of `tables.LEAVES`.
        writer: Has a folder for the table `leaves`.
        rules: What must hold.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - this is a task
        found = _Found(rules)
        name = file_name(context.partitionId())
        for report in writer(("leaves", name, found.seen(batch)) for batch in batches):
            yield _told(report.to_pylist())
        yield _told([found.facts])

    # By geocode: those of a geounit that stands twice meet.
    arranged = leaves.repartition(F.col("geocode"))
    told = in_sorted_tasks(arranged, ("geocode",), work, "told string").toArrow().column("told").to_pylist()
    several = [json.loads(text) for text in told]
    facts = LeafFacts(files=writer.place(each for each in several if "table" in each)["leaves"])
    for each in (each for each in several if "geounits" in each):
        for name in ("geounits", "occupied", "people", "conflicts"):
            setattr(facts, name, getattr(facts, name) + each[name])
        facts.twice = _first(facts.twice + each["twice"], rules.named)
        facts.without_units = _first(facts.without_units + each["without_units"], rules.named)
        facts.uncounted = _first(facts.uncounted + each["uncounted"], rules.named)
        conflicting = [(geocode, number) for geocode, number in each["conflicting"]]
        facts.conflicting = sorted([*facts.conflicting, *conflicting])[: rules.named]
    return facts


def _told(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"told": pa.array([json.dumps(row) for row in rows], pa.string())})


def _first(geocodes: Sequence[str], number: int) -> list[str]:
    return sorted(set(geocodes))[:number]


class _Found:
    """What a task finds in its leaves, which are sorted by geocode."""

    def __init__(self, rules: LeafRules) -> None:
        self._rules, self._last = rules, ""
        self.facts: dict[str, Any] = dict.fromkeys(("geounits", "occupied", "people", "conflicts"), 0)
        self.facts |= {name: [] for name in ("twice", "without_units", "uncounted", "conflicting")}

    def seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Look at leaves, and give them on."""
        if batch.num_rows:
            self._look(batch)
        return batch

    def _look(self, batch: pa.RecordBatch) -> None:
        rules, facts, codes = self._rules, self.facts, batch.column("geocode")
        leaf, _, counts = flat_histograms(batch)
        facts["geounits"] += batch.num_rows
        facts["occupied"] += len(leaf)
        facts["people"] += int(counts.sum())
        before = pa.concat_arrays([pa.array([self._last], codes.type), codes.slice(0, len(codes) - 1)])
        self._name("twice", codes.filter(pc.equal(codes, before)))
        self._last = codes[-1].as_py()
        if not rules.units:
            return
        known = batch.column("units").is_valid()
        self._name("without_units", codes.filter(pc.invert(known)))
        whole = batch.filter(known)
        if not whole.num_rows:
            return
        codes = whole.column("geocode")
        if rules.counted:
            leaf, _, counts = flat_histograms(whole)
            people = np.zeros(whole.num_rows, dtype=np.int64)
            np.add.at(people, leaf, counts)
            first = np.asarray(pc.list_element(whole.column("units"), 0))
            self._name("uncounted", codes.filter(pa.array(people != first)))
        if rules.bounds is not None:
            places, classes = rules.bounds.conflicts(whole)
            facts["conflicts"] += len(places)
            left = rules.named - len(facts["conflicting"])
            some = zip(codes.take(pa.array(places[:left])).to_pylist(), classes[:left].tolist(), strict=True)
            facts["conflicting"] += some

    def _name(self, what: str, geocodes: pa.Array) -> None:
        left = self._rules.named - len(self.facts[what])
        self.facts[what] += geocodes.slice(0, max(left, 0)).to_pylist()


def resolve_conflicts(leaves: DataFrame, rule: UnitRule) -> DataFrame:
    """Leaves with units changed, where they contradict the people, to the nearest number that does not.

    `tables.LEAVES`.
    """

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            units = rule.nearest_units(rule.people(batch), rule.units(batch))
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns["units"] = list_rows(units)
            yield pa.RecordBatch.from_pydict(columns)

    return in_tasks(leaves, change, tables.LEAVES)
