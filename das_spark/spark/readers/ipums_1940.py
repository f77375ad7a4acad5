"""Reader of the IPUMS extract of the 1940 census, EXT1940USCB.dat: household and person lines of fixed width.

One scan and one shuffle: every line becomes a row of its household; a window over the household's serial number gives
persons their district and what household fields tell of their cell; rows are then counted by district, cell and kind.
A kind is the class of a unit, or one of three more: vacant units, persons without a household, repeated households.
A unit is vacant where its GQ is 0 and it is a housing unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.input_files import any_of, is_folder, look_at_lines, require_path, required
from das_spark.io.ipums_1940 import (
    GEOCODE_FIELDS,
    HOUSEHOLD_FIELDS,
    HOUSEHOLD_LENGTH,
    PERSON_FIELDS,
    PERSON_LENGTH,
    SERIAL,
)
from das_spark.io.record_text import Field
from das_spark.products import code_ranges
from das_spark.spark.readers._rows import FAULTS, RowCheck, faults, one_of, problems_of, row_numbers, with_place
from das_spark.spark.readers.base import (
    IngestedTables,
    Problem,
    Target,
    level_of,
    reading,
    refuse,
    released_if_refused,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_PARTS = ("*.dat", "*.dat.gz", "*.txt", "*.txt.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""

_GEOCODE_LENGTH = 10
_OLDEST = 135


def _text(field: Field) -> Column:
    return F.substring("value", field.start + 1, field.width)


def _code(field: Field) -> Column:
    return _text(field).try_cast("int")


_GOOD = (
    r"(?s)^(?:H.{6}[0-9]{8}.{38}[0-9]{6}.{34}[0-6][02346789].{29}[0-9]{4}.{31}"
    r"|P.{6}[0-9]{8}.{58}(?:0[0-9]{2}|1[0-2][0-9]|13[0-5]).{8}[1-6].{3}[0-49].{184})$"
)
"""A line that passes every check: most lines need no other look."""

_IS_HOUSEHOLD = "value LIKE 'H%'"
_IS_PERSON = "value LIKE 'P%'"


@dataclass(frozen=True, slots=True)
class Ipums1940:
    """Reads the 1940 extract, plain or gzipped, one file or a folder of parts."""

    name: str = "ipums_1940"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the extract begins; see :class:`~das_spark.spark.readers.base.Reader`."""
        form = f"a record: H and {HOUSEHOLD_LENGTH} characters in all, or P and {PERSON_LENGTH}"
        look_at_lines(self._file(settings, Target.of(self.name, product, spine)), _PARTS, _is_record, form)

    def _file(self, settings: InputSettings, target: Target) -> str:
        allowed = {name: field.allowed for name, field in (HOUSEHOLD_FIELDS | PERSON_FIELDS).items()}
        target.require_codes(self.name, allowed, target.recodes.attributes.values())
        of_units = {name: field.allowed for name, field in HOUSEHOLD_FIELDS.items()}
        target.require_codes(self.name, of_units, [target.unit_class])
        parts = " (state 2, county 4, enumeration district 4)"
        target.require_geocodes(self.name, _GEOCODE_LENGTH, parts)
        file = required(settings.path, "input.path", self.name)
        require_path(file)
        return file

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the extract; see :class:`~das_spark.spark.readers.base.Reader`.

        Every enumeration district with a unit, occupied or vacant, exists.
        """
        target = Target.of(self.name, product, spine)
        file = self._file(settings, target)
        with reading(file):
            lines = with_place(spark.read.text(file, pathGlobFilter=any_of(_PARTS) if is_folder(file) else None))
            checks = _checks(file)
            checked = lines.withColumn(FAULTS, F.when(F.col("value").rlike(_GOOD), F.lit(0)).otherwise(faults(checks)))
            counted = _count(checked, target).persist()
            with released_if_refused(counted):
                refuse(_problems(file, checked, counted, checks, target.classes))
        counts = counted.where("cell is not null").select(target.geocode().alias("geocode"), "cell", "count")
        return IngestedTables(counts, _geounits(counted, target), held=counted)


def _is_record(line: str) -> bool:
    return {"H": HOUSEHOLD_LENGTH, "P": PERSON_LENGTH}.get(line[0]) == len(line)


def _checks(file: str) -> list[RowCheck]:
    household, person = F.expr(_IS_HOUSEHOLD), F.expr(_IS_PERSON)

    def check(of: Column, field: str, expected: str, good: Column) -> RowCheck:
        return RowCheck(file, field, expected, of & ~F.coalesce(good, F.lit(False)))

    def digits(column: Column) -> Column:
        return column.rlike("^[0-9]+$")

    (county, district), (age, *coded) = GEOCODE_FIELDS, PERSON_FIELDS.values()
    length = F.length("value")
    long_household, long_person = household & (length == HOUSEHOLD_LENGTH), person & (length == PERSON_LENGTH)
    return [
        RowCheck(file, "RECTYPE", "a line that begins with H or P", ~(household | person)),
        check(household, "record length", f"{HOUSEHOLD_LENGTH} characters in an H line", length == HOUSEHOLD_LENGTH),
        check(person, "record length", f"{PERSON_LENGTH} characters in a P line", length == PERSON_LENGTH),
        check(long_household | long_person, "SERIAL", "eight digits", digits(_text(SERIAL))),
        check(long_household, county.name, "six digits", digits(_text(county))),
        check(long_household, district.name, "four digits", digits(_text(district))),
        *(check(long_household, *_allowed(field)) for field in HOUSEHOLD_FIELDS.values()),
        check(long_person, age.name, f"three digits, 000 to {_OLDEST}", digits(_text(age)) & (_code(age) <= _OLDEST)),
        *(check(long_person, *_allowed(field)) for field in coded),
    ]


def _allowed(field: Field) -> tuple[str, str, Column]:
    """Name of a field, what is expected there, and whether a line holds that."""
    codes = [code for low, high in code_ranges(field.allowed, field.name) for code in range(low, high + 1)]
    return field.name, one_of(codes), _code(field).isin(*codes)


def _count(checked: DataFrame, target: Target) -> DataFrame:
    """Count lines by district, cell and kind; a faulty line has none of these, only its faults."""
    good = F.col(FAULTS) == 0
    household, person = good & F.expr(_IS_HOUSEHOLD), good & F.expr(_IS_PERSON)
    vacant, orphan, repeated = _further_kinds(target.classes)

    def code(field: str) -> Column:
        return _code(HOUSEHOLD_FIELDS.get(field) or PERSON_FIELDS[field])

    unit_class = level_of(target.unit_class, code(target.unit_class.name))
    is_vacant = (unit_class == 0) & (code("GQ") == 0)
    rows = checked.select(
        # Faulty lines get keys of their own, so that a file of rubbish does not gather in one partition.
        F.when(good, _text(SERIAL).try_cast("long")).otherwise(-1 - F.col("row_id")).alias("serial"),
        F.when(household, F.concat(*map(_text, GEOCODE_FIELDS))).alias("district"),
        F.when(household, F.when(is_vacant, vacant).otherwise(unit_class)).alias("kind"),
        F.when(household, target.cell(code, HOUSEHOLD_FIELDS)).alias("of_household"),
        F.when(person, target.cell(code, PERSON_FIELDS)).alias("of_person"),
        F.col(FAULTS),
    )
    home = Window.partitionBy("serial")
    joined = rows.select(
        F.max("district").over(home).alias("geocode"),
        F.max("of_household").over(home).alias("home"),
        F.count("kind").over(home).alias("households"),
        "kind", "of_person", FAULTS,
    )  # fmt: skip
    is_unit, is_person = F.col("kind").isNotNull(), F.col("of_person").isNotNull()
    alone = is_person & (F.col("households") == 0)
    kind = F.when(is_unit & (F.col("households") > 1), repeated).when(alone, orphan).otherwise(F.col("kind"))
    cell = F.when(is_person, F.col("home") + F.col("of_person"))
    grouped = joined.groupBy("geocode", cell.alias("cell"), kind.alias("kind"), FAULTS)
    return grouped.agg(F.count(F.lit(1)).alias("count"))


def _further_kinds(classes: int) -> tuple[int, int, int]:
    """Kinds of lines behind the classes of units: vacant units, persons without a household, repeated households."""
    return classes, classes + 1, classes + 2


def _problems(file: str, checked: DataFrame, counted: DataFrame, checks: list[RowCheck], classes: int) -> list[Problem]:
    rows = counted.groupBy(FAULTS, "kind").agg(F.sum("count")).collect()
    counts: dict[int, int] = {}
    for fault, _, number in rows:
        counts[fault] = counts.get(fault, 0) + number
    problems = problems_of(checked, {fault: number for fault, number in counts.items() if fault}, checks)
    if problems:
        return problems  # a broken household line would make orphans of its persons: one cause, one message
    vacant, orphan, repeated = _further_kinds(classes)
    marked = {kind: number for _, kind, number in rows if kind is not None}
    if not any(kind <= vacant or kind == repeated for kind in marked):
        raise InputError(f"{file}: no household line, so no enumeration district exists")
    expected = {repeated: "each household once", orphan: "a household line for every person line"}
    return [
        Problem(
            file, "SERIAL", rule, marked[kind], row_numbers(checked, _wrong_serials(checked, repeated=kind == repeated))
        )
        for kind, rule in expected.items()
        if kind in marked
    ]


def _wrong_serials(checked: DataFrame, *, repeated: bool) -> DataFrame:
    household = F.expr(_IS_HOUSEHOLD)
    homes = F.count(F.when(household, F.lit(1))).over(Window.partitionBy(_text(SERIAL)))
    counted = checked.withColumn("homes", homes)
    return counted.where(household & (F.col("homes") > 1) if repeated else F.col("homes") == 0)


def _geounits(counted: DataFrame, target: Target) -> DataFrame:
    def number(kind: int) -> Column:
        return F.coalesce(F.sum(F.when(F.col("kind") == kind, F.col("count"))), F.lit(0).cast("long"))

    vacant, *_ = _further_kinds(target.classes)
    by_class = F.array(*[number(each) for each in range(target.classes)])
    units = counted.where(F.col("kind") <= vacant).groupBy(target.geocode().alias("geocode"))
    return units.agg(by_class.alias("units"), number(vacant).alias("vacant"))
