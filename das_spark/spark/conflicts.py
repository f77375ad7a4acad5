"""Units and people that contradict each other in a leaf geounit: found, named, and on request settled.

A geounit with n units of a class must hold between least*n and most*n people of that class. Published counts that were
protected before (such as those of the 2018 End-to-End test) break this; so may records with errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das_spark.errors import without_values
from das_spark.spark import tables
from das_spark.spark.lists import flat_lists, list_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.constraints import UnitBounds
    from das_spark.histogram import Query


@dataclass(frozen=True, slots=True)
class UnitRule:
    """How units bound people in a leaf geounit.

    Attributes:
        query: The query of class margins (people by class).
        unit_bounds: Least and most people a unit of each class may hold.
    """

    query: Query
    unit_bounds: UnitBounds

    def people(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """People by class of each leaf of a batch, shape (leaves, classes).

        Args:
            batch: Rows of `tables.LEAVES`, one a leaf; columns cells and counts are read.
        """
        cells, offsets = flat_lists(pa.chunked_array([batch.column("cells")]), np.int32)
        counts, _ = flat_lists(pa.chunked_array([batch.column("counts")]), np.int64)
        margins = np.zeros((batch.num_rows, self.query.rows), dtype=np.int64)
        leaf = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
        np.add.at(margins, (leaf, self.query.row_of(cells)), counts)
        return margins

    def units(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Units by class of each leaf of a batch, shape (leaves, classes).

        Args:
            batch: Rows of `tables.LEAVES`, one a leaf, with units known in each; column units is read.
        """
        flat, _ = flat_lists(pa.chunked_array([batch.column("units")]), np.int64)
        return flat.reshape(batch.num_rows, -1)

    def settled(self, people: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The nearest number of units, class by class, that the people allow.

        Args:
            people: People by class, shape (leaves, classes).
            units: Units by class, shape (leaves, classes).

        Returns:
            Units by class, shape (leaves, classes).
        """
        least, most = np.array(self.unit_bounds.least), np.array(self.unit_bounds.most)
        fewest = -(-people // most)
        # A class whose units may be empty has no largest number of them.
        largest = np.where(least > 0, people // np.maximum(least, 1), np.maximum(units, fewest))
        return np.clip(units, fewest, np.maximum(largest, fewest))


def conflicts(leaves: DataFrame, rule: UnitRule) -> DataFrame:
    """Leaves whose people break the bounds of their units: columns geocode, unit_class (int). Restricted.

    Args:
        leaves: `tables.LEAVES` with units.
        rule: The bounds.
    """

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            people, units = rule.people(batch), rule.units(batch)
            low, high = np.array(rule.unit_bounds.least) * units, np.array(rule.unit_bounds.most) * units
            leaf, unit_class = np.nonzero((people < low) | (people > high))
            yield pa.RecordBatch.from_arrays(
                [batch.column("geocode").take(pa.array(leaf)), pa.array(unit_class.astype(np.int32))],
                names=["geocode", "unit_class"],
            )

    return leaves.mapInArrow(without_values(find), "geocode string, unit_class int")


def settle(leaves: DataFrame, rule: UnitRule) -> DataFrame:
    """Leaves with units changed, where they contradict the people, to the nearest number that does not.

    Args:
        leaves: `tables.LEAVES` with units.
        rule: The bounds.

    Returns:
        `tables.LEAVES`.
    """

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            units = rule.settled(rule.people(batch), rule.units(batch))
            offsets = np.arange(batch.num_rows + 1, dtype=np.int64) * units.shape[1]
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns["units"] = list_array(units.ravel(), offsets, pa.int64())
            yield pa.RecordBatch.from_pydict(columns)

    return leaves.mapInArrow(without_values(change), tables.LEAVES)
