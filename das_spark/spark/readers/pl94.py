"""The official P.L. 94-171 summary files of 2020, what anybody can download of a state: people, and the header alone.

Four files a state, delimited by ``|``, without header, in Latin-1: the geographic header and three segments of
tables, joined by STUSAB and LOGRECNO. `Pl94Summary` reads all four, `Pl94Header` the entities that blocks lie in.

Voting age x Hispanic x race63 of every block is exact. Who lives in group quarters is not published: the persons of
P5 are chosen by the fixed rule of :func:`~das_spark.io.pl94_tables.assign_group_quarters`. Units: the occupied units of
H1 are the first class, one facility of a type stands where P5 has people of it (or as many as can hold them), vacant
units are those of H1. A product of housing units is given the same units, and counts them as H1 does: vacant and
occupied. AreaRows of states, counties, tracts and block groups are compared with the sums of their blocks: where they
differ, files of blocks may be incomplete, which is noticed in the restricted record of problems.

Published units and people may contradict each other, because both are protected: ingestion finds such blocks and does
what `input.unit_conflicts` says. With `input.units_from_people` the units are made from the people, not from H1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import InputError, without_values
from das_spark.io.input_files import data_files, first_line, is_folder, is_remote, require_path, required
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
from das_spark.spark.readers._areas import AreaRows, checked, sixteen
from das_spark.spark.readers._rows import FAULTS, RowCheck, faults, problems_of, with_place
from das_spark.spark.readers._tables import housing_counts, units_from_people
from das_spark.spark.readers.base import (
    ACTIVE,
    MOST_EXAMPLES,
    NO_STATUS,
    NOTHING,
    STATUS_OF,
    EntityBlocks,
    IngestedTables,
    Problem,
    Target,
    files_in,
    reading,
    refuse,
    released_if_refused,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_KEY_COLUMNS = 5
BLOCK = "750"
_SUMLEV, _GEOCOMP, _LOGRECNO_OF_GEO, _GEOCODE, _LOGRECNO = 2, 3, 7, 9, 4
_BLOCK_DIGITS = 15
#: Summary levels above the block that have a row for every geounit, and the digits of their geocodes.
_ABOVE = {"040": 2, "050": 5, "140": 11, "150": 12}
_WHOLE = "00"
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


_GEO = _Kind("geo", "??geo*.pl", 97, (), _LOGRECNO_OF_GEO)
_SEGMENTS = (
    _Kind("segment1", "??00001*.pl", 149, (("P001", TOTAL_ITEMS), ("P002", HISPANIC_ITEMS))),
    _Kind("segment2", "??00002*.pl", 152, (("P003", TOTAL_ITEMS), ("P004", HISPANIC_ITEMS), ("H001", HOUSING_ITEMS))),
    _Kind("segment3", "??00003*.pl", 15, (("P005", QUARTERS_ITEMS),)),
)
KINDS = (_GEO, *_SEGMENTS)


def _look_at_files(folder: str) -> None:
    """See without Spark that the files of every state are there, and begin with a row of as many columns as theirs."""
    for kind in KINDS if not is_remote(folder) else ():
        for path in _find_files(None, folder)[kind.name]:
            if first_line(Path(path), utf8=False).count("|") + 1 != kind.columns:
                expected = f"a row of {kind.columns} columns delimited by |"
                raise InputError(
                    f"{path}: does not begin with {expected}", hint="is it the file of 2020, as published?"
                )


def _find_files(spark: SparkSession | None, folder: str) -> dict[str, list[str]]:
    """The files of every kind, one of each for every state in the folder."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in files_in(spark, folder):
        name = path.rsplit("/", 1)[-1].lower()
        for kind in KINDS:
            if fnmatch(name, kind.pattern):
                found.setdefault(name[:2], {}).setdefault(kind.name, []).append(path)
    if not found:
        raise InputError(
            f"{folder}: no official summary file ({_GEO.pattern} and others)", hint="unzip the files of the states"
        )
    for state, files in sorted(found.items()):
        for kind in KINDS:
            number = len(files.get(kind.name, ()))
            if number != 1:
                what = "no file" if number == 0 else f"{number} files"
                raise InputError(f"{folder}: {what} {state}{kind.pattern[2:]} of state {state.upper()}, expected one")
    return {kind.name: [path for files in found.values() for path in files[kind.name]] for kind in KINDS}


def _open_kind(spark: SparkSession, kind: _Kind, paths: Sequence[str], folder: str) -> tuple[DataFrame, list[RowCheck]]:
    """Split the lines of one kind of files."""
    lines = with_place(spark.read.option("encoding", "ISO-8859-1").text(list(paths)))
    split = lines.withColumn("parts", F.split("value", r"\|", -1))
    whole = F.size("parts") == kind.columns
    record = F.get("parts", F.lit(kind.logrecno))
    file = f"{folder}/{kind.pattern}"
    checks = [
        RowCheck(file, "", f"{kind.columns} columns", ~whole),
        RowCheck(file, "LOGRECNO", "a whole number", whole & ~record.rlike("^[0-9]{1,9}$")),
    ]
    if kind is _GEO:
        geocode = F.get("parts", F.lit(_GEOCODE))
        bad = whole & _is_block() & ~geocode.rlike(f"^[0-9]{{{_BLOCK_DIGITS}}}$")
        checks.append(RowCheck(file, "GEOCODE", f"{_BLOCK_DIGITS} digits in a block's row", bad))
    checked = split.withColumn(FAULTS, faults(checks))
    return checked.withColumn("state", F.get("parts", F.lit(1))).withColumn("record", record.try_cast("int")), checks


def _is_block() -> Column:
    return F.get("parts", F.lit(_SUMLEV)) == BLOCK


def _row_problems(frame: DataFrame, kind: _Kind, checks: list[RowCheck]) -> list[Problem]:
    """Check every row of one kind of files: columns, keys and, in segments, whole numbers."""
    file = checks[0].file
    number = r"^([^|]*\|){5}[0-9]{1,15}(\|[0-9]{1,15})*$"
    wrong = (F.col(FAULTS) == 0) & ~F.col("value").rlike(number) if kind.tables else F.lit(False)
    with reading(file):
        counted = frame.groupBy(FAULTS, wrong.alias("wrong")).count().collect()
        found: dict[int, int] = {}
        for row in counted:
            found[row[FAULTS]] = found.get(row[FAULTS], 0) + row["count"]
        problems = problems_of(frame, {fault: rows for fault, rows in found.items() if fault}, checks)
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
    keys = None
    for kind in KINDS:
        mine = frames[kind.name].select("state", "record", F.lit(kind.name).alias("kind"))
        keys = mine if keys is None else keys.unionAll(mine)
    if keys is None:
        return []
    counts = [F.count(F.when(F.col("kind") == kind.name, F.lit(1))).alias(kind.name) for kind in KINDS]
    found = keys.groupBy("state", "record").agg(*counts)
    wrong = [F.count(F.when(F.col(kind.name) != 1, F.lit(1))).alias(kind.name) for kind in KINDS]
    with reading(folder):
        row = found.agg(*wrong).collect()[0]
    return [
        Problem(f"{folder}/{kind.pattern}", "LOGRECNO", "each record of the other files, once", row[kind.name])
        for kind in KINDS
        if row[kind.name]
    ]


def _joined_blocks(frames: dict[str, DataFrame]) -> DataFrame:
    """One row a block: geocode (16 digits) and the items of the three segments as arrays of long."""
    geocode = F.get("parts", F.lit(_GEOCODE))
    # The block group is the first digit of the block; the 16-digit geocode names it between tract and block.
    sixteen = F.concat(F.substring(geocode, 1, 11), F.substring(geocode, 12, 1), F.substring(geocode, 12, 4))
    blocks = frames[_GEO.name].where(_is_block()).select("state", "record", sixteen.alias("geocode"))
    for segment in _SEGMENTS:
        items = F.slice("parts", _KEY_COLUMNS + 1, segment.columns).try_cast("array<bigint>")  # else an error quotes it
        blocks = blocks.join(
            frames[segment.name].select("state", "record", items.alias(segment.name)), ["state", "record"]
        )
    return blocks.drop("state", "record")


#: Segment -> 0-based places of the items that are summed: people, Hispanics, adults, Hispanic adults, housing units
#: (all, occupied, vacant), people in group quarters.
_SUMMED = (
    (_SEGMENTS[0], (0, TOTAL_ITEMS + 1)),
    (_SEGMENTS[1], (0, TOTAL_ITEMS + 1, *(TOTAL_ITEMS + HISPANIC_ITEMS + item for item in range(HOUSING_ITEMS)))),
    (_SEGMENTS[2], (0,)),
)


def _sum_problems(frames: dict[str, DataFrame], folder: str) -> list[Problem]:
    """Rows of states, counties, tracts and block groups that are not the sums of their blocks.

    Files of a few blocks are read like those of a state; but blocks that were lost would not be noticed otherwise.
    """
    level, geocode = F.get("parts", F.lit(_SUMLEV)), F.get("parts", F.lit(_GEOCODE))
    wanted = (F.get("parts", F.lit(_GEOCOMP)) == _WHOLE) & level.isin(BLOCK, *_ABOVE)
    rows = frames[_GEO.name].where(wanted).select("state", "record", level.alias("level"), geocode.alias("geocode"))
    names = []
    for segment, places in _SUMMED:
        items = {segment.field(place): F.get("parts", F.lit(_KEY_COLUMNS + place)) for place in places}
        columns = [item.cast("bigint").alias(name) for name, item in items.items()]
        rows = rows.join(frames[segment.name].select("state", "record", *columns), ["state", "record"])
        names += list(items)
    # A block counts for each level above it, any other row for its own.
    above = [
        F.struct(F.lit(each).alias("level"), F.substring("geocode", 1, n).alias("of")) for each, n in _ABOVE.items()
    ]
    own = F.struct(F.col("level"), F.col("geocode").alias("of"))
    is_block = F.col("level") == BLOCK
    at = F.explode(F.when(is_block, F.array(*above)).otherwise(F.array(own)))
    sides = rows.select(at.alias("at"), is_block.alias("is_block"), *names)
    stated = [F.sum(F.when(~F.col("is_block"), F.col(name))).alias(f"stated_{name}") for name in names]
    summed = [F.sum(F.when(F.col("is_block"), F.col(name)).otherwise(0)).alias(f"summed_{name}") for name in names]
    found = sides.groupBy("at.level", F.col("at.of").alias("geocode")).agg(*stated, *summed)
    problems = []
    with reading(folder):
        wrong = {name: F.col(f"stated_{name}") != F.col(f"summed_{name}") for name in names}
        counted = found.groupBy("level").agg(*(F.count_if(each).alias(name) for name, each in wrong.items()))
        for row in counted.orderBy("level").collect():
            for name in names:
                if row[name]:
                    expected = f"in rows of summary level {row['level']} the sum of their blocks"
                    some = _some_geounits(found.where((F.col("level") == row["level"]) & wrong[name]))
                    problems.append(Problem(folder, name, expected, row[name], geounits=some))
    return problems


def _some_geounits(frame: DataFrame) -> tuple[str, ...]:
    """A few geocodes of a frame, in order."""
    return tuple(row[0] for row in frame.select("geocode").orderBy("geocode").limit(MOST_EXAMPLES).collect())


_GEOCODE_LENGTH = 16
_BLOCKS = "geocode string, cells array<int>, counts array<bigint>, units array<bigint>, vacant bigint, broken int"


@dataclass(frozen=True, slots=True)
class Pl94Summary:
    """Reads the summary files of one or many states from a folder."""

    name: str = "pl94_summary"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the files begin; see :class:`~das_spark.spark.readers.base.Reader`."""
        _look_at_files(self._folder(settings, Target.of(self.name, product, spine)))

    def _folder(self, settings: InputSettings, target: Target) -> str:
        allowed = UNIT_CODES if target.counts_units else PERSON_CODES
        target.require_codes(self.name, allowed, target.recodes.attributes.values())
        target.require_codes(self.name, PERSON_CODES, [target.unit_class])
        target.require_geocodes(self.name, _GEOCODE_LENGTH)
        return required(settings.path, "input.path", self.name)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the files; see :class:`~das_spark.spark.readers.base.Reader`."""
        target = Target.of(self.name, product, spine)
        folder = self._folder(settings, target)
        frames = _checked_frames(spark, folder)
        with reading(folder):
            tabulate = without_values(partial(_tabulate, recodes=_BlockRecodes.of(target)))
            blocks = _joined_blocks(frames).mapInArrow(tabulate, _BLOCKS).persist()
            with released_if_refused(blocks):
                refuse(_block_problems(blocks, folder))
                sums = tuple(_sum_problems(frames, folder))
        geounits = _geounits(blocks, target)
        if target.counts_units:
            housing = housing_counts(geounits, target, "OCCUPANCY", occupied=2, vacant=3)
            return IngestedTables(housing, geounits, sums, held=blocks)
        counts = _counts(blocks, target)
        units = units_from_people(counts, geounits, product) if settings.units_from_people else geounits
        return IngestedTables(counts, units, sums, held=blocks)


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


def _checked_frames(spark: SparkSession, folder: str) -> dict[str, DataFrame]:
    files = _find_files(spark, folder)
    frames, problems = {}, []
    for kind in KINDS:
        frame, checks = _open_kind(spark, kind, files[kind.name], folder)
        problems += _row_problems(frame, kind, checks)
        frames[kind.name] = frame
    refuse(problems)
    refuse(_partner_problems(frames, folder))
    return frames


def _tabulate(batches: Iterator[pa.RecordBatch], recodes: _BlockRecodes) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield _batch(batch, recodes)


def _items(batch: pa.RecordBatch, name: str) -> Counts:
    flat: Counts = batch.column(name).flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(batch.num_rows, -1)


def _batch(batch: pa.RecordBatch, recodes: _BlockRecodes) -> pa.RecordBatch:
    first, second, third = (_items(batch, segment.name) for segment in _SEGMENTS)
    p3, p4, h1 = np.split(second, [TOTAL_ITEMS, TOTAL_ITEMS + HISPANIC_ITEMS], axis=1)
    tables = Tables(first[:, :TOTAL_ITEMS], first[:, TOTAL_ITEMS:], p3, p4, h1, third)
    wrong = contradictions(tables)
    people, quarters = tables.people(), tables.quarters()
    broken: NDArray[np.bool_] = np.any(wrong, axis=1)
    people[broken], quarters[broken] = 0, 0
    units = recodes.units(h1[:, 1:2], quarters)
    cells, counts = _sparse(people, quarters, recodes.cells)
    columns = [
        batch.column("geocode"),
        cells,
        counts,
        pa.ListArray.from_arrays(np.arange(0, units.size + 1, recodes.number, dtype=np.int32), units.ravel()),
        pa.array(h1[:, 2]),
        pa.array((wrong << np.arange(len(RULES))).sum(axis=1).astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, ["geocode", "cells", "counts", "units", "vacant", "broken"])


def _sparse(people: Counts, quarters: Counts, recoded: Counts | None) -> tuple[pa.ListArray, pa.ListArray]:
    """Occupied cells and their counts, a list a block; only blocks with group quarters need the full histogram."""
    flat = people.reshape(len(people), -1)
    cells, counts = [], []
    has_quarters: NDArray[np.bool_] = np.any(quarters, axis=1)
    for block, row in enumerate(flat):
        full = assign_group_quarters(people[block], quarters[block]).ravel() if has_quarters[block] else row
        mine = np.flatnonzero(full)
        cells.append(mine if recoded is None else recoded[mine])
        counts.append(full[mine])
    offsets = np.concatenate([[0], np.cumsum([len(mine) for mine in cells])]).astype(np.int32)
    return (
        pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(cells).astype(np.int32))),
        pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(counts).astype(np.int64))),
    )


def _block_problems(blocks: DataFrame, folder: str) -> list[Problem]:
    counted = {row[0]: row[1] for row in blocks.groupBy("broken").count().collect()}
    if not counted:
        raise InputError(f"{folder}: no block (summary level 750) in the geographic header")
    problems = []
    for bit, (field, expected) in enumerate(RULES):
        number = sum(rows for mask, rows in counted.items() if mask >> bit & 1)
        if number:
            some = _some_geounits(blocks.where(F.col("broken").bitwiseAND(F.lit(1 << bit)) != 0))
            problems.append(Problem(folder, field, expected, number, geounits=some))
    twice = blocks.groupBy("geocode").count().where("count > 1")
    number = twice.count()
    if number:
        problems.append(Problem(folder, "GEOCODE", "each block once", number, geounits=_some_geounits(twice)))
    return problems


def _counts(blocks: DataFrame, target: Target) -> DataFrame:
    pairs = blocks.select("geocode", F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    return pairs.select(
        target.geocode().alias("geocode"), F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count")
    )


def _geounits(blocks: DataFrame, target: Target) -> DataFrame:
    if target.spine.leaf.length == _GEOCODE_LENGTH:
        return blocks.select("geocode", "units", "vacant")
    units = F.array(*[F.sum(F.get("units", F.lit(each))) for each in range(target.classes)])
    return blocks.groupBy(target.geocode().alias("geocode")).agg(units.alias("units"), F.sum("vacant").alias("vacant"))


_SUMMARY_LEVEL: Final = 2
#: Column of the entities -> name and 0-based place in a row of the header.
_FIELDS: Final[Mapping[str, tuple[str, int]]] = {
    "aiannhce": ("AIANHH", 35),
    "cousubfp": ("COUSUB", 17),
    "placefp": ("PLACE", 29),
    "sdunilea": ("SDUNI", 82),
    "sdseclea": ("SDSEC", 81),
    "sdelmlea": ("SDELM", 80),
}

STATUS_NOTE: Final = (
    "the files do not give the functional status of places and county subdivisions: each counts as functioning"
)


class Pl94Header:
    """The reader of `<st>geo2020.pl`: rows of summary level 750, 97 columns delimited by ``|``, in Latin-1.

    The column FUNCSTAT of a block's row is that of the block. So every place and county subdivision that a block lies
    in counts as functioning ("A"), statistical ones too; `notes` of the result say so.
    """

    name = "pl94_header"

    def look(self, path: str) -> None:
        """See whether there is a header of the right number of columns; see `GeographyReader`."""
        for each in self._paths(None, path):
            for file in data_files(each):
                columns = first_line(file, utf8=False).count("|") + 1
                if columns != _GEO.columns:
                    hint = "is it a geographic header of 2020 (<st>geo2020.pl)?"
                    raise InputError(f"{file}: {columns} columns in its first line, expected {_GEO.columns}", hint=hint)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read one header, or those of all states in a folder; see `GeographyReader`."""
        paths = self._paths(spark, path)
        placed = with_place(spark.read.option("encoding", "ISO-8859-1").text(paths))
        parts = F.split("value", r"\|", -1)
        whole = F.size(parts) == _GEO.columns
        fields = {name: (field, F.get(parts, F.lit(place))) for name, (field, place) in _FIELDS.items()}
        rows = AreaRows(
            file=path,
            placed=placed,
            whole=whole,
            is_block=F.get(parts, F.lit(_SUMMARY_LEVEL)) == BLOCK,
            geocode=sixteen(F.get(parts, F.lit(_GEOCODE))),
            geocode_field="GEOCODE",
            fields=fields | _functioning(fields),
            checks=(RowCheck(path, "", f"{_GEO.columns} columns", ~whole),),
        )
        return checked(rows, (STATUS_NOTE,))

    @staticmethod
    def _paths(spark: SparkSession | None, path: str) -> list[str]:
        require_path(path)
        if not is_folder(path):
            return [path]
        found = [each for each in files_in(spark, path) if fnmatch(each.rsplit("/", 1)[-1].lower(), _GEO.pattern)]
        if not found:
            raise InputError(f"{path}: no geographic header ({_GEO.pattern})", hint="unzip the files of the states")
        return found


def _functioning(fields: Mapping[str, tuple[str, Column]]) -> dict[str, tuple[str, Column]]:
    """Columns of functional status for files that have none: active where there is an entity."""
    status = {}
    for name, code in STATUS_OF.items():
        field, text = fields[code]
        nowhere = F.coalesce(F.trim(text), F.lit("")).isin("", NOTHING[code])
        status[name] = (field, F.when(nowhere, F.lit(NO_STATUS)).otherwise(F.lit(ACTIVE)))
    return status
