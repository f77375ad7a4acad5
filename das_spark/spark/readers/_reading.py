"""Tables of the input, read by tasks: each row once, with what is made of it, and what is told of every part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.input_fields import Fault, Names, Rows
from das_spark.io.text_lines import TextLines
from das_spark.spark.engine import in_tasks
from das_spark.spark.input_rows import in_parts
from das_spark.spark.problems import Problem
from das_spark.spark.readers._resolved import COUNT, Kind, Resolve, exact_sum
from das_spark.spark.readers._told import tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.io.input_tables import InputTable

#: Kind of fact: of the rows of a part of a table.
READ: Final = "read"


@dataclass(frozen=True, slots=True)
class Reading:
    """A table that is read, and what is made of its rows.

    Attributes:
        names: What it calls its fields.
        resolve: What is made of its rows.
        table: Its files, as tables or lines; None of a table of a catalog.
    """

    names: Names
    resolve: Resolve
    table: InputTable | TextLines | None

    @property
    def used(self) -> InputTable | TextLines:
        """The files, with the columns that are read."""
        assert self.table is not None  # noqa: S101 - a table of a catalog is read by Spark
        if isinstance(self.table, TextLines):
            return self.table
        return self.table.narrowed(tuple(dict.fromkeys(map(self.names.of, self.resolve.fields(self.names)))))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return what is made of the rows, and what is told of each part: `Resolve.schema`."""
        kind = from_arrow_schema(self.resolve.schema)
        if self.table is not None:
            return in_parts(spark, self.used, _ReadParts(self.names, self.resolve), kind)
        from das_spark.spark.catalog import catalog_rows  # noqa: PLC0415 - for such tables alone

        return in_tasks(catalog_rows(spark, self.names.file), _ReadRows(self.names, self.resolve), kind)


@dataclass(slots=True)
class _Found:
    """What a task finds in the rows of a table, some after the other."""

    names: Names
    resolve: Resolve
    records: int = 0  # those that cannot be read included
    telling: int = 0  # rows that tell of geounits
    counted: int = 0
    others: int = 0
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)

    def resolved(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.records += batch.num_rows
        made = self.resolve(Rows(self.names, batch, self.faults))
        count = np.asarray(made.column(COUNT))
        counted = np.asarray(made.column("kind")) == Kind.COUNTED
        self.telling += int((~counted).sum())
        self.counted += exact_sum(count[counted])
        self.others += exact_sum(count[~counted])
        return made

    def told(self, file: str, **facts: object) -> pa.RecordBatch:
        problems = [
            Problem(self.names.file, name, expected, fault.rows, tuple(fault.examples))
            for (name, expected), fault in self.faults.items()
        ]
        numbers = {"telling": self.telling, "counted": self.counted, "others": self.others}
        numbers["records"] = self.records
        return tell(self.resolve.schema, READ, problems, table=self.names.table, file=file, **numbers, **facts)


@dataclass(frozen=True, slots=True)
class _ReadParts:
    """The work of a task on some parts of a table."""

    names: Names
    resolve: Resolve

    def __call__(self, table: InputTable | TextLines, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for number in parts:
            found, part = _Found(self.names, self.resolve), table.parts[number]
            digests: dict[str, str] = {}
            for batch in table.read(part, digests):
                yield found.resolved(batch)
            yield found.told(table.files[part.file].path, digests=digests)


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """The work of a task on rows of a table of a catalog."""

    names: Names
    resolve: Resolve

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _Found(self.names, self.resolve)
        for batch in batches:
            yield found.resolved(batch)
        yield found.told(self.names.file, digests={})
