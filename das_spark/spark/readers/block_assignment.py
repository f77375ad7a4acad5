"""The official block assignment files of 2020: for each kind of entity a file that names that of every block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.geography import CENSUS_BLOCK
from das_spark.io.delimited_lines import LineFields
from das_spark.io.input_fields import Names, matching, sixteen
from das_spark.io.table_folder import named_files
from das_spark.io.text_lines import TextLines
from das_spark.spark.readers._areas import (
    AREA_ROWS,
    ENTITIES,
    STATUS_NOTE,
    STATUS_OF,
    AreaLines,
    BlockPass,
    block_rows,
    check_codes,
    filled_codes,
    read_blocks,
    status_of,
)
from das_spark.spark.readers._passes import Rule
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from das_spark.io.input_fields import Rows


_NAME: Final = re.compile(r"BlockAssign_ST(\d\d)_[A-Z]{2}_([A-Z_]+)\.txt(?:\.gz)?", re.IGNORECASE)
_PATTERNS: Final = ("blockassign_st*.txt", "blockassign_st*.txt.gz")
_ALIKE: Final = ("*blockassign*",)
_STATE: Final = slice(len("blockassign_st44"))
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

    def files(self, path: str) -> list[str]:
        """See `GeographyReader`."""
        by_kind, _ = self._find(path)
        return [file for of_states in by_kind.values() for file in of_states.values()]

    def look(self, path: str) -> None:
        """See whether the files of every state are there, with their columns; see `GeographyReader`."""
        by_kind, _ = self._find(path)
        for number, file in enumerate(_FILES):
            if by_kind[file.kind]:
                _opened(path, number, by_kind[file.kind])

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read all states of a folder; see `GeographyReader`."""
        by_kind, notes = self._find(path)
        some = {number: by_kind[file.kind] for number, file in enumerate(_FILES) if by_kind[file.kind]}
        tables = [_opened(path, number, paths) for number, paths in some.items()]
        once, everywhere = {}, {}
        for number, paths in some.items():
            name, file = _name(path, _FILES[number]), _FILES[number]
            once[number] = Rule(name, _BLOCK, "each block once")
            other = _ALL_BLOCKS.kind if file is not _ALL_BLOCKS else "all the other files"
            everywhere[number] = Rule(name, _BLOCK, f"every block of {other}"), frozenset(paths)
        blocks = read_blocks(spark, path, tables, BlockPass(ENTITIES, once, everywhere))
        return EntityBlocks(blocks, (STATUS_NOTE, *notes))

    @staticmethod
    def _find(folder: str) -> tuple[dict[str, dict[str, str]], list[str]]:
        """Of each kind the file of each state, and what is missing."""
        by_kind: dict[str, dict[str, str]] = {file.kind: {} for file in _FILES}
        states = set()
        for path in named_files(folder, _PATTERNS, _ALIKE, _STATE):
            match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
            if match is None:
                raise InputError(
                    f"{path}: has no name of an official file, such as BlockAssign_ST44_RI_MCD.txt",
                    hint="is it a copy? Others of its kind would not be read with it: rename it, or move it elsewhere",
                )
            if match[2].upper() not in by_kind:
                continue
            states.add(match[1])
            if match[1] in by_kind[match[2].upper()]:
                raise InputError(f"{folder}: two files {match[2].upper()} of state {match[1]}, expected one")
            by_kind[match[2].upper()][match[1]] = path
        if not states:
            raise InputError(f"{folder}: no block assignment file (BlockAssign_ST*_*.txt)", hint="unzip the files")
        notes = []
        for file in _FILES:
            missing = sorted(states - set(by_kind[file.kind]))
            if missing and file.needed:
                raise InputError(
                    f"{folder}: no file BlockAssign_ST{missing[0]}_*_{file.kind}.txt, so no column {file.column!r}",
                    hint="every state has one: unzip the whole archive of the state",
                )
            if missing:
                notes.append(f"no file {file.kind} of state {', '.join(missing)}: no block there has {file.column!r}")
        return by_kind, notes


def _name(folder: str, file: _AssignmentFile) -> str:
    return f"{folder}/BlockAssign_*_{file.kind}.txt"


def _opened(folder: str, number: int, paths: Mapping[str, str]) -> Reading:
    """The files of all states of one kind, by its place among all."""
    file, files = _FILES[number], sorted(paths.values())
    name = _name(folder, file)
    fields = LineFields.of(files, [_BLOCK, file.field], file=name, kind=_KIND)
    return Reading(Names(name, (), file.kind), _AssignmentLines(fields, number), TextLines.of(files))


@dataclass(frozen=True, slots=True)
class _AssignmentLines(AreaLines):
    """Lines of blocks with the entity of one kind that each lies in."""

    line: LineFields
    number: int

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        file = _FILES[self.number]
        has_county = _COUNTY in self.line.names
        lines = self.line.cut(rows, (_BLOCK, file.field, *([_COUNTY] if has_county else [])))
        block, codes = lines.column(_BLOCK), filled_codes(lines.column(file.field), file.column)
        good = matching(block, f"^[0-9]{{{CENSUS_BLOCK}}}$")
        lines.check(_BLOCK, f"{CENSUS_BLOCK} digits", ~good)
        check_codes(lines, file.field, file.column, codes)
        if has_county:
            other = np.asarray(pc.not_equal(lines.column(_COUNTY), pc.utf8_slice_codeunits(block, 2, 5)))
            lines.check(_COUNTY, f"the county that {_BLOCK} names", good & other)
        status = {name: status_of(codes, name) for name, code in STATUS_OF.items() if code == file.column}
        return block_rows(AREA_ROWS, lines, sixteen(block), {file.column: codes, **status}, file=self.number)
