"""Microdata files read back and reduced to what verification compares: one Spark task a part, arrays within.

A part of 4 million people and their units becomes some ten thousand rows, in bounded memory; reading persons through
Spark's own rows and joining them with their units by shuffles takes ten times as long. The digest is written once,
below the public root, for the checks to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from das_spark.io.files import discard, disk_errors, part_files
from das_spark.io.microdata_part import COLUMNS, PART, Part, digest_part
from das_spark.products.microdata_codes import MicrodataCodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.io.layout import PublicLayout

#: Rows of a digest, by `record`.
#: persons: people of one geocode, codes and kind (class of their unit, -1 without one, null where no units are known).
#: units: units of one geocode and kind (-1: codes of no class), their people, and how many have an odd population.
#: part: units (count) and people of a part; low and high, numbers of its first and last unit; geocode of the first.
#: fault: a geocode, or a file that cannot be read, that breaks a rule; the first 20 of each rule and part.
DIGEST: Final = (
    "flavour string, record string, part int, rule string, geocode string, codes string, kind int, count long, "
    "people long, odd long, low long, high long"
)
_NUMBER = re.compile(r"part-(\d+)")


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


def microdata_parts(layout: PublicLayout, flavours: Sequence[str], *, units: bool) -> tuple[Part, ...]:
    """The parts of the microdata of a run, the largest first.

    Args:
        layout: Where they lie.
        flavours: `parquet`, `text`, or both.
        units: Whether there is a unit file.

    Returns:
        One for each number that a person or unit part has; a file that is missing is found when it is read.
    """
    parts = []
    for flavour in flavours:
        persons = _numbered(layout.microdata("person", flavour))
        of_units = _numbered(layout.microdata("unit", flavour)) if units else {}
        for number in persons.keys() | of_units.keys():
            name = (persons | of_units)[number].name
            person = layout.microdata("person", flavour) / name
            parts.append(Part(flavour, number, person, layout.microdata("unit", flavour) / name if units else None))
    return tuple(sorted(parts, key=lambda part: (-_size(part), part.flavour, part.number)))


def write_digest(
    spark: SparkSession, parts: Sequence[Part], codes: MicrodataCodes, folder: Path
) -> tuple[DataFrame, dict[str, int]]:
    """Reduce parts by one Spark job and write the result.

    Args:
        spark: The session; its workers must be able to open the parts and the folder.
        parts: The files.
        codes: What their columns hold.
        folder: Where the digest goes; what is there is destroyed.

    Returns:
        The digest, with the columns `DIGEST`, as read back, and the number of records, by `<kind>.<flavour>`.

    Raises:
        OutputError: The disk is full.
    """
    discard(folder)
    with disk_errors(folder):
        if parts:
            absolute = tuple(
                Part(each.flavour, each.number, each.person.absolute(), each.unit and each.unit.absolute())
                for each in parts
            )
            places = spark.range(0, len(parts), 1, len(parts))
            reduced = places.mapInArrow(DigestTask(absolute, codes), DIGEST)
            reduced.write.partitionBy("record").parquet(str(folder))
        else:
            folder.mkdir(parents=True)
    digest = spark.read.schema(DIGEST).parquet(str(folder))
    return digest, _records(folder / f"record={PART}", {part.flavour for part in parts}, parts)


def _records(folder: Path, flavours: set[str], parts: Sequence[Part]) -> dict[str, int]:
    """Records of both kinds, from the rows of the parts."""
    kinds = {"person": "people", "unit": "count"} if any(part.unit for part in parts) else {"person": "people"}
    found = {f"{kind}.{flavour}": 0 for flavour in sorted(flavours) for kind in kinds}
    for path in part_files(folder):
        for row in parquet.ParquetFile(path).read(["flavour", *kinds.values()]).to_pylist():
            for kind, column in kinds.items():
                found[f"{kind}.{row['flavour']}"] += row[column]
    return found


def _numbered(folder: Path) -> dict[int, Path]:
    named = ((_NUMBER.match(path.name), path) for path in part_files(folder))
    return {int(match[1]): path for match, path in named if match}


def _size(part: Part) -> int:
    return part.person.stat().st_size if part.person.is_file() else 0


__all__ = ["COLUMNS", "DIGEST", "DigestTask", "microdata_parts", "write_digest"]
