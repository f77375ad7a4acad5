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
from das_spark.spark.readers._resolved import COUNT, Kind, RecordRows
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
        counted: The table of what is counted.
        others: Tables of units, and of geounits.
        summed: Table -> the field whose sum over all rows an int64 must hold.
        units: Brings records to their units; None where they say themselves where they are.
        records: What the product says of contributors.
        identity: How their identities are compared.
        leaves: Brings all together.
    """

    counted: Reading
    others: tuple[Reading, ...]
    summed: Mapping[str, str]
    units: UnitPass | None
    records: Records
    identity: str | None
    leaves: LeafPass

    def read(self, spark: SparkSession) -> IngestedTables:
        """Read all tables by one job.

        Raises:
            BadInputError: Rows are not as they must be; all such problems of a kind together.
            InputError: A table cannot be read or is another one by now, or has no rows.
        """
        files = " or ".join(table.names.file for table in self._readings)
        with reading(files):
            held = self.leaves.of(self._rows(spark)).persist()
            with released_if_refused(held):
                facts = told_in(held)
                passed = self._judged(facts)
        return IngestedTables(held.where(f"{TOLD} is null").drop(TOLD), passed, held, self._digests(facts))

    @property
    def _readings(self) -> tuple[Reading, ...]:
        return (self.counted, *self.others)

    def _rows(self, spark: SparkSession) -> DataFrame:
        counted, others = self.counted.rows(spark), [table.rows(spark) for table in self.others]
        if self.units is not None:
            # Records of units are the first of the other tables.
            homes, *others = others
            if isinstance(self.counted.resolve, RecordRows) and self.counted.resolve.of_unit:
                counted = self.units.of(counted.unionAll(homes))
            else:
                counted = counted.unionAll(self.units.of(homes))
        if self.records.contributor:
            counted = ContributorPass(self.records.at_most).of(counted)
        return reduce(DataFrame.unionAll, others, counted)

    def _judged(self, facts: _Facts) -> tuple[Problem, ...]:
        """Refuse what is not as it must be, kind by kind: what comes later follows from what was wrong before."""
        by_kind = {kind: [fact for fact in facts if fact["kind"] == kind] for kind in (BY_UNIT, BY_GEOUNIT, BY_PERSON)}
        read = {
            table.names.table: [fact for fact in facts if fact["kind"] == READ and fact["table"] == table.names.table]
            for table in self._readings
        }
        refuse([problem for table in self._readings for problem in self._of_rows(table, read[table.names.table])])
        for table in self.others:
            if not sum(fact["records"] for fact in read[table.names.table]):
                raise InputError(f"{table.names.file}: the table has no rows, so {NO_GEOUNIT}")
        refuse(problems_in(by_kind[BY_UNIT]))
        refuse(problems_in(by_kind[BY_GEOUNIT]))
        names = self.counted.names
        passed: tuple[Problem, ...] = ()
        if self.records.contributor:
            field = names.of(self.records.contributor)
            passed = let_pass(by_kind[BY_PERSON], self.records, self.identity, names.file, field)
        self._require_arrived(read, by_kind)
        return passed

    def _of_rows(self, table: Reading, facts: _Facts) -> Iterator[Problem]:
        yield from problems_in(facts)
        field = self.summed.get(table.names.table)
        if field is not None and sum(fact["total"] for fact in facts) > LARGEST:
            expected = f"a sum over all rows up to {LARGEST:,}"
            yield Problem(table.names.file, table.names.of(field), expected, 1)

    def _require_arrived(self, read: Mapping[str, _Facts], by_kind: Mapping[str, _Facts]) -> None:
        """Refuse to go on where records that were read have not arrived, or more than these."""
        dropped = sum(fact["dropped"] for fact in by_kind[BY_PERSON])
        totals = {table: sum(fact["total"] for fact in facts) for table, facts in read.items()}
        counted = totals.pop(self.counted.names.table) - dropped
        arrived = [sum(fact[name] for fact in by_kind[BY_GEOUNIT]) for name in ("counted", "others")]
        if arrived != [counted, sum(totals.values())]:
            raise InputError(
                f"{self.counted.names.file}: not all that was read has arrived where it is counted, or more than that",
                hint="nothing of it is kept: run the same command again, and tell the authors of das_spark",
            )

    def _digests(self, facts: _Facts) -> dict[str, str]:
        """Return the digests of all files as they were read; empty where there was nothing to read in one."""
        listed = {file.path: "" for table in self._readings if table.table is not None for file in table.table.files}
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
