"""Tables of the input, read once: resolved, brought together by geounit, and held to what tasks tell of them.

One job does all of it. Records are counted where they are read, and again when they have arrived behind every shuffle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from das_spark.errors import InputError
from das_spark.io.input_fields import LARGEST
from das_spark.io.input_tables import InputTable
from das_spark.io.table_folder import copied
from das_spark.spark.problems import Problem, reading, refuse
from das_spark.spark.readers._contributors import let_pass
from das_spark.spark.readers._passes import BY_GEOUNIT, BY_PERSON, BY_SUM, ContributorPass, LeafPass
from das_spark.spark.readers._reading import READ, Reading
from das_spark.spark.readers._resolved import Kind
from das_spark.spark.readers._told import CHANGED, TOLD, facts_of, problems_in, told_in
from das_spark.spark.readers.base import IngestedTables, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.products import Records
    from das_spark.spark.readers._passes import Pass
    from das_spark.spark.readers._told import Facts


@dataclass(frozen=True, slots=True)
class Join:
    """Tables that are brought together, with what was before.

    Attributes:
        tables: Their keys.
        rows: How.
    """

    tables: tuple[str, ...]
    rows: Pass


@dataclass(frozen=True, slots=True)
class Gathering:
    """How tables become leaves.

    Attributes:
        tables: What is read; first what is counted.
        summed: Table -> the field whose sum over all rows an int64 must hold.
        joins: Bring tables together, one after the other, before all come together by geounit.
        records: What the product says of contributors.
        identity: How their identities are compared.
        leaves: Brings all together.
    """

    tables: tuple[Reading, ...]
    summed: Mapping[str, str]
    joins: tuple[Join, ...]
    records: Records
    identity: str | None
    leaves: LeafPass

    def read(self, spark: SparkSession) -> IngestedTables:
        """Read all tables by one job.

        Raises:
            BadInputError: Rows are not as they must be; all such problems of a kind together.
            InputError: A table cannot be read or is another one by now, or has no rows.
        """
        with reading(" or ".join(table.names.file for table in self.tables)):
            held = self.leaves.of(self._rows(spark)).persist()
            with released_if_refused(held):
                facts = told_in(held)
                passed = self._judged(facts)
        digests, records = self._digests(facts), _records(facts)
        return IngestedTables(held.where(f"{TOLD} is null").drop(TOLD), passed, held, digests, records)

    def _rows(self, spark: SparkSession) -> DataFrame:
        rows = {table.names.table: table.rows(spark) for table in self.tables}
        before: list[DataFrame] = []
        for join in self.joins:
            before = [join.rows.of(_union([*(rows.pop(key) for key in join.tables), *before]))]
        whole = _union([*before, *rows.values()])
        return ContributorPass(self.records.at_most).of(whole) if self.records.contributor else whole

    def _judged(self, facts: Facts) -> tuple[Problem, ...]:
        """Refuse what is not as it must be, kind by kind: what comes later follows from what was wrong before."""
        read, by_person, by_geounit = (facts_of(kind, facts) for kind in (READ, BY_PERSON, BY_GEOUNIT))
        of_table = {
            table.names.table: [fact for fact in read if fact["table"] == table.names.table] for table in self.tables
        }
        refuse([problem for table in self.tables for problem in self._of_rows(table, of_table[table.names.table])])
        self._refuse_copies(facts)
        for table in self.tables:
            telling = sum(fact["telling"] for fact in of_table[table.names.table])
            if not (telling or Kind.COUNTED in table.resolve.kinds):
                raise InputError(f"{table.names.file}: {table.resolve.nothing}")
        passed = [problem for join in self.joins for problem in join.rows.judged(facts)]
        refuse(problems_in(by_geounit))
        names = self.tables[0].names
        if self.records.contributor:
            field = names.of(self.records.contributor)
            passed += let_pass(by_person, self.records, self.identity, names.file, field)
        passed += problems_in(facts_of(BY_SUM, facts))
        if _numbers(by_geounit) != _numbers([*read, *facts_of(CHANGED, facts)]):
            raise InputError(
                f"{names.file}: not all that was read has arrived where it is counted, or more than that",
                hint="nothing of it is kept: run the same command again, and tell the authors of das_spark",
            )
        return tuple(passed)

    def _of_rows(self, table: Reading, facts: Facts) -> Iterator[Problem]:
        yield from problems_in(facts)
        field = self.summed.get(table.names.table)
        if field is not None and sum(fact["counted"] + fact["others"] for fact in facts) > LARGEST:
            expected = f"a sum over all rows up to {LARGEST:,}"
            yield Problem(table.names.file, table.names.of(field), expected, 1)

    def _refuse_copies(self, facts: Facts) -> None:
        """Refuse a file that is a copy of another one of its table, but for columns that nobody reads."""
        digests, records = self._digests(facts), _records(facts)
        for table in self.tables:
            if table.table is None or not isinstance(used := table.used, InputTable):
                continue
            first: dict[tuple[object, ...], str] = {}
            columns = [name for name in used.partitions[0] if name in used.kinds]
            for file, partition in zip(used.files, used.partitions, strict=True):
                other = first.setdefault((digests[file.path], *map(partition.get, columns)), file.path)
                if other != file.path and records.get(file.path):
                    raise copied(file.path, other)

    def _digests(self, facts: Facts) -> dict[str, str]:
        """Return the digests of all files as they were read; empty where there was nothing to read in one."""
        listed = {file.path: "" for table in self.tables if table.table is not None for file in table.table.files}
        for fact in facts:
            if fact["kind"] == READ:
                listed |= fact["digests"]
        return listed


def _records(facts: Facts) -> dict[str, int]:
    """How many records were read, by file; one that is read as two tables has as many for each."""
    records = Counter[tuple[str, str]]()
    for fact in facts:
        if fact["kind"] == READ:
            records[fact["table"], fact["file"]] += fact["records"]
    return {file: number for (_, file), number in records.items()}


def _numbers(facts: Facts) -> tuple[int, int]:
    """How much is counted, and how much else there is."""
    return sum(fact["counted"] for fact in facts), sum(fact["others"] for fact in facts)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)
