"""The official block assignment files of 2020: for each kind of entity a file that names that of every block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import CENSUS_BLOCK, ENTITY_COLUMNS
from das_spark.io.input_fields import GEOCODE
from das_spark.io.listed_files import POSITION
from das_spark.spark.problems import (
    Problem,
    RowCheck,
    faults,
    reading,
    refuse,
    row_numbers,
    row_problems,
    some_geounits,
)
from das_spark.spark.readers._areas import (
    NOTHING,
    STATUS_NOTE,
    STATUS_OF,
    Delimited,
    code_checks,
    filled,
    status_of,
)
from das_spark.spark.readers.base import EntityBlocks, files_in, sixteen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_NAME: Final = re.compile(r"BlockAssign_ST(\d\d)_[A-Z]{2}_([A-Z_]+)\.txt(?:\.gz)?", re.IGNORECASE)
_BLOCK: Final = "BLOCKID"
_COUNTY: Final = "COUNTYFP"
_KIND: Final = "the official block assignment files"


@dataclass(frozen=True, slots=True)
class _AssignmentFile:
    """One kind of file: its name, the column that is read, what that becomes, and whether every state has it."""

    kind: str
    field: str
    column: str
    needed: bool


_FILES: Final = (
    _AssignmentFile("INCPLACE_CDP", "PLACEFP", "placefp", True),
    _AssignmentFile("MCD", "COUSUBFP", "cousubfp", True),
    _AssignmentFile("AIANNH", "AIANNHCE", "aiannhce", False),
    _AssignmentFile("SDUNI", "DISTRICT", "sdunilea", False),
    _AssignmentFile("SDSEC", "DISTRICT", "sdseclea", False),
    _AssignmentFile("SDELM", "DISTRICT", "sdelmlea", False),
)
#: The file of places names every block, also those that lie in none.
_ALL_BLOCKS: Final = _FILES[0]


class BlockAssignment:
    """The reader of a folder of `BlockAssign_ST44_RI_AIANNH.txt` and the like, of one state or many.

    Files of places (INCPLACE_CDP), county subdivisions (MCD), AIAN areas, and unified, secondary and elementary school
    districts are joined by BLOCKID; all that a state has must name the same blocks. They do not give functional
    statuses: every place and county subdivision counts as functioning ("A"), statistical ones too. A state without a
    file of AIAN areas or of a kind of school districts has none of them. `notes` of the result say both.
    """

    name = "block_assignment"

    def look(self, path: str) -> None:
        """See whether the files of every state are there, with their columns; see `GeographyReader`."""
        found, _ = self._find(path)
        for file in _FILES:
            name = f"{path}/BlockAssign_*_{file.kind}.txt"
            Delimited.look(sorted(found[file.kind].values()), [_BLOCK, file.field], file=name, kind=_KIND)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read all states of a folder; see `GeographyReader`."""
        found, notes = self._find(path)
        opened = []
        problems: list[Problem] = []
        for file in _FILES:
            if found[file.kind]:
                rows, problem = _open(spark, path, file, found[file.kind])
                opened.append((file, rows))
                problems += problem
        refuse(problems, hint="correct the files; codes are text, with their leading zeros", public=True)
        joined = _join(opened)
        with reading(path):
            problems = _partners(path, opened, found, joined)
            refuse(problems, hint="take all files of a state from the same release", public=True)
        blocks = joined.select(GEOCODE, *(_column(name) for name in ENTITY_COLUMNS))
        return EntityBlocks(blocks, (STATUS_NOTE, *notes))

    @staticmethod
    def _find(folder: str) -> tuple[dict[str, dict[str, str]], list[str]]:
        """Of each kind the file of each state, and what is missing."""
        found: dict[str, dict[str, str]] = {file.kind: {} for file in _FILES}
        states = set()
        for path in files_in(folder):
            match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
            if match is None or match[2].upper() not in found:
                continue
            states.add(match[1])
            if match[1] in found[match[2].upper()]:
                raise InputError(f"{folder}: two files {match[2].upper()} of state {match[1]}, expected one")
            found[match[2].upper()][match[1]] = path
        if not states:
            raise InputError(f"{folder}: no block assignment file (BlockAssign_ST*_*.txt)", hint="unzip the files")
        notes = []
        for file in _FILES:
            missing = sorted(states - set(found[file.kind]))
            if missing and file.needed:
                raise InputError(
                    f"{folder}: no file BlockAssign_ST{missing[0]}_*_{file.kind}.txt, so no column {file.column!r}",
                    hint="every state has one: unzip the whole archive of the state",
                )
            if missing:
                notes.append(f"no file {file.kind} of state {', '.join(missing)}: no block there has {file.column!r}")
        return found, notes


def _open(
    spark: SparkSession, folder: str, file: _AssignmentFile, paths: Mapping[str, str]
) -> tuple[DataFrame, list[Problem]]:
    """Columns geocode, code and place of one kind of file, and the problems of its rows."""
    name = f"{folder}/BlockAssign_*_{file.kind}.txt"
    table = Delimited.open(spark, sorted(paths.values()), [_BLOCK, file.field], file=name, kind=_KIND)
    block, code = table.column(_BLOCK), filled(table.column(file.field), NOTHING[file.column])
    good = block.rlike(f"^[0-9]{{{CENSUS_BLOCK}}}$")
    checks = [table.form, RowCheck(name, _BLOCK, f"{CENSUS_BLOCK} digits", table.whole & ~good)]
    checks += code_checks(name, file.field, file.column, code, table.whole)
    if _COUNTY in table.names:
        other = table.whole & good & (table.column(_COUNTY) != F.substring(block, 3, 3))
        checks.append(RowCheck(name, _COUNTY, f"the county that {_BLOCK} names", other))
    # The line of names stays, without geocode: rows are numbered among all lines.
    geocode = F.when(table.is_row, sixteen(block)).alias(GEOCODE)
    rows = table.frame.select(faults(checks), *POSITION, geocode, code.alias("code"))
    with reading(name):
        return rows, row_problems(rows, checks)


def _join(opened: Sequence[tuple[_AssignmentFile, DataFrame]]) -> DataFrame:
    """A row a block: the code of each kind, and in how many rows of its file the block stands."""
    kinds = [rows.select(GEOCODE, "code", F.lit(file.column).alias("kind")) for file, rows in opened]
    stacked = reduce(lambda one, other: one.unionAll(other), kinds).where(F.col(GEOCODE).isNotNull())
    columns = []
    for file in _FILES:
        code = F.when(F.col("kind") == file.column, F.col("code"))
        columns += [F.max(code).alias(file.column), F.count(code).alias(f"{file.column}_rows")]
    return stacked.groupBy(GEOCODE).agg(*columns)


def _partners(
    folder: str,
    opened: Sequence[tuple[_AssignmentFile, DataFrame]],
    found: Mapping[str, Mapping[str, str]],
    joined: DataFrame,
) -> list[Problem]:
    """Blocks that stand twice in a file, or in some files of their state only."""
    state = F.substring(GEOCODE, 1, 2)
    wrong: dict[tuple[_AssignmentFile, str], Column] = {}
    for file, _ in opened:
        number = F.col(f"{file.column}_rows")
        wrong[file, "each block once"] = number > 1
        here = (number == 0) & state.isin(*found[file.kind])
        other = _ALL_BLOCKS.kind if file is not _ALL_BLOCKS else "all the other files"
        wrong[file, f"every block of {other}"] = here
    counts = joined.agg(*(F.count(F.when(column, 1)) for column in wrong.values())).collect()[0]
    problems = []
    for ((file, expected), column), count in zip(wrong.items(), counts, strict=True):
        if not count:
            continue
        bad = joined.where(column).select(GEOCODE)
        rows = next(frame for each, frame in opened if each is file)
        numbers = row_numbers(rows, rows.join(bad, GEOCODE, "left_semi"))
        name = f"{folder}/BlockAssign_*_{file.kind}.txt"
        problems.append(Problem(name, _BLOCK, expected, count, numbers, some_geounits(bad)))
    return problems


def _column(name: str) -> Column:
    code = STATUS_OF.get(name, name)
    value = F.coalesce(code, F.lit(NOTHING[code]))
    return (value if code == name else status_of(value, NOTHING[code])).alias(name)
