"""Whether the microdata files say what the leaf estimates and the declared invariants say.

The files were reduced to a digest (`das_spark.io.microdata_digest`), which holds the people of each geounit by their
codes and the class of their unit, the units of each geounit by class, and what was found to be wrong within a part.
What is judged of these is a rule on families (`das_spark.verification.RecordsEqual`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from das_spark.errors import VerificationError
from das_spark.places import Place
from das_spark.products import (
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    ROW_ORDER,
    UNIT_NUMBERS,
    MicrodataCodes,
)
from das_spark.spark.checks import Check, Rule
from das_spark.spark.verify import FileRows, RunTables, Source, SpineTables, judged_families, present, stored_rows
from das_spark.verification import POPULATIONS, UNITS_EQUAL, ChildRows, RecordsEqual, UnitsEqual, format_note

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.geography import Spine
    from das_spark.io.record_weights import RecordWeights
    from das_spark.verification import FamilyRule, Key


@dataclass(frozen=True, slots=True)
class MicrodataTables:
    """The microdata of a run, reduced."""

    persons: Sequence[Place]  # files with format, geocode, one and other: the sums of `weights`
    units: Sequence[Place] | None  # files with format, geocode, kind, count, people and odd; None where none are known
    # one row a part: format, people (records of what is counted), first (number of the first of these), count (of
    # units), low and high (numbers of its first and last unit), geocode (of the first)
    parts: Sequence[Mapping[str, Any]]
    faults: Sequence[Mapping[str, Any]]  # what breaks a rule within a part: format, rule, geocode
    formats: tuple[str, ...]  # names of the formats that there must be
    weights: RecordWeights  # of the codes that the columns of the files hold
    told: DataFrame | None = None  # `told_apart` of the leaves; None where the layout tells nothing apart

    @property
    def codes(self) -> MicrodataCodes:
        """What the columns of the files hold."""
        return self.weights.codes

    def note(self, format: str) -> str:
        """What tells the checks of a format from those of others."""
        return format_note(format, self.formats)


def microdata_families(
    microdata: MicrodataTables, level: str, spine: Spine | None, tables: SpineTables[Any]
) -> tuple[list[FamilyRule], list[Source | FileRows]]:
    """Return the rules on microdata files, and the rows that they look at besides estimates and invariants.

    Args:
        microdata: The files, reduced.
        level: That of the leaves.
        spine: The levels; where it is None every geounit is by itself.
        tables: Of the run.
    """
    codes, formats = microdata.codes, microdata.formats
    rules: list[FamilyRule] = [
        RecordsEqual(level, formats, microdata.weights, listed=bool(codes.listed) and tables.invariants is not None)
    ]
    rows: list[Source | FileRows] = [
        stored_rows("records", level, file, [ChildRows("records", spine)]) for file in microdata.persons
    ]
    if microdata.units is not None:
        present(tables.invariants, "invariants")
        rules.append(UnitsEqual(level, formats, codes))
        rows += [
            stored_rows("record_units", level, file, [ChildRows("record_units", spine)]) for file in microdata.units
        ]
    if codes.tells_apart:
        told = present(microdata.told, "published counts of records that are told apart")
        rows.append(Source(told.withColumn("level", F.lit(level)), (ChildRows("told", spine),)))
    return rules, rows


def microdata_rules(microdata: MicrodataTables, tables: RunTables) -> list[Rule]:
    """Judge microdata files by a pass of their own, geounit by geounit.

    Args:
        microdata: The files, reduced.
        tables: Estimates and invariants, under the geocodes of the files.
    """
    level = tables.levels[-1]

    def of_leaves(rows: DataFrame) -> DataFrame:
        return rows.where(F.col("level") == level).withColumn("parent", F.lit(""))

    estimates, declared = of_leaves(tables.estimates), tables.invariants
    leaves = RunTables((level,), estimates, estimates, None if declared is None else of_leaves(declared))
    rules, rows = microdata_families(microdata, level, None, leaves)
    return [*judged_families(rules, leaves, None, rows), unreadable(microdata, level)]


def unreadable(microdata: MicrodataTables, level: str) -> Rule:
    """Return what the parts were found to break of these rules, of which a file that cannot be read is one."""
    names = (PERSONS_EQUAL, UNITS_EQUAL, POPULATIONS)
    return Rule(None, (), {key: tuple(sorted(found)) for key, found in _faults(microdata, level, *names).items()})


def _faults(microdata: MicrodataTables, level: str, *names: str) -> dict[Key, set[str]]:
    """What the parts were found to break of some rules; a rule that nobody asks for must not be lost in silence."""
    found: dict[Key, set[str]] = {}
    for row in microdata.faults:
        if row["rule"] not in PART_RULES:
            raise VerificationError(f"the digest of the microdata names an unknown rule: {row['rule']!r}")
        if row["rule"] in names:
            found.setdefault((row["rule"], level, microdata.note(row["format"])), set()).add(row["geocode"])
    return found


def part_checks(microdata: MicrodataTables) -> list[Check]:
    """Rules that were looked at part by part.

    `columns of microdata`: constant columns hold their text in every record, and Parquet files have the columns of the
    layout, of their types, and no others.
    `order of records`: they stand by geocode, class and cell, and people of a class as its units got them in turn.
    `record numbers`: where records are numbered, they are 0, 1, ... in the order of the file.

    And, where people are assigned to units:

    `persons in units`: a unit of population n holds the persons numbered 1 to n, and no person lives elsewhere.
    `unit numbers`: units are numbered 0, 1, ... without gap or repetition, so the ranges of the parts join.
    """
    checks = []
    for format in microdata.formats:
        checks += _layout_checks(microdata, format)
    if microdata.units is None:
        return checks
    faults = _faults(microdata, "", PERSONS_IN_UNITS, UNIT_NUMBERS)
    for format in microdata.formats:
        note = microdata.note(format)
        parts = [row for row in microdata.parts if row["format"] == format and row["count"]]
        total = sum(row["count"] for row in parts)
        for name, extra in ((PERSONS_IN_UNITS, set()), (UNIT_NUMBERS, _disjoined(parts))):
            checks.append(Check.of((name, "", note), total, faults.get((name, "", note), set()) | extra))
    return checks


def _layout_checks(microdata: MicrodataTables, format: str) -> list[Check]:
    form, note = microdata.codes.forms[format], microdata.note(format)
    faults = _faults(microdata, "", COLUMNS_AS_DECLARED, RECORD_NUMBERS, ROW_ORDER)
    columns, numbers, order = ((name, "", note) for name in (COLUMNS_AS_DECLARED, RECORD_NUMBERS, ROW_ORDER))
    read = [row for row in microdata.parts if row["format"] == format]
    declared = sum(map(len, form.rules.values())) if read else 0
    # A file without a record is in order, too; but one must be there.
    records = max(sum(row["people"] for row in read), len(read))
    checks = [
        Check.of(columns, declared, faults.get(columns, set())),
        Check.of(order, records, faults.get(order, set())),
    ]
    column = form.record_number(microdata.codes.record)
    if column:
        parts = sorted((row for row in read if row["people"]), key=lambda row: (row["first"], row["people"]))
        before = np.cumsum([0, *(row["people"] for row in parts)])
        joined = all(row["first"] == begin for row, begin in zip(parts, before, strict=False))
        broken = set() if joined else {f"{microdata.codes.record}.{format}: {column}"}
        # A file without a record is numbered, too; but one must be there.
        checks.append(Check.of(numbers, max(int(before[-1]), len(read)), faults.get(numbers, set()) | broken))
    return checks


def _disjoined(parts: Sequence[Mapping[str, Any]]) -> set[str]:
    """First geocodes of parts whose unit numbers are not those that follow the part before."""
    failing, expected = set(), 0
    for row in sorted(parts, key=lambda row: (row["low"], row["high"])):
        if (row["low"], row["high"]) != (expected, expected + row["count"] - 1):
            failing.add(str(row["geocode"]))
        expected += row["count"]
    return failing
