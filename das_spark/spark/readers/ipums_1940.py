"""Reader of the IPUMS extract of the 1940 census, EXT1940USCB.dat: household and person lines of fixed width.

A household line is a unit, which is vacant where its GQ is 0 and it is a housing unit; a person line names its
household by the serial number, and may stand in another file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.io.input_fields import GEOCODE, Names
from das_spark.io.input_files import look_at_lines, require_path, required
from das_spark.io.ipums_1940 import GEOCODE_PARTS, HOUSEHOLD, PARTS, PERSON
from das_spark.io.line_fields import records_of
from das_spark.io.table_folder import record_files
from das_spark.io.text_lines import LINE, TextLines
from das_spark.spark.readers._gathered import Gathering, Join
from das_spark.spark.readers._passes import LeafPass, Rule, UnitPass
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import (
    COUNT,
    UNIT,
    Kind,
    Level,
    LineResolve,
    cell_of,
    cut_to,
    input_rows,
    kept,
    levels_of,
    once,
)
from das_spark.spark.readers._tables import unit_class
from das_spark.spark.readers.base import IngestedTables, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.io.input_fields import Rows
    from das_spark.products import Product


_GEOCODE_LENGTH = 10
_GEOCODE_PARTS = " (state 2, county 4, enumeration district 4)"
_TABLE: Final = "extract"


@dataclass(frozen=True, slots=True)
class Ipums1940:
    """Reads the 1940 extract, plain or gzipped, one file or a folder of parts."""

    name: str = "ipums_1940"
    reads_tables: bool = False

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return dict.fromkeys(record_files(required(settings.path, "input.path", self.name), PARTS), True)

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        form = f"a record: H and {HOUSEHOLD.length} characters in all, or P and {PERSON.length}"
        look_at_lines(self._file(settings, Target.of(self.name, product, spine)), PARTS, _is_record, form)

    def _file(self, settings: InputSettings, target: Target) -> str:
        target.require_codes(self.name, HOUSEHOLD.codes | PERSON.codes, target.recodes.attributes.values())
        target.require_codes(self.name, HOUSEHOLD.codes, [target.unit_class])
        target.require_geocodes(self.name, _GEOCODE_PARTS, _GEOCODE_LENGTH)
        file = required(settings.path, "input.path", self.name)
        require_path(file)
        return file

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the extract; see :class:`~das_spark.spark.readers.base.Reader`.

        Every enumeration district with a unit, occupied or vacant, exists.
        """
        target = Target.of(self.name, product, spine)
        file = self._file(settings, target)
        levels = levels_of(target)
        rows = _ExtractRows(
            spine.leaf.length,
            unit_class(target),
            tuple(level for level in levels if level.coded.name in HOUSEHOLD.codes),
            tuple(level for level in levels if level.coded.name not in HOUSEHOLD.codes),
        )
        extract = Reading(Names(file, (), _TABLE), rows, TextLines.of([file], PARTS))
        units = UnitPass(
            once=Rule(file, "SERIAL", "each household once"),
            known=Rule(file, "SERIAL", "a household line for every person line"),
            alone=None,
            occupied=False,
            bound=False,
        )
        leaves = LeafPass(target.classes, rows.kinds, {}, {}, {}, frozenset(), units=True, made=None)
        return Gathering((extract,), {}, (Join((_TABLE,), units),), product.records, None, leaves).read(spark)


def _is_record(line: str) -> bool:
    return any(line.startswith(record.name) and len(line) == record.length for record in (HOUSEHOLD, PERSON))


@dataclass(frozen=True, slots=True)
class _ExtractRows(LineResolve):
    """Lines of households and persons.

    Attributes:
        digits: Of a geocode of the lowest level.
        unit_class: Of households.
        of_household: Fields of households that tell of the cells of their persons.
        of_person: Those of persons.
    """

    digits: int
    unit_class: Level
    of_household: tuple[Level, ...]
    of_person: tuple[Level, ...]

    kinds = (Kind.UNITS, Kind.VACANT)
    nothing = "no household line, so no enumeration district exists"

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        begin = pc.utf8_slice_codeunits(rows.column(LINE), 0, 1)
        household, person = (np.asarray(pc.equal(begin, record.name)) for record in (HOUSEHOLD, PERSON))
        rows.check("RECTYPE", "a line that begins with H or P", ~(household | person))
        homes = records_of(rows, HOUSEHOLD, household, f"{HOUSEHOLD.length} characters in an H line")
        persons = records_of(rows, PERSON, person, f"{PERSON.length} characters in a P line")
        return pa.concat_batches([self._households(homes), self._persons(persons)])

    def _households(self, rows: Rows) -> pa.RecordBatch:
        level = self.unit_class.of(rows)
        vacant = (level == 0) & (rows.whole("GQ").value == 0)
        district = pc.binary_join_element_wise(*(rows.column(name) for name in GEOCODE_PARTS), "")
        columns = {
            UNIT: rows.column("SERIAL"),
            GEOCODE: cut_to(self.digits, district),
            "cell": level,
            "part": cell_of(rows, self.of_household),
            COUNT: once(len(rows)),
            "row": rows.numbers,
            "kind": np.where(vacant, Kind.VACANT_HOME, Kind.HOME).astype(np.int8),
        }
        return kept(input_rows(Kind.HOME, columns, len(rows)), rows)

    def _persons(self, rows: Rows) -> pa.RecordBatch:
        columns = {
            UNIT: rows.column("SERIAL"),
            "cell": cell_of(rows, self.of_person),
            COUNT: once(len(rows)),
            "row": rows.numbers,
        }
        return kept(input_rows(Kind.COUNTED, columns, len(rows)), rows)
