"""What must hold between CEF lines: of a unit and its persons, of its block, of its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.io.cef_layout import BLOCK_KEY, PERSON, UNIT
from das_spark.io.readers._cef_lines import Lines, quarters_class
from das_spark.io.readers._cef_units import (
    CELLS,
    NOBODY,
    ORPHAN,
    OTHER_CLASS,
    PEOPLE,
    REPEATED,
    VACANT,
    count_lines,
    unit_block,
    with_unit,
)
from das_spark.io.readers._grfc import GEOCODE, KEY, GeographicReference
from das_spark.io.readers._rows import row_numbers
from das_spark.io.readers.base import MOST_EXAMPLES, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STATE = 2


@dataclass(frozen=True, slots=True)
class Census:
    """Opened files, and what was counted of them.

    Args:
        units: Unit records.
        persons: Person records; None where units alone are counted.
        geography: Blocks.
        counted: As :func:`~das_spark.io.readers._cef_units.count_lines` has it, with geocode (16 digits; null where the
            key of a block leads nowhere).
    """

    units: Lines
    persons: Lines | None
    geography: GeographicReference
    counted: DataFrame

    @classmethod
    def of(cls, units: Lines, persons: Lines | None, geography: GeographicReference) -> Census:
        """Count the lines; nothing is read yet."""
        placed = count_lines(units, persons).join(geography.blocks, KEY, "left")
        return cls(units, persons, geography, placed.persist())

    def line_problems(self) -> list[Problem]:
        """What is wrong in lines as such."""
        rows = self.counted.groupBy("unit_faults", "person_faults").agg(F.sum("count").alias("lines")).collect()
        found = self.units.problems({row["unit_faults"]: row["lines"] for row in rows})
        if self.persons is not None:
            found += self.persons.problems({row["person_faults"]: row["lines"] for row in rows})
        return found

    def has_units(self) -> bool:
        """Whether there is a unit at all."""
        return not self.counted.where(_is_unit()).isEmpty()

    def relation_problems(self) -> list[Problem]:
        """What is wrong between lines; what one wrong line would cause in others is not told twice."""
        units, persons = self.units, self.persons
        found = self._marked(F.col("code") == REPEATED, units, "MAFID", "each unit once", _repeated)
        lost = _is_unit() & F.col(GEOCODE).isNull()
        found += self._marked(lost, units, "OIDTB", f"the {BLOCK_KEY} of a block of {self.geography.file}", self._lost)
        if found or persons is None:
            return found
        home = f"the unit of every person in {units.file}"
        found = self._marked(F.col("code") == ORPHAN, persons, "MAFID", home, self._orphans)
        found += self._without_facility()
        kind = "the type of group quarters that the unit has"
        found += self._marked(F.col("odd") == OTHER_CLASS, persons, "QGQTYP", kind, self._others)
        return found or self._states()

    def empty_facilities(self) -> list[Problem]:
        """Facilities in which no person line lives."""
        expected = "a person line for every facility of group quarters (RTYPE 4)"
        return self._marked(F.col("odd") == NOBODY, self.units, "MAFID", expected, self._empty)

    def in_cells(self, cells: list[int], field: str, expected: str) -> list[Problem]:
        """Persons in some cells, without their row numbers.

        Args:
            cells: Flat indices.
            field: Of the person records, for the message.
            expected: What holds of everybody else.
        """
        if self.persons is None or not cells:
            return []
        number = self.counted.where(F.col("code").isin(cells)).agg(F.sum("count")).collect()[0][0]
        return [Problem(self.persons.file, field, expected, number)] if number else []

    def _marked(
        self, condition: Column, lines: Lines, field: str, expected: str, find: Callable[[Lines], DataFrame]
    ) -> list[Problem]:
        number = self.counted.where(condition).agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        return [Problem(lines.file, field, expected, number, row_numbers(lines.frame, find(lines)))]

    def _lost(self, units: Lines) -> DataFrame:
        return with_unit(units).withColumn(KEY, unit_block()).join(self.geography.blocks, KEY, "left_anti")

    def _orphans(self, persons: Lines) -> DataFrame:
        return with_unit(persons).join(with_unit(self.units).select("unit"), "unit", "left_anti")

    def _others(self, persons: Lines) -> DataFrame:
        homes = with_unit(self.units).select("unit", quarters_class(UNIT).alias("home"))
        return with_unit(persons).withColumn("level", quarters_class(PERSON)).join(homes, "unit").where("home <> level")

    def _empty(self, units: Lines) -> DataFrame:
        facilities = with_unit(units).where(quarters_class(UNIT) > 0)
        inhabited = with_unit(self.persons or units).select("unit")
        return facilities.join(inhabited, "unit", "left_anti")

    def _without_facility(self) -> list[Problem]:
        """Classes of group quarters in which people live where no facility stands."""
        code = F.col("code")
        level = F.when(code < CELLS, F.floor(code / PEOPLE)).otherwise(code - CELLS)
        known = self.counted.where((code < VACANT) & F.col(GEOCODE).isNotNull())
        units = F.sum(F.when(code >= CELLS, F.col("count")).otherwise(0))
        alone = known.groupBy(GEOCODE, level.alias("level")).agg(units.alias("units")).where("level > 0 AND units = 0")
        number = alone.count()
        if not number:
            return []
        some = [row[0] for row in alone.select(GEOCODE).distinct().orderBy(GEOCODE).limit(MOST_EXAMPLES).collect()]
        expected = "a facility of the type in every block where people live in one"
        return [Problem(self.units.file, "QGQTYP", expected, number, geounits=tuple(some))]

    def _states(self) -> list[Problem]:
        """States whose units say that they hold another number of people than there are."""
        persons = F.sum(F.when(F.col("code") < CELLS, F.col("count")).otherwise(0))
        totals = self.counted.groupBy(F.substring(GEOCODE, 1, _STATE).alias("state")).agg(
            F.sum("population").alias("said"), persons.alias("found")
        )
        wrong = tuple(sorted(row[0] for row in totals.where("said <> found").select("state").collect()))
        if not wrong:
            return []
        expected = "a sum over the units of each state that is its number of person lines"
        return [Problem(self.units.file, "FINAL_POP", expected, len(wrong), geounits=wrong[:MOST_EXAMPLES])]


def _is_unit() -> Column:
    return F.col("code").between(CELLS, VACANT)


def _repeated(units: Lines) -> DataFrame:
    return with_unit(units).withColumn("times", F.count("unit").over(Window.partitionBy("unit"))).where("times > 1")
