"""The values of published tables of every kind, made of the same histograms at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from das_spark.errors import QueryError
from das_spark.tabulation.medians import MedianColumns, MedianTable, medians
from das_spark.tabulation.sums import Incidence, incidence, tabulate
from das_spark.tabulation.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.tabulation.table import TableShell


@dataclass(frozen=True, slots=True, eq=False)
class Tabulation:
    """How the columns of tables follow from histograms: sums, and tenths of medians. Small: it travels to tasks."""

    names: tuple[str, ...]  #: of the columns, one table behind the other
    tenths: NDArray[np.bool_]  #: which of them are medians, (columns,)
    sums: Incidence | None  #: None where there are none
    medians: MedianColumns | None  #: likewise

    @classmethod
    def of(cls, tables: Sequence[TableShell]) -> Tabulation:
        """The columns of tables of one schema.

        Raises:
            QueryError: As for `incidence`; there is no table.
        """
        added = [table for table in tables if isinstance(table, Table)]
        of_medians = [table for table in tables if isinstance(table, MedianTable)]
        names = tuple(name for table in tables for name in table.names)
        if not names or len(set(names)) < len(names) or any(table.schema != tables[0].schema for table in tables):
            raise QueryError("tables that are made together have one schema, and different column names")
        return cls(
            names,
            np.repeat([isinstance(table, MedianTable) for table in tables], [len(table.names) for table in tables]),
            incidence(added) if added else None,
            MedianColumns.of(of_medians) if of_medians else None,
        )

    @property
    def numbers(self) -> int:
        """Numbers that a geounit needs at once."""
        return len(self.names) + (0 if self.medians is None else self.medians.numbers)

    def values(
        self, cells: NDArray[np.integer[Any]], offsets: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]
    ) -> NDArray[np.int64]:
        """Sums, and tenths of medians, of K geounits: (K, columns); arguments and errors as for `tabulate`."""
        found = np.zeros((len(offsets) - 1, len(self.names)), dtype=np.int64)
        if self.sums is not None:
            found[:, ~self.tenths] = tabulate(self.sums, cells, offsets, counts)
        if self.medians is not None:
            found[:, self.tenths] = medians(self.medians, cells, offsets, counts)
        return found
