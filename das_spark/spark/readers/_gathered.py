"""Tables of the input, read once: resolved, brought together by geounit, and held to what tasks tell of them.

One job does all of it. Records are counted where they are read, and again when they have arrived behind every shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.input_fields import GEOCODE, LARGEST
from das_spark.spark.problems import Problem, reading, refuse
from das_spark.spark.readers._contributors import let_pass
from das_spark.spark.readers._passes import BY_GEOUNIT, BY_PERSON, BY_UNIT, ContributorPass, LeafPass, UnitPass
from das_spark.spark.readers._reading import READ, Reading
from das_spark.spark.readers._resolved import COUNT, Kind
from das_spark.spark.readers._told import TOLD, problems_in, told_in
from das_spark.spark.readers._units import UNITS, VACANT, made_units, zero_if_null
from das_spark.spark.readers.base import IngestedTables, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from das_spark.products import Product, Records

#: What a table of geounits without a row means.
NO_GEOUNIT: Final = "no geounit exists"
_Facts = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Gathering:
    """How tables become leaves.

    Attributes:
        tables: What is read; first what is counted.
        by_unit: Keys of those whose rows come together by unit before.
        summed: Table -> the field whose sum over all rows an int64 must hold.
        units: Brings records to their units; None where they say themselves where they are.
        records: What the product says of contributors.
        identity: How their identities are compared.
        leaves: Brings all together.
        nothing: What is said where no geounit exists.
    """

    tables: tuple[Reading, ...]
    by_unit: tuple[str, ...]
    summed: Mapping[str, str]
    units: UnitPass | None
    records: Records
    identity: str | None
    leaves: LeafPass
    nothing: str = f"the table has no rows, so {NO_GEOUNIT}"

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
        return IngestedTables(held.where(f"{TOLD} is null").drop(TOLD), passed, held, self._digests(facts))

    def _rows(self, spark: SparkSession) -> DataFrame:
        rows = {table.names.table: table.rows(spark) for table in self.tables}
        parts = list(rows.values())
        if self.units is not None:
            together = reduce(DataFrame.unionAll, [rows.pop(key) for key in self.by_unit])
            parts = [self.units.of(together), *rows.values()]
        whole = reduce(DataFrame.unionAll, parts)
        return ContributorPass(self.records.at_most).of(whole) if self.records.contributor else whole

    def _judged(self, facts: _Facts) -> tuple[Problem, ...]:
        """Refuse what is not as it must be, kind by kind: what comes later follows from what was wrong before."""
        kinds = (READ, BY_UNIT, BY_GEOUNIT, BY_PERSON)
        by_kind = {kind: [fact for fact in facts if fact["kind"] == kind] for kind in kinds}
        of_table = {
            table.names.table: [fact for fact in by_kind[READ] if fact["table"] == table.names.table]
            for table in self.tables
        }
        refuse([problem for table in self.tables for problem in self._of_rows(table, of_table[table.names.table])])
        for table in self.tables:
            geounits = sum(fact["records"] - fact["counted"] for fact in of_table[table.names.table])
            if not (geounits or Kind.COUNTED in table.resolve.kinds):
                raise InputError(f"{table.names.file}: {self.nothing}")
        refuse(problems_in(by_kind[BY_UNIT]))
        refuse(problems_in(by_kind[BY_GEOUNIT]))
        names = self.tables[0].names
        passed: tuple[Problem, ...] = ()
        if self.records.contributor:
            field = names.of(self.records.contributor)
            passed = let_pass(by_kind[BY_PERSON], self.records, self.identity, names.file, field)
        dropped = sum(fact["dropped"] for fact in by_kind[BY_PERSON])
        counted, others = (sum(fact[name] for fact in by_kind[READ]) for name in ("counted", "others"))
        arrived = tuple(sum(fact[name] for fact in by_kind[BY_GEOUNIT]) for name in ("counted", "others"))
        if arrived != (counted - dropped, others):
            raise InputError(
                f"{names.file}: not all that was read has arrived where it is counted, or more than that",
                hint="nothing of it is kept: run the same command again, and tell the authors of das_spark",
            )
        return passed

    def _of_rows(self, table: Reading, facts: _Facts) -> Iterator[Problem]:
        yield from problems_in(facts)
        field = self.summed.get(table.names.table)
        if field is not None and sum(fact["counted"] + fact["others"] for fact in facts) > LARGEST:
            expected = f"a sum over all rows up to {LARGEST:,}"
            yield Problem(table.names.file, table.names.of(field), expected, 1)

    def _digests(self, facts: _Facts) -> dict[str, str]:
        """Return the digests of all files as they were read; empty where there was nothing to read in one."""
        listed = {file.path: "" for table in self.tables if table.table is not None for file in table.table.files}
        for fact in facts:
            if fact["kind"] == READ:
                listed |= fact["digests"]
        return listed


def leaves_of(
    counts: DataFrame, geounits: DataFrame, product: Product, *, units_from_people: bool = False
) -> DataFrame:
    """Make one sparse histogram a leaf geounit (`tables.LEAVES`), an empty one where there are no people.

    Args:
        counts: Columns geocode, cell, count; a cell may occur more than once.
        geounits: Every leaf once: geocode, units by class, vacant units.
        product: What is counted, and the classes of units.
        units_from_people: Whether units are made of the people.
    """
    counted = counts.select(GEOCODE, _row(Kind.COUNTED, F.col("cell"), F.col(COUNT)).alias("row"))
    by_class = F.transform(F.col(UNITS), lambda number, level: _row(Kind.UNITS, level, number))
    exists = F.array(_row(Kind.GEOGRAPHY, F.lit(0), F.lit(1)), _row(Kind.VACANT, F.lit(0), zero_if_null(F.col(VACANT))))
    of_geounits = geounits.select(GEOCODE, F.explode(F.concat(exists, by_class)).alias("row"))
    rows = counted.unionAll(of_geounits).select(GEOCODE, "row.*", F.lit(None).cast("string").alias(TOLD))
    made = made_units(product) if units_from_people else None
    leaves = LeafPass(len(product.unit_classes), (Kind.GEOGRAPHY,), {}, {}, {}, frozenset(), True, made)
    return leaves.of(rows).where(f"{TOLD} is null").drop(TOLD)


def _row(kind: Kind, cell: Column, count: Column) -> Column:
    columns = {"kind": F.lit(int(kind)).cast("tinyint"), "cell": cell.cast("int"), COUNT: count.cast("long")}
    return F.struct(*(column.alias(name) for name, column in columns.items()))
