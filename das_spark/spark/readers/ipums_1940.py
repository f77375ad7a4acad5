"""Reader of the IPUMS extract of the 1940 census, EXT1940USCB.dat: household and person lines of fixed width.

One scan and one shuffle: every line becomes a row (household, code); a window over the household's serial number gives
persons their district and class; rows are then counted by district and code. Codes below the schema's size are cells,
the next nine are units by class and vacant units, and two more mark persons without a household and repeated
households. Recodes are those of the 2018 End-to-End release.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, InputError
from das_spark.io.input_files import any_of, is_folder, look_at_lines, require_path, required
from das_spark.spark.readers._rows import FAULTS, Check, faults, one_of, problems_of, row_numbers, with_place
from das_spark.spark.readers.base import (
    IngestedTables,
    Problem,
    leaf_geocode,
    reading,
    refuse,
    released_if_refused,
    require_attributes,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


HOUSEHOLD_LENGTH = 159
PERSON_LENGTH = 273

CLASS_OF_GQTYPE = {0: 0, 2: 1, 3: 2, 4: 3, 6: 4, 7: 5, 8: 6, 9: 7}
"""GQTYPE of the extract to level of hhgq; types 1 and 5 do not occur in 1940."""

ATTRIBUTES = {"hhgq": 8, "age18plus": 2, "hispanic": 2, "race": 6}
_PEOPLE = 2 * 2 * 6
_CELLS = 8 * _PEOPLE
_CLASSES = 8
_VACANT = _CELLS + _CLASSES
_ORPHAN = _VACANT + 1
_REPEATED = _VACANT + 2
_GEOCODE_LENGTH = 10
_PARTS = ("*.dat", "*.dat.gz", "*.txt", "*.txt.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""

_ADULT = 18
_OLDEST = 135
_RACES = range(1, 7)
_HISPANIC = (0, 1, 2, 3, 4, 9)
_OCCUPIED = range(1, 7)


def _text(start: int, end: int) -> Column:
    """Characters of a line, by 0-based start and exclusive end."""
    return F.substring("value", start + 1, end - start)


def _code(start: int, end: int) -> Column:
    return _text(start, end).try_cast("int")


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
        """See without Spark how the extract begins; see :class:`~das_spark.spark.readers.base.Reader`.

        Args:
            settings: Where the extract is.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable, or does not begin with a record.
            ConfigurationError: The product or the spine is not for this reader, or no path is set.
        """
        form = f"a record: H and {HOUSEHOLD_LENGTH} characters in all, or P and {PERSON_LENGTH}"
        look_at_lines(self._file(settings, product, spine), _PARTS, _is_record, form)

    def _file(self, settings: InputSettings, product: Product, spine: Spine) -> str:
        require_attributes(self.name, product, ATTRIBUTES)
        if spine.leaf.length > _GEOCODE_LENGTH:
            raise ConfigurationError(
                f"reader {self.name!r} gives geocodes of {_GEOCODE_LENGTH} digits (state 2, county 4, enumeration "
                f"district 4); the lowest level of the spine, {spine.leaf.name}, has {spine.leaf.length}"
            )
        file = required(settings.path, "input.path", self.name)
        require_path(file)
        return file

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the extract; see :class:`~das_spark.spark.readers.base.Reader`.

        Every enumeration district with a unit, occupied or vacant, exists.

        Args:
            spark: The session.
            settings: Where the extract is.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed.
            ConfigurationError: The product or the spine is not for this reader, or no path is set.
        """
        file = self._file(settings, product, spine)
        with reading(file):
            lines = with_place(spark.read.text(file, pathGlobFilter=any_of(_PARTS) if is_folder(file) else None))
            checks = _checks(file)
            checked = lines.withColumn(FAULTS, F.when(F.col("value").rlike(_GOOD), F.lit(0)).otherwise(faults(checks)))
            counted = _count(checked).persist()
            with released_if_refused(counted):
                refuse(_problems(file, checked, counted, checks))
        return IngestedTables(_counts(counted, spine), _geounits(counted, spine), held=counted)


def _is_record(line: str) -> bool:
    return {"H": HOUSEHOLD_LENGTH, "P": PERSON_LENGTH}.get(line[0]) == len(line)


def _checks(file: str) -> list[Check]:
    household, person = F.expr(_IS_HOUSEHOLD), F.expr(_IS_PERSON)

    def check(of: Column, field: str, expected: str, good: Column) -> Check:
        return Check(file, field, expected, of & ~F.coalesce(good, F.lit(False)))

    def digits(column: Column) -> Column:
        return column.rlike("^[0-9]+$")

    length = F.length("value")
    long_household, long_person = household & (length == HOUSEHOLD_LENGTH), person & (length == PERSON_LENGTH)
    return [
        Check(file, "RECTYPE", "a line that begins with H or P", ~(household | person)),
        check(household, "record length", f"{HOUSEHOLD_LENGTH} characters in an H line", length == HOUSEHOLD_LENGTH),
        check(person, "record length", f"{PERSON_LENGTH} characters in a P line", length == PERSON_LENGTH),
        check(long_household | long_person, "SERIAL", "eight digits", digits(_text(7, 15))),
        check(long_household, "STATEFIP, COUNTY", "six digits", digits(_text(53, 59))),
        check(long_household, "ENUMDIST", "four digits", digits(_text(124, 128))),
        check(long_household, "GQ", one_of(range(7)), _code(93, 94).isin(0, *_OCCUPIED)),
        check(long_household, "GQTYPE", one_of(CLASS_OF_GQTYPE), _code(94, 95).isin(*CLASS_OF_GQTYPE)),
        check(
            long_person, "AGE", f"three digits, 000 to {_OLDEST}", digits(_text(73, 76)) & (_code(73, 76) <= _OLDEST)
        ),
        check(long_person, "RACE", one_of(_RACES), _code(84, 85).isin(*_RACES)),
        check(long_person, "HISPAN", one_of(_HISPANIC), _code(88, 89).isin(*_HISPANIC)),
    ]


def _count(checked: DataFrame) -> DataFrame:
    """Count lines by district and code; a faulty line has neither, only its faults."""
    good = F.col(FAULTS) == 0
    household = good & F.expr(_IS_HOUSEHOLD)
    classes = F.create_map(*[F.lit(each) for each in chain.from_iterable(CLASS_OF_GQTYPE.items())])
    people = (_code(73, 76) >= _ADULT).cast("int") * 12 + (_code(88, 89) != 0).cast("int") * 6 + _code(84, 85) - 1
    rows = checked.select(
        # Faulty lines get keys of their own, so that a file of rubbish does not gather in one partition.
        F.when(good, _text(7, 15).try_cast("long")).otherwise(-1 - F.col("row_id")).alias("serial"),
        F.when(household, F.concat(_text(53, 59), _text(124, 128))).alias("district"),
        F.when(household, classes[_code(94, 95)]).alias("class"),
        F.when(household & (_code(93, 94) == 0) & (_code(94, 95) == 0), F.lit(_VACANT)).alias("vacant"),
        F.when(good & F.expr(_IS_PERSON), people).alias("people"),
        F.col(FAULTS),
    )
    home = Window.partitionBy("serial")
    joined = rows.select(
        F.max("district").over(home).alias("geocode"),
        F.max("class").over(home).alias("home"),
        F.count("class").over(home).alias("households"),
        "class", "vacant", "people", FAULTS,
    )  # fmt: skip
    unit = F.when(F.col("households") > 1, F.lit(_REPEATED)).otherwise(
        F.coalesce("vacant", F.col("class") + F.lit(_CELLS))
    )
    person = F.coalesce(F.col("home") * _PEOPLE + F.col("people"), F.lit(_ORPHAN))
    code = F.when(F.col(FAULTS) != 0, F.lit(None)).when(F.col("class").isNotNull(), unit).otherwise(person)
    return joined.groupBy("geocode", code.cast("int").alias("code"), FAULTS).agg(F.count(F.lit(1)).alias("count"))


def _problems(file: str, checked: DataFrame, counted: DataFrame, checks: list[Check]) -> list[Problem]:
    rows = counted.groupBy(FAULTS, "code").agg(F.sum("count")).collect()
    counts: dict[int, int] = {}
    for fault, _, number in rows:
        counts[fault] = counts.get(fault, 0) + number
    problems = problems_of(checked, {fault: number for fault, number in counts.items() if fault}, checks)
    if problems:
        return problems  # a broken household line would make orphans of its persons: one cause, one message
    marked = {code: number for _, code, number in rows}
    if not any(_CELLS <= code <= _VACANT or code == _REPEATED for code in marked):
        raise InputError(f"{file}: no household line, so no enumeration district exists")
    expected = {_REPEATED: "each household once", _ORPHAN: "a household line for every person line"}
    return [
        Problem(file, "SERIAL", rule, marked[code], row_numbers(checked, _wrong_serials(checked, code)))
        for code, rule in expected.items()
        if code in marked
    ]


def _wrong_serials(checked: DataFrame, code: int) -> DataFrame:
    household = F.expr(_IS_HOUSEHOLD)
    homes = F.count(F.when(household, F.lit(1))).over(Window.partitionBy(_text(7, 15)))
    counted = checked.withColumn("homes", homes)
    return counted.where(household & (F.col("homes") > 1) if code == _REPEATED else F.col("homes") == 0)


def _counts(counted: DataFrame, spine: Spine) -> DataFrame:
    return counted.where(F.col("code") < _CELLS).select(
        leaf_geocode("geocode", spine).alias("geocode"), F.col("code").alias("cell"), "count"
    )


def _geounits(counted: DataFrame, spine: Spine) -> DataFrame:
    def number(code: int) -> Column:
        return F.coalesce(F.sum(F.when(F.col("code") == code, F.col("count"))), F.lit(0).cast("long"))

    units = counted.where((F.col("code") >= _CELLS) & (F.col("code") <= _VACANT))
    return units.groupBy(leaf_geocode("geocode", spine).alias("geocode")).agg(
        F.array(*[number(_CELLS + each) for each in range(_CLASSES)]).alias("units"), number(_VACANT).alias("vacant")
    )
