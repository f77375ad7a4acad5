"""Microdata files read back and reduced to what verification compares: one Spark task a part, arrays within.

A part of 4 million people and their units becomes some ten thousand rows, in bounded memory; reading persons through
Spark's own rows and joining them with their units by shuffles takes ten times as long. The digest is written once,
below the public root, for the checks to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet

from das_spark.errors import without_values
from das_spark.io.microdata_part import FAULT, PART, PERSONS, UNITS, Part, digest_part
from das_spark.products import MicrodataCodes
from das_spark.store import discard, disk_errors, part_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.products.base import Record
    from das_spark.store import PublicLayout

#: Rows of a digest, by `record`.
#: persons: people of one geocode, codes and kind (class of their unit, -1 without one, null where no units are known).
#: units: units of one geocode and kind (-1: codes of no class), their people, and how many have an odd population.
#: part: units (count) and people of a part; low and high, numbers of its first and last unit; geocode of the first;
#: first, number of the first record where records are numbered.
#: fault: a geocode, a column, or a file that cannot be read, that breaks a rule; the first 20 of each rule and part.
DIGEST: Final = (
    "flavour string, record string, part int, rule string, geocode string, codes string, kind int, count long, "
    "people long, odd long, low long, high long, first long"
)
_NUMBER = re.compile(r"part-(\d+)")


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest as read back.

    Attributes:
        record: What is counted, and the kind of its file.
        persons: flavour, geocode, codes, kind, count.
        units: flavour, geocode, kind, count, people, odd.
        parts: One row a part: flavour, count, people, low, high, first, geocode.
        faults: flavour, rule, geocode.
    """

    record: str
    persons: DataFrame
    units: DataFrame
    parts: tuple[Mapping[str, Any], ...]
    faults: tuple[Mapping[str, Any], ...]

    def records(self, kind: str, flavour: str) -> int:
        """Records of a file.

        Args:
            kind: `person` or `unit`.
            flavour: `parquet`, `text` or `ppmf`.
        """
        column = "people" if kind == self.record else "count"
        return sum(int(row[column]) for row in self.parts if row["flavour"] == flavour)


@dataclass(frozen=True, slots=True)
class DigestTask:
    """What a worker needs to reduce the parts whose places in the list it is given.

    Attributes:
        parts: All parts.
        codes: What their columns hold.
    """

    parts: tuple[Part, ...]
    codes: MicrodataCodes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reduce each part whose place is in the column id."""
        for batch in batches:
            for place in batch.column("id").to_pylist():
                yield from digest_part(self.parts[place], self.codes)


def microdata_parts(
    layout: PublicLayout, flavours: Sequence[str], *, units: bool, record: str = "person", form: str = "parts"
) -> tuple[Part, ...]:
    """The parts of the microdata of a run, the largest first.

    Args:
        layout: Where they lie.
        flavours: Names of writers.
        units: Whether there is a file of units that people are dealt to.
        record: Kind of the file of what is counted.
        form: Of text files, as `output.microdata_files` spells it.

    Returns:
        One for each number that a person or unit part has; a file that is missing is found when it is read.
    """
    parts = []
    for flavour in flavours:
        if form == "single" and flavour != "parquet":
            unit = layout.microdata_single("unit", flavour) if units else None
            parts.append(Part(flavour, 0, layout.microdata_single(record, flavour), unit, form))
            continue
        persons = _numbered(layout.microdata(record, flavour))
        of_units = _numbered(layout.microdata("unit", flavour)) if units else {}
        for number in persons.keys() | of_units.keys():
            name = (persons | of_units)[number].name
            person = layout.microdata(record, flavour) / name
            unit = layout.microdata("unit", flavour) / name if units else None
            parts.append(Part(flavour, number, person, unit, form))
    return tuple(sorted(parts, key=lambda part: (-_size(part), part.flavour, part.number)))


def write_digest(spark: SparkSession, parts: Sequence[Part], codes: MicrodataCodes, folder: Path) -> Digest:
    """Reduce parts by one Spark job and write the result.

    Args:
        spark: The session; its workers must be able to open the parts and the folder.
        parts: The files.
        codes: What their columns hold.
        folder: Where the digest goes; what is there is destroyed.

    Raises:
        OutputError: The disk is full.
    """
    discard(folder)
    absolute = tuple(
        replace(each, person=each.person.absolute(), unit=each.unit.absolute() if each.unit else None) for each in parts
    )
    with disk_errors(folder):
        places = spark.range(0, len(parts), 1, max(len(parts), 1))
        reduced = places.mapInArrow(without_values(DigestTask(absolute, codes)), DIGEST)
        reduced.write.partitionBy("record").parquet(str(folder))
    reader = spark.read.schema(DIGEST).option("basePath", str(folder))
    persons, units = (_made(folder, record) for record in (PERSONS, UNITS))
    return Digest(
        codes.record,
        reader.parquet(str(persons)).select("flavour", "geocode", "codes", "kind", "count"),
        reader.parquet(str(units)).select("flavour", "geocode", "kind", "count", "people", "odd"),
        _few(_made(folder, PART), "flavour", "count", "people", "low", "high", "first", "geocode"),
        _few(_made(folder, FAULT), "flavour", "rule", "geocode"),
    )


def misplaced_heads(
    layout: PublicLayout, flavour: str, kind: Record, form: str, codes: MicrodataCodes, rows: int
) -> set[str]:
    """Files of metadata and of column names of a text file that do not say what they should, by their names.

    Metadata are lines that begin with "#", one of which says how many records there are. The names of columns that a
    single file or a part begins with are read with its records.

    Args:
        layout: Where the file lies.
        flavour: Not Parquet.
        kind: `person` or `unit`.
        form: As `output.microdata_files` spells it.
        codes: Of the product.
        rows: Records that were found.
    """
    folder, of = layout.microdata(kind, flavour), codes.forms[flavour]
    joined = form != "parts" and not of.names_inside
    single = layout.microdata_single(kind, flavour) if form == "single" and joined else None
    metadata = single or folder / ("0_metadata" if joined else "metadata")
    expected = {"header": of.line_of_names(kind, codes.record) if form == "parts" and of.header == "beside" else ""}
    expected["1_header"] = of.line_of_names(kind, codes.record) if form == "concatenate" else ""
    found = {name: (folder / name).read_text() if (folder / name).is_file() else "" for name in expected}
    wrong = {name for name, text in expected.items() if found[name] != text}
    lines = _comments(metadata) if metadata.is_file() else []
    whole = single is not None or (metadata.is_file() and len(lines) == len(metadata.read_text().splitlines()))
    if not whole or lines.count(f"# Records: {rows}") != 1:
        wrong.add(metadata.name)
    return wrong


def _comments(path: Path) -> list[str]:
    """The lines that begin a file with "#"."""
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in takewhile(lambda line: line.startswith("#"), file)]


def _made(folder: Path, record: str) -> Path:
    """The folder of a kind of rows, made empty where there are none."""
    path = folder / f"record={record}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _few(folder: Path, *columns: str) -> tuple[Mapping[str, Any], ...]:
    """Rows of which there are few, read on the driver."""
    read = (parquet.ParquetFile(path).read(list(columns)).to_pylist() for path in part_files(folder))
    return tuple(chain.from_iterable(read))


def _numbered(folder: Path) -> dict[int, Path]:
    named = ((_NUMBER.match(path.name), path) for path in part_files(folder))
    return {int(match[1]): path for match, path in named if match}


def _size(part: Part) -> int:
    return part.person.stat().st_size if part.person.is_file() else 0
