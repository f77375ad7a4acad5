"""What must hold between CEF lines: of a unit and its persons, of its block, of its state."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.errors import InputError
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
from das_spark.io.readers.base import MOST_EXAMPLES, Problem, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATE = 2


@dataclass(frozen=True, slots=True)
class Tally:
    """How many lines are alike in what can be wrong about them.

    Args:
        of_unit: Whether unit lines.
        code: None for faulty lines.
        odd: As :func:`~das_spark.io.readers._cef_units.count_lines` has it.
        lost: Whether the block is unknown.
        lines: How many.
    """

    of_unit: bool
    code: int | None
    odd: int
    lost: bool
    lines: int


@dataclass(frozen=True, slots=True)
class Census:
    """Opened files, and what was counted of them.

    Args:
        units: Unit records.
        persons: Person records; None where units alone are counted.
        geography: Blocks.
        counted: As :func:`~das_spark.io.readers._cef_units.count_lines` has it, with geocode (16 digits; null where the
            key of a block leads nowhere).
        tallies: The same by what can be wrong.
    """

    units: Lines
    persons: Lines | None
    geography: GeographicReference
    counted: DataFrame
    tallies: tuple[Tally, ...]

    @classmethod
    def of(cls, units: Lines, persons: Lines | None, geography: GeographicReference) -> Census:
        """Read the lines and count them.

        Args:
            units: Unit records.
            persons: Person records, if people are counted.
            geography: Blocks, checked.
        """
        counted = count_lines(units, persons).join(geography.blocks, KEY, "left").persist()
        lost = F.col(GEOCODE).isNull().alias("lost")
        tally = counted.groupBy("of_unit", "code", "odd", lost).agg(F.sum("count").alias("lines"))
        with released_if_refused(counted):
            return cls(units, persons, geography, counted, tuple(Tally(**row.asDict()) for row in tally.collect()))

    def line_problems(self) -> list[Problem]:
        """What is wrong in lines as such.

        Raises:
            InputError: There is no unit record.
        """
        faulty = {row.of_unit for row in self.tallies if row.code is None}
        found = self.units.problems() if True in faulty else []
        if self.persons is not None and False in faulty:
            found += self.persons.problems()
        if not any(row.of_unit for row in self.tallies):
            raise InputError(f"{self.units.file}: no unit record", hint="is it the whole file?")
        return found

    def relation_problems(self) -> list[Problem]:
        """What is wrong between lines; what one wrong line would cause in others is not told twice."""
        units, persons = self.units, self.persons
        twice = self._lines(lambda row: row.code == REPEATED)
        found = _problem(twice, units, "MAFID", "each unit once", _repeated)
        lost = self._lines(lambda row: row.of_unit and row.code is not None and row.lost)
        block = f"the {BLOCK_KEY} of a block of {self.geography.file}"
        found += _problem(lost, units, "OIDTB", block, self._lost)
        if found or persons is None:
            return found
        alone = self._lines(lambda row: row.code == ORPHAN)
        found = _problem(alone, persons, "MAFID", f"the unit of every person in {units.file}", self._orphans)
        found += self._without_facility()
        others = self._lines(lambda row: row.odd == OTHER_CLASS)
        found += _problem(others, persons, "QGQTYP", "the type of group quarters that the unit has", self._others)
        return found or self._states()

    def empty_facilities(self) -> list[Problem]:
        """Facilities in which no person line lives."""
        expected = "a person line for every facility of group quarters (RTYPE 4)"
        return _problem(self._lines(lambda row: row.odd == NOBODY), self.units, "MAFID", expected, self._empty)

    def in_cells(self, cells: Container[int], field: str, expected: str) -> list[Problem]:
        """Persons in some cells, without their row numbers.

        Args:
            cells: Flat indices.
            field: Of the person records, for the message.
            expected: What holds of everybody else.
        """
        number = self._lines(lambda row: row.code is not None and row.code < CELLS and row.code in cells)
        return [Problem(self.persons.file, field, expected, number)] if number and self.persons else []

    def _lines(self, condition: Callable[[Tally], bool]) -> int:
        return sum(row.lines for row in self.tallies if condition(row))

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


def _problem(number: int, lines: Lines, field: str, expected: str, find: Callable[[Lines], DataFrame]) -> list[Problem]:
    """A problem, if there is any such line, with the numbers of some."""
    return [Problem(lines.file, field, expected, number, row_numbers(lines.frame, find(lines)))] if number else []


def _repeated(units: Lines) -> DataFrame:
    return with_unit(units).withColumn("times", F.count("unit").over(Window.partitionBy("unit"))).where("times > 1")
