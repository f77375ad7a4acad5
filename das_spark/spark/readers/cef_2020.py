"""Reader of the census edited file (CEF) of 2020: person and unit records, and the geographic reference file (GRF-C).

Every block of the reference file exists, with units or without. A housing unit is vacant where VACS is not 0. A product
of housing units reads units and geography alone.

Lines are opened and checked field by field in one pass: a good line matches one regular expression, and keeps rules
across fields; only when there is another one, the file is read again, field by field. Persons and units are brought
together by one shuffle: a window over the unit (MAFID) gives persons their block and says what is odd about a line;
lines are then counted by block, cell and kind. A kind is the class of a unit or of a person, or one of three more:
vacant units, persons without a unit, repeated units.

Where the release drops records silently, this reader refuses: persons without a unit, units without a block. Besides,
what persons and units say of each other must agree: the type of group quarters, and their numbers state by state. A
facility without persons breaks the bounds that facilities put on persons; it is refused too, unless
``input.unit_conflicts`` takes the units from the people.

A product of units may read TENVAC, put together of tenure and vacancy; one of households, which are the occupied
housing units, reads fields of these alone, and ELDERLY and HHTYPE, put together of what a record tells of the people.
A record in which such a field has no code of a household is refused.

A product may read the derived field RELGQ: RELSHIP in households, the type of group quarters of all others, and 19 for
a householder without anybody else in the unit. For such a product RELSHIP must fit to where a person lives, and
FINAL_POP of a unit must be 1 where one person lives in it and there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import add, and_, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.cef import (
    ALONE,
    BLOCK_KEY,
    DELIMITER,
    DERIVED,
    ELDERLY,
    ENDINGS,
    FILES,
    HHTYPE,
    HOUSEHOLD_CODES,
    HOUSEHOLDER,
    LAST_RELATIONSHIP,
    PERSON,
    PERSON_CODES,
    RELGQ,
    TENVAC,
    UNIT,
    UNIT_CODES,
)
from das_spark.io.input_fields import GEOCODE, MOST_EXAMPLES
from das_spark.io.input_files import look_at_lines, named_in, require_path, required
from das_spark.io.record_text import Record
from das_spark.products import HOUSEHOLD_PLACE_VALUES
from das_spark.spark.balanced import balanced
from das_spark.spark.problems import (
    FAULTS,
    Problem,
    RowCheck,
    faults,
    reading,
    refuse,
    row_numbers,
    row_problems,
    some_geounits,
)
from das_spark.spark.readers._gathered import leaves_of
from das_spark.spark.readers._records import LINE, field_checks, is_right, lines_of, number, text
from das_spark.spark.readers._units import further_kinds, units_by_kind, zero_if_null
from das_spark.spark.readers.base import IngestedTables, Target, level_in_cell, level_of, released_if_refused
from das_spark.spark.readers.grfc import KEY, GeographicReference, block_key, look_at_geography, open_geography

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_IS_GOOD = "is_good"
_PARTS = ("*.txt", "*.txt.gz", "*.dat", "*.dat.gz", "*.cef", "*.cef.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""


@dataclass(frozen=True, slots=True)
class _RecordLines:
    """The lines of one kind of record."""

    file: str
    record: Record
    frame: DataFrame
    rules: tuple[RowCheck, ...]

    def problems(self) -> list[Problem]:
        """Describe the checks that failed; reads all lines again."""
        length = f"{_form(self.record)}, in every {self.record.name} line"
        checks = [*field_checks(self.file, self.record, length, F.lit(True)), *self.rules]
        with reading(self.file):
            return row_problems(self.frame.withColumn(FAULTS, faults(checks)), checks)


def _relgq(target: Target) -> bool:
    """Whether a product reads who is alone, and other relationships."""
    return any(each.name == RELGQ for each in target.recodes.attributes.values())


def _rules(record: Record, target: Target) -> list[tuple[str, str, Column]]:
    """Fields, what is expected of them together, and where a line is not so whose fields are right one by one."""
    quarters, home = ("4", "2") if record is UNIT else ("5", "3")
    in_quarters = F.trim(text(record, "QGQTYP")) != ""
    expected = f"{quarters} where there is a type of group quarters, {home} where it is blank"
    rules = [("RTYPE, QGQTYP", expected, (text(record, "RTYPE") == quarters) != in_quarters)]
    if record is UNIT:
        vacant = text(UNIT, "VACS") != "0"
        rules.append(("VACS", "0 in group quarters", in_quarters & vacant))
        rules.append(("VACS, FINAL_POP", "nobody in a vacant unit", vacant & (F.col("FINAL_POP") > 0)))
        rules += _rules_of_counted(target, ~in_quarters, vacant)
    elif _relgq(target):
        expected = f"{HOUSEHOLDER} to {LAST_RELATIONSHIP} in housing units and there alone"
        at_home = F.col("RELSHIP") <= LAST_RELATIONSHIP
        rules.append(("RTYPE, RELSHIP", expected, ~in_quarters != at_home))
    return rules


def _rules_of_counted(target: Target, housing: Column, vacant: Column) -> Iterator[tuple[str, str, Column]]:
    """That what is counted has a level of every attribute, where units or households are."""
    if not target.counts_units:
        return
    for coded in target.recodes.attributes.values():
        fields = DERIVED.get(coded.name, (coded.name,))
        level = level_of(coded, F.col(coded.name))
        known = F.coalesce(level.between(0, len(coded.levels) - 1), F.lit(False))
        if coded.name == TENVAC:
            expected = "tenure 1 to 4 of an occupied housing unit, and 0 of a vacant one"
            yield ", ".join(fields), expected, housing & ((text(UNIT, "TEN") == "0") != vacant)
        elif target.product.record == "household":
            expected = _EXPECTED.get(coded.name, f"one of {HOUSEHOLD_CODES[coded.name]}")
            yield ", ".join(fields), f"{expected} in an occupied housing unit", housing & ~vacant & ~known


_EXPECTED: Final = {HHTYPE: "what there can be together"}


def _look_at_records(file: str, record: Record) -> None:
    """See without Spark that files of records begin with one, fixed or delimited."""
    require_path(file)

    def is_record(line: str) -> bool:
        fields = line.split(DELIMITER)
        return len(fields) == len(record.fields) if len(fields) > 1 else len(line) == record.length

    look_at_lines(file, _PARTS, is_record, f"a {record.name} record: {_form(record)}")


def _form(record: Record) -> str:
    return f"{record.length} characters, or {len(record.fields)} fields delimited by {DELIMITER}"


def _open(spark: SparkSession, file: str, record: Record, target: Target) -> _RecordLines:
    require_path(file)
    rules = _rules(record, target)
    good = F.coalesce(is_right(record), F.lit(False))
    across = tuple(RowCheck(file, field, expected, good & fails) for field, expected, fails in rules)
    with reading(file):
        delimited = F.contains(LINE, F.lit(DELIMITER))
        fixed = F.when(delimited, _fixed(record)).otherwise(F.col(LINE))
        frame = lines_of(spark, file, _PARTS).withColumn(LINE, fixed)
        # Columns of their own: Spark would otherwise take a field out of its line again wherever a code is asked for.
        numbers = frame.select("*", *(number(record, each.name).alias(each.name) for each in record.fields))
        coded = numbers.select("*", *(code.alias(name) for name, code in _derived(record).items()))
        broken = balanced(or_, [fails for _, _, fails in rules])
        return _RecordLines(file, record, coded.withColumn(_IS_GOOD, good & ~broken), across)


def _fixed(record: Record) -> Column:
    """A delimited line in fixed width; null where it has another number of fields, or one is too long."""
    parts = rf"split({LINE}, '\\{DELIMITER}', -1)"
    fields = [(f"trim(get({parts}, {place}))", field.width) for place, field in enumerate(record.fields)]
    padded = ", ".join(
        f"CASE WHEN length({part}) <= {width} THEN lpad({part}, {width}, ' ') END" for part, width in fields
    )
    return F.expr(f"CASE WHEN size({parts}) = {len(fields)} THEN concat({padded}) END")


_NOBODY, _OTHER_CLASS, _OTHER_SIZE = 1, 2, 3
"""What is odd about a row: a facility without persons, a person of another class than her unit, a householder who is
alone by her unit and not by the persons, or the reverse."""


def _with_unit(lines: _RecordLines) -> DataFrame:
    """The good lines, with the number of their unit."""
    return lines.frame.where(_IS_GOOD).withColumn("unit", F.col("MAFID"))


def _unit_block() -> Column:
    """Key of the block of a unit line."""
    return block_key(text(UNIT, "OIDTB"))


def _count_lines(units: _RecordLines, persons: _RecordLines | None, target: Target) -> DataFrame:
    """Count lines by block, cell and kind; a faulty line has none of these."""
    relgq = persons is not None and _relgq(target)
    rows = _unit_rows(units, target)
    if persons is not None:
        rows = rows.unionByName(_person_rows(persons, target), allowMissingColumns=True)
    home = Window.partitionBy("unit")
    joined = rows.select(
        F.max(KEY).over(home).alias(KEY),
        F.max("home").over(home).alias("home_of_unit"),
        F.count("home").over(home).alias("units"),
        F.count("level").over(home).alias("persons"),
        *((F.max("population").over(home).alias("said"), "alone_cell") if relgq else ()),
        "of_unit", _IS_GOOD, "home", "vacant", "population", "level", "cell",
    )  # fmt: skip
    is_unit, good = F.col("of_unit"), F.col(_IS_GOOD)
    vacant, orphan, repeated = further_kinds(target)
    unit = F.when(F.col("units") > 1, repeated).when(F.col("vacant"), vacant).otherwise(F.col("home"))
    kind = F.when(is_unit, unit).when(F.col("units") == 0, orphan).otherwise(F.col("level"))
    nobody = is_unit & (F.col("home") > 0) & (F.col("persons") == 0) & F.lit(persons is not None)
    odd = F.when(nobody, _NOBODY).when(F.col("home_of_unit") != F.col("level"), _OTHER_CLASS)
    cell = F.col("cell")
    if relgq:
        alone = F.col("persons") == 1
        cell = F.when(alone, F.col("alone_cell")).otherwise(cell)
        odd = odd.when((F.col("level") == 0) & (alone != (F.col("said") == 1)), _OTHER_SIZE)
    counted = {"kind": F.when(good, kind).cast("int"), "odd": odd.otherwise(0), "cell": cell}
    grouped = joined.groupBy(KEY, *(each.alias(name) for name, each in counted.items()), "of_unit", _IS_GOOD)
    return grouped.agg(F.count(F.lit(1)).alias("count"), zero_if_null(F.sum("population")).alias("population"))


def _unit_class(target: Target) -> Column:
    """Class of unit (int) by the field of a record."""
    return level_of(target.unit_class, F.col(target.unit_class.name))


def _unit_rows(units: _RecordLines, target: Target) -> DataFrame:
    good, home = F.col(_IS_GOOD), _unit_class(target)
    vacant = text(UNIT, "VACS") != "0"
    # Units of the first class are those that are counted where units are, and occupied ones where households are.
    is_counted = home == 0
    if target.product.record == "household":
        is_counted &= ~vacant
    cell = F.when(good & is_counted, target.cell(F.col)) if target.counts_units else F.lit(None).cast("int")
    return units.frame.select(
        F.lit(True).alias("of_unit"),
        _IS_GOOD,
        _unit_number(),
        F.when(good, _unit_block()).alias(KEY),
        F.when(good, home).alias("home"),
        vacant.alias("vacant"),
        F.when(good, F.col("FINAL_POP")).otherwise(0).alias("population"),
        F.lit(None).cast("int").alias("level"),
        cell.alias("cell"),
    )


def _person_rows(persons: _RecordLines, target: Target) -> DataFrame:
    good = F.col(_IS_GOOD)
    return persons.frame.select(
        F.lit(False).alias("of_unit"),
        _IS_GOOD,
        _unit_number(),
        F.when(good, _unit_class(target)).alias("level"),
        F.when(good, target.cell(F.col)).alias("cell"),
        *((F.when(good, target.cell(_alone)).alias("alone_cell"),) if _relgq(target) else ()),
    )


def _alone(field: str) -> Column:
    """Code of a field of a person who lives alone."""
    return F.col(_RELGQ_ALONE if field == RELGQ else field)


_RELGQ_ALONE: Final = "RELGQ_ALONE"
"""Column of the code of RELGQ that a person has if nobody else lives in the unit."""


def _derived(record: Record) -> dict[str, Column]:
    """Codes (long) that are put together of fields of a record, by name."""
    if record is PERSON:
        relationship, quarters = F.col("RELSHIP"), F.col("QGQTYP")
        alone = F.when(relationship == HOUSEHOLDER, ALONE).otherwise(relationship)
        return {RELGQ: F.coalesce(quarters, relationship), _RELGQ_ALONE: F.coalesce(quarters, alone)}
    oldest = F.when(_some("P75") > 0, 3).when(_some("P65") > 0, 2).otherwise(_some("P60"))
    vacant = F.col("VACS")
    return {
        TENVAC: F.when(vacant > 0, vacant + _TENURES).otherwise(F.col("TEN")),
        ELDERLY: oldest,
        HHTYPE: _household_type(),
    }


def _household_type() -> Column:
    """Code of HHTYPE (long): couple, ages of own and other children, children, family, generations and size."""

    def ages(name: str) -> Column:
        return F.when(F.col(name).between(1, _LAST_AGES), F.col(name)).otherwise(0)

    couple, size = F.col("CPLT"), F.col("FINAL_POP")
    fields = (
        F.when(couple.between(1, _COUPLES), couple - 1).otherwise(_COUPLES),
        ages("PAOC"),
        ages("PAC"),
        _some("P18"),
        F.col("HHT").between(1, _LAST_FAMILY).cast("long"),
        (F.col("MULTG") == _GENERATIONS).cast("long"),
        F.when(size > 0, F.least(size, F.lit(_LARGEST))),
    )
    return balanced(add, [each * value for each, value in zip(fields, HOUSEHOLD_PLACE_VALUES, strict=True)])


def _some(name: str) -> Column:
    return (F.col(name) > 0).cast("long")


_TENURES, _COUPLES, _LAST_AGES, _LAST_FAMILY, _GENERATIONS, _LARGEST = 4, 4, 3, 3, 2, 7
"""Codes of unit records: the last of TEN, of CPLT of couples, of PAOC and PAC of children, and of HHT of families; that
of MULTG for three generations; and the size from which on households are of one."""


def _unit_number() -> Column:
    # Faulty lines get keys of their own, so that a file of rubbish does not gather in one partition.
    own = -1 - F.col("row_id")
    return F.when(F.col(_IS_GOOD), F.col("MAFID")).otherwise(own).alias("unit")


_STATE = 2


@dataclass(frozen=True, slots=True)
class _Tally:
    """How many lines have the same in what can be wrong about them."""

    of_unit: bool
    good: bool
    kind: int | None
    odd: int
    lost: bool
    lines: int


@dataclass(frozen=True, slots=True)
class _Census:
    """Opened files, and what was counted of them."""

    units: _RecordLines
    persons: _RecordLines | None
    geography: GeographicReference
    counted: DataFrame
    tallies: tuple[_Tally, ...]
    target: Target

    @classmethod
    def of(
        cls, units: _RecordLines, persons: _RecordLines | None, geography: GeographicReference, target: Target
    ) -> _Census:
        """Read the lines and count them."""
        counted = _count_lines(units, persons, target).join(geography.blocks, KEY, "left").persist()
        lost = F.col(GEOCODE).isNull().alias("lost")
        tally = counted.groupBy("of_unit", F.col(_IS_GOOD).alias("good"), "kind", "odd", lost)
        with released_if_refused(counted):
            rows = tally.agg(F.sum("count").alias("lines")).collect()
            return cls(units, persons, geography, counted, tuple(_Tally(**row.asDict()) for row in rows), target)

    def line_problems(self) -> list[Problem]:
        """What is wrong in lines as such; an error where there is no unit record."""
        faulty = {row.of_unit for row in self.tallies if not row.good}
        found = self.units.problems() if True in faulty else []
        if self.persons is not None and False in faulty:
            found += self.persons.problems()
        if not any(row.of_unit for row in self.tallies):
            raise InputError(f"{self.units.file}: no unit record", hint="is it the whole file?")
        return found

    def relation_problems(self) -> list[Problem]:
        """What is wrong between lines; what one wrong line would cause in others is not reported twice."""
        units, persons = self.units, self.persons
        _, orphan, repeated = further_kinds(self.target)
        twice = self._lines(lambda row: row.kind == repeated)
        found = _problem(twice, units, "MAFID", "each unit once", _repeated)
        lost = self._lines(lambda row: row.of_unit and row.good and row.lost)
        block = f"the {BLOCK_KEY} of a block of {self.geography.file}"
        found += _problem(lost, units, "OIDTB", block, self._lost)
        if found or persons is None:
            return found
        alone = self._lines(lambda row: row.kind == orphan)
        found = _problem(alone, persons, "MAFID", f"the unit of every person in {units.file}", self._orphans)
        found += self._without_facility()
        others = self._lines(lambda row: row.odd == _OTHER_CLASS)
        found += _problem(others, persons, "QGQTYP", "the type of group quarters that the unit has", self._others)
        sizes = self._lines(lambda row: row.odd == _OTHER_SIZE)
        expected = f"a FINAL_POP of 1 in {units.file} where nobody else lives in the unit, and there alone"
        found += _problem(sizes, persons, "MAFID", expected, self._other_sizes)
        return found or self._states()

    def empty_facilities(self) -> list[Problem]:
        """Facilities in which no person line lives."""
        expected = "a person line for every facility of group quarters (RTYPE 4)"
        return _problem(self._lines(lambda row: row.odd == _NOBODY), self.units, "MAFID", expected, self._empty)

    def impossible(self, lines: _RecordLines) -> list[Problem]:
        """What is counted in cells that are structural zeros, without row numbers."""
        schema, zeros = self.target.product.schema, self.target.product.structural_zeros
        if not zeros:
            return []
        # All in one job. Only what is counted has a cell.
        chosen = [[level_in_cell(schema, name).isin(*levels) for name, levels in zero.selection] for zero in zeros]
        sums = [F.sum(F.when(balanced(and_, each), F.col("count"))) for each in chosen]
        numbers = self.counted.where("cell is not null").agg(*sums).collect()[0]
        found = []
        for zero, excluded in zip(zeros, numbers, strict=True):
            if excluded:
                fields = sorted({self.target.recodes.attributes[name].name for name, _ in zero.selection})
                found.append(Problem(lines.file, ", ".join(fields), zero.meaning, excluded))
        return found

    def _lines(self, condition: Callable[[_Tally], bool]) -> int:
        return sum(row.lines for row in self.tallies if condition(row))

    def _lost(self, units: _RecordLines) -> DataFrame:
        return _with_unit(units).withColumn(KEY, _unit_block()).join(self.geography.blocks, KEY, "left_anti")

    def _orphans(self, persons: _RecordLines) -> DataFrame:
        return _with_unit(persons).join(_with_unit(self.units).select("unit"), "unit", "left_anti")

    def _others(self, persons: _RecordLines) -> DataFrame:
        homes = _with_unit(self.units).select("unit", _unit_class(self.target).alias("home"))
        level = _unit_class(self.target)
        return _with_unit(persons).withColumn("level", level).join(homes, "unit").where("home <> level")

    def _other_sizes(self, persons: _RecordLines) -> DataFrame:
        said = _with_unit(self.units).select("unit", F.col("FINAL_POP").alias("said"))
        found = F.count("unit").over(Window.partitionBy("unit")).alias("found")
        living = _with_unit(persons).where(_unit_class(self.target) == 0).select("*", found)
        return living.join(said, "unit").where("(said = 1) <> (found = 1)")

    def _empty(self, units: _RecordLines) -> DataFrame:
        facilities = _with_unit(units).where(_unit_class(self.target) > 0)
        inhabited = _with_unit(self.persons or units).select("unit")
        return facilities.join(inhabited, "unit", "left_anti")

    def _without_facility(self) -> list[Problem]:
        """Classes of group quarters in which people live where no facility stands."""
        vacant, *_ = further_kinds(self.target)
        known = self.counted.where((F.col("kind") < vacant) & F.col(GEOCODE).isNotNull())
        units = F.sum(F.when(F.col("of_unit"), F.col("count")).otherwise(0))
        alone = known.groupBy(GEOCODE, "kind").agg(units.alias("units")).where("kind > 0 AND units = 0")
        number = alone.count()
        expected = "a facility of the type in every block where people live in one"
        return [Problem(self.units.file, "QGQTYP", expected, number, geounits=some_geounits(alone))] if number else []

    def _states(self) -> list[Problem]:
        """States whose units say that they hold another number of people than there are."""
        persons = F.sum(F.when(~F.col("of_unit"), F.col("count")).otherwise(0))
        totals = self.counted.groupBy(F.substring(GEOCODE, 1, _STATE).alias("state")).agg(
            F.sum("population").alias("said"), persons.alias("found")
        )
        wrong = tuple(sorted(row[0] for row in totals.where("said <> found").select("state").collect()))
        if not wrong:
            return []
        expected = "a sum over the units of each state that is its number of person lines"
        return [Problem(self.units.file, "FINAL_POP", expected, len(wrong), geounits=wrong[:MOST_EXAMPLES])]


def _problem(
    number: int, lines: _RecordLines, field: str, expected: str, find: Callable[[_RecordLines], DataFrame]
) -> list[Problem]:
    """A problem, if there is any such line, with the numbers of some."""
    return [Problem(lines.file, field, expected, number, row_numbers(lines.frame, find(lines)))] if number else []


def _repeated(units: _RecordLines) -> DataFrame:
    return _with_unit(units).withColumn("times", F.count("unit").over(Window.partitionBy("unit"))).where("times > 1")


@dataclass(frozen=True, slots=True)
class Cef2020:
    """Reads persons, units and blocks, each a file or a folder of parts, plain or gzipped."""

    name: str = "cef_2020"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        persons, units, geography = self._paths(settings, Target.of(self.name, product, spine))
        if persons:
            _look_at_records(persons, PERSON)
        _look_at_records(units, UNIT)
        look_at_geography(geography)

    def _paths(self, settings: InputSettings, target: Target) -> tuple[str, str, str]:
        """Paths of persons (empty where units are counted), units and geography."""
        counted = UNIT if target.counts_units else PERSON
        codes = {"person": PERSON_CODES, "unit": UNIT_CODES, "household": HOUSEHOLD_CODES}[target.product.record]
        target.require_codes(self.name, codes, target.recodes.attributes.values())
        for record in {UNIT.name: UNIT, counted.name: counted}.values():
            target.require_codes(self.name, record.codes, [target.unit_class])
        target.require_geocodes(self.name)
        return _locate(settings, self.name, of_units=target.counts_units)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the files; see :class:`~das_spark.spark.readers.base.Reader`.

        Facilities without persons, where they are let pass, and persons where a structural zero allows none are among
        the problems of the tables.
        """
        target = Target.of(self.name, product, spine)
        persons, units, geography = self._paths(settings, target)
        reference = open_geography(spark, geography)
        of_geography = reference.problems()
        with reading(" or ".join(file for file in (persons, units) if file)):
            of_persons = _open(spark, persons, PERSON, target) if persons else None
            census = _Census.of(_open(spark, units, UNIT, target), of_persons, reference, target)
            with released_if_refused(census.counted):
                refuse([*of_geography, *census.line_problems()])
                passed = _relations(census, settings)
        counted = census.counted.where(F.col("cell").isNotNull())
        counts = counted.select(target.geocode(), "cell", "count")
        return IngestedTables(leaves_of(counts, _geounits(census), product), passed, held=census.counted)


def _locate(settings: InputSettings, reader: str, *, of_units: bool) -> tuple[str, str, str]:
    found = {name: getattr(settings, name) for name in FILES}
    if settings.path:
        require_path(settings.path)
        found = {name: path or named_in(settings.path, name, ENDINGS) for name, path in found.items()}
    wanted = FILES[1:] if of_units else FILES
    paths = {name: required(found[name], f"input.{name}", reader) for name in wanted}
    return paths.get(FILES[0], ""), paths[FILES[1]], paths[FILES[2]]


def _relations(census: _Census, settings: InputSettings) -> tuple[Problem, ...]:
    """Refuse what contradicts itself; what is left are things to know."""
    refuse(census.relation_problems())
    empty = census.empty_facilities()
    if settings.unit_conflicts == "fail":
        refuse(empty, hint='correct the files, or set input.unit_conflicts = "from_people"')
    return (*empty, *census.impossible(census.persons or census.units))


def _geounits(census: _Census) -> DataFrame:
    vacant, *_ = further_kinds(census.target)
    nothing = census.geography.blocks.select(GEOCODE, F.lit(None).cast("int").alias("kind"), F.lit(0).alias("count"))
    units = census.counted.where(F.col("of_unit") & (F.col("kind") <= vacant)).select(GEOCODE, "kind", "count")
    return units_by_kind(nothing.unionByName(units), census.target)
