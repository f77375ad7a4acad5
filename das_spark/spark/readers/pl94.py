"""The official P.L. 94-171 summary files of 2020, what anybody can download of a state: people, and the header alone.

Four files a state, delimited by ``|``, without header, in Latin-1: the geographic header and three segments of
tables, joined by STUSAB and LOGRECNO. `Pl94Summary` reads all four, `Pl94Header` the entities that blocks lie in.

Voting age x Hispanic x race63 of every block is exact. Who lives in group quarters is not published: the persons of
P5 are chosen by the fixed rule of :func:`~das_spark.io.pl94_tables.assign_group_quarters`. Units: the occupied units of
H1 are the first class, one facility of a type stands where P5 has people of it (or as many as can hold them), vacant
units are those of H1. A product of housing units is given the same units, and counts them as H1 does: vacant and
occupied. Rows of states, counties, tracts and block groups are compared with the sums of their blocks: where they
differ, files of blocks may be incomplete, which is noticed in the restricted record of problems.

Published units and people may contradict each other, because both are protected: ingestion finds such blocks and does
what `input.unit_conflicts` says. With `input.units_from_people` the units are made from the people, not from H1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK
from das_spark.io.input_fields import GEOCODE
from das_spark.io.input_files import data_files, first_line, require_path, required
from das_spark.io.pl94_tables import (
    HISPANIC_ITEMS,
    HOUSING_ITEMS,
    PERSON_CODES,
    QUARTERS_ITEMS,
    RULES,
    TOTAL_ITEMS,
    UNIT_CODES,
    Counts,
    Tables,
    assign_group_quarters,
    class_codes,
    contradictions,
    person_codes,
)
from das_spark.spark.engine import in_tasks
from das_spark.spark.input_rows import text_lines
from das_spark.spark.problems import (
    FAULTS,
    Problem,
    RowCheck,
    faults,
    problems_of,
    reading,
    refuse,
    some_geounits,
)
from das_spark.spark.readers._areas import NOTHING, STATUS_NOTE, STATUS_OF, AreaRows, checked, filled, status_of
from das_spark.spark.readers._gathered import leaves_of
from das_spark.spark.readers._units import BLOCK_ROWS, UNITS, VACANT, block_batch, counts_of_blocks, housing_counts
from das_spark.spark.readers.base import EntityBlocks, IngestedTables, Target, files_in, released_if_refused, sixteen
from das_spark.store import POSIX

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_KEY_COLUMNS: Final = 5
_BLOCK_LEVEL: Final = "750"
_SUMLEV, _GEOCOMP, _LOGRECNO_OF_GEO, _GEOCODE, _LOGRECNO = 2, 3, 7, 9, 4
#: Summary levels above the block that have a row for every geounit, and the digits of their geocodes.
_ABOVE: Final = {"040": 2, "050": 5, "140": 11, "150": 12}
_WHOLE: Final = "00"
"""Geographic component of a row that is about a geounit, and not about a part of it such as its rural one."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the four kinds of files."""

    name: str
    pattern: str
    columns: int
    tables: tuple[tuple[str, int], ...]
    logrecno: int = _LOGRECNO

    def field(self, position: int) -> str:
        """Name of the item in a 0-based place behind the key columns, such as P0010003."""
        for table, items in self.tables:
            if position < items:
                return f"{table}{position + 1:04d}"
            position -= items
        return "beyond the last item"

    def look(self, path: str) -> None:
        """See without Spark that a file begins with a row of as many columns."""
        for file in data_files(path):
            columns = first_line(file, "latin-1").count("|") + 1
            if columns != self.columns:
                expected = f"{columns} columns in its first line, expected {self.columns} delimited by |"
                raise InputError(f"{file}: {expected}", hint=f"is it {self.pattern} of 2020, as published?")


_GEO: Final = _Kind("geo", "??geo*.pl", 97, (), _LOGRECNO_OF_GEO)
_SEGMENTS: Final = (
    _Kind("segment1", "??00001*.pl", 149, (("P001", TOTAL_ITEMS), ("P002", HISPANIC_ITEMS))),
    _Kind("segment2", "??00002*.pl", 152, (("P003", TOTAL_ITEMS), ("P004", HISPANIC_ITEMS), ("H001", HOUSING_ITEMS))),
    _Kind("segment3", "??00003*.pl", 15, (("P005", QUARTERS_ITEMS),)),
)
_KINDS: Final = (_GEO, *_SEGMENTS)


def _open(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of files, their parts, and where they lie."""
    lines = text_lines(spark, paths, encoding="ISO-8859-1")
    return lines.withColumn("parts", F.split("value", r"\|", -1))


def _part(place: int) -> Column:
    return F.get("parts", F.lit(place))


def _is_block() -> Column:
    return _part(_SUMLEV) == _BLOCK_LEVEL


def _find_files(folder: str) -> dict[str, list[str]]:
    """The files of every kind, one of each for every state in the folder."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in files_in(folder):
        name = path.rsplit("/", 1)[-1].lower()
        for kind in _KINDS:
            if fnmatch(name, kind.pattern):
                found.setdefault(name[:2], {}).setdefault(kind.name, []).append(path)
    if not found:
        raise InputError(
            f"{folder}: no official summary file ({_GEO.pattern} and others)", hint="unzip the files of the states"
        )
    for state, files in sorted(found.items()):
        for kind in _KINDS:
            number = len(files.get(kind.name, ()))
            if number != 1:
                what = "no file" if number == 0 else f"{number} files"
                raise InputError(f"{folder}: {what} {state}{kind.pattern[2:]} of state {state.upper()}, expected one")
    return {kind.name: [path for files in found.values() for path in files[kind.name]] for kind in _KINDS}


def _open_kind(spark: SparkSession, kind: _Kind, paths: Sequence[str], folder: str) -> tuple[DataFrame, list[RowCheck]]:
    """The rows of one kind of files, with their keys and faults, and the checks that these are of."""
    whole = F.size("parts") == kind.columns
    record = _part(kind.logrecno)
    file = f"{folder}/{kind.pattern}"
    checks = [
        RowCheck(file, "", f"{kind.columns} columns", ~whole),
        RowCheck(file, "LOGRECNO", "a whole number", whole & ~record.rlike("^[0-9]{1,9}$")),
    ]
    if kind is _GEO:
        bad = whole & _is_block() & ~_part(_GEOCODE).rlike(f"^[0-9]{{{CENSUS_BLOCK}}}$")
        checks.append(RowCheck(file, "GEOCODE", f"{CENSUS_BLOCK} digits in a block's row", bad))
    keys = _part(1).alias("state"), record.try_cast("int").alias("record")
    return _open(spark, paths).select("*", faults(checks), *keys), checks


def _row_problems(frame: DataFrame, kind: _Kind, checks: list[RowCheck]) -> list[Problem]:
    """Check every row of one kind of files: columns, keys and, in segments, whole numbers."""
    file = checks[0].file
    number = r"^([^|]*\|){5}[0-9]{1,15}(\|[0-9]{1,15})*$"
    wrong = (F.col(FAULTS) == 0) & ~F.col("value").rlike(number) if kind.tables else F.lit(False)
    with reading(file):
        counted = frame.groupBy(FAULTS, wrong.alias("wrong")).count().collect()
        problems = problems_of(frame, [(row[FAULTS], row["count"]) for row in counted], checks)
        if any(row["wrong"] for row in counted):
            problems += _item_problems(frame.where(wrong), kind, file)
    return problems


def _item_problems(wrong: DataFrame, kind: _Kind, file: str) -> list[Problem]:
    bad = F.transform(F.slice("parts", _KEY_COLUMNS + 1, kind.columns), lambda item: ~item.rlike("^[0-9]{1,15}$"))
    positions = wrong.select(F.posexplode(bad).alias("position", "bad")).where("bad").groupBy("position").count()
    rows = positions.orderBy("position").collect()
    return [Problem(file, kind.field(row["position"]), "a whole number", row["count"]) for row in rows]


def _partner_problems(frames: dict[str, DataFrame], folder: str) -> list[Problem]:
    """Check that every record of every file has one partner in each of the others."""
    keys = [frame.select("state", "record", F.lit(name).alias("kind")) for name, frame in frames.items()]
    counts = [F.count(F.when(F.col("kind") == name, F.lit(1))).alias(name) for name in frames]
    found = reduce(DataFrame.unionAll, keys).groupBy("state", "record").agg(*counts)
    wrong = [F.count(F.when(F.col(name) != 1, F.lit(1))).alias(name) for name in frames]
    with reading(folder):
        row = found.agg(*wrong).collect()[0]
    return [
        Problem(f"{folder}/{kind.pattern}", "LOGRECNO", "each record of the other files, once", row[kind.name])
        for kind in _KINDS
        if row[kind.name]
    ]


def _checked_frames(spark: SparkSession, folder: str) -> dict[str, DataFrame]:
    files = _find_files(folder)
    frames, problems = {}, []
    for kind in _KINDS:
        frame, checks = _open_kind(spark, kind, files[kind.name], folder)
        problems += _row_problems(frame, kind, checks)
        frames[kind.name] = frame
    refuse(problems)
    refuse(_partner_problems(frames, folder))
    return frames


def _joined_blocks(frames: dict[str, DataFrame]) -> DataFrame:
    """One row a block: geocode (16 digits) and the items of the three segments as arrays of long."""
    blocks = frames[_GEO.name].where(_is_block()).select("state", "record", sixteen(_part(_GEOCODE)).alias(GEOCODE))
    for segment in _SEGMENTS:
        items = F.slice("parts", _KEY_COLUMNS + 1, segment.columns).try_cast("array<bigint>")  # else an error quotes it
        blocks = blocks.join(
            frames[segment.name].select("state", "record", items.alias(segment.name)), ["state", "record"]
        )
    return blocks.drop("state", "record")


#: Segment -> 0-based places of the items that are summed: people, Hispanics, adults, Hispanic adults, housing units
#: (all, occupied, vacant), people in group quarters.
_SUMMED: Final = (
    (_SEGMENTS[0], (0, TOTAL_ITEMS + 1)),
    (_SEGMENTS[1], (0, TOTAL_ITEMS + 1, *(TOTAL_ITEMS + HISPANIC_ITEMS + item for item in range(HOUSING_ITEMS)))),
    (_SEGMENTS[2], (0,)),
)


def _sum_problems(frames: dict[str, DataFrame], folder: str) -> list[Problem]:
    """Rows of states, counties, tracts and block groups that are not the sums of their blocks.

    Files of a few blocks are read like those of a state; but blocks that were lost would not be noticed otherwise.
    """
    level = _part(_SUMLEV)
    wanted = (_part(_GEOCOMP) == _WHOLE) & level.isin(_BLOCK_LEVEL, *_ABOVE)
    rows = frames[_GEO.name].where(wanted)
    rows = rows.select("state", "record", level.alias("level"), _part(_GEOCODE).alias(GEOCODE))
    names = []
    for segment, places in _SUMMED:
        items = {segment.field(place): _part(_KEY_COLUMNS + place) for place in places}
        columns = [item.cast("bigint").alias(name) for name, item in items.items()]
        rows = rows.join(frames[segment.name].select("state", "record", *columns), ["state", "record"])
        names += list(items)
    # A block counts for each level above it, any other row for its own.
    above = [F.struct(F.lit(each).alias("level"), F.substring(GEOCODE, 1, n).alias("of")) for each, n in _ABOVE.items()]
    own = F.struct(F.col("level"), F.col(GEOCODE).alias("of"))
    is_block = F.col("level") == _BLOCK_LEVEL
    at = F.explode(F.when(is_block, F.array(*above)).otherwise(F.array(own)))
    sides = rows.select(at.alias("at"), is_block.alias("is_block"), *names)
    stated = [F.sum(F.when(~F.col("is_block"), F.col(name))).alias(f"stated_{name}") for name in names]
    summed = [F.sum(F.when(F.col("is_block"), F.col(name)).otherwise(0)).alias(f"summed_{name}") for name in names]
    found = sides.groupBy("at.level", F.col("at.of").alias(GEOCODE)).agg(*stated, *summed)
    problems = []
    with reading(folder):
        wrong = {name: F.col(f"stated_{name}") != F.col(f"summed_{name}") for name in names}
        counted = found.groupBy("level").agg(*(F.count_if(each).alias(name) for name, each in wrong.items()))
        for row in counted.orderBy("level").collect():
            for name in names:
                if row[name]:
                    expected = f"in rows of summary level {row['level']} the sum of their blocks"
                    some = some_geounits(found.where((F.col("level") == row["level"]) & wrong[name]))
                    problems.append(Problem(folder, name, expected, row[name], geounits=some))
    return problems


@dataclass(frozen=True, slots=True)
class Pl94Summary:
    """Reads the summary files of one or many states from a folder."""

    name: str = "pl94_summary"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        folder = self._folder(settings, Target.of(self.name, product, spine))
        files = _find_files(folder)
        for kind in _KINDS:
            for path in files.get(kind.name, ()):
                kind.look(path)

    def _folder(self, settings: InputSettings, target: Target) -> str:
        allowed = UNIT_CODES if target.counts_units else PERSON_CODES
        target.require_codes(self.name, allowed, target.recodes.attributes.values())
        target.require_codes(self.name, PERSON_CODES, [target.unit_class])
        target.require_geocodes(self.name)
        return required(settings.path, "input.path", self.name)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        target = Target.of(self.name, product, spine)
        folder = self._folder(settings, target)
        frames = _checked_frames(spark, folder)
        with reading(folder):
            tabulate = partial(_tabulate, recodes=_BlockRecodes.of(target))
            blocks = in_tasks(_joined_blocks(frames), tabulate, f"{BLOCK_ROWS}, broken int").persist()
            with released_if_refused(blocks):
                refuse(_block_problems(blocks, folder))
                sums = tuple(_sum_problems(frames, folder))
        geounits = _geounits(blocks, target)
        if target.counts_units:
            counts = housing_counts(geounits, target, "OCCUPANCY", occupied=2, vacant=3)
        else:
            counts = counts_of_blocks(blocks, target)
        made = settings.units_from_people and not target.counts_units
        return IngestedTables(leaves_of(counts, geounits, product, units_from_people=made), sums, held=blocks)


@dataclass(frozen=True, slots=True, eq=False)
class _BlockRecodes:
    """What a worker needs to bring the people and units of the tables of a block into cells and classes.

    Attributes:
        cells: Cell of each combination that the tables tell, (8 x 2 x 2 x 63,); None where people are not counted.
        classes: Class of units of each of the eight that the tables tell, (8,).
        most: Most people of a unit of each of these, (8,); none where units bound nothing.
        number: How many classes of units there are.
    """

    cells: Counts | None
    classes: Counts
    most: Counts | None
    number: int

    @classmethod
    def of(cls, target: Target) -> _BlockRecodes:
        classes = target.unit_class.level_of(class_codes())
        bounds = target.product.unit_bounds
        cells = None if target.counts_units else target.cells(person_codes())
        return cls(cells, classes, np.array(bounds.most)[classes] if bounds else None, target.classes)

    def units(self, occupied: Counts, quarters: Counts) -> Counts:
        """Units by class, of facilities as many as can hold the people: one, but for a great many."""
        facilities = -(-quarters // self.most) if self.most is not None else quarters > 0
        found = np.zeros((len(quarters), self.number), dtype=np.int64)
        for place, units in zip(self.classes, np.concatenate([occupied, facilities[:, 1:]], axis=1).T, strict=True):
            found[:, place] += units
        return found


def _tabulate(batches: Iterator[pa.RecordBatch], recodes: _BlockRecodes) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield _tabulated(batch, recodes)


def _items(batch: pa.RecordBatch, name: str) -> Counts:
    flat: Counts = batch.column(name).flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(batch.num_rows, -1)


def _tabulated(batch: pa.RecordBatch, recodes: _BlockRecodes) -> pa.RecordBatch:
    first, second, third = (_items(batch, segment.name) for segment in _SEGMENTS)
    p3, p4, h1 = np.split(second, [TOTAL_ITEMS, TOTAL_ITEMS + HISPANIC_ITEMS], axis=1)
    tables = Tables(first[:, :TOTAL_ITEMS], first[:, TOTAL_ITEMS:], p3, p4, h1, third)
    wrong = contradictions(tables)
    people, quarters = tables.people(), tables.quarters()
    broken = np.any(wrong, axis=1)
    people[broken], quarters[broken] = 0, 0
    sizes, cells, counts = _occupied(people, quarters, recodes.cells)
    units = recodes.units(h1[:, 1:2], quarters)
    rules = pa.array((wrong << np.arange(len(RULES))).sum(axis=1).astype(np.int32))
    return block_batch(batch.column(GEOCODE), sizes, cells, counts, units, h1[:, 2], broken=rules)


def _occupied(people: Counts, quarters: Counts, recoded: Counts | None) -> tuple[Counts, Counts, Counts]:
    """How many cells each block occupies, these, and their counts; only group quarters need the full histogram."""
    cells, counts = [], []
    has_quarters = np.any(quarters, axis=1)
    for block, row in enumerate(people.reshape(len(people), -1)):
        full = assign_group_quarters(people[block], quarters[block]).ravel() if has_quarters[block] else row
        mine = np.flatnonzero(full)
        cells.append(mine if recoded is None else recoded[mine])
        counts.append(full[mine])
    return np.array([len(mine) for mine in cells]), np.concatenate(cells), np.concatenate(counts)


def _block_problems(blocks: DataFrame, folder: str) -> list[Problem]:
    counted = {row[0]: row[1] for row in blocks.groupBy("broken").count().collect()}
    if not counted:
        raise InputError(f"{folder}: no block (summary level {_BLOCK_LEVEL}) in the geographic header")
    problems = []
    for bit, (field, expected) in enumerate(RULES):
        number = sum(rows for mask, rows in counted.items() if mask >> bit & 1)
        if number:
            some = some_geounits(blocks.where(F.col("broken").bitwiseAND(F.lit(1 << bit)) != 0))
            problems.append(Problem(folder, field, expected, number, geounits=some))
    twice = blocks.groupBy(GEOCODE).count().where("count > 1")
    number = twice.count()
    if number:
        problems.append(Problem(folder, "GEOCODE", "each block once", number, geounits=some_geounits(twice)))
    return problems


def _geounits(blocks: DataFrame, target: Target) -> DataFrame:
    if target.spine.leaf.length == BLOCK:
        return blocks.select(GEOCODE, UNITS, VACANT)
    by_class = [F.sum(F.get(UNITS, F.lit(each))) for each in range(target.classes)]
    return blocks.groupBy(target.geocode()).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT))


#: Column of the entities -> name and 0-based place in a row of the header.
_FIELDS: Final[Mapping[str, tuple[str, int]]] = {
    "aiannhce": ("AIANHH", 35),
    "cousubfp": ("COUSUB", 17),
    "placefp": ("PLACE", 29),
    "sdunilea": ("SDUNI", 82),
    "sdseclea": ("SDSEC", 81),
    "sdelmlea": ("SDELM", 80),
}


class Pl94Header:
    """The reader of `<st>geo2020.pl`: rows of summary level 750, 97 columns delimited by ``|``, in Latin-1.

    The column FUNCSTAT of a block's row is that of the block. So every place and county subdivision that a block lies
    in counts as functioning ("A"), statistical ones too; `notes` of the result say so.
    """

    name = "pl94_header"

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        for each in self._paths(path):
            _GEO.look(each)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read one header, or those of all states in a folder; see `GeographyReader`."""
        whole = F.size("parts") == _GEO.columns
        fields = {name: (field, _part(place)) for name, (field, place) in _FIELDS.items()}
        for name, code in STATUS_OF.items():
            field, text = fields[code]
            fields[name] = (field, status_of(filled(text, NOTHING[code]), NOTHING[code]))
        rows = AreaRows(
            file=path,
            frame=_open(spark, self._paths(path)),
            whole=whole,
            is_block=_is_block(),
            geocode=sixteen(_part(_GEOCODE)),
            geocode_field="GEOCODE",
            fields=fields,
            checks=(RowCheck(path, "", f"{_GEO.columns} columns", ~whole),),
        )
        return checked(rows, (STATUS_NOTE,))

    @staticmethod
    def _paths(path: str) -> list[str]:
        require_path(path)
        if not POSIX.is_folder(path):
            return [path]
        found = [each for each in files_in(path) if fnmatch(each.rsplit("/", 1)[-1].lower(), _GEO.pattern)]
        if not found:
            raise InputError(f"{path}: no geographic header ({_GEO.pattern})", hint="unzip the files of the states")
        return found
