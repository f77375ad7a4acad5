"""Reader of the IPUMS extract of the 1940 census, EXT1940USCB.dat: household and person lines of fixed width.

One scan and one shuffle: every line becomes a row of its household; a window over the household's serial number gives
persons their district and what household fields say of their cell; rows are then counted by district, cell and kind.
A kind is the class of a unit, or one of three more: vacant units, persons without a household, repeated households.
A unit is vacant where its GQ is 0 and it is a housing unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.input_fields import GEOCODE
from das_spark.io.input_files import look_at_lines, require_path, required
from das_spark.io.ipums_1940 import GEOCODE_PARTS, HOUSEHOLD, PARTS, PERSON
from das_spark.spark.problems import (
    FAULTS,
    Problem,
    RowCheck,
    faults,
    problems_of,
    reading,
    refuse,
    row_numbers,
)
from das_spark.spark.readers._gathered import leaves_of
from das_spark.spark.readers._records import LINE, field_checks, is_right, lines_of, number, text
from das_spark.spark.readers._units import further_kinds, units_by_kind
from das_spark.spark.readers.base import IngestedTables, Target, level_of, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.io.record_text import Record
    from das_spark.products import Product


_GEOCODE_LENGTH = 10
_GEOCODE_PARTS = " (state 2, county 4, enumeration district 4)"


@dataclass(frozen=True, slots=True)
class Ipums1940:
    """Reads the 1940 extract, plain or gzipped, one file or a folder of parts."""

    name: str = "ipums_1940"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        form = f"a record: H and {HOUSEHOLD.length} characters in all, or P and {PERSON.length}"
        look_at_lines(self._file(settings, Target.of(self.name, product, spine)), PARTS, _is_record, form)

    def _file(self, settings: InputSettings, target: Target) -> str:
        target.require_codes(self.name, HOUSEHOLD.codes | PERSON.codes, target.recodes.attributes.values())
        target.require_codes(self.name, HOUSEHOLD.codes, [target.unit_class])
        target.require_geocodes(self.name, " (state 2, county 4, enumeration district 4)", _GEOCODE_LENGTH)
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
            lines = lines_of(spark, file, PARTS)
            checks = _checks(file)
            # Most lines match one expression, and need no other look.
            good = (_is(HOUSEHOLD) & is_right(HOUSEHOLD)) | (_is(PERSON) & is_right(PERSON))
            checked = lines.withColumn(FAULTS, F.when(good, F.lit(0)).otherwise(faults(checks)))
            counted = _count(checked, target).persist()
            with released_if_refused(counted):
                refuse(_problems(file, checked, counted, checks, target))
        counts = counted.where("cell is not null").select(target.geocode(), "cell", "count")
        vacant, *_ = further_kinds(target)
        geounits = units_by_kind(counted.where(F.col("kind") <= vacant), target)
        return IngestedTables(leaves_of(counts, geounits, product), held=counted)


def _is_record(line: str) -> bool:
    return any(line.startswith(record.name) and len(line) == record.length for record in (HOUSEHOLD, PERSON))


def _is(record: Record) -> Column:
    return F.startswith(LINE, F.lit(record.name))


def _checks(file: str) -> list[RowCheck]:
    checks = [RowCheck(file, "RECTYPE", "a line that begins with H or P", ~(_is(HOUSEHOLD) | _is(PERSON)))]
    for record, article in ((HOUSEHOLD, "an"), (PERSON, "a")):
        length = f"{record.length} characters in {article} {record.name} line"
        checks += field_checks(file, record, length, _is(record))
    return checks


def _count(checked: DataFrame, target: Target) -> DataFrame:
    """Count lines by district, cell and kind; a faulty line has none of these, only its faults."""
    good = F.col(FAULTS) == 0
    household, person = good & _is(HOUSEHOLD), good & _is(PERSON)
    vacant, orphan, repeated = further_kinds(target)

    def code(field: str) -> Column:
        return number(HOUSEHOLD if field in HOUSEHOLD.codes else PERSON, field)

    unit_class = level_of(target.unit_class, code(target.unit_class.name))
    is_vacant = (unit_class == 0) & (code("GQ") == 0)
    rows = checked.select(
        # Faulty lines get keys of their own, so that a file of rubbish does not gather in one partition.
        F.when(good, number(HOUSEHOLD, "SERIAL")).otherwise(-1 - F.col("row_id")).alias("serial"),
        F.when(household, F.concat(*(text(HOUSEHOLD, name) for name in GEOCODE_PARTS))).alias("district"),
        F.when(household, F.when(is_vacant, vacant).otherwise(unit_class)).alias("kind"),
        F.when(household, target.cell(code, HOUSEHOLD.codes)).alias("of_household"),
        F.when(person, target.cell(code, PERSON.codes)).alias("of_person"),
        F.col(FAULTS),
    )
    home = Window.partitionBy("serial")
    joined = rows.select(
        F.max("district").over(home).alias(GEOCODE),
        F.max("of_household").over(home).alias("home"),
        F.count("kind").over(home).alias("households"),
        "kind", "of_person", FAULTS,
    )  # fmt: skip
    is_unit, is_person = F.col("kind").isNotNull(), F.col("of_person").isNotNull()
    alone = is_person & (F.col("households") == 0)
    kind = F.when(is_unit & (F.col("households") > 1), repeated).when(alone, orphan).otherwise(F.col("kind"))
    cell = F.when(is_person, F.col("home") + F.col("of_person"))
    grouped = joined.groupBy(GEOCODE, cell.alias("cell"), kind.alias("kind"), FAULTS)
    return grouped.agg(F.count(F.lit(1)).alias("count"))


def _problems(
    file: str, checked: DataFrame, counted: DataFrame, checks: list[RowCheck], target: Target
) -> list[Problem]:
    rows = counted.groupBy(FAULTS, "kind").agg(F.sum("count")).collect()
    problems = problems_of(checked, [(fault, number) for fault, _, number in rows], checks)
    if problems:
        return problems  # a broken household line would make orphans of its persons: one cause, one message
    vacant, orphan, repeated = further_kinds(target)
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
    household = _is(HOUSEHOLD)
    homes = F.count(F.when(household, F.lit(1))).over(Window.partitionBy(text(HOUSEHOLD, "SERIAL")))
    counted = checked.withColumn("homes", homes)
    return counted.where(household & (F.col("homes") > 1) if repeated else F.col("homes") == 0)
