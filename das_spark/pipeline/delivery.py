"""The files of an input: listed by one function, hashed, and each counted once.

RESTRICTED: numbers of records tell of the input.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from das_spark.config import FILE_KEYS
from das_spark.errors import InputError
from das_spark.io.cef import ENDINGS
from das_spark.io.input_files import data_files
from das_spark.io.ipums_1940 import PARTS
from das_spark.io.table_folder import CSV, PARQUET
from das_spark.pipeline.delivery_note import count_records, holds_a_record, require_delivered

if TYPE_CHECKING:
    from das_spark.config import InputSettings

#: Bytes that are read at once.
_BLOCK: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """A file of an input."""

    path: str
    size: int
    sha256: str
    records: int


def delivered_files(settings: InputSettings) -> tuple[DeliveredFile, ...]:
    """List the files of an input in order, with the number of their records; a synthetic one has none.

    Raises:
        InputError: As `examined_files`.
    """
    if settings.is_simulated:
        return ()
    return tuple(
        DeliveredFile(path, int(str(file["bytes"])), str(file["sha256"]), count_records(path, settings))
        for file in examined_files(settings)
        for path in [str(file["file"])]
    )


def examined_files(settings: InputSettings) -> list[dict[str, object]]:
    """List the files of an input in order, with size, time of change and SHA-256, and whether they are confidential.

    Raises:
        InputError: A file is not there, cannot be read, or stands twice; or they are not those that were delivered.
    """
    files = [_examined(path) | {"confidential": records} for path, records in sorted(input_files(settings).items())]
    _require_each_once(files, settings)
    if settings.expected is not None:
        require_delivered(settings.expected, files, settings)
    return files


def input_files(settings: InputSettings) -> dict[Path, bool]:
    """Every file that the reader reads, and whether it holds records; what else lies in a folder is no input."""
    found: dict[Path, bool] = {}
    for key in FILE_KEYS:
        place = getattr(settings, key)
        if place is None or key in settings.tables:
            continue
        names = data_files(place)
        if key == "path" and Path(place).is_dir():
            known = {
                name: _holds_records(settings.reader, name.removeprefix(f"{place.rstrip('/')}/")) for name in names
            }
        else:
            known = dict.fromkeys(names, key != "geography")
        read = {Path(name): records for name, records in known.items() if records is not None}
        if not read:
            what = f"holds nothing that the reader '{settings.reader}' reads" if names else "no such file or folder"
            raise InputError(f"{place}: {what}", hint="check [input] in the run file")
        found |= {each: found.get(each, False) or records for each, records in read.items()}
    return found


#: Names of tables that readers look for in the folder `input.path`, and whether they hold records.
_TABLES: Final = {
    **dict.fromkeys(("persons", "households", "housing_units", "living_quarters", "units"), True),
    "geography": False,
}


def _holds_records(reader: str, name: str) -> bool | None:
    """Say whether a file of `input.path`, named by its path below the folder, holds records; None: it is not read."""
    if reader == "pl94_summary":
        return name.lower().endswith(".pl") or None
    if reader == "ipums_1940":
        return ("/" not in name and any(fnmatch(name, part) for part in PARTS)) or None
    table, dot, ending = name.partition("/")[0].partition(".")
    endings = ENDINGS if reader == "cef_2020" else (PARQUET, *CSV)
    return _TABLES.get(table) if dot + ending in endings else None


def _require_each_once(files: Iterable[Mapping[str, object]], settings: InputSettings) -> None:
    """Refuse a copy of a file in the folder of the first one: whoever is in it would be counted twice."""
    first: dict[tuple[str, object], str] = {}
    for file in files:
        path = str(file["file"])
        other = first.setdefault((os.path.dirname(path), file["sha256"]), path)
        if other != path and holds_a_record(path, settings):
            raise InputError(
                f"{path}: holds the same bytes as {other}",
                hint="every record is counted, also where it stands twice: move the copy elsewhere",
            )


def _examined(path: Path) -> dict[str, object]:
    """Size and time of change of a file before it is read, and its checksum."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__})", hint="check its permissions") from error
    return {
        "file": str(path),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": digest.hexdigest(),
    }
