"""The files of an input: listed by one function, hashed, and each counted once.

RESTRICTED: numbers of records tell of the input.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.config import FILE_KEYS
from das_spark.errors import InputError
from das_spark.io.listed_files import ListedFile
from das_spark.io.table_folder import copied, passed_over, table_files
from das_spark.pipeline.delivery_note import count_records, holds_a_record, require_delivered
from das_spark.places import Place, place_of
from das_spark.spark.readers import geography_reader, reader

if TYPE_CHECKING:
    from das_spark.config import InputSettings, RunPlan


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
    """List the files of an input in order, with what tells them from others, and whether they are confidential.

    Raises:
        InputError: A file is not there, cannot be read, or stands twice; or they are not those that were delivered.
    """
    files = [_examined(place) | {"confidential": records} for place, records in input_files(settings).items()]
    _require_each_once(files, settings)
    if settings.expected is not None:
        require_delivered(settings.expected, files, settings)
    return files


def geography_files(plan: RunPlan, known: Iterable[str]) -> list[dict[str, object]]:
    """List what the spine of a run is made of besides its input, as `examined_files`: none of it is confidential.

    Args:
        plan: What the run file says: the table of parents and, of a spine of areas, these and the crosswalk.
        known: The files of the input, which may hold the areas, too.
    """
    settings = plan.geography
    of_areas = () if plan.spine.is_census else (settings.crosswalk,)
    names = {file.path for table in (settings.parents, *of_areas) if table for file in table_files(table)}
    if settings.path is not None and not plan.spine.is_census:
        names.update(geography_reader(str(settings.reader)).files(settings.path))
    names -= set(known)
    return [_examined(place_of(name)) | {"confidential": False} for name in sorted(names)]


def files_passed_over(settings: InputSettings) -> list[str]:
    """List what lies beside the files of an input and holds no record by its name, such as marks and notes."""
    folders = {str(folder) for path in input_files(settings) for folder in _folders(path, settings)}
    return [name for folder in sorted(folders) for name in passed_over(folder)]


def _folders(path: Place, settings: InputSettings) -> list[Place]:
    """The folders that a file was found in: its own and those above, down from the one that the settings name."""
    named = {place_of(place) for key in FILE_KEYS if (place := getattr(settings, key))}
    folders = [folder for folder in path.parents if not named.isdisjoint((folder, *folder.parents))]
    # Tables are known by their names in `input.path`, where anything else may lie.
    return [folder for folder in folders if str(folder) != settings.path or not reader(settings.reader).reads_tables]


def input_files(settings: InputSettings) -> dict[Place, bool]:
    """List every file of the input in order, and whether it holds records; what else lies in a folder is no input.

    Raises:
        InputError: Something is not there, or is odd.
    """
    files = reader(settings.reader).files(settings)
    if not files and not settings.is_simulated and not settings.tables:
        raise InputError(
            f"{settings.path}: holds nothing that the reader '{settings.reader}' reads",
            hint="check [input] in the run file",
        )
    found = {place_of(path): records for path, records in files.items()}
    return dict(sorted(found.items(), key=lambda each: str(each[0]).split("/")))


def _require_each_once(files: Iterable[Mapping[str, object]], settings: InputSettings) -> None:
    """Refuse a copy of a file in the folder of the first one: whoever is in it would be counted twice."""
    first: dict[tuple[str, object], str] = {}
    for file in files:
        path = str(file["file"])
        other = first.setdefault((os.path.dirname(path), file["sha256"]), path)
        if other != path and holds_a_record(path, settings):
            raise copied(path, other)


def _examined(place: Place) -> dict[str, object]:
    """What tells a file from another one, and its SHA-256."""
    listed = ListedFile.of(str(place))
    with listed.hashed() as file:
        return {"file": listed.path, **listed.facts, "sha256": file.sha256()}
