"""The files of a table of the input: listed once, by their names, and refused where a name says that something is odd.

A path or an address is one: no character of it is a pattern. A folder is read only if everything in it is understood:
its files have one ending, lie in it or in folders such as `state=44`, and nothing else does but marks that writers
leave. What looks like data and is hidden, a copy, or half written would be counted twice or be missing, and nobody
would know.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final
from urllib.parse import unquote

from das_spark.errors import InputError
from das_spark.io.input_places import entries, holds_file, is_file, is_folder
from das_spark.names import CSV_ENDINGS, PARQUET_ENDING
from das_spark.places import Entry, place_of

#: Names that hold no record, whoever writes them: markers, checksums, summaries of Parquet, what a desktop leaves.
_MARKS: Final = re.compile(
    r"_SUCCESS|_metadata|_common_metadata|_(committed|started)_\d+|\..*\.crc|\.DS_Store|Thumbs\.db"
)
#: Names of what is written about records, and holds none.
_NOTES: Final = re.compile(
    r"(readme|licen[sc]e|manifest|sha(256|512)sums|md5sums)(\..*)?"
    r"|.*\.(md|pdf|html?|docx?|json|xml|log|sha256|sha512|md5|sig|cbk|do|sas|sps|r)",
    re.IGNORECASE,
)
#: Names of copies and of files that are still being written.
_UNFINISHED: Final = re.compile(r".*(~|\.(bak|orig|old|tmp|temp|swp|part|partial|filepart|crdownload))", re.IGNORECASE)
_PARTITION: Final = re.compile(r"[^=]+=[^=]*")
_NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
_ARCHIVE: Final = ".zip"
_NO_CHARACTERS: Final = slice(0)
#: Names that a message lists.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a table of the input.

    Attributes:
        path: Absolute, and otherwise as it was named; or its address.
        partition: Columns that the names of its folders say, and their text; None for nothing.
    """

    path: str
    partition: tuple[tuple[str, str | None], ...] = ()


def table_files(path: str) -> tuple[InputFile, ...]:
    """List the files of a table: a file, or all that lie in a folder.

    Raises:
        InputError: There is nothing at the path, or something in the folder that is not understood.
    """
    place = str(place_of(path).absolute())  # `..` stays: behind a link it is the system's
    if is_file(place):
        return (InputFile(place),)
    if not is_folder(place):
        hint = "a name is no pattern: name a folder" if re.search(r"[*?\[]", path) else "check the path"
        raise InputError(f"{path}: no such file or folder", hint=hint)
    files = tuple(_below(path, place, ()))
    if not files:
        raise InputError(f"{path}: the folder holds no file")
    _require_one(path, {tuple(name for name, _ in file.partition) for file in files}, "folders of several kinds")
    _require_one(path, {kind_of(file.path) for file in files}, "both CSV and Parquet files")
    _require_one(path, {_ending(file.path) for file in files}, "files of several endings")
    return files


def record_files(path: str, patterns: Sequence[str] = ()) -> list[str]:
    """List the files of records, one a line, at a path: itself, or those in a folder, in order.

    Notes may lie in the folder; but nothing that is hidden, a copy or half written by its name, or is not known.

    Args:
        path: File or folder.
        patterns: Names that files of the folder have, in lower case; any where none are given.

    Raises:
        InputError: There is nothing at the path, or something in the folder that looks like records and is odd.
    """
    if is_file(path):
        return [path]
    if not is_folder(path):
        raise InputError(f"{path}: no such file or folder", hint="check the paths of [input]")
    folders, found = _found(path)
    if folders:
        raise _odd(path, "folders", folders, "files of records lie side by side")
    named = patterns or ("*",)
    files = [entry for entry in found if not (patterns and is_note(entry.name))]
    known = f"parts are called {', '.join(named)}"
    _require_parts(path, files, lambda name: _matches(name, named) and not _UNFINISHED.fullmatch(name), known)
    if not files:
        hint = f"their names are {', '.join(patterns)}" if patterns else ""
        raise InputError(f"{path}: the folder holds no file of records", hint=hint)
    return [f"{path.rstrip('/')}/{entry.name}" for entry in files]


def named_files(
    folder: str, patterns: Sequence[str], alike: Sequence[str] = (), state: slice = _NO_CHARACTERS
) -> list[str]:
    """List the files in a folder, and in its folders, whose names have one of some patterns, in order.

    Upper and lower case are the same. Others may lie there, but none that looks like one of these and is odd; nor an
    archive of a state of which no file is there.

    Args:
        folder: With the files.
        patterns: Of names, in lower case.
        alike: Of names that look like one of these, besides those that go on behind it.
        state: Characters of a name that tell the state.

    Raises:
        InputError: There is no such folder, no file in it, or one that is hidden, a copy or half written by its name.
    """
    if is_file(folder):
        raise InputError(f"{folder}: a folder is expected, not a file")
    if not is_folder(folder):
        raise InputError(f"{folder}: no such file or folder", hint="check the paths of [input]")
    files: list[str] = []
    others: list[str] = []
    folders = set[str]()
    for entry in _walked(folder):
        path = entry.path.removeprefix(f"{folder.rstrip('/')}/")
        is_read = not (entry.is_folder or _is_hidden(path) or _leaves(entry))
        (files if is_read and _matches(path, patterns) else others).append(path)
        folders |= {path} if entry.is_folder else set()
    behind = [f"{pattern}*" for pattern in patterns]
    states = {os.path.basename(path).lower()[state] for path in files}

    def is_odd(path: str) -> bool:
        if path.lower().endswith(_ARCHIVE) and not _matches(path, behind):
            known = not files or os.path.basename(path).lower()[state] in states
            return not known and _matches(path, alike)
        return path in folders or _matches(path, (*behind, *alike))  # who knows what a link leads to

    odd = list(filter(is_odd, others))
    if odd:
        some = ", ".join(map(repr, odd[:_NAMED])) + (", ..." if len(odd) > _NAMED else "")
        raise InputError(
            f"{folder}: the folder holds files that are hidden, copies, half written, packed, or elsewhere: {some}",
            hint="would they be read, or not? Unpack archives, and move what is no input elsewhere",
        )
    if not files and not holds_file(folder):
        raise InputError(f"{folder}: the folder holds no file")
    return [f"{folder.rstrip('/')}/{path}" for path in files]


def _walked(folder: str) -> Iterator[Entry]:
    """List the files below a folder that are no marks, and the folders that are links, in order."""
    folders, files = _found(folder)
    yield from (entry for entry in folders if entry.is_link)
    yield from files
    for entry in folders:
        if not entry.is_link:
            yield from _walked(entry.path)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether the name of a file has one of some patterns, whether it is hidden or not."""
    name = os.path.basename(path).lower().lstrip("._")
    return any(fnmatch(name, pattern) for pattern in patterns)


def _is_hidden(path: str) -> bool:
    return any(part[0] in "._" for part in path.split("/"))


def _found(folder: str) -> tuple[list[Entry], list[Entry]]:
    """The folders and the files in a folder that are no marks, in order."""
    found = entries(folder)
    files = [entry for entry in found if not (entry.is_folder or _MARKS.fullmatch(entry.name))]
    return [entry for entry in found if entry.is_folder], files


def _require_parts(path: str, files: Sequence[Entry], is_part: Callable[[str], object], parts: str) -> None:
    """Refuse files of a folder that are no parts of a table by their names, or are hidden, links, or no files."""
    if strange := [entry for entry in files if not is_part(entry.name)]:
        raise _odd(path, "files that are no parts of it", strange, parts)
    if strange := [entry for entry in files if entry.name[0] in "._"]:
        raise _odd(path, "hidden files", strange, "are they half written? Others would not be read")
    if strange := [entry for entry in files if _leaves(entry)]:
        raise _odd(path, "links that lead out of it", strange, "copy what they lead to")
    if strange := [entry for entry in files if not entry.is_file]:
        raise _odd(path, "something that is no file", strange, "remove it")


def _below(path: str, folder: str, partition: tuple[tuple[str, str | None], ...]) -> Iterator[InputFile]:
    folders, files = _found(folder)
    if folders and files:
        raise _odd(path, "files beside folders", [*files, *folders], "everything that is read lies side by side")
    if strange := [entry for entry in folders if not _PARTITION.fullmatch(entry.name)]:
        raise _odd(path, "folders that are no parts of it", strange, "parts are called as in state=44")
    if strange := [entry for entry in folders if entry.is_link]:
        raise _odd(path, "links to folders", strange, "copy what they lead to, unless it is read already")
    parts = [(entry, *_partition(entry.name)) for entry in folders]
    number = Counter((name, value) for _, name, value in parts)
    if strange := [entry for entry, name, value in parts if number[name, value] > 1]:
        raise _odd(path, "several folders of one value", strange, "put their files together")
    _require_parts(path, files, kind_of, f"parts end in {PARQUET_ENDING}, or in {', '.join(CSV_ENDINGS)}")
    for entry in files:
        yield InputFile(entry.path, partition)
    for entry, name, value in parts:
        yield from _below(path, entry.path, (*partition, (name, value)))


def _partition(folder: str) -> tuple[str, str | None]:
    """Return the column that a folder is called by, and its text."""
    name, _, value = folder.partition("=")
    return unquote(name), None if value == _NOTHING else unquote(value)


def is_note(name: str) -> bool:
    """Say whether a file is written about records by its name, and holds none."""
    return bool(_NOTES.fullmatch(name))


def copied(path: str, other: str) -> InputError:
    """Return the error of a file that is a copy of another one."""
    return InputError(
        f"{path}: holds the same bytes as {other}",
        hint="every record is counted, also where it stands twice: move the copy elsewhere",
    )


def passed_over(folder: str) -> list[str]:
    """List the files in a folder that hold no record by their names, in order."""
    names = (entry.name for entry in entries(folder) if not entry.is_folder)
    return [f"{folder}/{name}" for name in names if _MARKS.fullmatch(name) or is_note(name)]


def is_csv(name: str) -> bool:
    """Say whether a file is CSV by its name; any other one that is named by itself is taken for Parquet."""
    return name.lower().endswith(CSV_ENDINGS)


def kind_of(name: str) -> str:
    """Say of which kind a table is by the name of its file: `csv`, `parquet`, or none of both."""
    return "csv" if is_csv(name) else "parquet" if name.lower().endswith(PARQUET_ENDING) else ""


def _ending(name: str) -> str:
    return next((ending for ending in (*CSV_ENDINGS, PARQUET_ENDING) if name.lower().endswith(ending)), "")


def _leaves(entry: Entry) -> bool:
    """Say whether something in a folder is a link that leads out of it."""
    folder, place = os.path.dirname(entry.path), os.path.realpath
    return entry.is_link and os.path.dirname(place(entry.path)) != place(folder)


def _require_one(path: str, kinds: set[object], several: str) -> None:
    if len(kinds) > 1:
        raise InputError(
            f"{path}: the folder holds {several}", hint="a table is of one kind: move the others elsewhere"
        )


def _odd(path: str, what: str, strange: Sequence[Entry], hint: str) -> InputError:
    names = ", ".join(repr(entry.name) for entry in strange[:_NAMED]) + (", ..." if len(strange) > _NAMED else "")
    return InputError(f"{path}: the folder holds {what}: {names}", hint=f"{hint}; move what is no input elsewhere")
