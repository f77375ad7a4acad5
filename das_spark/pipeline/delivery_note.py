"""The note that came with a delivery, to which an input is held: names of files, their digests, numbers of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.errors import InputError
from das_spark.io.input_files import CsvForm
from das_spark.io.input_tables import InputTable
from das_spark.io.text_lines import TextLines
from das_spark.places import place_of, size_of
from das_spark.spark.readers import reader

if TYPE_CHECKING:
    from das_spark.config import InputSettings

_NAME, _RECORDS, _SHA256 = "name", "records", "sha256"
_DIGITS: Final = 64
#: Problems that a message lists.
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Expected:
    """A file that was delivered, by the note that came with it; None for what the note does not say."""

    name: str
    records: int | None
    sha256: str | None


def holds_a_record(path: str, settings: InputSettings) -> bool:
    """Say whether a file is more than a header."""
    table = _table(path, settings)
    return size_of(place_of(path)) > 0 if table is None else table.has_rows()


def count_records(path: str, settings: InputSettings) -> int:
    """Count the records of a file: rows of a table, those that cannot be read included, or lines."""
    table = _table(path, settings)
    if table is not None:
        return table.count_records()
    lines = TextLines.of([path])
    return sum(batch.num_rows for part in lines.parts for batch in lines.read(part))


def _table(path: str, settings: InputSettings) -> InputTable | None:
    """Open a file that is read as a table; None for lines, and for one without a byte."""
    is_table = reader(settings.reader).reads_tables and size_of(place_of(path)) > 0
    return InputTable.open(path, CsvForm.of(settings)) if is_table else None


def read_note(note: str) -> tuple[Expected, ...]:
    """Read the note of a delivery: a table with name, and records or sha256 or both.

    Raises:
        InputError: It is no such table, or says something that is none of these.
    """
    table = InputTable.open(note)
    told = [name for name in (_RECORDS, _SHA256) if name in table.columns]
    if _NAME not in table.columns or not told:
        raise InputError(
            f"{note}: expected columns {_NAME}, and {_RECORDS} or {_SHA256}", hint=f"it has {', '.join(table.columns)}"
        )
    rows = table.texts([_NAME, *told]).to_pylist()
    return tuple(_expected(note, number, row) for number, row in enumerate(rows, 1))


def _expected(note: str, number: int, row: Mapping[str, str | None]) -> Expected:
    name, records, sha256 = ((row.get(key) or "").strip() for key in (_NAME, _RECORDS, _SHA256))
    right = name and (not records or (records.isascii() and records.isdigit()))
    if not right or (sha256 and (len(sha256) != _DIGITS or set(sha256.lower()) - set("0123456789abcdef"))):
        raise InputError(
            f"{note}: record {number} does not say a name, a number of records and a SHA-256 of {_DIGITS} digits"
        )
    return Expected(name, int(records) if records else None, sha256.lower() or None)


def require_delivered(note: str, files: Sequence[Mapping[str, object]], settings: InputSettings) -> None:
    """Refuse an input that is not what its note says: files too many or too few, cut short, or others.

    Args:
        note: The note of the delivery.
        files: The files of the input, with `file` (path) and `sha256`.
        settings: How they are written.

    Raises:
        InputError: They are not those that were delivered; all that is wrong together, without a number of records.
    """
    expected, digests = read_note(note), {str(file["file"]): file["sha256"] for file in files}
    paths, problems = _paths(expected, list(digests))
    for each in expected:
        if (path := paths.get(each)) is None:
            continue
        if each.sha256 is not None and each.sha256 != digests[path]:
            problems.append(f"{each.name} has another SHA-256")
        elif each.records is not None and each.records != count_records(path, settings):
            problems.append(f"{each.name} has another number of records")
    _refuse(note, problems)


def require_named(note: str, paths: Sequence[str]) -> None:
    """Refuse an input whose files are not those that its note names, before one of them is read.

    Raises:
        InputError: There are others, or not all.
    """
    _refuse(note, _paths(read_note(note), paths)[1])


def _paths(expected: Sequence[Expected], paths: Sequence[str]) -> tuple[dict[Expected, str], list[str]]:
    """Return the path of each file that was delivered, and what is wrong with the names of files."""
    names = Counter(each.name for each in expected)
    problems = [f"{name} is said twice" for name, number in names.items() if number > 1]
    known, unread = dict[Expected, str](), dict.fromkeys(paths)
    for each in expected:
        own = [path for path in paths if _is(each.name, path)]
        if len(own) == 1:
            known[each] = own[0]
            unread.pop(own[0], None)
        else:
            problems.append(f"{each.name} is {'not read' if not own else 'the name of several files that are read'}")
    return known, problems + [f"{path} is read, and not said" for path in unread]


def _refuse(note: str, problems: Sequence[str]) -> None:
    if problems:
        some = [*problems[:_NAMED]] + ([f"and {len(problems) - _NAMED} more"] if len(problems) > _NAMED else [])
        raise InputError(
            "\n  ".join([f"{note}: the input is not what was delivered:", *some]),
            hint="deliver it again; das-spark input list RUNFILE says what is read",
        )


def _is(name: str, path: str) -> bool:
    return path == name or path.endswith(f"/{name.removeprefix('./')}")
