"""The official P.L. 94-171 summary files: finding, splitting and joining them, one row a block.

Four files a state, delimited by ``|``, without header, in Latin-1: the geographic header and three segments of
tables, joined by STUSAB and LOGRECNO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.readers._begin import first_line, is_remote
from das_spark.io.readers._redistricting_tables import HISPANIC_ITEMS, HOUSING_ITEMS, QUARTERS_ITEMS, TOTAL_ITEMS
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, with_place
from das_spark.io.readers._sources import files_in
from das_spark.io.readers.base import MOST_EXAMPLES, Problem, reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY_COLUMNS = 5
BLOCK = "750"
_SUMLEV, _GEOCOMP, _LOGRECNO_OF_GEO, _GEOCODE, _LOGRECNO = 2, 3, 7, 9, 4
_BLOCK_DIGITS = 15
#: Summary levels above the block that have a row for every geounit, and the digits of their geocodes.
_ABOVE = {"040": 2, "050": 5, "140": 11, "150": 12}
_WHOLE = "00"
"""Geographic component of a row that is about a geounit, and not about a part of it such as its rural one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the four kinds of files.

    Args:
        name: For the join and for messages.
        pattern: Of file names.
        columns: How many a row has.
        tables: Name and number of items of each table, in order.
        logrecno: 0-based column of the record number.
    """

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


GEO = Kind("geo", "??geo*.pl", 97, (), _LOGRECNO_OF_GEO)
SEGMENTS = (
    Kind("segment1", "??00001*.pl", 149, (("P001", TOTAL_ITEMS), ("P002", HISPANIC_ITEMS))),
    Kind("segment2", "??00002*.pl", 152, (("P003", TOTAL_ITEMS), ("P004", HISPANIC_ITEMS), ("H001", HOUSING_ITEMS))),
    Kind("segment3", "??00003*.pl", 15, (("P005", QUARTERS_ITEMS),)),
)
KINDS = (GEO, *SEGMENTS)


def look_at_files(folder: str) -> None:
    """See without Spark that the files of every state are there, and begin with a row of as many columns as theirs.

    Args:
        folder: Of one or many states; nothing happens where it is remote.

    Raises:
        InputError: There is none, a state lacks a file, or one does not begin so.
    """
    for kind in KINDS if not is_remote(folder) else ():
        for path in find_files(None, folder)[kind.name]:
            if first_line(Path(path), utf8=False).count("|") + 1 != kind.columns:
                expected = f"a row of {kind.columns} columns delimited by |"
                raise InputError(
                    f"{path}: does not begin with {expected}", hint="is it the file of 2020, as published?"
                )


def find_files(spark: SparkSession | None, folder: str) -> dict[str, list[str]]:
    """The files of every kind, one of each for every state in the folder.

    Args:
        spark: The session; may be None for a local folder.
        folder: Of one or many states, in sub-folders or not.

    Returns:
        Paths by name of the kind.

    Raises:
        InputError: There is none, a state lacks a file, or has one twice.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for path in files_in(spark, folder):
        name = path.rsplit("/", 1)[-1].lower()
        for kind in KINDS:
            if fnmatch(name, kind.pattern):
                found.setdefault(name[:2], {}).setdefault(kind.name, []).append(path)
    if not found:
        raise InputError(
            f"{folder}: no official summary file ({GEO.pattern} and others)", hint="unzip the files of the states"
        )
    for state, files in sorted(found.items()):
        for kind in KINDS:
            number = len(files.get(kind.name, ()))
            if number != 1:
                what = "no file" if number == 0 else f"{number} files"
                raise InputError(f"{folder}: {what} {state}{kind.pattern[2:]} of state {state.upper()}, expected one")
    return {kind.name: [path for files in found.values() for path in files[kind.name]] for kind in KINDS}


def open_kind(spark: SparkSession, kind: Kind, paths: Sequence[str], folder: str) -> tuple[DataFrame, list[Check]]:
    """Split the lines of one kind of files.

    Args:
        spark: The session.
        kind: The kind.
        paths: Its files, one a state.
        folder: Where they lie, for messages.

    Returns:
        Columns parts (array of string), state, record (int), place and faults; and the checks behind the faults.
    """
    lines = with_place(spark.read.option("encoding", "ISO-8859-1").text(list(paths)))
    split = lines.withColumn("parts", F.split("value", r"\|", -1))
    whole = F.size("parts") == kind.columns
    record = F.get("parts", F.lit(kind.logrecno))
    file = f"{folder}/{kind.pattern}"
    checks = [
        Check(file, "", f"{kind.columns} columns", ~whole),
        Check(file, "LOGRECNO", "a whole number", whole & ~record.rlike("^[0-9]{1,9}$")),
    ]
    if kind is GEO:
        geocode = F.get("parts", F.lit(_GEOCODE))
        bad = whole & _is_block() & ~geocode.rlike(f"^[0-9]{{{_BLOCK_DIGITS}}}$")
        checks.append(Check(file, "GEOCODE", f"{_BLOCK_DIGITS} digits in a block's row", bad))
    checked = split.withColumn(FAULTS, faults(checks))
    return checked.withColumn("state", F.get("parts", F.lit(1))).withColumn("record", record.try_cast("int")), checks


def _is_block() -> Column:
    return F.get("parts", F.lit(_SUMLEV)) == BLOCK


def row_problems(frame: DataFrame, kind: Kind, checks: list[Check]) -> list[Problem]:
    """Check every row of one kind of files: columns, keys and, in segments, whole numbers.

    Args:
        frame: The lines, as `open_kind` gives them.
        kind: The kind of the files.
        checks: The checks that `open_kind` gives with them; one at least.

    Raises:
        InputError: A file cannot be read.
    """
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


def _item_problems(wrong: DataFrame, kind: Kind, file: str) -> list[Problem]:
    bad = F.transform(F.slice("parts", KEY_COLUMNS + 1, kind.columns), lambda item: ~item.rlike("^[0-9]{1,15}$"))
    positions = wrong.select(F.posexplode(bad).alias("position", "bad")).where("bad").groupBy("position").count()
    rows = positions.orderBy("position").collect()
    return [Problem(file, kind.field(row["position"]), "a whole number", row["count"]) for row in rows]


def partner_problems(frames: dict[str, DataFrame], folder: str) -> list[Problem]:
    """Check that every record of every file has one partner in each of the others.

    Args:
        frames: Name of a kind -> its lines, as `open_kind` gives them; all four kinds.
        folder: Where the files lie, for messages.

    Raises:
        InputError: A file cannot be read.
    """
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


def joined_blocks(frames: dict[str, DataFrame]) -> DataFrame:
    """One row a block: geocode (16 digits) and the items of the three segments as arrays of long."""
    geocode = F.get("parts", F.lit(_GEOCODE))
    # The block group is the first digit of the block; the 16-digit geocode names it between tract and block.
    sixteen = F.concat(F.substring(geocode, 1, 11), F.substring(geocode, 12, 1), F.substring(geocode, 12, 4))
    blocks = frames[GEO.name].where(_is_block()).select("state", "record", sixteen.alias("geocode"))
    for segment in SEGMENTS:
        items = F.slice("parts", KEY_COLUMNS + 1, segment.columns).try_cast("array<bigint>")  # else an error quotes it
        blocks = blocks.join(
            frames[segment.name].select("state", "record", items.alias(segment.name)), ["state", "record"]
        )
    return blocks.drop("state", "record")


#: Segment -> 0-based places of the items that are summed: people, Hispanics, adults, Hispanic adults, housing units
#: (all, occupied, vacant), people in group quarters.
_SUMMED = (
    (SEGMENTS[0], (0, TOTAL_ITEMS + 1)),
    (SEGMENTS[1], (0, TOTAL_ITEMS + 1, *(TOTAL_ITEMS + HISPANIC_ITEMS + item for item in range(HOUSING_ITEMS)))),
    (SEGMENTS[2], (0,)),
)


def sum_problems(frames: dict[str, DataFrame], folder: str) -> list[Problem]:
    """Rows of states, counties, tracts and block groups that are not the sums of their blocks.

    Files of a few blocks are read like those of a state; but blocks that were lost would not be noticed otherwise.

    Args:
        frames: Name of a kind -> its lines, as `open_kind` gives them; all four kinds, all rows checked.
        folder: Where the files lie, for messages.

    Raises:
        InputError: A file cannot be read.
    """
    level, geocode = F.get("parts", F.lit(_SUMLEV)), F.get("parts", F.lit(_GEOCODE))
    wanted = (F.get("parts", F.lit(_GEOCOMP)) == _WHOLE) & level.isin(BLOCK, *_ABOVE)
    rows = frames[GEO.name].where(wanted).select("state", "record", level.alias("level"), geocode.alias("geocode"))
    names = []
    for segment, places in _SUMMED:
        items = {segment.field(place): F.get("parts", F.lit(KEY_COLUMNS + place)) for place in places}
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
                    some = some_geounits(found.where((F.col("level") == row["level"]) & wrong[name]))
                    problems.append(Problem(folder, name, expected, row[name], geounits=some))
    return problems


def some_geounits(frame: DataFrame) -> tuple[str, ...]:
    """A few geocodes of a frame, in order."""
    return tuple(row[0] for row in frame.select("geocode").orderBy("geocode").limit(MOST_EXAMPLES).collect())
